//! The far side sends a capture, made by its own tcpdump: it joins as one more point.
//!
//! ```text
//! node-a: pod 10.12.3.4 -- node 10.100.0.5 -- 10.100.0.1 peerway 10.20.0.1 -- 10.20.30.40 peer: tcpdump
//! ```
//! Nobody looks at `peerway`, a router that masquerades too: so the capture shows another source than left the node.

mod lost;

use std::fs;

use anyhow::{Context as _, Result, ensure};

use super::merged::machines;
use super::steps::{A_MOMENT, answered, hold, masquerade, same};
use super::{Case, NATIVE};
use crate::lab::{Lab, Topology, cast};
use crate::trace::{Files, Srctrace, Trace, merge, merge_as, merge_as_nobody};
use crate::traffic::{
    Behaviour, Sniffer, StreamCall, StreamServer, UdpCall, UdpServer, ping, send_frames,
};

pub(super) const CASES: &[Case] = &[
    Case::new("captured_kinds", &["E4"], kinds).on(NATIVE),
    Case::new(
        "captured_where_it_was_lost",
        &["B1", "E4"],
        lost::where_it_was_lost,
    )
    .on(NATIVE),
    Case::new("captured_beside_two_machines", &["E4"], beside_two_machines).on(NATIVE),
];

/// The address on `peerway` to which marks are sent.
const MARKED: &str = "10.20.0.1";

fn node_trace(lab: &Lab, files: &Files) -> Result<Trace> {
    let file = files.path("node-a.srct");
    let args = ["10.20.30.40", "--host", "node-a", "--record", &file];
    Srctrace::new(lab, &args).within(&["node", "pod"]).start()
}

/// As [`machines`], and the far side has its address on a bridge: `-i any` sees its packets twice. It has another device
/// that carries nothing by itself.
fn behind_a_bridge(name: &str) -> Result<Lab> {
    let mut net = Topology::new(name);
    cast::pod(&mut net, "pod", 3);
    net.forward("node")
        .forward("peerway")
        .veth(("peerway", "eth0"), ("node", "eth0"))
        .veth(("peer", "eth0"), ("peerway", "eth1"))
        .veth(("peer", "trunk"), ("peerway", "trunk"))
        .ip("peer", "link add br0 type bridge mcast_snooping 0")
        .ip("peer", "link set eth0 master br0")
        .ip("peer", "link set br0 up")
        .addr("node", "eth0", "10.100.0.5/24")
        .addr("peerway", "eth0", "10.100.0.1/24")
        .addr("peerway", "eth1", "10.20.0.1/16")
        .addr("peer", "br0", "10.20.30.40/16")
        .addr("peer", "trunk", "10.99.0.1/24")
        .addr("peerway", "trunk", "10.99.0.2/24")
        .route("node", "default via 10.100.0.1")
        .route("peer", "default via 10.20.0.1");
    let lab = net.up()?;
    masquerade(&lab, &[])?;
    lab.nft(
        "peerway",
        "table ip way { chain out { type nat hook postrouting priority 100; oifname eth1 masquerade; }; }",
    )?;
    Ok(lab)
}

/// Name of the file, and how it is made.
const KINDS: [(&str, &str); 6] = [
    ("any_v1.pcap", "-i any -y LINUX_SLL"),
    ("any_v2.pcap", "-i any -y LINUX_SLL2"),
    ("ethernet.pcap", "-i br0"),
    ("nano.pcap", "-i eth0 --time-stamp-precision nano"),
    ("snap.pcap", "-i eth0 -s 74"),
    ("interfaces.pcapng", "-i br0 -i lo"),
];

/// The address beyond the trunk to which marks are sent.
const MARKED_ON_TRUNK: &str = "10.99.0.2";

/// The frames of an Ethernet capture, with tags between their addresses and the rest.
fn tagged(ethernet: &[u8], tags: &[u8]) -> Vec<Vec<u8>> {
    const ADDRESSES: usize = 12;
    let mut rest = &ethernet[24..];
    let mut frames = Vec::new();
    while let Some((head, bytes)) = rest.split_at_checked(16) {
        let captured = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let (frame, others) = bytes.split_at(captured as usize);
        frames.push([&frame[..ADDRESSES], tags, &frame[ADDRESSES..]].concat());
        rest = others;
    }
    frames
}

/// Captures of the same frames as they pass a trunk, in a VLAN and in a provider's VLAN: later, so their clock is wrong.
fn on_a_trunk(lab: &Lab, files: &Files) -> Result<()> {
    const VLAN: [u8; 4] = [0x81, 0, 0, 42];
    const PROVIDER: [u8; 8] = [0x88, 0xa8, 0, 7, 0x81, 0, 0, 42];
    let ethernet = fs::read(files.path("ethernet.pcap"))?;
    for (name, tags) in [("vlan.pcap", &VLAN[..]), ("tagged.pcap", &PROVIDER)] {
        let file = files.path(name);
        let sniffer = Sniffer::tcpdump(lab, "peer", "-i trunk", (&file, MARKED_ON_TRUNK))?;
        send_frames(lab, "peerway", "trunk", &tagged(&ethernet, tags))?;
        sniffer.stop()?;
        let bytes = fs::read(&file)?;
        let shown = bytes.windows(tags.len()).any(|part| part == tags);
        ensure!(shown, "{name} shows no such tags");
    }
    Ok(())
}

/// The same three flows in captures of every kind.
fn kinds() -> Result<()> {
    let lab = behind_a_bridge("kinds")?;
    let files = Files::new(&lab)?;
    let _tcp = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let udp = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let mut sniffers = Vec::new();
    for (name, args) in KINDS {
        let start = match name.ends_with("ng") {
            true => Sniffer::dumpcap,
            false => Sniffer::tcpdump,
        };
        sniffers.push(start(&lab, "peer", args, (&files.path(name), MARKED))?);
    }
    let near = node_trace(&lab, &files)?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same("tcp", outcome, answered("10.20.0.1:43210")?)?;
    let outcome = UdpCall::new("pod", 43_211, "10.20.30.40:53").run(&lab)?;
    same("udp", outcome, answered("10.20.0.1:43211")?)?;
    ensure!(
        ping(&lab, "pod", "10.20.30.40", 77, A_MOMENT)?,
        "no answer to the ping"
    );
    drop(udp);
    near.wait_flows(3)?;
    near.stop()?;
    for sniffer in sniffers {
        sniffer.stop()?;
    }
    let recording = files.path("node-a.srct");
    are_what_they_should_be(&files)?;
    on_a_trunk(&lab, &files)?;
    for name in KINDS
        .map(|(name, _)| name)
        .into_iter()
        .chain(["vlan.pcap", "tagged.pcap"])
    {
        let report = merge(&[&recording, &files.path(name)])?;
        let kind = name.split('.').next().unwrap_or_default();
        hold(
            &lab,
            &report,
            &format!("captured_{kind}"),
            &twice_rewritten().each_ref().map(String::as_str),
            &[(0, "joined-across-hosts"), (1, "double-rewrite")],
        )
        .with_context(|| format!("{name}: {}", report.stderr))?;
    }
    let capture = files.path("vlan.pcap");
    let as_root = merge(&[&recording, &capture])?;
    let report = merge_as_nobody(&[&recording, &capture])?;
    same("what nobody reads", report.lines, as_root.lines)?;
    same("its status", report.status, Some(0))?;
    damaged(&lab, &files)
}

/// That tcpdump and dumpcap wrote the kinds of files that this is about.
fn are_what_they_should_be(files: &Files) -> Result<()> {
    let read = |name: &str| fs::read(files.path(name)).with_context(|| name.to_owned());
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
        u32::from_le_bytes(word.unwrap_or_default())
    };
    const MICRO: u32 = 0xa1b2_c3d4;
    const NANO: u32 = 0xa1b2_3c4d;
    for (name, magic, link) in [
        ("any_v1.pcap", MICRO, 113),
        ("any_v2.pcap", MICRO, 276),
        ("ethernet.pcap", MICRO, 1),
        ("nano.pcap", NANO, 1),
        ("snap.pcap", MICRO, 1),
    ] {
        let bytes = read(name)?;
        same(name, (word(&bytes, 0), word(&bytes, 20)), (magic, link))?;
    }
    let snap = read("snap.pcap")?;
    same("the snap length", word(&snap, 16), 74)?;
    let described = read("interfaces.pcapng")?;
    same("pcapng", word(&described, 0), 0x0a0d_0d0a)
}

/// What is the same whatever the capture is: the capture shows the source that the router gave it.
fn twice_rewritten() -> [String; 3] {
    [("icmp", 77, 0), ("tcp", 43_210, 443), ("udp", 43_211, 53)].map(|(proto, sport, dport)| {
        format!(
            "{proto} 10.12.3.4:{sport} > 10.20.30.40:{dport} from pod pod
             request src 10.12.3.4:{sport} > 10.100.0.5:{sport} at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             request src 10.100.0.5:{sport} > 10.20.0.1:{sport} at downstream, null, unknown, by between, and back
             source-rewritten, on the wire 10.20.0.1, completed"
        )
    })
}

/// A capture whose end is missing is used as far as it goes; one that is damaged is refused, in one line.
fn damaged(lab: &Lab, files: &Files) -> Result<()> {
    let whole = fs::read(files.path("ethernet.pcap"))?;
    let recording = files.path("node-a.srct");
    let cut = files.write("cut.pcap", &whole[..whole.len() - 5])?;
    let report = merge(&[&recording, &cut])?;
    same("status with a cut capture", report.status, Some(0))?;
    same("flows with a cut capture", report.flows()?.len(), 3)?;
    let says = "cut.pcap: ends in the middle of a packet (byte ";
    ensure!(report.stderr.contains(says), "{}", report.stderr);
    let mut bytes = whole;
    bytes[24 + 8..24 + 12].copy_from_slice(&[0xff; 4]);
    let bad = files.write("bad.pcap", &bytes)?;
    for file in [&bad, &files.write("text.pcap", b"no capture at all")?] {
        let report = merge(&[&recording, file])?;
        same("status with a bad file", report.status, Some(2))?;
        same("lines", report.stderr.lines().count(), 1)?;
        same("results", report.lines.len(), 0)?;
    }
    let report = merge(&[&recording, &bad])?;
    let says = "bad.pcap: it is damaged at byte 24: a packet of 4294967295 bytes";
    ensure!(report.stderr.ends_with(says), "{}", report.stderr);
    let text = merge_as("text", &[&recording, &files.path("any_v1.pcap")])?;
    let text = text.lines.join("\n").replace(lab.prefix(), "");
    for line in [
        "▶  source rewritten between node-a and any_v1.pcap: by what is not known",
        "Reached any_v1.pcap by any as 10.20.0.1. Replies came back to the pod.",
    ] {
        ensure!(text.contains(line), "lacks {line:?}:\n{text}");
    }
    Ok(())
}

/// Two machines' recordings, the second one's clock an hour behind, and the far side's capture: one path.
fn beside_two_machines() -> Result<()> {
    let lab = machines("capturedthree")?;
    let files = Files::new(&lab)?;
    let _tcp = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let capture = files.path("peer.pcap");
    let sniffer = Sniffer::tcpdump(&lab, "peer", "-i any -y LINUX_SLL2", (&capture, MARKED))?;
    let near = node_trace(&lab, &files)?;
    let recording = files.path("way-b.srct");
    let way = Srctrace::new(
        &lab,
        &["10.20.30.40", "--host", "way-b", "--record", &recording],
    )
    .within(&["peerway"])
    .started_in("peerway")
    .env("SRCTRACE_CLOCK_SHIFT_MS", "-3600000")
    .start()?;
    for port in [43_210, 43_211, 43_212] {
        let outcome = StreamCall::new("pod", "10.20.30.40:443", port).run(&lab)?;
        same("tcp", outcome, answered(&format!("10.20.0.1:{port}"))?)?;
    }
    for trace in [near, way] {
        trace.wait_flows(3)?;
        trace.stop()?;
    }
    sniffer.stop()?;
    let report = merge(&[&capture, &recording, &files.path("node-a.srct")])?;
    let claims = [43_210, 43_211, 43_212].map(|port| {
        format!(
            "tcp 10.12.3.4:{port} > 10.20.30.40:443 from pod pod
             request src 10.12.3.4:{port} > 10.100.0.5:{port} at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             request src 10.100.0.5:{port} > 10.20.0.1:{port} at node, postrouting, netfilter, by conntrack, and back
             rule nft way/out handle 3
             unowned-rule: nft way/out handle 3
             source-rewritten, on the wire 10.20.0.1, completed"
        )
    });
    hold(
        &lab,
        &report,
        "captured_beside_two_machines",
        &claims.each_ref().map(String::as_str),
        &[(0, "joined-across-hosts"), (0, "double-rewrite")],
    )
}
