//! Synthetic traffic for benchmarks: masqueraded TCP connections from many pods, each with all its
//! sightings, as the kernel half would tell them.

use crate::event::NetnsId;
use crate::inventory::{Inventory, Link, Namespace, Route};
use std::net::Ipv4Addr;
use tracer_common::{
    RawConntrack, RawEvent, RawFingerprint, RawTuple, event_kind, family, ip_proto, matched,
    present, reason, tap,
};

/// Pods on the node.
const PODS: u32 = 110;
/// Inode number of the node's namespace; the pods' follow.
const NODE: u32 = 1;
/// The node's device to the outside; those to the pods follow.
const UPLINK: u32 = 2;
/// Time between two connections: 5,000 a second.
const INTERVAL_NS: u64 = 200_000;
/// When the first one begins.
const START_NS: u64 = 1_000_000_000;

const NODE_ADDR: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 5);
const PEER_ADDR: Ipv4Addr = Ipv4Addr::new(10, 20, 30, 40);

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

/// How many events one connection has.
pub const EVENTS_PER_FLOW: usize = STEPS.len() * 3;

/// One packet: see [`STEPS`].
type Step = (u64, bool, u8, u32, u32, u32);

/// The packets of a connection: microseconds from its start, from the origin, flags, sequence and
/// acknowledgement numbers, payload.
const STEPS: [Step; 6] = [
    (0, true, SYN, 0, 0, 0),
    (400, false, SYN | ACK, 0, 1, 0),
    (500, true, ACK, 1, 1, 200),
    (900, false, ACK, 1, 201, 5000),
    (1000, true, FIN | ACK, 201, 5001, 0),
    (1400, false, FIN | ACK, 5001, 202, 0),
];

/// The host on which the traffic is seen.
#[must_use]
pub fn inventory() -> Inventory {
    let mut inventory = Inventory {
        host: "node-a".into(),
        node: Some(NetnsId(NODE)),
        ..Inventory::default()
    };
    let mut node = namespace("node", &[(UPLINK, "eth0", None)]);
    for pod in 0..PODS {
        let netns = NetnsId(NODE + 1 + pod);
        let device = UPLINK + 1 + pod;
        let mut namespace = namespace(
            &format!("pod{pod}"),
            &[(2, "eth0", Some((NetnsId(NODE), device)))],
        );
        namespace.pod = Some(format!("bench/pod-{pod}"));
        namespace.routes.push(Route {
            to: ipnet::IpNet::from(ipnet::Ipv4Net::default()),
            via: None,
            ifindex: 2,
        });
        inventory.namespaces.insert(netns, namespace);
        node.links
            .insert(device, link(&format!("veth{pod}"), Some((netns, 2))));
    }
    inventory.namespaces.insert(NetnsId(NODE), node);
    inventory
}

/// Number, name and other end of a device.
type Device<'a> = (u32, &'a str, Option<(NetnsId, u32)>);

fn namespace(name: &str, links: &[Device<'_>]) -> Namespace {
    Namespace {
        name: Some(name.into()),
        links: links
            .iter()
            .map(|(index, name, peer)| (*index, link(name, *peer)))
            .collect(),
        ..Namespace::default()
    }
}

fn link(name: &str, peer: Option<(NetnsId, u32)>) -> Link {
    Link {
        name: name.into(),
        kind: if peer.is_some() { "veth" } else { "" }.into(),
        peer,
        mtu: 1500,
        up: true,
        ..Link::default()
    }
}

/// The events of `flows` connections, in the order of time.
#[must_use]
pub fn events(flows: u32) -> Vec<RawEvent> {
    let mut events: Vec<RawEvent> = (0..flows).flat_map(flow).collect();
    events.sort_by_cached_key(|e| e.time_ns);
    events
}

/// CLOCK_MONOTONIC time after the last event of `flows` connections.
#[must_use]
pub fn end_ns(flows: u32) -> u64 {
    START_NS + u64::from(flows) * INTERVAL_NS + 10_000_000
}

fn flow(number: u32) -> Vec<RawEvent> {
    let connection = Connection::new(number);
    let mut counters = [(0, 0); 2];
    let mut events = Vec::with_capacity(EVENTS_PER_FLOW);
    for step in STEPS {
        connection.packet(step, &mut counters, &mut events);
    }
    events
}

struct Connection {
    number: u32,
    /// The request as the pod sends it, and as it leaves.
    before: RawTuple,
    after: RawTuple,
}

impl Connection {
    fn new(number: u32) -> Self {
        let pod = number % PODS;
        let [high, low] = (1 + pod as u16).to_be_bytes();
        let turn = number / PODS;
        // Unique as long as there are fewer than 2^32 / PODS connections.
        let port = (turn as u16).to_be_bytes();
        let [third, fourth] = ((turn >> 16) as u16).to_be_bytes();
        let mut before = tuple(
            Ipv4Addr::new(10, 12 + third, high.wrapping_add(fourth), low),
            PEER_ADDR,
        );
        before.sport = port;
        before.dport = 443u16.to_be_bytes();
        let outside = (number as u16).to_be_bytes();
        let [_, bank] = ((number >> 16) as u16).to_be_bytes();
        let [a, b, c, d] = NODE_ADDR.octets();
        let mut after = tuple(Ipv4Addr::new(a, b, c.wrapping_add(bank), d), PEER_ADDR);
        after.sport = outside;
        after.dport = before.dport;
        Self {
            number,
            before,
            after,
        }
    }

    /// One packet at its three points.
    fn packet(&self, step: Step, counters: &mut [(u64, u64); 2], events: &mut Vec<RawEvent>) {
        let (us, request, ..) = step;
        let len = step.5;
        let counter = &mut counters[usize::from(!request)];
        counter.0 += 1;
        counter.1 += u64::from(len) + 40;
        let start = START_NS + u64::from(self.number) * INTERVAL_NS + us * 1000;
        for (i, ((netns, ifindex), tap, tuple)) in (0u64..).zip(self.points(request)) {
            let mut event = RawEvent {
                kind: event_kind::PACKET,
                tap,
                reasons: if counter.0 == 1 {
                    reason::FIRST
                } else {
                    reason::DATA
                },
                matched: if request {
                    matched::FORWARD
                } else {
                    matched::REVERSE
                },
                time_ns: start + i * 5000,
                // A few thousand buffers take turns, as in a kernel.
                skb: 0xffff_8880_0000_0000 + (start / 1000 % 4096) * 256,
                netns,
                ifindex,
                present: present::NETNS | present::CONNTRACK_KNOWN | present::TCP,
                tuple,
                print: self.print(step),
                l3_len: len + 40,
                packets: counter.0,
                bytes: counter.1,
                ..RawEvent::default()
            };
            self.complete(&mut event, request);
            events.push(event);
        }
    }

    /// Namespace, device, tap and tuple in the order in which a packet meets them.
    fn points(&self, request: bool) -> [((u32, u32), u8, RawTuple); 3] {
        let pod = self.number % PODS;
        let pod_side = (NODE + 1 + pod, 2);
        let node_side = (NODE, UPLINK + 1 + pod);
        let uplink = (NODE, UPLINK);
        if request {
            [
                (pod_side, tap::TRANSMIT, self.before),
                (node_side, tap::RECEIVE, self.before),
                (uplink, tap::TRANSMIT, self.after),
            ]
        } else {
            [
                (uplink, tap::RECEIVE, self.after.reversed()),
                (node_side, tap::TRANSMIT, self.before.reversed()),
                (pod_side, tap::RECEIVE, self.before.reversed()),
            ]
        }
    }

    /// The node's egress shows the conntrack entry, the pod's that the packet was made there.
    fn complete(&self, event: &mut RawEvent, request: bool) {
        if event.tap != tap::TRANSMIT {
            return;
        }
        if event.netns == NODE {
            event.present |= present::CONNTRACK;
            event.conntrack = self.conntrack(request);
        } else {
            event.present |= present::LOCAL;
        }
    }

    fn print(&self, (_, request, flags, seq, ack, len): Step) -> RawFingerprint {
        let base = self.number.wrapping_mul(2_654_435_761);
        let (own, other) = if request {
            (base, base ^ 0x5555_5555)
        } else {
            (base ^ 0x5555_5555, base)
        };
        RawFingerprint {
            seq: own.wrapping_add(seq),
            ack: if flags & ACK == 0 {
                0
            } else {
                other.wrapping_add(ack)
            },
            payload_len: len,
            wire_packets: 1,
            tcp_flags: flags,
            ttl: 64,
            ..RawFingerprint::default()
        }
    }

    fn conntrack(&self, request: bool) -> RawConntrack {
        RawConntrack {
            orig: self.before,
            reply: self.after.reversed(),
            status: crate::event::Conntrack::SRC_NAT | crate::event::Conntrack::CONFIRMED,
            zone_known: 1,
            mark_known: 1,
            info: if request { 0 } else { 3 },
            ..RawConntrack::default()
        }
    }
}

fn tuple(src: Ipv4Addr, dst: Ipv4Addr) -> RawTuple {
    let mut tuple = RawTuple {
        family: family::V4,
        proto: ip_proto::TCP,
        ..RawTuple::default()
    };
    tuple.src[..4].copy_from_slice(&src.octets());
    tuple.dst[..4].copy_from_slice(&dst.octets());
    tuple
}
