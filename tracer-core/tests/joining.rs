//! Two hosts that saw the same flows: joined in the right order, by clocks that differ.

use std::net::IpAddr;
use tracer_core::event::{Dir, Event, NetnsId, Tap, decode};
use tracer_core::inventory::{Inventory, Link, Namespace};
use tracer_core::join::{Census, Clocks, Estimate, Host, Joiner, Witness};
use tracer_core::journey::Settings;
use tracer_core::point::tell;
use tracer_core::recording::{Captured, Clock, Header, Part};
use tracer_core::report::{
    Code, DeliveryCode, Finding, Flow, PointSeen, PointView, Proxy, RewriteField, SourceCode, Where,
};
use tracer_core::synth;
use tracer_core::trace::Trace;

const UPLINK: u32 = 2;
const DELAY_NS: u64 = 30_000;
/// The far host was started at another time, and its clock is wrong.
const BOOT_NS: u64 = 777_000_000_000;
const WRONG_NS: i64 = 90_000_000_000;
const UTC_NS: i64 = 1_700_000_000_000_000_000;

/// What one host told.
struct Told {
    header: Header,
    inventory: Inventory,
    parts: Vec<Part>,
    now_ns: u64,
}

impl Told {
    fn host(&self) -> Host<'_> {
        Host {
            header: &self.header,
            inventory: &self.inventory,
            now_ns: self.now_ns,
            over: true,
            shown: None,
        }
    }
}

fn near_events(flows: u32) -> Vec<Event> {
    let raw = synth::events(flows);
    raw.iter()
        .map(|raw| decode(raw.record()).expect("a synthetic event"))
        .collect()
}

/// What passes the node's uplink, as the host behind it sees it. `seen` picks requests and replies.
fn far_events(near: &[Event], seen: impl Fn(&Event) -> bool) -> Vec<Event> {
    behind(near, 1, seen)
}

/// As the host behind so many routers sees it.
fn behind(near: &[Event], routers: u8, seen: impl Fn(&Event) -> bool) -> Vec<Event> {
    let passes = |e: &&Event| e.netns == Some(NetnsId(1)) && e.ifindex == UPLINK && seen(e);
    let far = |event: &Event| {
        let request = event.tap.dir() == Dir::Egress;
        let at = if request {
            event.time_ns + DELAY_NS * u64::from(routers)
        } else {
            event.time_ns - DELAY_NS * u64::from(routers)
        };
        let mut far = event.clone();
        far.time_ns = at + BOOT_NS;
        far.tap = if request { Tap::Receive } else { Tap::Transmit };
        far.netns = Some(NetnsId(900));
        far.conntrack = None;
        far.skb ^= 1 << 50;
        far.print.ttl = if request {
            event.print.ttl - routers
        } else {
            64
        };
        far
    };
    near.iter().filter(passes).map(far).collect()
}

fn far_inventory() -> Inventory {
    let link = Link {
        name: "ens3".into(),
        addrs: vec!["10.20.30.40/16".parse().unwrap()],
        up: true,
        ..Link::default()
    };
    Inventory {
        host: "peer-b".into(),
        node: Some(NetnsId(900)),
        namespaces: [(
            NetnsId(900),
            Namespace {
                links: [(UPLINK, link)].into(),
                ..Namespace::default()
            },
        )]
        .into(),
        ..Inventory::default()
    }
}

fn told(
    name: &str,
    events: Vec<Event>,
    mut inventory: Inventory,
    wrong_ns: i64,
    boot: u64,
) -> Told {
    name.clone_into(&mut inventory.host);
    let clock = Clock {
        monotonic_ns: boot,
        realtime_ns: UTC_NS + wrong_ns,
    };
    let mut trace = Trace::new(Settings::default(), clock.offset_ns());
    let now_ns = boot + 60_000_000_000;
    for event in events {
        let _ = trace.push(event);
    }
    let closed = trace.close_all(now_ns, &inventory, &mut |_| None);
    let parts = trace.judge_parts(closed, &inventory);
    let header = Header {
        host: name.into(),
        clock,
        ..Header::default()
    };
    Told {
        header,
        inventory,
        parts,
        now_ns,
    }
}

fn both(flows: u32, seen: impl Fn(&Event) -> bool) -> [Told; 2] {
    let near = near_events(flows);
    let far = far_events(&near, seen);
    [
        told("node-a", near, synth::inventory(), 0, 0),
        told("peer-b", far, far_inventory(), WRONG_NS, BOOT_NS),
    ]
}

fn clocks(told: &[Told]) -> Clocks {
    let mut estimate = Estimate::new(told.len());
    for (source, one) in told.iter().enumerate() {
        for (closed, _) in &one.parts {
            estimate.note(source, &Witness::of(closed, &one.header));
        }
    }
    estimate.clocks()
}

fn join(mut told: Vec<Told>) -> Vec<Flow> {
    let mut joiner = Joiner::new(clocks(&told));
    for (source, one) in told.iter_mut().enumerate() {
        for part in std::mem::take(&mut one.parts) {
            joiner.push(source, part, &one.host());
        }
    }
    let hosts: Vec<Host<'_>> = told.iter().map(Told::host).collect();
    joiner.ready(&hosts)
}

fn finding(flow: &Flow, code: Code) -> bool {
    flow.findings.iter().any(|f| f.code == code)
}

#[test]
fn clocks_are_off_by_what_they_are_off_by() {
    let aligned = clocks(&both(200, |_| true)).0[1];
    assert_eq!(aligned.offset_ns, -WRONG_NS);
    assert_eq!(aligned.error_ns, Some(DELAY_NS));
    assert_eq!(aligned.flows, 200);
    let requests_only = |e: &Event| e.tap.dir() == Dir::Egress;
    let aligned = clocks(&both(200, requests_only)).0[1];
    assert_eq!(aligned.error_ns, None);
    assert_eq!(aligned.offset_ns, -WRONG_NS - DELAY_NS as i64);
}

#[test]
fn flows_of_two_hosts_become_one_whichever_is_named_first() {
    for turned in [false, true] {
        let mut told = Vec::from(both(50, |_| true));
        if turned {
            told.reverse();
        }
        let flows = join(told);
        assert_eq!(flows.len(), 50);
        for flow in &flows {
            let last = flow.hops.last().unwrap();
            assert_eq!(
                (last.host.as_str(), last.ifname.as_deref()),
                ("peer-b", Some("ens3"))
            );
            assert_eq!(flow.hops[0].host, "node-a");
            let numbers: Vec<u32> = flow.hops.iter().map(|hop| hop.n).collect();
            assert!(numbers.iter().copied().eq(1..=numbers.len() as u32));
            assert!(flow.hops.is_sorted_by_key(|hop| hop.t_us));
            let place = |r: &tracer_core::report::Rewrite| r.place == Where::Node;
            assert!(flow.rewrites.iter().all(place), "{:?}", flow.rewrites);
            assert_eq!(flow.delivery.code, DeliveryCode::Completed);
            assert_eq!(flow.delivery.last_seen, Some(numbers.len() as u32));
            assert!(flow.verdict.complete && finding(flow, Code::JoinedAcrossHosts));
            let data = &flow.findings[0].data;
            assert_eq!(data["certainty"], "certain");
        }
    }
}

#[test]
fn what_changed_between_two_hosts_lies_between_them() {
    let [near, far] = both(5, |_| true);
    let events = near_events(5);
    let other: IpAddr = "192.0.2.9".parse().unwrap();
    let own: IpAddr = "10.100.0.5".parse().unwrap();
    let mut moved = far_events(&events, |_| true);
    for event in &mut moved {
        let tuple = &mut event.tuple;
        for addr in [&mut tuple.src, &mut tuple.dst] {
            if *addr == own {
                *addr = other;
            }
        }
    }
    let far = Told {
        ..told("peer-b", moved, far.inventory, WRONG_NS, BOOT_NS)
    };
    let flows = join(vec![near, far]);
    assert_eq!(flows.len(), 5);
    for flow in &flows {
        let here = flow.hops.len() as u32;
        let between: Vec<_> = flow
            .rewrites
            .iter()
            .filter(|r| r.place == Where::Downstream)
            .map(|r| (r.field, r.between, r.to.addr))
            .collect();
        assert_eq!(
            between[0],
            (RewriteField::Src, [Some(here - 1), Some(here)], other)
        );
        assert_eq!(between[1].0, RewriteField::Dst, "and back");
        assert_eq!(flow.verdict.source_on_wire, Some(other));
        assert!(finding(flow, Code::DoubleRewrite));
        assert!(
            flow.verdict
                .text
                .ends_with("; then 192.0.2.9 between node-a and peer-b")
        );
    }
}

#[test]
fn an_answer_that_did_not_come_back_has_a_place() {
    // The near host sees requests only; the far one everything.
    let events = near_events(3);
    let requests = events.iter().filter(|e| {
        let uplink = e.netns == Some(NetnsId(1)) && e.ifindex == UPLINK;
        e.tuple.dport == 443 || (uplink && e.tap.dir() == Dir::Egress)
    });
    let near = told(
        "node-a",
        requests.cloned().collect(),
        synth::inventory(),
        0,
        0,
    );
    let [_, far] = both(3, |_| true);
    let flows = join(vec![near, far]);
    assert_eq!(flows.len(), 3);
    for flow in &flows {
        assert_eq!(flow.delivery.code, DeliveryCode::ReplyLost);
        assert!(finding(flow, Code::LostOnTheWayBack));
    }
}

#[test]
fn a_request_that_never_came_is_missed_where_it_should_have_been() {
    let events = near_events(3);
    let requests = events.iter().filter(|e| e.tuple.dport == 443);
    let near = told(
        "node-a",
        requests.cloned().collect(),
        synth::inventory(),
        0,
        0,
    );
    let far = told("peer-b", Vec::new(), far_inventory(), 0, 0);
    let flows = join(vec![near, far]);
    assert_eq!(flows.len(), 3);
    for flow in &flows {
        assert_eq!(flow.delivery.code, DeliveryCode::NoReply);
        assert!(finding(flow, Code::NotSeenAtPeer));
        assert!(!finding(flow, Code::PeerRouteSuspected));
    }
}

/// Two flows of the far host fit one: neither is taken for it, and the others are joined.
#[test]
fn two_candidates_are_kept_apart() {
    let [near, _] = both(5, |_| true);
    let far = far_events(&near_events(5), |_| true);
    let first = far[0].tuple;
    let own = |e: &&Event| e.tuple == first || e.tuple == first.reversed();
    let copy = |event: &Event| {
        let mut copy = event.clone();
        copy.netns = Some(NetnsId(901));
        copy.time_ns += 5_000_000;
        copy.skb ^= 1 << 51;
        copy
    };
    let copies = far.iter().filter(own).map(copy);
    let twice = copies.chain(far.iter().cloned()).collect();
    let far = told("peer-b", twice, far_inventory(), WRONG_NS, BOOT_NS);
    assert_eq!(far.parts.len(), 6);
    let flows = join(vec![near, far]);
    let (doubted, joined): (Vec<&Flow>, Vec<&Flow>) =
        flows.iter().partition(|f| finding(f, Code::AmbiguousMatch));
    assert_eq!((doubted.len(), joined.len()), (3, 4));
    assert!(doubted.iter().all(|flow| !flow.verdict.complete));
    assert!(
        joined
            .iter()
            .all(|flow| finding(flow, Code::JoinedAcrossHosts))
    );
}

/// A flow that a proxy ended, as its host tells it, with two points of that host.
fn ended_in_a_proxy(flow: &mut Flow) {
    flow.points = [("pod", 1), ("uplink", 3)]
        .map(|(name, hop)| PointView {
            name: name.into(),
            host: "node-a".into(),
            netns_name: None,
            ifname: "eth0".into(),
            dir: None,
            seen: PointSeen::Both,
            hop: Some(hop),
            source: None,
        })
        .into();
    flow.proxy = Some(Proxy {
        pid: 7,
        comm: "haproxy".into(),
        container: None,
        listen: None,
        new_flow: None,
        evidence: "process".into(),
        proxy_protocol: None,
        inbound: None,
        outbound: None,
    });
    flow.verdict.source = SourceCode::SourceTerminated;
    flow.verdict.text = "it ended in haproxy (pid 7)".into();
    tell(flow);
}

const OF_THE_POINTS: &str = "; the source changed from 10.12.0.1 to 10.100.0.5 between the points pod and uplink: \
                             downstream of pod0, the node translates";

/// What the points say stands once in a joined verdict, also where a proxy's host gives the words.
#[test]
fn points_are_told_once_where_a_proxy_ended_the_flow() {
    let mut hosts = both(1, |_| true);
    let (_, flow) = &mut hosts[0].parts[0];
    ended_in_a_proxy(flow);
    let own = format!("it ended in haproxy (pid 7){OF_THE_POINTS}");
    assert_eq!(flow.verdict.text, own);
    let flows = join(Vec::from(hosts));
    let [flow] = flows.as_slice() else {
        panic!("{} flows", flows.len());
    };
    assert_eq!(flow.verdict.source, SourceCode::SourceTerminated);
    assert_eq!(flow.verdict.text, own);
    let of_points = |f: &&Finding| f.code == Code::ChangedBetweenPoints;
    assert_eq!(flow.findings.iter().filter(of_points).count(), 1);
}

/// A change elsewhere on the way is not kept back because a proxy's host gives the words.
#[test]
fn changes_on_other_hosts_are_told_beside_a_proxy() {
    let near = near_events(1);
    let mut far = far_events(&near, |_| true);
    let other: IpAddr = "10.20.0.1".parse().unwrap();
    for event in &mut far {
        match event.tap.dir() {
            Dir::Ingress => event.tuple.src = other,
            Dir::Egress => event.tuple.dst = other,
        }
    }
    let mut hosts = [
        told("node-a", near, synth::inventory(), 0, 0),
        told("peer-b", far, far_inventory(), WRONG_NS, BOOT_NS),
    ];
    ended_in_a_proxy(&mut hosts[0].parts[0].1);
    let flows = join(Vec::from(hosts));
    let text = &flows[0].verdict.text;
    let told = "it ended in haproxy (pid 7); on the whole way, source 10.12.0.1 became 10.100.0.5 on node-a, netfilter \
                POSTROUTING; then 10.20.0.1 between node-a and peer-b; the source changed ";
    assert!(text.starts_with(told), "{text}");
    assert_eq!(text.matches("the source changed").count(), 2, "{text}");
}

/// Three hosts, in any order on the command line: in the order of the way, each by its own clock.
#[test]
fn three_hosts_stand_in_the_order_of_the_way() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let near = near_events(20);
        let hosts = order.map(|n: u8| match n {
            0 => told("node-a", near.clone(), synth::inventory(), 0, 0),
            1 => told(
                "router",
                behind(&near, 1, |_| true),
                far_inventory(),
                -WRONG_NS,
                BOOT_NS,
            ),
            _ => told(
                "peer-b",
                behind(&near, 2, |_| true),
                far_inventory(),
                WRONG_NS,
                BOOT_NS,
            ),
        });
        let flows = join(Vec::from(hosts));
        assert_eq!(flows.len(), 20);
        for flow in &flows {
            let mut hosts: Vec<&str> = flow.hops.iter().map(|hop| hop.host.as_str()).collect();
            hosts.dedup();
            assert_eq!(hosts, ["node-a", "router", "peer-b"], "{order:?}");
            let last = &flow.hops[flow.hops.len() - 2..];
            let apart = last[1].t_us - last[0].t_us;
            assert_eq!(apart, DELAY_NS as i64 / 1000, "{order:?}");
        }
    }
}

/// One connection after the other, every 50 ms.
fn one_after_the_other(count: u32) -> Vec<Event> {
    let one = near_events(1);
    let nth = |n: u32| {
        let shift = move |event: &Event| {
            let mut event = event.clone();
            event.time_ns += u64::from(n) * 50_000_000;
            event.skb ^= u64::from(n) << 20;
            let renumber = |tuple: &mut tracer_core::packet::Tuple| match tuple.dport {
                443 => tuple.sport = n as u16,
                _ => tuple.dport = n as u16,
            };
            renumber(&mut event.tuple);
            if let Some(ct) = &mut event.conntrack {
                renumber(&mut ct.orig);
                renumber(&mut ct.reply);
            }
            let tcp = event.print.tcp.as_mut().expect("a segment");
            tcp.seq = tcp.seq.wrapping_add(n * 10_007);
            tcp.ack = tcp.ack.wrapping_add(n * 10_007);
            event
        };
        one.iter().map(shift).collect::<Vec<_>>()
    };
    (0..count).flat_map(nth).collect()
}

/// Memory holds what is told within some seconds, however long the recordings are.
#[test]
fn what_waits_is_bounded_by_time() {
    let near = one_after_the_other(2000);
    let far = far_events(&near, |_| true);
    let hosts = [
        ("node-a", near, synth::inventory(), 0),
        ("peer-b", far, far_inventory(), BOOT_NS),
    ];
    let clocks = Clocks(vec![Default::default(); 2]);
    let mut joiner = Joiner::new(clocks);
    let mut sources = hosts.map(|(name, events, inventory, boot)| {
        let told = told(name, Vec::new(), inventory, 0, boot);
        let trace = Trace::new(Settings::default(), told.header.clock.offset_ns());
        (told, trace, events.into_iter().peekable(), boot)
    });
    let (mut flows, mut most) = (Vec::new(), 0);
    for second in 1..=120u64 {
        for (source, (told, trace, events, boot)) in sources.iter_mut().enumerate() {
            told.now_ns = *boot + second * 1_000_000_000;
            while let Some(event) = events.next_if(|event| event.time_ns < told.now_ns) {
                let _ = trace.push(event);
            }
            let closed = trace.close(told.now_ns, &told.inventory, &mut |_| None);
            for part in trace.judge_parts(closed, &told.inventory) {
                joiner.push(source, part, &told.host());
            }
        }
        let mut hosts: Vec<Host<'_>> = sources.iter().map(|(told, ..)| told.host()).collect();
        hosts.iter_mut().for_each(|host| host.over = false);
        flows.extend(joiner.ready(&hosts));
        most = most.max(joiner.waiting());
    }
    assert_eq!(
        (flows.len(), joiner.waiting(), joiner.hurried()),
        (2000, 0, 0)
    );
    assert!(
        flows
            .iter()
            .all(|flow| finding(flow, Code::JoinedAcrossHosts))
    );
    assert!((100..1000).contains(&most), "{most}");
}

/// A busy host tells a flow late. A first look through all files shows that it will.
#[test]
fn a_part_that_is_known_to_come_is_awaited() {
    const LATE_NS: u64 = 20_000_000_000;
    for (looked, hops) in [(true, 4), (false, 3)] {
        let mut hosts = both(1, |_| true);
        let clocks = clocks(&hosts);
        let mut census = if looked {
            Census::new()
        } else {
            Census::default()
        };
        for told in &hosts {
            for (closed, _) in &told.parts {
                census.note(&Witness::of(closed, &told.header));
            }
        }
        let mut joiner = Joiner::new(clocks).knowing(census);
        let [near, far] = &mut hosts;
        joiner.push(0, near.parts.remove(0), &near.host());
        near.now_ns += LATE_NS;
        far.now_ns += LATE_NS;
        let mut now = [near.host(), far.host()];
        now.iter_mut().for_each(|host| host.over = false);
        let before = joiner.ready(&now);
        assert_eq!(before.len(), usize::from(!looked));
        joiner.push(1, far.parts.remove(0), &far.host());
        let after = joiner.ready(&[near.host(), far.host()]);
        let first = before.first().or(after.first()).expect("a flow");
        assert_eq!(first.hops.len(), hops);
    }
}

/// What only a capture saw need not be judged: it is told before that, by the count of what there is.
#[test]
fn captured_flows_that_are_nobody_elses_are_passed_over_unjudged() {
    let near = near_events(20);
    let few = near_events(5);
    let mut far = told(
        "peer.pcap",
        far_events(&near, |_| true),
        far_inventory(),
        0,
        BOOT_NS,
    );
    let near = told("node-a", few, synth::inventory(), 0, 0);
    far.header.captured = Some(Captured::default());
    let mut census = Census::new();
    for one in [&near, &far] {
        for (closed, _) in &one.parts {
            census.note(&Witness::of(closed, &one.header));
        }
    }
    let mut joiner = Joiner::new(clocks(&[])).knowing(census);
    let passed = |joiner: &mut Joiner, told: &Told| {
        let all = told.parts.iter();
        all.filter(|(closed, _)| joiner.pass_over(closed, &told.host()))
            .count()
    };
    assert_eq!(passed(&mut joiner, &far), 15);
    assert_eq!(passed(&mut joiner, &near), 0, "a recording's are told");
    assert_eq!(joiner.passed_over(), 15);
}
