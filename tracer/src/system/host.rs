//! This host: its name, its kernel, and how this process runs on it.

use super::Roots;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The host's name as the kernel has it.
pub fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The kernel's release, as `uname -r`.
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// Major and minor number of a release; `None` when it does not begin with two numbers.
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What to say where a kernel of this release refused the programs because it is too old for them.
/// Kernels with newer parts put into an older release are not refused by their number.
pub fn too_old(release: &str) -> Option<String> {
    let (major, minor) = kernel_version(release).filter(|version| *version < OLDEST)?;
    Some(format!(
        "kernel {major}.{minor} is too old: srctrace needs {}.{} or newer",
        OLDEST.0, OLDEST.1
    ))
}

/// The oldest kernel that srctrace promises.
const OLDEST: (u32, u32) = (5, 10);

/// How far the kernel is locked down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// Not at all, or the kernel has no lockdown.
    None,
    /// Programs may not change the kernel; reading it is allowed.
    Integrity,
    /// Programs may not read kernel memory either.
    Confidentiality,
}

/// Reads the kernel's lockdown state.
pub fn lockdown(roots: &Roots) -> Lockdown {
    let text = roots
        .on_host("sys/kernel/security/lockdown")
        .find_map(|path| fs::read_to_string(path).ok());
    parse_lockdown(text.as_deref().unwrap_or_default())
}

/// The state in force is in brackets: `none [integrity] confidentiality`.
fn parse_lockdown(text: &str) -> Lockdown {
    let active = text.split_whitespace().find(|word| word.starts_with('['));
    match active {
        Some("[integrity]") => Lockdown::Integrity,
        Some("[confidentiality]") => Lockdown::Confidentiality,
        _ => Lockdown::None,
    }
}

/// Whether the kernel describes its types (BTF), without which nothing can be traced.
pub fn has_btf() -> bool {
    Path::new("/sys/kernel/btf/vmlinux").exists()
}

/// Whether this process sees the host's processes, not only a container's: without, pods cannot
/// be found by their processes (`hostPID: true`, or `kubectl debug node/…`).
pub fn sees_host_processes(roots: &Roots) -> bool {
    /// The first process namespace has this number on every kernel.
    const INITIAL: &str = "pid:[4026531836]";
    fs::read_link(roots.proc().join("self/ns/pid")).is_ok_and(|link| link == Path::new(INITIAL))
}

/// CLOCK_MONOTONIC now, nanoseconds: the clock of events.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// A clock, nanoseconds.
pub fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Lifts the limit on locked memory, by which kernels before 5.11 count maps. Where the limit
/// may not be lifted (no CAP_SYS_RESOURCE) it stays: newer kernels do not need it.
pub fn lift_memlock() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    getrlimit(Resource::Memlock).current.is_none()
        || setrlimit(Resource::Memlock, unlimited).is_ok()
}

/// Lets this thread run before most others that are ready: it needs little time, but on a busy
/// node it would wait for its turn longer than the event ring has room for. `false` where that is
/// not allowed (it takes CAP_SYS_NICE).
pub fn take_precedence() -> bool {
    const NICE: i32 = -15;
    rustix::process::setpriority_process(None, NICE).is_ok()
}

/// Has all threads allocate from one heap: what the short-lived ones of the start leave free is used
/// by the trace, and not kept beside it. What is large has pages of its own, however often that occurs: a table that
/// grew leaves no hole behind. To be called before there are threads.
pub fn one_heap() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: i32 = 256 << 10;
        // SAFETY: takes no pointers; any thread may call it at any time.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        }
    }
}

/// Gives memory that loading or reading needed and nobody uses any more back to the kernel; the allocator
/// would keep it. Of the program's own code and constants, most is for that too: it stays in the page cache, and what is
/// run again is mapped again.
pub fn return_memory() {
    unmap_file();
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Takes the pages of the program's file out of this process's page table. A hint: where it is refused, nothing is
/// lost.
fn unmap_file() {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for range in unwritten(&smaps) {
        // SAFETY: a mapping of a file, all of whose pages are the file's and which nobody may write to: what is read
        // there next time is read from the file again, and is the same.
        let _ = unsafe {
            rustix::mm::madvise(
                std::ptr::without_provenance_mut(range.start),
                range.len(),
                rustix::mm::Advice::LinuxDontNeed,
            )
        };
    }
}

/// The mappings in `/proc/PID/smaps` that are a file's and may not be written, and of which no page ever was (the
/// "anonymous" ones, such as addresses that the loader filled in, are not the file's any more): code and constants
/// (Documentation/filesystems/proc.rst).
fn unwritten(smaps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut mapping = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("Anonymous:") if words.next() == Some("0") => found.extend(mapping.take()),
            Some(name) if name.ends_with(':') => {}
            _ => mapping = of_file(line),
        }
    }
    found
}

/// The addresses of a mapping of a file that may not be written: `START-END r-xp OFFSET DEVICE INODE FILE`.
fn of_file(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    if !matches!(words.next()?, "r-xp" | "r--p") || words.nth(2)? == "0" {
        return None;
    }
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_files_only_is_unmapped() {
        let smaps = "55d0c000-55d0f000 r-xp 0000a000 fe:00 1234   /usr/bin/srctrace
Rss:                  12 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
55d0f000-55d10000 r--p 0000d000 fe:00 1234   /usr/bin/srctrace
Rss:                   4 kB
Anonymous:             4 kB
55d10000-55d14000 rw-p 0000e000 fe:00 1234   /usr/bin/srctrace
Anonymous:             0 kB
7ffd1000-7ffd2000 r--p 00000000 fe:00 77   /usr/lib/libc.so.6
Anonymous:             0 kB
7ffd2000-7ffd4000 r-xp 00000000 00:00 0   [vdso]
Anonymous:             0 kB
";
        let expected = [0x55d0_c000..0x55d0_f000, 0x7ffd_1000..0x7ffd_2000];
        assert_eq!(unwritten(smaps), expected);
        assert!(unwritten("Anonymous: 0 kB\nx\n-\n").is_empty());
    }

    #[test]
    fn releases_have_two_numbers() {
        assert_eq!(kernel_version("6.1.0-57-cloud-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("7.3-rc1"), Some((7, 3)));
        assert_eq!(kernel_version("5.10.0"), Some((5, 10)));
        assert_eq!(kernel_version("linux"), None);
        assert_eq!(kernel_version(""), None);
    }

    #[test]
    fn only_kernels_before_5_10_are_too_old() {
        let line = "kernel 5.4 is too old: srctrace needs 5.10 or newer";
        assert_eq!(too_old("5.4.0-150-generic").as_deref(), Some(line));
        assert!(too_old("4.18.0-553.el8.x86_64").is_some());
        for release in ["5.10.0-46-cloud-amd64", "6.1.0", "7.3.4", "unknown"] {
            assert_eq!(too_old(release), None);
        }
    }

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        assert_eq!(
            parse_lockdown("[none] integrity confidentiality\n"),
            Lockdown::None
        );
        assert_eq!(
            parse_lockdown("none [integrity] confidentiality\n"),
            Lockdown::Integrity
        );
        assert_eq!(
            parse_lockdown("none integrity [confidentiality]\n"),
            Lockdown::Confidentiality
        );
        assert_eq!(parse_lockdown(""), Lockdown::None);
        assert_eq!(parse_lockdown("]["), Lockdown::None);
    }
}
