//! Packets of an unusual shape that honest stacks do send.

use anyhow::{Result, ensure};

use super::steps::{MASQUERADED, answered, hold, masqueraded_pod, same, watch};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, PEER6, RouteBack};
use crate::traffic::{Behaviour, SocketOption, StreamCall, StreamServer, UdpCall, UdpServer};

pub(super) const CASES: &[Case] = &[
    Case::new("syn_with_data", &[], syn_with_data),
    Case::new("udp_cut_by_the_kernel", &[], udp_cut_by_the_kernel).on(WITH_UDP_GSO),
    Case::new("ipv4_options", &[], ipv4_options),
    Case::new("ipv6_destination_options", &[], ipv6_destination_options),
];

/// Forwarding leaves such packets whole since 5.10's time, but counts as one or as many; later kernels agree.
const WITH_UDP_GSO: &[Kernel] = &[Kernel::Native, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

/// The first packet is a SYN that carries the request.
fn syn_with_data() -> Result<()> {
    let lab = masqueraded_pod("tfo", RouteBack::Missing)?;
    // Client and server, and neither asks for a cookie.
    for ns in ["pod", "peer"] {
        lab.sysctl(ns, "ipv4/tcp_fastopen", "1543")?;
    }
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let call =
        StreamCall::new("pod", "10.20.30.40:443", 43_210).option(SocketOption::data_in_syn());
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "what the far side saw",
            call.run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    let counters = lab.in_ns("peer", || {
        std::fs::read_to_string("/proc/thread-self/net/netstat")
    })??;
    ensure!(
        counter(&counters, "TCPFastOpenPassive") == Some(1),
        "no SYN with data came: {counters}"
    );
    hold(&lab, &report, "syn_with_data", &[MASQUERADED], &[])
}

/// A counter of /proc/net/netstat: a line of names, then a line of values.
fn counter(table: &str, name: &str) -> Option<u64> {
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    let pair = lines.chunks(2).find(|pair| pair[0].contains(&name))?;
    let column = pair[0].iter().position(|column| *column == name)?;
    pair.get(1)?.get(column)?.parse().ok()
}

/// One large send that is ten datagrams on the wire: ten requests are counted, and ten answers.
fn udp_cut_by_the_kernel() -> Result<()> {
    let lab = masqueraded_pod("udpgso", RouteBack::Missing)?;
    let peer = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").payload(vec![b'g'; 10_000]);
    let call = call.option(SocketOption::datagrams_of(1000)).answers(10);
    let report = watch(&lab, &["--dest", PEER], 0, || {
        same(
            "what the far side saw",
            call.run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    drop(peer);
    let packets = report.only_flow()?["packets"].clone();
    same(
        "packets",
        (packets["request"].as_u64(), packets["reply"].as_u64()),
        (Some(10), Some(10)),
    )?;
    udp_claims(&lab, &report, "udp_cut_by_the_kernel")
}

fn udp_claims(lab: &Lab, report: &crate::trace::Report, name: &str) -> Result<()> {
    let claims = "udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
        request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/IP-MASQ 1
        source-rewritten, on the wire 10.100.0.5, completed";
    hold(lab, report, name, &[claims], &[])
}

fn ipv4_options() -> Result<()> {
    let lab = masqueraded_pod("options4", RouteBack::Missing)?;
    let _peer = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").option(SocketOption::ipv4_options());
    let report = watch(&lab, &["--dest", PEER], 0, || {
        same(
            "what the far side saw",
            call.run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    udp_claims(&lab, &report, "ipv4_options")
}

fn ipv6_destination_options() -> Result<()> {
    let lab = cast::one_pod("options6", RouteBack::Known).up()?;
    let _peer = UdpServer::start(&lab, "peer", "[fd50::20]:53")?;
    let call = UdpCall::new("pod", 43_210, "[fd50::20]:53");
    let call = call.option(SocketOption::ipv6_destination_options());
    let report = watch(&lab, &["--dest", PEER6], 0, || {
        same(
            "what the far side saw",
            call.run(&lab)?,
            answered("[fd12:3::4]:43210")?,
        )
    })?;
    let claims = "udp [fd12:3::4]:43210 > [fd50::20]:53 from pod pod
        source-preserved, on the wire fd12:3::4, completed";
    hold(&lab, &report, "ipv6_destination_options", &[claims], &[])
}
