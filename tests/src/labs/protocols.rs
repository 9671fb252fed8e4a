//! Other protocols than TCP over IPv4, and other shapes of packets.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::steps::{MASQUERADED, answered, hold, masquerade, masqueraded_pod, same, watch};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, PEER6, RouteBack};
use crate::trace::{DEADLINE, Report, Srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamKind, StreamServer, UdpCall, UdpServer, ping};

pub(super) const CASES: &[Case] = &[
    Case::new("ipv6_masquerade", &["A1"], ipv6_masquerade),
    Case::new("ipv6_preserved", &["A3"], ipv6_preserved),
    Case::new("udp_masquerade", &["A1"], udp_masquerade),
    Case::new("udp_fragments", &[], udp_fragments),
    Case::new("icmp_masquerade", &["A1", "A4"], icmp_masquerade),
    Case::new("icmpv6_preserved", &["A3"], icmpv6_preserved),
    Case::new("bulk_with_offloads", &[], bulk_with_offloads),
    Case::new("mptcp_two_subflows", &[], mptcp_two_subflows).on(WITH_MPTCP),
    Case::new("sctp_masquerade", &["A1"], sctp_masquerade)
        .on(WITH_SCTP)
        .needs(&["sctp"]),
];

const WITH_MPTCP: &[Kernel] = &[Kernel::Native, Kernel::V6_1, Kernel::V6_12, Kernel::V7];
const WITH_SCTP: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

fn ipv6_masquerade() -> Result<()> {
    let lab = cast::one_pod("six", RouteBack::Missing).up()?;
    let rules =
        "*nat\n-A POSTROUTING -o eth0 -m comment --comment \"outbound\" -j MASQUERADE\nCOMMIT\n";
    lab.restore("node", "ip6tables-legacy-restore", rules)?;
    let _peer = StreamServer::start(&lab, "peer", "[fd50::20]:443", Behaviour::Answer)?;
    let report = watch(&lab, &["[fd50::20]:443"], 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "[fd50::20]:443", 43_210).run(&lab)?,
            answered("[fd10:100::5]:43210")?,
        )
    })?;
    hold(&lab, &report, "ipv6_masquerade", &["tcp [fd12:3::4]:43210 > [fd50::20]:443 from pod pod
                  request src [fd12:3::4]:43210 > [fd10:100::5]:43210 at node, postrouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/POSTROUTING 1
                  unowned-rule: iptables-legacy nat/POSTROUTING 1
                  source-rewritten, on the wire fd10:100::5, completed"], &[])
}

fn ipv6_preserved() -> Result<()> {
    let lab = cast::one_pod("sixkept", RouteBack::Known).up()?;
    let _peer = UdpServer::start(&lab, "peer", "[fd50::20]:53")?;
    let report = watch(&lab, &["--dest", PEER6], 0, || {
        same(
            "what the far side saw",
            UdpCall::new("pod", 43_210, "[fd50::20]:53").run(&lab)?,
            answered("[fd12:3::4]:43210")?,
        )
    })?;
    hold(
        &lab,
        &report,
        "ipv6_preserved",
        &["udp [fd12:3::4]:43210 > [fd50::20]:53 from pod pod
                  source-preserved, on the wire fd12:3::4, completed"],
        &[],
    )
}

/// One UDP request with that payload through the masquerade.
fn udp_request(name: &str, payload: Vec<u8>) -> Result<Report> {
    let lab = masqueraded_pod("udp", RouteBack::Missing)?;
    let _peer = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let report = watch(&lab, &["--dest", PEER], 0, || {
        same(
            "what the far side saw",
            UdpCall::new("pod", 43_210, "10.20.30.40:53")
                .payload(payload)
                .run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    hold(&lab, &report, name, &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/IP-MASQ 1
                  source-rewritten, on the wire 10.100.0.5, completed"], &[])?;
    Ok(report)
}

fn udp_masquerade() -> Result<()> {
    let report = udp_request("udp_masquerade", b"a question".to_vec())?;
    let packets = report.only_flow()?["packets"].clone();
    same(
        "packets",
        (packets["request"].as_u64(), packets["reply"].as_u64()),
        (Some(1), Some(1)),
    )
}

/// A datagram of 4,000 bytes crosses as three fragments, of which only the first has ports. It stays one flow.
fn udp_fragments() -> Result<()> {
    udp_request("udp_fragments", vec![b'f'; 4000]).map(drop)
}

fn icmp_masquerade() -> Result<()> {
    let lab = masqueraded_pod("ping", RouteBack::Missing)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER, "--proto", "icmp"]).start()?;
    ensure!(
        ping(&lab, "pod", PEER, 4321, DEADLINE)?,
        "the pod's ping was not answered"
    );
    ensure!(
        ping(&lab, "node", PEER, 1234, DEADLINE)?,
        "the node's ping was not answered"
    );
    let report = trace.stop()?;
    hold(&lab, &report, "icmp_masquerade", &[
            "icmp 10.100.0.5:1234 > 10.20.30.40:0 from node node
             source-preserved, on the wire 10.100.0.5, completed",
            "icmp 10.12.3.4:4321 > 10.20.30.40:0 from pod pod
             request src 10.12.3.4:4321 > 10.100.0.5:4321 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             source-rewritten, on the wire 10.100.0.5, completed",
        ], &[])
}

fn icmpv6_preserved() -> Result<()> {
    let lab = cast::one_pod("ping6", RouteBack::Known).up()?;
    let trace = Srctrace::new(&lab, &["--dest", PEER6]).start()?;
    ensure!(
        ping(&lab, "pod", PEER6, 4321, DEADLINE)?,
        "the pod's ping was not answered"
    );
    let report = trace.stop()?;
    hold(
        &lab,
        &report,
        "icmpv6_preserved",
        &["icmpv6 [fd12:3::4]:4321 > [fd50::20]:0 from pod pod
                  source-preserved, on the wire fd12:3::4, completed"],
        &[],
    )
}

/// Many megabytes, in packets that the kernel joins and splits on the way. One flow, nothing lost, and bytes and packets as
/// the wire would have them.
fn bulk_with_offloads() -> Result<()> {
    const BYTES: usize = 64 << 20;
    let lab = masqueraded_pod("bulk", RouteBack::Missing)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::AnswerAtEnd)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let stream = StreamCall::new("pod", "10.20.30.40:443", 43_210)
        .open(&lab)?
        .ok()
        .context("no connection")?;
    same(
        "what the far side saw",
        stream.bulk(BYTES)?,
        answered("10.100.0.5:43210")?,
    )?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    hold(&lab, &report, "bulk_with_offloads", &[MASQUERADED], &[])?;
    let packets = report.only_flow()?["packets"].clone();
    let count = |key: &str| {
        packets[key]
            .as_u64()
            .with_context(|| format!("packets.{key}"))
    };
    ensure!(
        count("request_bytes")? >= BYTES as u64,
        "fewer bytes than were sent: {packets}"
    );
    let least = BYTES as u64 / 1460;
    ensure!(
        count("request")? >= least,
        "fewer packets than {least} segments of the Ethernet MTU: {packets}"
    );
    Ok(())
}

/// One connection by two ways: each subflow is a flow of its own with its own source, and both leave as the node.
fn mptcp_two_subflows() -> Result<()> {
    let mut net = cast::one_pod("mptcp", RouteBack::Missing);
    net.veth(("pod", "eth1"), ("node", "veth-pod-b"))
        .addr("pod", "eth1", "10.12.9.4/24")
        .addr("node", "veth-pod-b", "10.12.9.1/24")
        .ip("pod", "rule add from 10.12.9.4 table 9")
        .route("pod", "default via 10.12.9.1 table 9");
    let lab = net.up()?;
    masquerade(&lab, &[])?;
    lab.ip(
        "pod",
        "mptcp limits set subflow 2\nmptcp endpoint add 10.12.9.4 dev eth1 subflow",
    )?;
    lab.ip("peer", "mptcp limits set subflow 2")?;
    let _peer = StreamServer::start_kind(
        &lab,
        "peer",
        "10.20.30.40:443",
        Behaviour::AnswerAtEnd,
        StreamKind::Mptcp,
    )?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).kind(StreamKind::Mptcp);
    let stream = call.open(&lab)?.ok().context("no connection")?;
    // The first data makes the kernel open the second subflow, in its own time.
    stream.send(b"x")?;
    wait_for_subflow(&lab, "10.12.9.4")?;
    same(
        "what the far side saw",
        stream.bulk(8 << 20)?,
        answered("10.100.0.5:43210")?,
    )?;
    trace.wait_flows(2)?;
    let report = trace.stop()?;
    let flows = report.flows()?;
    same("flows", flows.len(), 2)?;
    let mut sources = Vec::new();
    for flow in &flows {
        same(
            "the verdict",
            &flow["verdict"]["source"],
            &"source-rewritten".into(),
        )?;
        same(
            "on the wire",
            &flow["verdict"]["source_on_wire"],
            &cast::NODE.into(),
        )?;
        sources.push(flow["flow"]["src"].as_str().unwrap_or("-").to_owned());
    }
    same(
        "sources",
        sources,
        vec!["10.12.3.4".to_owned(), "10.12.9.4".to_owned()],
    )
}

/// Waits until the pod has an established TCP connection from this address.
fn wait_for_subflow(lab: &Lab, from: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let filter = format!("ss -Htn state established src {from}");
    while lab.run("pod", &filter)?.trim().is_empty() {
        ensure!(
            Instant::now() < deadline,
            "no subflow from {from} within 20 s"
        );
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn sctp_masquerade() -> Result<()> {
    let lab = masqueraded_pod("sctp", RouteBack::Missing)?;
    let _peer = StreamServer::start_kind(
        &lab,
        "peer",
        "10.20.30.40:443",
        Behaviour::Answer,
        StreamKind::Sctp,
    )?;
    let trace = Srctrace::new(&lab, &["--dest", PEER, "--proto", "sctp"]).start()?;
    let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).kind(StreamKind::Sctp);
    let outcome = call.run(&lab)?;
    let report = trace.stop()?;
    same(
        "what the far side saw",
        outcome,
        answered("10.100.0.5:43210")?,
    )?;
    hold(&lab, &report, "sctp_masquerade", &["sctp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/IP-MASQ 1
                  source-rewritten, on the wire 10.100.0.5, completed"], &[])
}
