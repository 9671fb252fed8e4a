//! Namespaces as processes live in them. Processes vanish while they are read: that is normal.

use super::parse_link;
use crate::system::Roots;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use tracer_core::event::NetnsId;

/// Processes remembered per namespace; a pod's first ones are enough to name it.
const SAMPLES: usize = 8;

/// The namespaces of all processes.
#[derive(Debug, Default)]
pub(super) struct Inhabited {
    /// Process ids by namespace, lowest first.
    pub(super) pids: BTreeMap<NetnsId, Vec<u32>>,
    /// Processes whose namespace could not be read, for want of CAP_SYS_PTRACE or under hidepid.
    pub(super) unreadable: usize,
}

/// A process, as the report names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Name of its program, as the process chose it.
    pub comm: String,
    /// Its cgroup (version 2, or the systemd one), where readable.
    pub cgroup: Option<String>,
}

/// Reads which namespace each process is in.
pub(super) fn scan(roots: &Roots) -> Inhabited {
    let mut out = Inhabited::default();
    if !roots.of(1, "").exists() {
        out.unreadable += 1; // hidepid: processes of others are not even listed
    }
    for pid in pids(roots) {
        match std::fs::read_link(roots.of(pid, "ns/net")) {
            Ok(link) => {
                if let Some(id) = link.to_str().and_then(parse_link) {
                    out.pids.entry(id).or_default().push(pid);
                }
            }
            Err(e) if e.kind() == ErrorKind::PermissionDenied => out.unreadable += 1,
            Err(_) => {}
        }
    }
    for pids in out.pids.values_mut() {
        pids.sort_unstable();
        pids.truncate(SAMPLES);
    }
    out
}

/// The ids of all processes.
pub fn pids(roots: &Roots) -> impl Iterator<Item = u32> {
    std::fs::read_dir(roots.proc())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What is known of a process; `None` once it is gone.
pub fn process(roots: &Roots, pid: u32) -> Option<Process> {
    let comm = std::fs::read(roots.of(pid, "comm")).ok()?;
    Some(Process {
        pid,
        comm: String::from_utf8_lossy(comm.trim_ascii_end()).into_owned(),
        cgroup: cgroup(roots, pid),
    })
}

/// The cgroup of a process: version 2's line, else systemd's, else the first that names one.
pub fn cgroup(roots: &Roots, pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(roots.of(pid, "cgroup")).ok()?;
    pick_cgroup(&text).map(str::to_owned)
}

fn pick_cgroup(text: &str) -> Option<&str> {
    let path_of = |controllers: &[&str]| {
        text.lines()
            .filter_map(|line| {
                line.splitn(3, ':')
                    .skip(1)
                    .collect::<Vec<_>>()
                    .try_into()
                    .ok()
            })
            .find(|[name, path]: &[&str; 2]| controllers.contains(name) && *path != "/")
            .map(|[_, path]| path)
    };
    path_of(&[""])
        .or_else(|| path_of(&["name=systemd"]))
        .or_else(|| path_of(&["pids", "memory", "cpu,cpuacct", "cpuset"]))
}

#[cfg(test)]
mod tests {
    use super::pick_cgroup;

    #[test]
    fn the_telling_cgroup_line_is_taken() {
        assert_eq!(pick_cgroup("0::/a/b\n"), Some("/a/b"));
        assert_eq!(
            pick_cgroup("9:name=systemd:/s\n4:memory:/m\n0::/\n"),
            Some("/s")
        );
        assert_eq!(pick_cgroup("4:memory:/m:n\n0::/\n"), Some("/m:n"));
        assert_eq!(pick_cgroup("0::/\n"), None);
        assert_eq!(pick_cgroup("\n:\nx\n1:a\n"), None);
        assert_eq!(pick_cgroup("\n:::::"), Some(":::"));
    }
}
