//! What this process may do on this host, and what it cannot do without.

use super::host::{kernel_release, kernel_version};
use caps::{CapSet, Capability};
use tracer_core::report::Unavailable;

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
pub struct Missing {
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

/// Root owns the files below /proc/net that name the legacy tables, and only their owner reads them.
const NOT_ROOT: Need = Need {
    capability: Capability::CAP_DAC_READ_SEARCH,
    effect: "read iptables-legacy rules, as another user than root",
    must: false,
};

/// The capabilities that are missing from the effective set. CAP_SYS_ADMIN includes CAP_BPF and
/// CAP_PERFMON, as in the kernel.
pub fn missing() -> Vec<Missing> {
    let held = caps::read(None, CapSet::Effective).unwrap_or_default();
    let root = rustix::process::geteuid().is_root();
    let kernel = kernel_version(&kernel_release());
    lacking(kernel, root, |c| held.contains(&c))
}

fn lacking(
    kernel: Option<(u32, u32)>,
    root: bool,
    held: impl Fn(Capability) -> bool,
) -> Vec<Missing> {
    let included = |c| {
        matches!(c, Capability::CAP_BPF | Capability::CAP_PERFMON)
            && held(Capability::CAP_SYS_ADMIN)
    };
    let old = kernel.is_some_and(|version| version < (5, 11));
    NEEDS
        .iter()
        .chain(old.then_some(&MEMLOCK))
        .chain((!root).then_some(&NOT_ROOT))
        .filter(|need| !held(need.capability) && !included(need.capability))
        .map(|need| Missing {
            name: need.capability.to_string(),
            effect: need.effect,
            must: need.must,
        })
        .collect()
}

/// Whether this thread has a capability.
pub(super) fn holds(capability: Capability) -> bool {
    caps::has_cap(None, CapSet::Effective, capability).unwrap_or_default()
}

/// What to do where a capability is missing without which a trace still goes on.
pub(super) fn remedy(capability: Capability) -> String {
    let name = capability.to_string();
    let short = name.trim_start_matches("CAP_");
    format!(
        "run as root, or give srctrace {name} too (securityContext.capabilities.add: [{short}])"
    )
}

/// One line for the capabilities without which nothing is traced; `None` when all are there.
pub fn error(missing: &[Missing]) -> Option<String> {
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
pub fn unavailable(missing: &[Missing]) -> impl Iterator<Item = Unavailable> {
    missing.iter().filter(|m| !m.must).map(|m| Unavailable {
        what: m.name.clone(),
        why: "srctrace runs without this capability".to_owned(),
        effect: format!("it cannot {}", m.effect),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named_with_what_they_are_for() {
        let new = Some((6, 1));
        let all = lacking(new, true, |_| false);
        assert_eq!(all.len(), NEEDS.len());
        let old = lacking(Some((5, 10)), true, |c| c != Capability::CAP_SYS_RESOURCE);
        assert_eq!(old.len(), 1);
        assert_eq!(old[0].name, "CAP_SYS_RESOURCE");
        assert_eq!(
            error(&all[1..2]).unwrap(),
            "cannot trace without CAP_PERFMON (to attach to tracepoints and read kernel memory); \
             run as root, or give the container securityContext.privileged or these capabilities"
        );
        assert_eq!(lacking(new, true, |_| true), []);
        let admin = lacking(new, true, |c| c == Capability::CAP_SYS_ADMIN);
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
        assert_eq!(error(&admin[1..]), None);
        let nobody = lacking(new, false, |c| c != Capability::CAP_DAC_READ_SEARCH);
        assert_eq!(nobody.len(), 1);
        assert_eq!(nobody[0].name, "CAP_DAC_READ_SEARCH");
    }
}
