//! This host: its name, its kernel, and what this process may do on it.

use super::Roots;
use caps::{CapSet, Capability};
use std::path::Path;
use tracer_core::report::Unavailable;

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

/// A capability and what it is for.
struct Need {
    capability: Capability,
    /// What cannot be done without it.
    effect: &'static str,
    /// Whether there is no tracing at all without it.
    must: bool,
}

/// What the trace uses capabilities for.
const NEEDS: [Need; 7] = [
    Need {
        capability: Capability::CAP_BPF,
        effect: "load the programs",
        must: true,
    },
    Need {
        capability: Capability::CAP_PERFMON,
        effect: "attach to tracepoints and read kernel memory",
        must: true,
    },
    Need {
        capability: Capability::CAP_NET_ADMIN,
        effect: "attach to interfaces and read rules and conntrack",
        must: true,
    },
    Need {
        capability: Capability::CAP_SYS_ADMIN,
        effect: "enter network namespaces",
        must: true,
    },
    Need {
        capability: Capability::CAP_SYS_PTRACE,
        effect: "see the namespaces of other processes and name pods",
        must: false,
    },
    Need {
        capability: Capability::CAP_NET_RAW,
        effect: "read iptables-legacy rules and send an ICMP probe",
        must: false,
    },
    Need {
        capability: Capability::CAP_NET_BROADCAST,
        effect: "hear of changes in pods at once",
        must: false,
    },
];

/// A capability that this process lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCapability {
    /// Its name, as `CAP_BPF`.
    pub name: String,
    /// What cannot be done without it.
    pub effect: &'static str,
    /// Whether there is no tracing at all without it.
    pub must: bool,
}

/// Before 5.11 the kernel counts maps as locked memory, which has a limit.
const MEMLOCK: Need = Need {
    capability: Capability::CAP_SYS_RESOURCE,
    effect: "lift the limit on locked memory (kernels before 5.11)",
    must: true,
};

/// The capabilities that are missing from the effective set. CAP_SYS_ADMIN includes CAP_BPF and
/// CAP_PERFMON, as in the kernel.
pub fn missing_capabilities() -> Vec<MissingCapability> {
    let held = caps::read(None, CapSet::Effective).unwrap_or_default();
    missing(kernel_version(&kernel_release()), |c| held.contains(&c))
}

fn missing(
    kernel: Option<(u32, u32)>,
    held: impl Fn(Capability) -> bool,
) -> Vec<MissingCapability> {
    let included = |c| {
        matches!(c, Capability::CAP_BPF | Capability::CAP_PERFMON)
            && held(Capability::CAP_SYS_ADMIN)
    };
    let old = kernel.is_some_and(|version| version < (5, 11));
    NEEDS
        .iter()
        .chain(old.then_some(&MEMLOCK))
        .filter(|need| !held(need.capability) && !included(need.capability))
        .map(|need| MissingCapability {
            name: need.capability.to_string(),
            effect: need.effect,
            must: need.must,
        })
        .collect()
}

/// One line for the capabilities without which nothing is traced; `None` when all are there.
pub fn capability_error(missing: &[MissingCapability]) -> Option<String> {
    let needed: Vec<_> = missing.iter().filter(|m| m.must).collect();
    let names: Vec<&str> = needed.iter().map(|m| m.name.as_str()).collect();
    let effects: Vec<&str> = needed.iter().map(|m| m.effect).collect();
    (!needed.is_empty()).then(|| {
        format!(
            "cannot trace without {} (to {}); run as root, or give the container \
             securityContext.privileged or these capabilities",
            names.join(", "),
            effects.join("; ")
        )
    })
}

/// What is seen less of without the capabilities that are only good to have, for the report.
pub fn unavailable(missing: &[MissingCapability]) -> impl Iterator<Item = Unavailable> {
    missing.iter().filter(|m| !m.must).map(|m| Unavailable {
        what: m.name.clone(),
        why: "srctrace runs without this capability".to_owned(),
        effect: format!("it cannot {}", m.effect),
    })
}

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
        .find_map(|path| std::fs::read_to_string(path).ok());
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
    std::fs::read_link(roots.proc().join("self/ns/pid"))
        .is_ok_and(|link| link == Path::new(INITIAL))
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
/// by the trace, and not kept beside it. To be called before there are threads.
pub fn one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; any thread may call it at any time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives memory that loading needed and nobody uses any more back to the kernel; the allocator
/// would keep it.
pub fn return_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn missing_capabilities_are_named_with_what_they_are_for() {
        let new = Some((6, 1));
        let all = missing(new, |_| false);
        assert_eq!(all.len(), NEEDS.len());
        let old = missing(Some((5, 10)), |c| c != Capability::CAP_SYS_RESOURCE);
        assert_eq!(old.len(), 1);
        assert_eq!(old[0].name, "CAP_SYS_RESOURCE");
        assert_eq!(
            capability_error(&all[1..2]).unwrap(),
            "cannot trace without CAP_PERFMON (to attach to tracepoints and read kernel memory); \
             run as root, or give the container securityContext.privileged or these capabilities"
        );
        assert_eq!(missing(new, |_| true), []);
        let admin = missing(new, |c| c == Capability::CAP_SYS_ADMIN);
        let names: Vec<&str> = admin.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "CAP_NET_ADMIN",
                "CAP_SYS_PTRACE",
                "CAP_NET_RAW",
                "CAP_NET_BROADCAST"
            ]
        );
        assert_eq!(capability_error(&admin[1..]), None);
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
