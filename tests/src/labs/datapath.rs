//! `explain` and `map` where Cilium's programs are on the way: who decides about the source, by whole outputs.

use std::path::Path;

use anyhow::{Context as _, Result};
use nix::net::if_::if_nametoindex;

use super::steps::same;
use super::{Case, Kernel};
use crate::lab::cast::{self, EXEMPT, PEER, PEER6, RouteBack};
use crate::lab::netkit::Mode;
use crate::lab::redirect::{self, Act};
use crate::lab::{AgentLoop, Lab, Which, bpf};
use crate::trace::expect::compare;
use crate::trace::{Files, Names, Srctrace};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "explain_cilium_masquerades_by_iptables",
        &["A2"],
        by_iptables,
    )
    .on(WITH_TCX),
    Case::new("explain_cilium_keeps_by_its_list", &["A2"], by_list).on(WITH_TCX),
    Case::new("explain_cilium_on_netkit", &[], on_netkit).on(WITH_NETKIT),
];

const WITH_TCX: &[Kernel] = &[Kernel::Native];
const WITH_NETKIT: &[Kernel] = &[Kernel::V6_12, Kernel::V7];

/// A program's name as the kernel keeps it, of `cil_from_container`.
const FROM_POD: &str = "cil_from_contai";

/// The whole output of a run.
fn held(lab: &Lab, name: &str, args: &[&str]) -> Result<()> {
    let report = Srctrace::new(lab, args).run_to_end()?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    compare(name, &report, &Names::of(&[(lab, "")]))
}

/// What would become of a request, and nothing of configurations.
fn explained(lab: &Lab, name: &str, dest: &str) -> Result<()> {
    held(lab, name, &["explain", "--dest", dest, "--proto", "tcp"])
}

/// One pod, with a program at the node's end of its pair, as Cilium has it.
fn pod(name: &str) -> Result<(Lab, std::os::fd::OwnedFd)> {
    let lab = cast::one_pod(name, RouteBack::Known).up()?;
    let program = lab.in_ns("node", || {
        bpf::attach_tcx(if_nametoindex("veth-pod")?, FROM_POD, false, false)
    })??;
    Ok((lab, program))
}

/// By its rules Cilium masquerades what is not exempt: they decide, its programs do not. Without them nothing is known.
fn by_iptables() -> Result<()> {
    let (lab, _program) = pod("cilipt")?;
    explained(&lab, "explain_cilium_not_known", PEER)?;
    lab.restore("node", "iptables-legacy-restore", RULES)?;
    explained(&lab, "explain_cilium_by_iptables", PEER)?;
    explained(&lab, "explain_cilium_exempt_by_iptables", EXEMPT)?;
    // IPv6 has no such rules.
    explained(&lab, "explain_cilium_not_known_ipv6", PEER6)?;
    held(
        &lab,
        "map_cilium_by_iptables",
        &["map", "--netns", &lab.netns("pod")],
    )
}

/// As Cilium writes them where its programs do not masquerade; the range is that of the cluster's pods.
const RULES: &str = "*nat\n:CILIUM_POST_nat - [0:0]\n\
    -A POSTROUTING -m comment --comment \"cilium-feeder: CILIUM_POST_nat\" -j CILIUM_POST_nat\n\
    -A CILIUM_POST_nat -s 10.12.3.0/24 -d 10.30.0.0/16 -m comment --comment \"exclude traffic to cluster nodes from masquerade\" -j ACCEPT\n\
    -A CILIUM_POST_nat -s 10.12.3.0/24 ! -d 10.12.0.0/16 ! -o cilium_+ -m comment --comment \"cilium masquerade non-cluster\" -j MASQUERADE\n\
    -A CILIUM_POST_nat ! -s 10.12.3.1/32 -o cilium_host -m comment --comment \"cilium host->cluster masquerade\" -j SNAT --to-source 10.12.3.1\nCOMMIT\n";

/// Its programs masquerade: what its list has is kept, of all else nothing is known.
fn by_list() -> Result<()> {
    let (lab, _program) = pod("cillist")?;
    let files = Files::new(&lab)?;
    let agent = AgentLoop::start_as(
        &lab,
        Path::new(&files.path("")),
        Which::Cilium,
        &[(
            "ip-masq-agent",
            "nonMasqueradeCIDRs:\n- 10.30.0.0/16\n- fd50::/64\n",
        )],
    )?;
    let map = |name: &str| agent.path(&format!("sys/fs/bpf/tc/globals/{name}"));
    let nets = ["169.254.0.0/16".parse()?, "10.30.0.0/16".parse()?];
    bpf::pin_prefixes(&map("cilium_ipmasq_v4"), &nets)?;
    bpf::pin_prefixes(
        &map("cilium_ipmasq_v6"),
        &["fe80::/10".parse()?, "fd50::/64".parse()?],
    )?;
    explained(&lab, "explain_cilium_list_keeps", EXEMPT)?;
    explained(&lab, "explain_cilium_list_keeps_ipv6", PEER6)?;
    explained(&lab, "explain_cilium_list_lacks", PEER)?;
    held(
        &lab,
        "map_cilium_by_list",
        &["map", "--netns", &lab.netns("pod")],
    )?;
    // A rule that nobody knows whether the packet meets.
    lab.run(
        "node",
        "iptables-legacy -t nat -A POSTROUTING -o eth0 -j MASQUERADE",
    )?;
    explained(&lab, "explain_cilium_list_against_rules", EXEMPT)
}

/// The same on a netkit pair, whose programs no traffic control lists.
fn on_netkit() -> Result<()> {
    let lab = cast::netkit_pod("cilkit", RouteBack::Known, Mode::L3).up()?;
    let _program = lab.in_ns("node", || {
        let (index, side) = (if_nametoindex("nk-pod")?, redirect::Side::NetkitPeer);
        redirect::attach_tc(index, side, FROM_POD, Act::Drop)
    })??;
    explained(&lab, "explain_cilium_on_netkit", PEER)
}
