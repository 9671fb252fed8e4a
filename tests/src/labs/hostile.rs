//! Hostile input on the wire and in names: nothing may panic, stall, mislead or reach a terminal raw.

use std::process::Command;

use anyhow::{Result, ensure};

use super::Case;
use super::steps::{MASQUERADED, answered, masquerade, masqueraded_pod, same, watch, watch_with};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Lab, Topology};
use crate::trace::digest::digest;
use crate::trace::{Names, Srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamServer, send_frames};

pub(super) const CASES: &[Case] = &[
    Case::new("hostile_packets", &[], hostile_packets),
    Case::new("hostile_names", &[], hostile_names),
];

const POD: [u8; 4] = [10, 12, 3, 4];
const DEST: [u8; 4] = [10, 20, 30, 40];
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// Between malformed frames of every kind goes one honest request, and it is reported as if it were alone.
fn hostile_packets() -> Result<()> {
    let lab = masqueraded_pod("hostile", RouteBack::Missing)?;
    let frames = malformed(mac(&lab, "node", "veth-pod")?);
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let args = ["--dest", PEER, "--dest", cast::PEER6];
    let report = watch(&lab, &args, 1, || {
        send_frames(&lab, "pod", "eth0", &frames)?;
        let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
        send_frames(&lab, "pod", "eth0", &frames)?;
        same(
            "what the far side saw",
            outcome,
            answered("10.100.0.5:43210")?,
        )
    })?;
    same("exit status", report.status, Some(0))?;
    same(
        "events lost",
        &report.summary()?["events"]["lost"],
        &0.into(),
    )?;
    let names = Names::of(&[(&lab, "")]);
    let flows = report.flows()?;
    let honest = flows
        .iter()
        .filter(|flow| flow["flow"]["sport"] == 43_210 && flow["flow"]["dport"] == 443);
    let claims: Vec<String> = honest.map(|flow| digest(flow, &names)).collect();
    let should: Vec<&str> = MASQUERADED.trim().lines().map(str::trim).collect();
    same("the honest flow", claims, vec![should.join("\n")])
}

/// The hardware address of an interface.
fn mac(lab: &Lab, ns: &str, ifname: &str) -> Result<[u8; 6]> {
    let shown = lab.run(ns, &format!("ip -o link show dev {ifname}"))?;
    let text = shown
        .split_whitespace()
        .skip_while(|word| *word != "link/ether")
        .nth(1)
        .unwrap_or_default();
    let bytes: Vec<u8> = text
        .split(':')
        .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    ensure!(bytes.len() == 6, "no hardware address in: {shown}");
    let mut mac = [0; 6];
    mac.copy_from_slice(&bytes);
    Ok(mac)
}

/// Frames to the node, each wrong in its own way.
fn malformed(to: [u8; 6]) -> Vec<Vec<u8>> {
    let frame = |kind: u16, payload: &[u8]| {
        let mut bytes = to.to_vec();
        bytes.extend([2, 0, 0, 0, 0, 1]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    let mut frames = Vec::new();
    for payload in four() {
        frames.push(frame(0x0800, &payload));
        // Every cut of it, and behind a tag, and as what it is not.
        frames.extend((0..payload.len().min(60)).map(|cut| frame(0x0800, &payload[..cut])));
        frames.push(frame(0x86dd, &payload));
        let tags = [0x81, 0x00, 0, 5].repeat(7);
        frames.push(frame(
            0x8100,
            &[&[0, 5], &tags[..], &[8, 0], &payload[..]].concat(),
        ));
    }
    for payload in six() {
        frames.push(frame(0x86dd, &payload));
        frames.extend((0..payload.len().min(80)).map(|cut| frame(0x86dd, &payload[..cut])));
    }
    frames.push(frame(0x8100, &[0]));
    frames
}

/// An IPv4 packet of the pod's with these first byte, total length (`None`: the true one), fragment field and payload.
fn ipv4(first: u8, length: Option<u16>, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = length.unwrap_or(20 + payload.len() as u16);
    let mut bytes = vec![first, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0x12, 0x34]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    bytes.extend(POD);
    bytes.extend(DEST);
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A TCP header from port 7777 with that data offset and flags.
fn tcp(offset: u8, flags: u8) -> Vec<u8> {
    let mut bytes = vec![0x1e, 0x61, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2];
    bytes.extend([offset << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes
}

fn four() -> Vec<Vec<u8>> {
    let syn = tcp(5, 2);
    let udp = |length: u16| {
        [
            &[0x1e, 0x62, 0, 53],
            &length.to_be_bytes()[..],
            &[0, 0, 1, 2, 3, 4],
        ]
        .concat()
    };
    let quote = |quoted: &[u8]| [&[3, 1, 0, 0, 0, 0, 0, 0], quoted].concat();
    let inner = ipv4(0x45, None, 0, TCP, &syn);
    let nested = ipv4(0x45, None, 0, ICMP, &quote(&inner));
    vec![
        ipv4(0x45, Some(0), 0, TCP, &syn),
        ipv4(0x45, Some(19), 0, TCP, &syn),
        ipv4(0x45, Some(65_535), 0, TCP, &syn),
        ipv4(0x40, None, 0, TCP, &syn),
        ipv4(0x44, None, 0, TCP, &syn),
        ipv4(0x4f, None, 0, TCP, &syn),
        ipv4(0x65, None, 0, TCP, &syn),
        ipv4(0x05, None, 0, TCP, &syn),
        ipv4(0x45, None, 0, TCP, &tcp(0, 2)),
        ipv4(0x45, None, 0, TCP, &tcp(15, 2)),
        ipv4(0x45, None, 0, TCP, &tcp(5, 0xff)),
        ipv4(0x45, None, 0, TCP, &tcp(5, 0)),
        ipv4(0x45, None, 0x2000, TCP, &syn[..8]),
        ipv4(0x45, None, 0x1fff, TCP, &syn),
        ipv4(0x45, None, 0, UDP, &udp(0)),
        ipv4(0x45, None, 0, UDP, &udp(65_535)),
        ipv4(0x45, None, 0, ICMP, &quote(&[])),
        ipv4(0x45, None, 0, ICMP, &quote(&inner[..20])),
        ipv4(0x45, None, 0, ICMP, &quote(&nested)),
        ipv4(0x45, None, 0, 4, &inner),
        ipv4(0x45, None, 0, 47, &[0xff; 12]),
        ipv4(0x45, None, 0, 132, &[0; 3]),
        ipv4(0x45, None, 0, 255, &[]),
    ]
}

/// An IPv6 packet of the pod's with that first next-header and payload length.
fn ipv6(next: u8, length: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(length.unwrap_or(payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend([0xfd, 0x12, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
    bytes.extend([0xfd, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20]);
    bytes.extend(payload);
    bytes
}

fn six() -> Vec<Vec<u8>> {
    let syn = tcp(5, 2);
    // Destination options that lead to each other, a hundred times, and then to TCP.
    let mut chain: Vec<u8> = [60, 0, 1, 4, 0, 0, 0, 0].repeat(100);
    chain.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    chain.extend(&syn);
    let fragments = [44, 0, 0, 1, 0, 0, 0, 9].repeat(20);
    vec![
        ipv6(60, None, &chain),
        ipv6(44, None, &[&fragments[..], &syn[..]].concat()),
        ipv6(0, None, &[6, 255, 0, 0, 0, 0, 0, 0]),
        ipv6(43, None, &[&[6, 0, 0, 255, 0, 0, 0, 0], &syn[..]].concat()),
        ipv6(51, None, &[&[6, 255, 0, 0, 0, 0, 0, 1], &syn[..]].concat()),
        ipv6(6, Some(0), &syn),
        ipv6(6, Some(65_535), &syn),
        ipv6(59, None, &syn),
        ipv6(58, None, &[1, 0, 0, 0, 0, 0, 0, 0]),
        ipv6(255, None, &[]),
    ]
}

/// An interface's name may hold anything but a slash and blanks. None of it reaches a terminal raw, and the JSON stays JSON.
fn hostile_names() -> Result<()> {
    let evil = "\u{1b}[31m\"\\\u{7}";
    let mut net = Topology::new("names");
    net.forward("node")
        .veth(("pod", "eth0"), ("node", "veth-pod"))
        .veth(("peer", "eth0"), ("node", "eth0"))
        .addr("pod", "eth0", "10.12.3.4/24")
        .addr("peer", "eth0", "10.100.0.1/24")
        .addr("peer", "lo", "10.20.30.40/32")
        .addr("node", "eth0", "10.100.0.5/24")
        .route("pod", "default via 10.12.3.1")
        .route("node", "default via 10.100.0.1")
        .addr("node", "veth-pod", "10.12.3.1/24");
    let lab = net.up()?;
    masquerade(&lab, &[])?;
    lab.in_ns("node", || rename("veth-pod", evil))??;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let request = |sport: u16| {
        let outcome = StreamCall::new("pod", "10.20.30.40:443", sport).run(&lab)?;
        ensure!(outcome.seen().is_some(), "not answered: {outcome:?}");
        Ok(())
    };
    let report = watch(&lab, &["--dest", PEER], 1, || request(43_210))?;
    let flow = report.only_flow()?;
    let hops = flow["hops"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let named = hops.iter().any(|hop| hop["ifname"].as_str() == Some(evil));
    ensure!(named, "the interface is not named in JSON: {hops:?}");
    let text = watch_with(&Srctrace::new(&lab, &["--dest", PEER]).text(), 1, || {
        request(43_211)
    })?;
    let all = format!("{}{}", text.lines.join("\n"), text.stderr);
    ensure!(all.contains("[31m"), "the interface is not named: {all}");
    let raw: Vec<char> = all
        .chars()
        .filter(|char| char.is_control() && *char != '\n')
        .collect();
    ensure!(
        raw.is_empty(),
        "control characters reach the terminal: {raw:?} in {all:?}"
    );
    Ok(())
}

/// Gives an interface of the calling thread's namespace a name that no line of `ip -batch` could hold. It goes down for that,
/// as older kernels want it.
fn rename(from: &str, to: &str) -> Result<()> {
    let steps: [&[&str]; 3] = [&[from, "down"], &[from, "name", to], &[to, "up"]];
    for step in steps {
        let done = Command::new("ip")
            .args(["link", "set", "dev"])
            .args(step)
            .output()?;
        ensure!(
            done.status.success(),
            "ip {step:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(())
}
