//! What this kernel lets srctrace observe, found by trying: kernels carry features back, leave
//! them out and forbid them, so versions tell nothing. What a probe makes is gone when it returns.

use super::btf::BtfFile;
use super::offsets;
use aya::maps::MapType;
use aya::programs::tc::TcAttachType;
use aya::programs::{ProgramError, ProgramType, SchedClassifier};
use aya::sys::{
    BpfHelper, Stats, SyscallError, enable_stats, is_helper_supported, is_map_supported,
    is_program_supported,
};
use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;
use tracer_core::btf::Btf;
use tracer_core::report::Capability;

/// One question to the kernel: what was found, or why it is not available.
struct Probe {
    what: &'static str,
    /// What it is for, and what its absence costs.
    effect: &'static str,
    ask: fn(Option<&Btf<'_>>) -> Result<String, String>,
}

/// The tracepoints of the base taps.
const PACKET_TRACEPOINTS: &[&str] = &["netif_receive_skb", "net_dev_start_xmit"];

static PROBES: &[Probe] = &[
    Probe {
        what: "kernel BTF",
        effect: "tells where the kernel keeps a packet's fields; srctrace cannot trace without",
        ask: |_| types(),
    },
    Probe {
        what: "raw tracepoints",
        effect: "see every packet on every interface; srctrace cannot trace without",
        ask: |btf| raw_tracepoints(btf, PACKET_TRACEPOINTS),
    },
    Probe {
        what: "reading kernel memory",
        effect: "every device, and the conntrack entries of packets; where lockdown \
                 (confidentiality) forbids it, packets are seen by traffic-control programs only \
                 (tcx, or --tap clsact), and conntrack is asked over netlink",
        ask: |_| memory(),
    },
    Probe {
        what: "ring buffer",
        effect: "brings events to srctrace; it cannot trace without (5.8 and later have it)",
        ask: |_| maps(&[("ring buffer", MapType::RingBuf)]),
    },
    Probe {
        what: "filter maps",
        effect: "match addresses in the kernel and count there; srctrace cannot trace without",
        ask: |_| {
            maps(&[
                ("prefix tree", MapType::LpmTrie),
                ("LRU hash", MapType::LruHash),
                ("per-CPU array", MapType::PerCpuArray),
            ])
        },
    },
    Probe {
        what: "tcx",
        effect: "traffic-control programs that vanish with srctrace; without it payload, VLAN \
                 tags and other programs' rewrites are not seen, unless --tap clsact is given",
        ask: |_| tcx().map(|()| "the kernel answers for it".to_owned()),
    },
    Probe {
        what: "traffic-control programs",
        effect: "tcx and --tap clsact",
        ask: |_| program("traffic-control programs", ProgramType::SchedClassifier),
    },
    Probe {
        what: "drop reasons",
        effect: "without them a report tells the last hop of a packet that died here, not why \
                 the kernel dropped it (5.17 and later have them)",
        ask: drop_reasons,
    },
    Probe {
        what: "socket states",
        effect: "join the connections of a proxy by their process",
        ask: |btf| raw_tracepoints(btf, &["inet_sock_set_state"]),
    },
    Probe {
        what: "kprobes",
        effect: "observe which NAT rule ran; without them rules are replayed from the rule stores",
        ask: |_| kprobes(),
    },
    Probe {
        what: "program statistics",
        effect: "measure what srctrace costs per packet",
        ask: |_| statistics(),
    },
];

/// Asks all questions. What is found may differ for another user or in another container.
pub fn capabilities() -> Vec<Capability> {
    let file = BtfFile::vmlinux().ok();
    let btf = file.as_ref().and_then(|file| file.parse().ok());
    let answer = |probe: &Probe| {
        let answer = (probe.ask)(btf.as_ref());
        Capability {
            what: probe.what.to_owned(),
            available: answer.is_ok(),
            why: answer.unwrap_or_else(|why| why),
            effect: probe.effect.to_owned(),
        }
    };
    PROBES.iter().map(answer).collect()
}

fn types() -> Result<String, String> {
    let types = offsets::read().map_err(|error| error.to_string())?;
    if types.unavailable.is_empty() {
        return Ok("describes every field that is read".to_owned());
    }
    let missing: Vec<_> = types
        .unavailable
        .iter()
        .map(|line| line.what.as_str())
        .collect();
    Ok(format!("does not describe {}", missing.join(", ")))
}

fn raw_tracepoints(btf: Option<&Btf<'_>>, names: &[&str]) -> Result<String, String> {
    let kind = program("raw tracepoint programs", ProgramType::RawTracePoint)?;
    let Some(btf) = btf else {
        return Ok(format!(
            "{kind}; without BTF nothing tells which tracepoints there are"
        ));
    };
    for name in names {
        btf.prototype(&format!("btf_trace_{name}"))
            .map_err(|_| format!("this kernel has no tracepoint {name}"))?;
    }
    Ok(names.join(", "))
}

fn drop_reasons(btf: Option<&Btf<'_>>) -> Result<String, String> {
    raw_tracepoints(btf, &["kfree_skb"])?;
    let reasons = btf.and_then(|btf| btf.enumerators("skb_drop_reason").ok());
    let reasons = reasons.ok_or("this kernel's BTF has no enum skb_drop_reason")?;
    Ok(format!("{} reasons", reasons.len()))
}

/// Whether programs may read the kernel's memory; why not.
///
/// # Errors
/// Why not, in words.
pub fn memory() -> Result<String, String> {
    let helper = BpfHelper::BPF_FUNC_probe_read_kernel;
    let lockdown = lockdown();
    match is_helper_supported(ProgramType::RawTracePoint, helper) {
        Ok(true) => Ok(format!("allowed; {lockdown}")),
        Ok(false) => Err(format!(
            "the kernel refuses bpf_probe_read_kernel: {lockdown}"
        )),
        Err(error) => Err(refusal(&error)),
    }
}

/// The lockdown mode in words: `none`, `integrity` or `confidentiality`.
fn lockdown() -> String {
    let text = std::fs::read_to_string("/sys/kernel/security/lockdown");
    let mode = text
        .as_deref()
        .ok()
        .and_then(|text| text.split(['[', ']']).nth(1));
    mode.map_or_else(
        || "lockdown is not in use or not visible here".to_owned(),
        |mode| format!("lockdown is {}", mode.escape_default()),
    )
}

fn maps(kinds: &[(&str, MapType)]) -> Result<String, String> {
    for (name, kind) in kinds {
        match is_map_supported(*kind) {
            Ok(true) => {}
            Ok(false) => return Err(format!("this kernel has no {name} maps")),
            Err(error) => return Err(refusal(&error)),
        }
    }
    let names: Vec<_> = kinds.iter().map(|(name, _)| *name).collect();
    Ok(names.join(", "))
}

fn program(name: &str, kind: ProgramType) -> Result<String, String> {
    match is_program_supported(kind) {
        Ok(true) => Ok(format!("{name} load")),
        Ok(false) => Err(format!("this kernel takes no {name}")),
        Err(error) => Err(refusal(&error)),
    }
}

/// Whether this kernel has tcx links; why not. Asks which programs are attached to the loopback
/// device: a kernel without tcx does not know the question, and asking attaches nothing.
///
/// # Errors
/// Why there are none, in words.
pub fn tcx() -> Result<(), String> {
    match SchedClassifier::query_tcx("lo", TcAttachType::Ingress) {
        Ok(_) => Ok(()),
        Err(error) if is_kind(&error, ErrorKind::InvalidInput) => {
            Err("this kernel has no tcx (6.6 and later may have it)".to_owned())
        }
        Err(error) => Err(refusal(&error)),
    }
}

/// Whether kprobes that vanish with their owner can be made; why not.
///
/// # Errors
/// Why there are none, in words.
pub fn kprobes() -> Result<String, String> {
    if !Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        return Err("this kernel has no kprobe events, or /sys is not mounted".to_owned());
    }
    program("kprobe programs", ProgramType::KProbe)
}

fn statistics() -> Result<String, String> {
    match enable_stats(Stats::RunTime) {
        // Closing the descriptor turns them off again.
        Ok(_) => Ok("can be turned on".to_owned()),
        Err(error) => Err(refusal(&error)),
    }
}

/// Why the kernel said no, in words and with the remedy where it is a matter of rights.
fn refusal(error: &(dyn Error + 'static)) -> String {
    if is_kind(error, ErrorKind::PermissionDenied) {
        return "not permitted: needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN".to_owned();
    }
    syscall_error(error).map_or_else(|| error.to_string(), SyscallError::to_string)
}

fn is_kind(error: &(dyn Error + 'static), kind: ErrorKind) -> bool {
    syscall_error(error).is_some_and(|error| error.io_error.kind() == kind)
}

/// The failed system call at the bottom of aya's errors.
fn syscall_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e SyscallError> {
    if let Some(ProgramError::SyscallError(error)) = error.downcast_ref() {
        return Some(error);
    }
    error
        .downcast_ref()
        .or_else(|| error.source().and_then(syscall_error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// What every kernel that srctrace supports must offer, asked of this one.
    #[test]
    fn what_cannot_be_done_without_is_here() {
        let start = Instant::now();
        let found = capabilities();
        let took = start.elapsed();
        let names: Vec<_> = found.iter().map(|line| line.what.as_str()).collect();
        let expected: Vec<_> = PROBES.iter().map(|probe| probe.what).collect();
        assert_eq!(names, expected);
        let missing: Vec<_> = found
            .iter()
            .filter(|line| line.effect.contains("cannot trace without") && !line.available)
            .collect();
        assert!(missing.is_empty(), "{missing:#?}");
        assert!(found.iter().all(|line| !line.why.is_empty()), "{found:#?}");
        println!("{found:#?} in {took:?}");
    }
}
