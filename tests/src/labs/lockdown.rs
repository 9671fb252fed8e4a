//! Row E6: a kernel that refuses to let its memory be read. Packets are seen by traffic-control programs alone, and conntrack
//! is asked over netlink.

use anyhow::{Result, ensure};

use super::steps::{answered, hold, masquerade, same, watch_with};
use super::{Case, Kernel, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::Srctrace;
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("e6_lockdown", &["E6"], || masqueraded("e6_lockdown", &[]))
        .on(WITH_TCX)
        .needs(ASKABLE)
        .booted_with(LOCKED),
    Case::new("e6_lockdown_assumed", &["E6"], assumed).on(NATIVE),
    Case::new("lockdown_with_clsact", &["E6"], || {
        masqueraded("lockdown_with_clsact", &["--tap", "clsact"])
    })
    .on(WITHOUT_TCX)
    .needs(ASKABLE)
    .booted_with(LOCKED),
    Case::new("lockdown_without_a_way", &[], without_a_way)
        .on(WITHOUT_TCX)
        .booted_with(LOCKED),
    Case::new("lockdown_tracepoints_are_refused", &[], tracepoints_refused)
        .on(LOCKABLE)
        .booted_with(LOCKED),
];

/// What can be said then: all of it, but not for certain.
const MASQUERADED: &str = "
    tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
    request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
    rule iptables-legacy nat/IP-MASQ 1
    source-rewritten, on the wire 10.100.0.5, completed ?";

/// On the kernel's command line.
const LOCKED: &str = "lockdown=confidentiality";
const LOCKABLE: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];
const WITH_TCX: &[Kernel] = &[Kernel::V6_12, Kernel::V7];
const WITHOUT_TCX: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1];
/// srctrace loads no module, so it must be there.
const ASKABLE: &[&str] = &["nf_conntrack_netlink"];

/// A masquerading node with a server behind it.
fn lab(name: &str) -> Result<(Lab, StreamServer)> {
    let lab = cast::two_pods(name, RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    let peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    Ok((lab, peer))
}

/// The kernel must be what the lab says.
fn is_locked() -> Result<()> {
    let mode = std::fs::read_to_string("/sys/kernel/security/lockdown")?;
    ensure!(mode.contains("[confidentiality]"), "lockdown: {mode}");
    Ok(())
}

/// A request through the node. The entry shows just this change, so netfilter is named.
fn hold_masqueraded(name: &str, lab: &Lab, trace: &Srctrace<'_>) -> Result<()> {
    let report = watch_with(trace, 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    hold(
        lab,
        &report,
        name,
        &[MASQUERADED],
        &[(0, "point-unavailable")],
    )
}

fn masqueraded(name: &str, args: &[&str]) -> Result<()> {
    let (lab, _peer) = lab(name)?;
    is_locked()?;
    let args = [&["--dest", PEER], args].concat();
    hold_masqueraded(name, &lab, &Srctrace::new(&lab, &args))
}

fn assumed() -> Result<()> {
    let (lab, _peer) = lab("assumed")?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).env("SRCTRACE_ASSUME_LOCKDOWN", "1");
    hold_masqueraded("e6_lockdown_assumed", &lab, &trace)
}

/// Ends with status 3 and one line that holds all these words.
fn refused(args: &[&str], words: &[&str]) -> Result<()> {
    is_locked()?;
    let (lab, _peer) = lab("refused")?;
    let report = Srctrace::new(&lab, &[&["--dest", PEER], args].concat()).run_to_end()?;
    same("exit status", report.status, Some(3))?;
    let said = &report.stderr;
    let all = words.iter().all(|word| said.contains(word));
    ensure!(all && said.lines().count() == 1, "it says: {said}");
    Ok(())
}

fn tracepoints_refused() -> Result<()> {
    refused(
        &["--tap", "tracepoint"],
        &[
            "--tap tracepoint",
            "bpf_probe_read_kernel",
            "lockdown is confidentiality",
            "--tap tcx",
        ],
    )
}

fn without_a_way() -> Result<()> {
    refused(
        &[],
        &["no tcx", "--tap clsact", "lockdown is confidentiality"],
    )
}
