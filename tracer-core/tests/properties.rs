//! What holds for every sequence of events.

mod notation;

use notation::{START_NS, Scenario};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use tracer_core::event::{
    Conntrack, Event, Fingerprint, Fragment, Icmp, Matched, NetnsId, Reasons, Tap, Tcp, decode,
};
use tracer_core::journey::{Correlator, Settings};
use tracer_core::packet::{Proto, Tuple};
use tracer_core::report::{DeliveryCode, End, Flow};
use tracer_core::trace::Trace;

/// Less than the reorder window, so that no event is late.
const WINDOW_NS: u64 = 49_000_000;

/// Every event is read some time after it happened, within the window; ties by chance.
fn shuffled(events: &[Event], chance: &[(u64, u32)]) -> Vec<(u64, Event)> {
    let mut read: Vec<_> = events
        .iter()
        .zip(chance.iter().cycle())
        .map(|(event, (delay, tie))| (event.time_ns + delay % WINDOW_NS, *tie, event.clone()))
        .collect();
    read.sort_by_key(|(at, tie, _)| (*at, *tie));
    read.into_iter().map(|(at, _, event)| (at, event)).collect()
}

fn scenarios() -> Vec<Scenario> {
    let files = std::fs::read_dir(notation::folder()).expect("the scenario folder");
    files
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .map(|path| Scenario::parse(&std::fs::read_to_string(path).expect("a scenario")))
        .collect()
}

/// All scenarios at once, one after the other in time.
fn all_at_once() -> Scenario {
    let mut all = Scenario::default();
    for (i, scenario) in (0..).zip(scenarios()) {
        for mut event in scenario.events {
            event.time_ns += i * 1_000_000;
            // Each in namespaces of its own.
            event.netns = event.netns.map(|ns| NetnsId(ns.0 + 1000 * (i as u32 + 1)));
            all.events.push(event);
        }
        for mut drop in scenario.drops {
            drop.time_ns += i * 1_000_000;
            drop.netns = drop.netns.map(|ns| NetnsId(ns.0 + 1000 * (i as u32 + 1)));
            all.drops.push(drop);
        }
    }
    all.events.sort();
    all
}

/// The same lab once more at the same time: equal addresses, ports, sequence numbers and payloads,
/// in other namespaces.
fn twice(scenario: &Scenario) -> Scenario {
    const OTHER: u32 = 1000;
    let mut both = scenario.clone();
    for (netns, namespace) in &scenario.inventory.namespaces {
        let mut copy = namespace.clone();
        for link in copy.links.values_mut() {
            link.peer = link.peer.map(|(ns, i)| (NetnsId(ns.0 + OTHER), i));
        }
        let netns = NetnsId(netns.0 + OTHER);
        both.inventory.namespaces.insert(netns, copy);
    }
    for event in &scenario.events {
        let mut copy = event.clone();
        copy.netns = copy.netns.map(|ns| NetnsId(ns.0 + OTHER));
        copy.time_ns += 100;
        // Two buffers that live at the same time have two addresses.
        copy.skb ^= 1 << 40;
        both.events.push(copy);
    }
    for drop in &scenario.drops {
        let mut copy = drop.clone();
        copy.netns = copy.netns.map(|ns| NetnsId(ns.0 + OTHER));
        copy.time_ns += 100;
        copy.skb ^= 1 << 40;
        both.drops.push(copy);
    }
    both.events.sort();
    both
}

#[test]
fn labs_with_equal_addresses_do_not_mix() {
    for scenario in scenarios() {
        let (alone, _) = scenario.run_in_order();
        let (together, _) = twice(&scenario).run_in_order();
        assert_eq!(together.len(), 2 * alone.len());
        for flow in alone {
            assert!(together.contains(&flow), "{flow:#?} among {together:#?}");
        }
    }
}

prop_compose! {
    fn tuples()(a in 1u8..4, b in 1u8..4, sport in 1u16..3, dport in 1u16..3, proto in prop_oneof![Just(Proto::TCP), Just(Proto::UDP), Just(Proto::ICMP)]) -> Tuple {
        let addr = |n| IpAddr::from(Ipv4Addr::new(10, 0, 0, n));
        let dport = if proto == Proto::ICMP { 0 } else { dport };
        Tuple { src: addr(a), sport, dst: addr(b), dport, proto }
    }
}

prop_compose! {
    fn entries()(orig in tuples(), reply in tuples(), status in 0u32..64, zone in prop::option::of(0u16..3), is_reply in any::<bool>()) -> Conntrack {
        Conntrack { orig, reply, status, zone, mark: None, is_reply }
    }
}

prop_compose! {
    fn prints(proto: Proto)(seq in 0u32..6, ack in 0u32..6, flags in 0u8..32, len in 0u32..4, ip_id in prop::option::of(0u32..3), kind in prop_oneof![Just(0u8), Just(8), Just(3), any::<u8>()], fragment in prop_oneof![5 => Just(Fragment::Whole), 1 => Just(Fragment::First), 1 => Just(Fragment::Later)], ttl in 60u8..65) -> Fingerprint {
        let whole = fragment != Fragment::Later;
        Fingerprint {
            tcp: (proto == Proto::TCP && whole).then_some(Tcp { seq, ack, flags }),
            icmp: (proto == Proto::ICMP && whole).then_some(Icmp { kind, code: 0, seq: seq as u16 }),
            payload_len: len,
            ip_id,
            fragment,
            ttl,
            wire_packets: 1 + len as u16,
            ..Fingerprint::default()
        }
    }
}

fn taps() -> impl Strategy<Value = Tap> {
    prop_oneof![
        Just(Tap::Receive),
        Just(Tap::Transmit),
        Just(Tap::TcIngress),
        Just(Tap::TcEgress)
    ]
}

fn matches() -> impl Strategy<Value = Matched> {
    prop_oneof![
        4 => Just(Matched::Forward),
        1 => Just(Matched::Reverse),
        1 => Just(Matched::Conntrack),
        1 => Just(Matched::Learned),
        1 => Just(Matched::Skb)
    ]
}

prop_compose! {
    fn packets()(tuple in tuples())(
        print in prints(tuple.proto),
        tuple in Just(tuple),
        matched in matches(),
        conntrack in prop::option::weighted(0.3, entries()),
        quoted in prop::option::weighted(0.1, tuples()),
        local in any::<bool>(),
        reasons in any::<u16>(),
        packets in 0u64..20,
        bytes in any::<u64>()
    ) -> Event {
        Event {
            time_ns: 0, skb: 0, tap: Tap::Receive, netns: None, ifindex: 0, tuple, print,
            reasons: Reasons(reasons), matched, mark: None, conntrack,
            conntrack_known: true, quoted: quoted.map(Box::new), outer: None, vlan: None, local, process: None,
            l3_len: 40, packets, bytes,
        }
    }
}

prop_compose! {
    /// Events of a world so small that everything collides.
    fn events()(
        packet in packets(),
        time in prop_oneof![8 => 0u64..200_000, 1 => 0u64..20_000_000, 1 => 0u64..200_000_000],
        skb in 0u64..4,
        tap in taps(),
        netns in prop_oneof![1 => Just(None), 9 => (1u32..4).prop_map(Some)],
        ifindex in 1u32..4
    ) -> Event {
        Event {
            time_ns: START_NS + time * 1000,
            skb, tap, netns: netns.map(NetnsId), ifindex,
            ..packet
        }
    }
}

fn host() -> Scenario {
    Scenario::parse(
        "ns node 1 node\nns a 2 pod=x/a\nns b 3\n\
         link node 1 v1 10.0.0.1/24 peer=a:1\nlink a 1 eth0 10.0.0.2/24 peer=node:1\n\
         link node 2 v2 peer=b:1\nlink b 1 eth0 10.0.0.3/24 peer=node:2\nlink node 3 eth0\n",
    )
}

/// What no report may break.
fn check(flow: &Flow) -> Result<(), TestCaseError> {
    let hops = u32::try_from(flow.hops.len()).expect("few hops");
    let numbered = (1..).zip(&flow.hops).all(|(n, hop)| hop.n == n);
    prop_assert!(numbered, "hops are numbered from 1");
    let numbers = flow
        .rewrites
        .iter()
        .flat_map(|r| r.between)
        .chain([flow.delivery.last_seen, flow.delivery.reply_last_seen])
        .chain(flow.findings.iter().map(|f| f.hop));
    for number in numbers.flatten() {
        prop_assert!((1..=hops).contains(&number), "hop {number} of {hops}");
    }
    let text = serde_json::to_string(flow).expect("a flow can be printed");
    let back: Flow = serde_json::from_str(&text).expect("and read again");
    prop_assert_eq!(&back, flow);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_order_of_reading_does_not_matter(chance in prop::collection::vec((any::<u64>(), any::<u32>()), 97)) {
        for scenario in scenarios().into_iter().chain([all_at_once()]) {
            let (expected, in_order) = scenario.run_in_order();
            let (flows, trace) = scenario.run(shuffled(&scenario.events, &chance));
            prop_assert_eq!(flows, expected);
            prop_assert_eq!(trace.stats().late, 0);
            prop_assert_eq!(trace.groups().summary(), in_order.groups().summary());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_events_give_the_same_sound_reports_in_any_order(
        events in prop::collection::vec(events(), 0..120),
        chance in prop::collection::vec((any::<u64>(), any::<u32>()), 97),
    ) {
        let mut scenario = host();
        scenario.events = events;
        scenario.events.sort();
        let (expected, _) = scenario.run_in_order();
        for flow in &expected {
            check(flow)?;
        }
        let (flows, _) = scenario.run(shuffled(&scenario.events, &chance));
        prop_assert_eq!(flows, expected);
    }
}

/// Flows that were told make room first, so that none is told before its time.
#[test]
fn what_was_told_makes_room_for_what_runs() {
    let settings = Settings {
        max_flows: 1500,
        ..Settings::default()
    };
    let mut trace = Trace::new(settings, 0);
    let inventory = tracer_core::synth::inventory();
    let flows = 5000;
    let mut told = Vec::new();
    for raw in tracer_core::synth::events(flows) {
        let event = decode(raw.record()).expect("an event");
        told.extend(trace.advance(event.time_ns, &inventory));
        assert!(!trace.push(event));
    }
    let end = tracer_core::synth::end_ns(flows) + 1_000_000_000;
    told.extend(trace.finish(end, &inventory));
    assert!(trace.stats().evicted > 0);
    assert_eq!(told.len(), flows as usize);
    for flow in told {
        let whole = (flow.hops.len(), flow.packets.request, flow.packets.reply);
        assert_eq!((whole, flow.end), ((3, 3, 3), End::Closed), "{flow:#?}");
        assert_eq!(flow.delivery.code, DeliveryCode::Completed);
    }
}

#[test]
fn memory_is_bounded_and_every_flow_is_told() {
    let settings = Settings {
        max_flows: 50,
        max_held: 1000,
        ..Settings::default()
    };
    let mut correlator = Correlator::new(settings);
    let inventory = tracer_core::synth::inventory();
    let mut told = 0;
    let flows = 5000;
    for raw in tracer_core::synth::events(flows) {
        let event = decode(raw.record()).expect("an event");
        let now = event.time_ns;
        if correlator.push(event) {
            told += correlator.advance(now, &inventory).len();
        }
        let stats = correlator.stats();
        assert!(stats.followed <= 50, "{stats:?}");
        assert!(stats.bound <= 50 * 16, "{stats:?}");
        assert!(stats.held <= 1000, "{stats:?}");
    }
    told += correlator
        .finish(tracer_core::synth::end_ns(flows), &inventory)
        .len();
    assert_eq!(told as u64, correlator.stats().seen);
    assert!(correlator.stats().evicted > 0);
}
