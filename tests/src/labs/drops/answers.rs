//! Replies, and the end of a connection, that netfilter dropped: by which rule.

use anyhow::Result;

use super::super::steps::{A_MOMENT, hold, masquerade, reset_without_entry, same, watch};
use super::{Case, DROPPED};
use crate::lab::cast::{self, PEER, PEER6, RouteBack};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(in super::super) const CASES: &[Case] = &[
    Case::new("b2_reply_dropped_ipv6", &["B2"], reply_dropped_ipv6),
    Case::new("b2_translated_reply_dropped", &["B2"], translated_reply),
    Case::new("b2_dropped_as_invalid", &["B2", "B7"], invalid),
];

/// The table drops answers of servers on this port, and is a decoy for another.
fn reply_dropped_ipv6() -> Result<()> {
    let lab = cast::one_pod("b2six", RouteBack::Known).up()?;
    lab.nft(
        "node",
        "table inet t { chain c { type filter hook forward priority 0
            ip6 saddr fd50::20 tcp sport 444 drop
            ip6 saddr fd50::20 tcp sport 443 drop
        }; }",
    )?;
    let _peer = StreamServer::start(&lab, "peer", "[fd50::20]:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER6], 0, || {
        let call = StreamCall::new("pod", "[fd50::20]:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "tcp [fd12:3::4]:43210 > [fd50::20]:443 from pod pod
        dropped: NETFILTER_DROP
        policy-drop: nft t/c handle 3
        source-preserved, on the wire fd12:3::4, reply-lost";
    hold(
        &lab,
        &report,
        "b2_reply_dropped_ipv6",
        &[claims],
        &[(0, "policy-drop")],
    )
}

/// The rule asks for the pod's address, which the reply has only after its translation was taken back.
fn translated_reply() -> Result<()> {
    let lab = cast::one_pod("b2nat", RouteBack::Missing).up()?;
    masquerade(&lab, &[])?;
    lab.restore(
        "node",
        "iptables-legacy-restore",
        "*filter\n-A FORWARD -m conntrack --ctstate NEW -j ACCEPT\n-A FORWARD -d 10.100.0.5/32 -j DROP\n\
         -A FORWARD -d 10.12.0.0/16 -m conntrack --ctstate RELATED,ESTABLISHED -j DROP\nCOMMIT\n",
    )?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 0, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = format!(
        "{DROPPED}
         request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/IP-MASQ 1
         dropped: NETFILTER_DROP
         policy-drop: iptables-legacy filter/FORWARD 3
         source-rewritten, on the wire 10.100.0.5, reply-lost"
    );
    hold(
        &lab,
        &report,
        "b2_translated_reply_dropped",
        &[&claims],
        &[(0, "policy-drop")],
    )
}

/// Conntrack forgot the connection before its client resets it, and a rule drops what it does not know.
fn invalid() -> Result<()> {
    let lab = cast::one_pod("b2inv", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    lab.iptables_legacy("node", "-A FORWARD -m conntrack --ctstate INVALID -j DROP")?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || reset_without_entry(&lab))?;
    let claims = format!(
        "{DROPPED}
         request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/IP-MASQ 1
         dropped: NETFILTER_DROP
         policy-drop: iptables-legacy filter/FORWARD 1
         source-rewritten, on the wire 10.100.0.5, completed"
    );
    hold(
        &lab,
        &report,
        "b2_dropped_as_invalid",
        &[&claims],
        &[(0, "policy-drop")],
    )
}
