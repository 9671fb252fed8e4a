//! The two connections of a proxy: what joins them, and what does not.

#[allow(dead_code, reason = "shared by several test programs")]
mod notation;

use notation::{REALTIME_NS, START_NS, Scenario};
use std::net::SocketAddr;
use tracer_core::event::{Event, Matched, NetnsId, Process, Tap};
use tracer_core::journey::Settings;
use tracer_core::packet::{Proto, Tuple};
use tracer_core::proxy::{Digest, Header, Opening, SocketEvent};
use tracer_core::recording::{Header as Recorded, Record, Replay};
use tracer_core::report::{Code, Flow, SourceCode};
use tracer_core::trace::Trace;

const NODE: NetnsId = NetnsId(1);
const PROXY: u32 = 812;

/// A client's connection to the proxy on the node, or one that the proxy opens, from its first packet to its last.
fn connection(from: &str, to: &str, at_ms: u32, seq: u32, opened: bool) -> String {
    let (place, answer) = if opened {
        ("tx node/eth0", "rx node/eth0")
    } else {
        ("rx node/veth1", "tx node/veth1")
    };
    let local = if opened { " local" } else { "" };
    let [a, b] = [seq + 1, seq + 5001];
    format!(
        "@{at_ms} {place} tcp {from}>{to} S seq={seq} skb={seq:x}1{local}\n\
         @{} {answer} reverse tcp {to}>{from} S. seq={b} ack={a} skb={seq:x}2\n\
         @{} {place} tcp {from}>{to} P. seq={a} ack={} len=20 skb={seq:x}3{local}\n\
         @{} {answer} reverse tcp {to}>{from} P. seq={} ack={} len=30 skb={seq:x}4\n\
         @{} {place} tcp {from}>{to} F. seq={} ack={} skb={seq:x}5{local}\n\
         @{} {answer} reverse tcp {to}>{from} F. seq={} ack={} skb={seq:x}6\n",
        at_ms + 1,
        at_ms + 2,
        b + 1,
        at_ms + 30,
        b + 1,
        a + 20,
        at_ms + 40,
        a + 20,
        b + 31,
        at_ms + 41,
        b + 31,
        a + 21,
    )
}

const CLIENT: &str = "10.12.3.4:43210";
const SECOND: &str = "10.12.3.4:43211";
const LISTEN: &str = "10.100.0.5:8443";
const NEW: &str = "10.100.0.5:41000";
const BACKEND: &str = "10.20.30.40:443";

fn tuple(from: &str, to: &str) -> Tuple {
    let [src, dst]: [SocketAddr; 2] = [from, to].map(|end| end.parse().unwrap());
    Tuple {
        src: src.ip(),
        sport: src.port(),
        dst: dst.ip(),
        dport: dst.port(),
        proto: Proto::TCP,
    }
}

fn process(pid: u32) -> Process {
    Process {
        pid: Some(pid),
        comm: Some("socat".to_owned()),
        cgroup: Some(7),
    }
}

/// What was told beside packets.
#[derive(Default)]
struct Told {
    sockets: Vec<SocketEvent>,
    openings: Vec<Opening>,
}

impl Told {
    fn used(mut self, from: &str, pid: u32, since_ms: u64) -> Self {
        self.sockets.push(SocketEvent {
            time_ns: START_NS + (since_ms + 3) * 1_000_000,
            since_ns: START_NS + since_ms * 1_000_000,
            netns: NODE,
            sk: since_ms + 1,
            tuple: tuple(from, LISTEN),
            over: false,
            asked: true,
            more: false,
            process: process(pid),
        });
        self
    }

    fn begins(mut self, tuple: Tuple, bytes: &[u8], header: Option<&str>) -> Self {
        let header = header.map(|client| Header {
            version: 1,
            client: client.parse().ok(),
            len: 40,
        });
        self.openings.push(Opening {
            time_ns: START_NS,
            netns: NODE,
            tuple,
            seq: 1,
            payload_len: 20,
            header,
            digest: Digest::of(bytes),
        });
        self
    }
}

/// The flows of these connections: of those that begin at the node the process is the proxy.
fn flows(connections: &[String], told: Told) -> Vec<Flow> {
    let text = format!("include lab.host\n{}", connections.concat());
    let scenario = Scenario::parse(&text);
    let mut events: Vec<Event> = scenario.events.clone();
    events.sort();
    for event in &mut events {
        if event.local && event.tap == Tap::Transmit {
            event.process = Some(Box::new(process(PROXY)));
            event.matched = Matched::Opened;
        }
    }
    let mut trace = Trace::new(Settings::default(), REALTIME_NS);
    trace.keep_journal();
    told.sockets.into_iter().for_each(|s| trace.socket(s));
    told.openings.into_iter().for_each(|o| trace.opening(o));
    for event in events {
        assert!(!trace.push(event));
    }
    let mut flows = trace.finish(START_NS + 20_000_000_000, &scenario.inventory);
    replayed(&mut trace, &flows);
    flows.sort_by_key(|flow| (flow.flow.tuple.src, flow.flow.tuple.sport));
    flows
}

/// A recording of it gives the same.
fn replayed(trace: &mut Trace, flows: &[Flow]) {
    let mut header = Recorded::default();
    header.settings.journey = Settings::default();
    header.clock.realtime_ns = REALTIME_NS;
    let mut replay = Replay::new(header);
    let mut again = Vec::new();
    for record in trace.take_journal() {
        again.extend(replay.take(record.clone()).into_iter().map(|(_, f)| f));
        assert!(!matches!(record, Record::Summary(_)));
    }
    again.extend(replay.finish().into_iter().map(|(_, f)| f));
    assert_eq!(again, flows);
}

fn pair() -> Vec<String> {
    vec![
        connection(CLIENT, LISTEN, 0, 1000, false),
        connection(NEW, BACKEND, 5, 90_000, true),
    ]
}

fn evidence(flow: &Flow) -> Option<&str> {
    flow.proxy.as_ref().map(|proxy| proxy.evidence.as_str())
}

fn has(flow: &Flow, code: Code) -> bool {
    flow.findings.iter().any(|finding| finding.code == code)
}

#[test]
fn one_process_and_the_same_bytes() {
    let told = Told::default()
        .used(CLIENT, PROXY, 1)
        .begins(tuple(CLIENT, LISTEN), b"GET /first HTTP/1.0\r\n", None)
        .begins(tuple(NEW, BACKEND), b"GET /first HTTP/1.0\r\n\r\n", None);
    let flows = flows(&pair(), told);
    assert_eq!(flows.len(), 2);
    for flow in &flows {
        assert_eq!(flow.verdict.source, SourceCode::SourceTerminated);
        assert_eq!(evidence(flow), Some("payload"));
        let new = flow.proxy.as_ref().and_then(|p| p.new_flow.clone());
        assert_eq!(new.as_ref(), Some(&flows[1].id));
    }
}

#[test]
fn one_process_alone() {
    let flows = flows(&pair(), Told::default().used(CLIENT, PROXY, 1));
    assert_eq!(
        flows.iter().map(evidence).collect::<Vec<_>>(),
        [Some("process"); 2]
    );
    assert!(
        flows.iter().all(|flow| has(flow, Code::PointUnavailable)),
        "nothing read a header"
    );
    assert!(flows.iter().all(|flow| !flow.verdict.complete));
}

#[test]
fn another_process_opened_it() {
    let flows = flows(&pair(), Told::default().used(CLIENT, 813, 1));
    assert_eq!(
        flows.len(),
        1,
        "what nobody asked for and joins nothing is not told"
    );
    assert_eq!(evidence(&flows[0]), None);
}

#[test]
fn it_was_opened_before_the_client_came() {
    let flows = flows(&pair(), Told::default().used(CLIENT, PROXY, 30));
    assert_eq!(flows.iter().map(evidence).collect::<Vec<_>>(), [None]);
}

#[test]
fn a_header_names_the_client_among_two() {
    let mut all = pair();
    all.push(connection(SECOND, LISTEN, 1, 5000, false));
    let told = Told::default()
        .used(CLIENT, PROXY, 1)
        .used(SECOND, PROXY, 2)
        .begins(tuple(NEW, BACKEND), b"", Some(SECOND));
    let flows = flows(&all, told);
    let evidence: Vec<_> = flows.iter().map(evidence).collect();
    assert_eq!(evidence, [None, Some("payload"), Some("payload")]);
    let header = flows[2]
        .proxy
        .as_ref()
        .and_then(|p| p.proxy_protocol.clone());
    assert_eq!(header.and_then(|h| h.true_client), Some(true));
}

#[test]
fn of_two_that_fit_none_is_chosen() {
    let mut all = pair();
    all.push(connection(SECOND, LISTEN, 1, 5000, false));
    let told = Told::default()
        .used(CLIENT, PROXY, 1)
        .used(SECOND, PROXY, 2);
    let flows = flows(&all, told);
    assert_eq!(flows.len(), 2, "the new one joins nothing");
    assert!(
        flows
            .iter()
            .all(|flow| flow.proxy.is_none() && has(flow, Code::ProxyAmbiguous))
    );
}

#[test]
fn a_header_that_lies() {
    let told = Told::default().used(CLIENT, PROXY, 1).begins(
        tuple(NEW, BACKEND),
        b"",
        Some("192.0.2.66:5"),
    );
    let flows = flows(&pair(), told);
    let header = flows[1]
        .proxy
        .as_ref()
        .and_then(|p| p.proxy_protocol.clone());
    assert_eq!(header.and_then(|h| h.true_client), Some(false));
    assert!(has(&flows[1], Code::ProxyHeaderUntrusted));
}
