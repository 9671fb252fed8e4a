//! What kind of death it was: by the kernel's reason where it gives a telling one, else by the
//! function that freed the packet.

use super::Scene;
use crate::attribute::original;
use crate::inventory::{Refusal, RouteAnswer};
use crate::journey::Direction;

/// Where a program sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Traffic control at a device's ingress.
    TcIngress,
    /// Traffic control at a device's egress.
    TcEgress,
    /// XDP, at a device.
    Xdp,
    /// Between the two ends of a netkit pair.
    Netkit,
    /// A cgroup.
    Cgroup,
    /// A socket.
    Socket,
}

/// Kinds of death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Forwarding is off, there or for that device.
    ForwardingOff,
    /// The reverse-path check.
    ReversePath,
    /// No route, or one that refuses.
    Route,
    /// It came from outside with an address of this very namespace as its source.
    OwnSource,
    /// Its source or destination may not be on a wire.
    Martian,
    /// netfilter: a rule, a policy, or conntrack.
    Netfilter,
    /// The next hop's link-layer address is not known.
    Neighbour,
    /// TTL or hop limit is used up.
    HopLimit,
    /// Larger than the next device takes, and not to be cut.
    TooBig,
    /// A BPF program or a traffic-control filter.
    Program(Hook),
    /// No socket there wants it.
    NoListener,
    /// The socket that wants it is full.
    SocketFull,
    /// A queue of the device or the processor is full.
    QueueFull,
    /// The frame was for another host.
    OtherHost,
    /// Damaged, or not well-formed.
    Malformed,
    /// IPsec's policy.
    Ipsec,
    /// The transport protocol at the end of the way had no use for it (any more).
    Endpoint,
    /// A copy for someone who captures packets, or a queue that is emptied: no loss at all.
    Copy,
    /// None of those.
    Other,
}

impl Cause {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let reason = scene.loss.first.reason.as_deref();
        let location = scene.loss.first.location.as_deref().unwrap_or_default();
        if let Some(cause) = copy(location) {
            return cause;
        }
        reason
            .and_then(|reason| by_reason(reason, location))
            .unwrap_or_else(|| by_location(location, scene))
    }
}

/// Functions that free what was only a copy.
fn copy(location: &str) -> Option<Cause> {
    let begins = |with: &[&str]| with.iter().any(|prefix| location.starts_with(prefix));
    begins(&[
        "packet_rcv",
        "tpacket_rcv",
        "ping_",
        "raw_",
        "rawv6_",
        "skb_queue_purge",
        "__skb_queue_purge",
    ])
    .then_some(Cause::Copy)
}

fn by_reason(reason: &str, location: &str) -> Option<Cause> {
    Some(match reason {
        "IP_INADDRERRORS" => Cause::ForwardingOff,
        "IP_RPFILTER" => Cause::ReversePath,
        "IP_INNOROUTES" | "IP_OUTNOROUTES" => Cause::Route,
        "IP_LOCAL_SOURCE" => Cause::OwnSource,
        "IP_LOCALNET" | "IP_INVALID_SOURCE" | "IP_INVALID_DEST" | "UNICAST_IN_L2_MULTICAST" => {
            Cause::Martian
        }
        "NETFILTER_DROP" => Cause::Netfilter,
        "NEIGH_CREATEFAIL" | "NEIGH_FAILED" | "NEIGH_QUEUEFULL" | "NEIGH_DEAD"
        | "NEIGH_HH_FILLFAIL" => Cause::Neighbour,
        "PKT_TOO_BIG" => Cause::TooBig,
        "TC_INGRESS" => Cause::Program(Hook::TcIngress),
        "TC_EGRESS" => Cause::Program(Hook::TcEgress),
        "XDP" => Cause::Program(Hook::Xdp),
        "BPF_CGROUP_EGRESS" => Cause::Program(Hook::Cgroup),
        "SOCKET_FILTER" => Cause::Program(Hook::Socket),
        "NO_SOCKET" => Cause::NoListener,
        "SOCKET_RCVBUFF" | "SOCKET_BACKLOG" | "PROTO_MEM" | "TCP_LISTEN_OVERFLOW" => {
            Cause::SocketFull
        }
        "QDISC_DROP" | "QDISC_OVERLIMIT" | "QDISC_CONGESTED" | "CPU_BACKLOG" | "FULL_RING"
        | "FQ_BAND_LIMIT" | "FQ_HORIZON_LIMIT" | "FQ_FLOW_LIMIT" | "CAKE_FLOOD" => Cause::QueueFull,
        "OTHERHOST" => Cause::OtherHost,
        "XFRM_POLICY" => Cause::Ipsec,
        "IP_INHDR" if is_forward(location) => Cause::HopLimit,
        "IP_INHDR" | "PKT_TOO_SMALL" | "HDR_TRUNC" | "IPV6_BAD_EXTHDR" => Cause::Malformed,
        _ if reason.ends_with("_CSUM") => Cause::Malformed,
        _ if reason.starts_with("TCP_") => Cause::Endpoint,
        _ => return None, // not specified, or a reason that says no more than the place does
    })
}

fn is_forward(location: &str) -> bool {
    matches!(location, "ip_forward" | "ip6_forward")
}

fn by_location(location: &str, scene: &Scene<'_>) -> Cause {
    let begins = |with: &[&str]| with.iter().any(|prefix| location.starts_with(prefix));
    match location {
        "ip_error" if scene.forwarding_is_off() => Cause::ForwardingOff,
        "ip_error"
        | "ip6_pkt_drop"
        | "ip6_pkt_discard"
        | "ip6_pkt_prohibit"
        | "ip6_pkt_discard_out"
        | "dst_discard_out"
        | "dst_discard" => Cause::Route,
        "ip_forward" | "ip6_forward" => forwarding(scene),
        "nf_hook_slow" | "nft_do_chain" | "ipt_do_table" | "ip6t_do_table" => Cause::Netfilter,
        "__netif_receive_skb_core" | "sch_handle_ingress" => Cause::Program(Hook::TcIngress),
        "sch_handle_egress" => Cause::Program(Hook::TcEgress),
        "__dev_queue_xmit" if scene.has_egress_programs() => Cause::Program(Hook::TcEgress),
        "__dev_queue_xmit" | "enqueue_to_backlog" => Cause::QueueFull,
        "netkit_xmit" => Cause::Program(Hook::Netkit),
        "ip_finish_output" | "ip6_finish_output" => Cause::Program(Hook::Cgroup),
        // A verdict that hands packets to user space, where nobody listens.
        "nf_queue" | "nf_reinject" => Cause::Netfilter,
        "sk_filter_trim_cap" => Cause::Program(Hook::Socket),
        "tcp_v4_rcv" | "tcp_v6_rcv" | "__udp4_lib_rcv" | "__udp6_lib_rcv"
            if refused(scene) || unasked(scene) =>
        {
            Cause::NoListener
        }
        "tcp_v4_rcv" | "tcp_v6_rcv" | "udp_queue_rcv_one_skb" | "udpv6_queue_rcv_one_skb"
            if scene.has_cgroup_ingress_programs() =>
        {
            Cause::Program(Hook::Socket)
        }
        _ if begins(&["ip_rcv_finish", "ip_route_input"]) => entering(scene),
        _ if begins(&[
            "neigh_",
            "__neigh_",
            "arp_",
            "ndisc_",
            "ip_finish_output2",
            "ip6_finish_output2",
        ]) =>
        {
            Cause::Neighbour
        }
        _ if begins(&["do_xdp", "veth_xdp", "netif_receive_generic_xdp"]) => {
            Cause::Program(Hook::Xdp)
        }
        _ if begins(&["ip_rcv", "ip6_rcv", "ipv6_rcv"]) => Cause::Malformed,
        _ if begins(&["xfrm", "__xfrm", "esp"]) => Cause::Ipsec,
        _ if begins(&[
            "tcp_", "udp", "__udp", "icmp", "sctp_", "__sctp", "sk_", "sock_", "inet_", "mptcp_",
        ]) =>
        {
            Cause::Endpoint
        }
        _ => Cause::Other,
    }
}

/// On its way through.
fn forwarding(scene: &Scene<'_>) -> Cause {
    if scene.loss.first.print.ttl <= 1 {
        Cause::HopLimit
    } else if scene.is_too_big() {
        Cause::TooBig
    } else if scene.forwarding_is_off() {
        Cause::ForwardingOff
    } else {
        Cause::Other
    }
}

/// On its way in, where the kernel looks whether it may come from there.
fn entering(scene: &Scene<'_>) -> Cause {
    let src = scene.loss.first.tuple.src;
    if scene.owns(src) {
        Cause::OwnSource
    } else if src.is_loopback() || src.is_multicast() || src.is_unspecified() {
        Cause::Martian
    } else if scene.way() == Some(RouteAnswer::Refused(Refusal::ReversePath))
        || scene.rp_filter().is_some_and(|value| value > 0)
    {
        Cause::ReversePath
    } else {
        Cause::Martian
    }
}

/// The far side said that nobody listens: by a reset or an ICMP error.
fn refused(scene: &Scene<'_>) -> bool {
    let exchange = &scene.journey.exchange;
    let reset = exchange
        .reset
        .is_some_and(|(dir, _)| dir == Direction::Reply);
    scene.loss.direction == Direction::Request
        && exchange.syn_ack.is_none()
        && (reset || scene.journey.answer.is_some())
}

/// A reply that does not come from where the request was sent, or that ends where the request only passed.
fn unasked(scene: &Scene<'_>) -> bool {
    let elsewhere = || scene.tuple().source() != original(scene.journey).destination();
    scene.loss.direction == Direction::Reply && (elsewhere() || scene.request_came_in())
}
