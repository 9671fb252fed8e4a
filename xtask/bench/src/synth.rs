//! Events as the kernel half writes them: masqueraded TCP connections of many pods, one started every 200 µs, each of
//! six told packets that are sighted at three interfaces.

use std::collections::BTreeMap;

use tracer_common::{
    RawConntrack, RawEvent, RawFingerprint, RawTuple, event_kind, family, ip_proto, matched,
    present, reason, tap,
};
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Inventory, Link, Namespace};

/// Between the starts of two connections.
pub(crate) const PACE_NS: u64 = 200_000;
/// Between two packets of one connection: a few others have theirs between.
const GAP_TURNS: u64 = 5;
/// Packets of a connection, and events of a packet.
const PACKETS: u64 = 6;
const SIGHTINGS: u64 = 3;

const PODS: u64 = 64;
const NODE: u32 = 1;
/// A pod's namespace is this plus its number; so is its veth's index on the node.
const POD: u32 = 100;
const ETH0: u32 = 2;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const FIN: u8 = 0x01;

/// Nothing is at time zero.
const START_NS: u64 = 1_000_000_000;

/// How many connections make at least so many events.
pub(crate) fn connections(events: u64) -> u64 {
    events.div_ceil(PACKETS * SIGHTINGS)
}

/// The node and its pods.
pub(crate) fn inventory() -> Inventory {
    let link = |name: &str, peer, addr: &str| Link {
        name: name.to_owned(),
        kind: "veth".to_owned(),
        peer,
        addrs: addr.parse().into_iter().collect(),
        mtu: 1500,
        up: true,
        ..Link::default()
    };
    let mut node = Namespace {
        name: Some("node".to_owned()),
        links: BTreeMap::from([(ETH0, link("eth0", None, "10.100.0.5/24"))]),
        ..Namespace::default()
    };
    let mut namespaces = BTreeMap::new();
    for pod in 0..u32::try_from(PODS).unwrap_or(0) {
        let (netns, addr) = (NetnsId(POD + pod), format!("10.12.{pod}.4/24"));
        let veth = link(&format!("veth{pod}"), Some((netns, ETH0)), "");
        node.links.insert(POD + pod, veth);
        let eth0 = link("eth0", Some((NetnsId(NODE), POD + pod)), &addr);
        let pod = Namespace {
            pod: Some(format!("shop/web-{pod}")),
            links: BTreeMap::from([(ETH0, eth0)]),
            ..Namespace::default()
        };
        namespaces.insert(netns, pod);
    }
    namespaces.insert(NetnsId(NODE), node);
    Inventory {
        host: "node-a".to_owned(),
        node: Some(NetnsId(NODE)),
        namespaces,
        ..Inventory::default()
    }
}

/// All events of one turn, in the order of their times: the first packet of connection `turn` and the later ones of
/// those that started before. Turns go on until the last connection has had its last packet.
pub(crate) fn turn(turn: u64, connections: u64) -> Vec<RawEvent> {
    let mut events = Vec::new();
    for packet in 0..PACKETS {
        let connection = turn.checked_sub(packet * GAP_TURNS);
        if let Some(connection) = connection.filter(|number| *number < connections) {
            let time_ns = START_NS + turn * PACE_NS + packet * 30_000;
            events.extend(sightings(connection, packet, time_ns));
        }
    }
    events
}

/// Whether an event is of a packet on the node's way out: a request that leaves (`true`), or a reply that comes.
pub(crate) fn leaves_by_uplink(raw: &RawEvent) -> Option<bool> {
    let uplink = raw.netns == NODE && raw.ifindex == ETH0;
    uplink.then_some(raw.tap == tap::TRANSMIT)
}

/// How many turns there are.
pub(crate) fn turns(connections: u64) -> u64 {
    connections + (PACKETS - 1) * GAP_TURNS
}

/// A connection's two tuples: as the pod sent it, and as it left the node.
fn tuples(connection: u64) -> (RawTuple, RawTuple) {
    let pod = (connection % PODS) as u8;
    let round = connection / PODS;
    let sport = (1024 + round % 60_000) as u16;
    let dport = (8000 + round / 60_000) as u16;
    // Ports are translated, too: no two connections share one on the node's single address.
    let (nat_port, nat_dst) = (
        (1024 + connection % 60_000) as u16,
        (connection / 60_000) as u8,
    );
    let dst = [10, 20, 30 + nat_dst, 40];
    let tuple = |src: [u8; 4], sport: u16| RawTuple {
        src: wide(src),
        dst: wide(dst),
        sport: sport.to_be_bytes(),
        dport: dport.to_be_bytes(),
        family: family::V4,
        proto: ip_proto::TCP,
        pad: [0; 2],
    };
    (
        tuple([10, 12, pod, 4], sport),
        tuple([10, 100, 0, 5], nat_port),
    )
}

fn wide(addr: [u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&addr);
    bytes
}

/// One packet of a connection.
struct Packet {
    connection: u64,
    number: u64,
    time_ns: u64,
    reply: bool,
}

/// Where a packet is sighted, and how long after it was sent, in nanoseconds.
struct Place {
    netns: u32,
    ifindex: u32,
    tap: u8,
    after_ns: u64,
    ttl: u8,
}

/// One packet where it is sighted: the pod's `eth0`, the node's end of its veth, the node's `eth0`; replies the other
/// way round.
fn sightings(connection: u64, number: u64, time_ns: u64) -> [RawEvent; 3] {
    let reply = number % 2 == 1;
    let packet = Packet {
        connection,
        number,
        time_ns,
        reply,
    };
    let pod = POD + (connection % PODS) as u32;
    let (inner, outer) = tuples(connection);
    let conntrack = Some(packet.conntrack(inner, outer));
    let (inner, outer) = if reply {
        (inner.reversed(), outer.reversed())
    } else {
        (inner, outer)
    };
    let place = |netns, ifindex, tap, after_ns, ttl| Place {
        netns,
        ifindex,
        tap,
        after_ns,
        ttl,
    };
    let node = |ifindex, tap, after_ns, ttl| place(NODE, ifindex, tap, after_ns, ttl);
    if reply {
        [
            packet.at(&node(ETH0, tap::RECEIVE, 0, 64), outer, None),
            packet.at(&node(pod, tap::TRANSMIT, 4000, 63), inner, conntrack),
            packet.at(&place(pod, ETH0, tap::RECEIVE, 5000, 63), inner, None),
        ]
    } else {
        [
            packet.at(&place(pod, ETH0, tap::TRANSMIT, 0, 64), inner, None),
            packet.at(&node(pod, tap::RECEIVE, 1000, 64), inner, None),
            packet.at(&node(ETH0, tap::TRANSMIT, 5000, 63), outer, conntrack),
        ]
    }
}

impl Packet {
    fn at(&self, place: &Place, tuple: RawTuple, conntrack: Option<RawConntrack>) -> RawEvent {
        let sent = 1 + self.number as u32 / 2;
        RawEvent {
            kind: event_kind::PACKET,
            tap: place.tap,
            reasons: reasons(self.number),
            matched: if self.reply {
                matched::LEARNED
            } else {
                matched::FORWARD
            },
            time_ns: self.time_ns + place.after_ns,
            skb: 0xffff_8880_0000_0000 + (self.connection * PACKETS + self.number) % 509 * 256,
            netns: place.netns,
            ifindex: place.ifindex,
            present: present_bits(conntrack.is_some(), place.netns != NODE && !self.reply),
            tuple,
            conntrack: conntrack.unwrap_or_default(),
            print: RawFingerprint {
                ttl: place.ttl,
                ..print(self.connection, self.number)
            },
            l3_len: 40 + payload(self.number),
            packets: sent.into(),
            bytes: (40 * sent + payload(self.number)).into(),
            ..RawEvent::default()
        }
    }

    /// The entry that it carries where it leaves the node.
    fn conntrack(&self, inner: RawTuple, outer: RawTuple) -> RawConntrack {
        // Source NAT, set up and confirmed; from the answer on also: seen reply, assured.
        let (status, info) = match (self.number, self.reply) {
            (0, _) => (0x198, 2),
            (_, true) => (0x19e, 3),
            (_, false) => (0x19e, 0),
        };
        RawConntrack {
            orig: inner,
            reply: outer.reversed(),
            status,
            info,
            zone_known: 1,
            mark_known: 1,
            ..RawConntrack::default()
        }
    }
}

fn present_bits(conntrack: bool, local: bool) -> u32 {
    let mut bits = present::NETNS | present::MARK | present::CONNTRACK_KNOWN | present::TCP;
    if conntrack {
        bits |= present::CONNTRACK;
    }
    if local {
        bits |= present::LOCAL;
    }
    bits
}

/// SYN, SYN-ACK, request, answer, FIN, FIN.
fn print(connection: u64, packet: u64) -> RawFingerprint {
    // Spread, so that no two connections look alike; even, so that no stranger does (`captured.rs`).
    let client = (connection as u32).wrapping_mul(2_654_435_761) << 1;
    let server = client ^ 0x5555_5555;
    let (seq, ack, tcp_flags) = match packet {
        0 => (client, 0, SYN),
        1 => (server, client.wrapping_add(1), SYN | ACK),
        2 => (client.wrapping_add(1), server.wrapping_add(1), PSH | ACK),
        3 => (server.wrapping_add(1), client.wrapping_add(201), PSH | ACK),
        4 => (
            client.wrapping_add(201),
            server.wrapping_add(1001),
            FIN | ACK,
        ),
        _ => (
            server.wrapping_add(1001),
            client.wrapping_add(202),
            FIN | ACK,
        ),
    };
    RawFingerprint {
        seq,
        ack,
        tcp_flags,
        payload_len: payload(packet),
        wire_packets: 1,
        ..RawFingerprint::default()
    }
}

fn payload(packet: u64) -> u32 {
    match packet {
        2 => 200,
        3 => 1000,
        _ => 0,
    }
}

fn reasons(packet: u64) -> u16 {
    match packet {
        0 | 1 => reason::FIRST | reason::FLAGS | reason::CONNTRACK,
        2 | 3 => reason::DATA,
        _ => reason::FLAGS,
    }
}
