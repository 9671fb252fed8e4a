//! Deaths by a program: at a device's traffic control or XDP, in a cgroup.

use anyhow::{Context as _, Result};
use std::os::fd::OwnedFd;

use super::super::NATIVE;
use super::super::steps::{A_MOMENT, hold, same, watch, watch_with};
use super::{Case, DROPPED, Kernel, one_request};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Container, Lab, Running, bpf};
use crate::trace::Srctrace;
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(in super::super) const CASES: &[Case] = &[
    Case::new("b9_program_drops", &["B9"], program_drops).on(WITH_TCX),
    Case::new("b9_program_drops_on_the_way_out", &["B9"], || {
        on_the_way_out("tracepoint", "b9_program_drops_on_the_way_out")
    })
    .on(WITH_TCX),
    Case::new("b9_program_drops_behind_our_tap", &["B9"], || {
        on_the_way_out("tcx", "b9_program_drops_behind_our_tap")
    })
    .on(WITH_TCX),
    Case::new("b9_one_of_two_programs_drops", &["B9"], one_of_two).on(WITH_TCX),
    Case::new("b9_xdp_program_drops", &["B9"], xdp_drops).on(NATIVE),
    Case::new("b9_cgroup_drops_requests", &["B9"], cgroup_egress),
    Case::new("b9_cgroup_drops_replies", &["B9"], cgroup_ingress),
];

const WITH_TCX: &[Kernel] = &[Kernel::Native, Kernel::V6_12, Kernel::V7];

/// The index of a device, for what is called inside its namespace.
fn index(device: &str) -> Result<u32> {
    nix::net::if_::if_nametoindex(device).with_context(|| format!("the index of {device}"))
}

/// A policy engine's program at the pod's device says no.
fn program_drops() -> Result<()> {
    let lab = cast::one_pod("b9", RouteBack::Known).up()?;
    let program = lab.in_ns("node", || {
        bpf::attach_tcx(index("veth-pod")?, "policy_engine", false, true)
    })??;
    one_request(
        &lab,
        "b9_program_drops",
        Outcome::Silence,
        "TC_INGRESS",
        "dropped-by-program",
    )?;
    drop(program);
    Ok(())
}

/// Our own program at that device sees the packet before the other one does: it has not left.
fn on_the_way_out(tap: &str, name: &str) -> Result<()> {
    let lab = cast::one_pod("b9out", RouteBack::Known).up()?;
    let program = lab.in_ns("node", || {
        bpf::attach_tcx(index("eth0")?, "policy_engine", true, true)
    })??;
    let report = watch(&lab, &["--dest", PEER, "--tap", tap], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    drop(program);
    let claims = format!(
        "{DROPPED}
         dropped: TC_EGRESS
         source-unknown, on the wire null, dropped"
    );
    hold(
        &lab,
        &report,
        name,
        &[&claims],
        &[(0, "dropped-by-program")],
    )
}

/// Which of several it was, the kernel does not tell.
fn one_of_two() -> Result<()> {
    let lab = cast::one_pod("b9two", RouteBack::Known).up()?;
    let programs = lab.in_ns("node", || -> Result<[OwnedFd; 2]> {
        let index = index("veth-pod")?;
        Ok([
            bpf::attach_tcx(index, "accounting", false, false)?,
            bpf::attach_tcx(index, "policy_engine", false, true)?,
        ])
    })??;
    one_request(
        &lab,
        "b9_one_of_two_programs_drops",
        Outcome::Silence,
        "TC_INGRESS",
        "dropped-by-program",
    )?;
    drop(programs);
    Ok(())
}

fn xdp_drops() -> Result<()> {
    let lab = cast::one_pod("b9xdp", RouteBack::Known).up()?;
    let program = lab.in_ns("node", || {
        bpf::attach_xdp_drop(index("veth-pod")?, "ddos_guard")
    })??;
    one_request(
        &lab,
        "b9_xdp_program_drops",
        Outcome::Silence,
        "NOT_SPECIFIED",
        "dropped-by-program",
    )?;
    drop(program);
    Ok(())
}

const WEB: Container = Container {
    uid: "4f4e2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6b",
    id: "6f2a8c0d9e1b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    hostname: None,
};

/// A container's request, while a program is attached to its pod's cgroup, the one above its own.
fn from_container(lab: &Lab, name: &str, egress: bool, claims: &str) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let mut web: Running = WEB.start(lab, "pod")?;
    let program = bpf::attach_cgroup_drop(web.pods_folder(), "pod_firewall", egress)?;
    let report = watch_with(&Srctrace::new(lab, &["--dest", PEER]), 0, || {
        web.call_in_vain("10.20.30.40:443", 43_210)
    })?;
    drop(program);
    hold(lab, &report, name, &[claims], &[(0, "dropped-by-program")])
}

fn cgroup_egress() -> Result<()> {
    let lab = cast::one_pod("b9cg", RouteBack::Known).up()?;
    let claims = format!(
        "{DROPPED}
         dropped: BPF_CGROUP_EGRESS
         source-unknown, on the wire null, dropped"
    );
    from_container(&lab, "b9_cgroup_drops_requests", true, &claims)
}

/// The kernel says the same of a socket's own filter.
fn cgroup_ingress() -> Result<()> {
    let lab = cast::one_pod("b9cgin", RouteBack::Known).up()?;
    let claims = format!(
        "{DROPPED}
         dropped: SOCKET_FILTER
         source-preserved, on the wire 10.12.3.4, reply-lost"
    );
    from_container(&lab, "b9_cgroup_drops_replies", false, &claims)
}
