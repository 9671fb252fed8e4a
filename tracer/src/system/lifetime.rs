//! Processes told apart by id and start: ids are used again.

use super::{Roots, SystemError};
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;

/// One process, named so that no later one can be taken for it. Written `PID-START`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lifetime {
    /// Process id, in the first pid namespace.
    pub pid: u32,
    /// When it started, clock ticks since boot.
    pub start: u64,
}

impl Lifetime {
    /// This process.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn own(roots: &Roots) -> Result<Self, SystemError> {
        let pid = std::process::id();
        let start = start(roots, pid).ok_or_else(|| SystemError::Answer {
            object: format!("process {pid}"),
            detail: "its line in /proc tells no start time".to_owned(),
        })?;
        Ok(Self { pid, start })
    }

    /// A process that runs; `None` once it is gone.
    pub fn of(roots: &Roots, pid: u32) -> Option<Self> {
        let start = start(roots, pid)?;
        Some(Self { pid, start })
    }

    /// Whether it is gone; one that only waits to be reaped is.
    pub fn is_over(self, roots: &Roots) -> bool {
        start(roots, self.pid) != Some(self.start)
    }
}

impl Display for Lifetime {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.pid, self.start)
    }
}

impl FromStr for Lifetime {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, start) = text.split_once('-').ok_or(())?;
        let read = Self {
            pid: pid.parse().map_err(|_| ())?,
            start: start.parse().map_err(|_| ())?,
        };
        // Only as we write it: no signs, no leading zeros.
        (read.to_string() == text).then_some(read).ok_or(())
    }
}

/// The start of a process that still runs.
fn start(roots: &Roots, pid: u32) -> Option<u64> {
    let line = std::fs::read(roots.of(pid, "stat")).ok()?;
    read_start(&String::from_utf8_lossy(&line))
}

/// The name in the line may hold anything, also parentheses: the last one ends it.
fn read_start(line: &str) -> Option<u64> {
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

/// Whether this process is in a container, so that all its processes can be killed at one blow: by
/// its process ids, or by its root folder where that can be compared with the first process's.
pub fn in_container(roots: &Roots) -> bool {
    let root = |of: &str| std::fs::metadata(roots.proc().join(of).join("root/.")).ok();
    let other_root = match (root("1"), root("self")) {
        (Some(first), Some(own)) => (first.dev(), first.ino()) != (own.dev(), own.ino()),
        _ => false,
    };
    other_root || !super::host::sees_host_processes(roots)
}

/// The program that this process runs, also when its file was replaced or deleted since.
pub fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_id_and_start() {
        let roots = Roots::default();
        let own = Lifetime::own(&roots).unwrap();
        assert!(!own.is_over(&roots));
        let earlier = Lifetime {
            start: own.start - 1,
            ..own
        };
        assert!(earlier.is_over(&roots));
        assert_eq!(own.to_string().parse(), Ok(own));
        for wrong in ["", "1", "-1", "1-", "+1-2", "01-2", "1-2-3", "1-2 "] {
            assert_eq!(wrong.parse::<Lifetime>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn names_with_parentheses_and_zombies_are_read() {
        let rest = "1 1 1 0 -1 4 5 6 7 8 9 1 2 3 4 20 0 1 77 99";
        assert_eq!(read_start(&format!("7 (a) R (b) S {rest}")), Some(77));
        assert_eq!(read_start(&format!("7 (a) Z {rest}")), None);
        assert_eq!(read_start("7 (a) S 1 2"), None);
        assert_eq!(read_start(""), None);
    }
}
