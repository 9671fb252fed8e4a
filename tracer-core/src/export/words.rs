//! What is said of a packet: its hop, its direction, and what rewrote it on its way there.

use crate::attribute::role_word;
use crate::event::{Dir, Event, Fragment};
use crate::report::{AddrPort, Flow, Rewrite, RewriteDirection, RewriteField};
use crate::verdict::agent_words;
use std::net::SocketAddr;

/// One packet, as a capture file's comment says it. `n`: its hop's number; a reply has that of the
/// request there, if it was there.
pub(super) fn comment(
    flow: &Flow,
    direction: RewriteDirection,
    n: Option<u32>,
    event: &Event,
) -> String {
    let what = match (direction, event.quoted.is_some()) {
        (_, true) => "ICMP error",
        (RewriteDirection::Request, _) => "request",
        (RewriteDirection::Reply, _) => "reply",
    };
    let mut parts = vec![match (n, direction) {
        (Some(n), RewriteDirection::Request) => format!("{what}, hop {n} of {}", flow.hops.len()),
        (Some(n), RewriteDirection::Reply) => format!("{what}, at the device of hop {n}"),
        (None, _) => format!("{what}, by a device that no request of it crossed"),
    }];
    let rewrites = flow.rewrites.iter().filter(|r| r.direction == direction);
    for rewrite in rewrites.filter(|r| n.is_some() && r.between[1] == n) {
        parts.push(format!("{} just before", rewritten(flow, rewrite)));
    }
    let rewrites = flow.rewrites.iter().filter(|r| r.direction == direction);
    let delivered = |r: &&Rewrite| n.is_some() && r.between[1].is_none() && r.between[0] == n;
    for rewrite in rewrites.filter(delivered) {
        parts.push(format!("{} right after", rewritten(flow, rewrite)));
    }
    parts.extend(about(event));
    parts.push(format!("flow {}", flow.id));
    parts.join("; ")
}

fn rewritten(flow: &Flow, rewrite: &Rewrite) -> String {
    let field = match rewrite.field {
        RewriteField::Src => "source",
        RewriteField::Dst => "destination",
        RewriteField::Sport => "source port",
        RewriteField::Dport => "destination port",
    };
    let end = |end: &AddrPort| match end.port {
        // The way back of an echo has no identifier on that side.
        0 if flow.flow.proto.0.is_icmp() => end.addr.to_string(),
        port => SocketAddr::new(end.addr, port).to_string(),
    };
    format!(
        "{field} rewritten from {} to {} {}{}",
        end(&rewrite.from),
        end(&rewrite.to),
        role_word(rewrite.place),
        agent_words(rewrite)
    )
}

/// What its bytes do not show.
fn about(event: &Event) -> Vec<String> {
    let mut parts = Vec::new();
    if event.reasons.is_retransmission() {
        parts.push("sent again".to_owned());
    }
    if event.print.wire_packets > 1 {
        let packets = event.print.wire_packets;
        parts.push(format!(
            "one buffer that becomes {packets} packets on the wire"
        ));
    }
    if let Some(vlan) = event.vlan {
        parts.push(format!("VLAN {vlan}"));
    }
    if let Some(mark) = event.mark.filter(|mark| *mark != 0) {
        parts.push(format!("mark {mark:#x}"));
    }
    if let Some(quoted) = &event.quoted {
        let (from, to) = (quoted.source(), quoted.destination());
        parts.push(format!("quotes {} {from} > {to}", quoted.proto));
    }
    if event.print.fragment != Fragment::Whole {
        parts.push("a fragment".to_owned());
    }
    parts
}

/// Which way a packet crossed its device, as `pcapng` numbers it: 1 in, 2 out.
#[must_use]
pub fn direction_bits(dir: Dir) -> u32 {
    match dir {
        Dir::Ingress => 1,
        Dir::Egress => 2,
    }
}
