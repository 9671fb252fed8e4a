//! With the far side's capture, "no reply" has a place.

use anyhow::Result;

use super::super::merged::machines;
use super::super::steps::{A_MOMENT, answered, hold, same};
use super::{MARKED, node_trace};
use crate::lab::Lab;
use crate::trace::{Files, merge};
use crate::traffic::{Behaviour, Outcome, Sniffer, StreamCall, StreamServer};

/// With the far side's capture, "no reply" has a place: but only as far as the capture shows it.
pub(super) fn where_it_was_lost() -> Result<()> {
    let lab = machines("capturedlost")?;
    let files = Files::new(&lab)?;
    let servers = [443, 444, 445, 446].map(|port| {
        let addr = format!("10.20.30.40:{port}");
        StreamServer::start(&lab, "peer", &addr, Behaviour::Answer)
    });
    lab.nft(
        "peer",
        "table ip own { chain in { type filter hook input priority 0; tcp dport 446 drop; }; }",
    )?;
    let marks = "or udp port 9";
    let kinds = [
        ("all", "-i any -y LINUX_SLL2".to_owned()),
        ("some", format!("-i eth0 tcp port 443 {marks}")),
        ("other", format!("-i eth0 icmp {marks}")),
    ];
    let mut sniffers = Vec::new();
    for (name, args) in &kinds {
        let file = files.path(&format!("{name}.pcap"));
        sniffers.push(Sniffer::tcpdump(&lab, "peer", args, (&file, MARKED))?);
    }
    calls(&lab, &files)?;
    drop(servers);
    for sniffer in sniffers {
        sniffer.stop()?;
    }
    let recording = files.path("node-a.srct");
    let merged = |name: &str, claims: &[String; 4], findings: &[(usize, &str)]| -> Result<()> {
        let report = merge(&[&recording, &files.path(&format!("{name}.pcap"))])?;
        let claims = claims.each_ref().map(String::as_str);
        let name = format!("captured_lost_{name}");
        hold(&lab, &report, &name, &claims, findings)
    };
    merged(
        "all",
        &lost_claims([Seen::Answered, Seen::No, Seen::Lost, Seen::Silent]),
        &[
            (1, "not-seen-at-peer"),
            (2, "lost-on-the-way-back"),
            (3, "seen-not-answered"),
        ],
    )?;
    merged(
        "some",
        &lost_claims([Seen::Answered, Seen::No, Seen::No, Seen::No]),
        &[(1, "not-seen-at-peer"), (2, "not-seen-at-peer")],
    )?;
    merged(
        "other",
        &lost_claims([Seen::Unknown, Seen::No, Seen::No, Seen::No]),
        &[(1, "capture-inconclusive"), (2, "capture-inconclusive")],
    )
}

/// An answered call, one that gets lost on its way, one whose answer does, and one that the far side drops; all traced.
fn calls(lab: &Lab, files: &Files) -> Result<()> {
    let near = node_trace(lab, files)?;
    let call = |port: u16| {
        StreamCall::new("pod", &format!("10.20.30.40:{port}"), 43_000 + port).patience(A_MOMENT)
    };
    same(
        "the answered one",
        call(443).run(lab)?,
        answered("10.20.0.1:43443")?,
    )?;
    for port in [444, 445, 446] {
        let outcome = call(port).run(lab)?;
        same("the unanswered one", outcome, Outcome::Silence)?;
    }
    // The far side can be reached there, by others.
    let outcome = StreamCall::new("peerway", "10.20.30.40:444", 45_000).run(lab)?;
    same("from nearby", outcome, answered("10.20.0.1:45000")?)?;
    near.wait_flows(4)?;
    near.stop()?;
    Ok(())
}

/// What a capture shows of a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Answered,
    /// It was answered, and the capture does not show it.
    Unknown,
    No,
    Lost,
    Silent,
}

fn lost_claims(seen: [Seen; 4]) -> [String; 4] {
    let ports = [443, 444, 445, 446];
    std::array::from_fn(|at| {
        let (port, seen) = (ports[at], seen[at]);
        let joined = matches!(seen, Seen::Answered | Seen::Lost | Seen::Silent);
        let back = match seen {
            Seen::Answered | Seen::Unknown => ", and back",
            _ => "",
        };
        let twice = match joined {
            true => format!(
                "\nrequest src 10.100.0.5:43{port} > 10.20.0.1:43{port} at downstream, null, unknown, by between{back}"
            ),
            false => String::new(),
        };
        let to = if joined { "10.20.0.1" } else { "10.100.0.5" };
        let end = match seen {
            Seen::Answered | Seen::Unknown => "completed",
            Seen::Lost => "reply-lost",
            Seen::No | Seen::Silent => "no-reply",
        };
        format!(
            "tcp 10.12.3.4:43{port} > 10.20.30.40:{port} from pod pod
             request src 10.12.3.4:43{port} > 10.100.0.5:43{port} at node, postrouting, netfilter, by conntrack{back}
             rule iptables-legacy nat/IP-MASQ 1{twice}
             source-rewritten, on the wire {to}, {end}"
        )
    })
}
