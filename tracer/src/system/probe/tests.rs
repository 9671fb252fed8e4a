//! Probes between real namespaces.

use super::*;
use crate::system::testing::TestNetns;
use std::io::{Read, Write};
use std::path::Path;

struct Pair {
    client: TestNetns,
    server: TestNetns,
}

impl Pair {
    fn new() -> Self {
        let pair = Self {
            client: TestNetns::new("client"),
            server: TestNetns::new("server"),
        };
        pair.client.tie("eth0", &pair.server, "eth0");
        for (netns, host) in [(&pair.client, 1), (&pair.server, 2)] {
            netns.ip("link set lo up");
            netns.ip(&format!("addr add 10.99.0.{host}/24 dev eth0"));
            netns.ip(&format!("addr add fd99::{host}/64 dev eth0 nodad"));
        }
        pair
    }

    fn send(&self, kind: Kind, to: &str, timeout: Duration) -> Answer {
        probe(&netns(&self.client), &request(kind, to, timeout)).unwrap()
    }
}

fn netns(of: &TestNetns) -> Netns {
    Netns::at(Path::new(&format!("/run/netns/{}", of.0))).unwrap()
}

fn request(kind: Kind, to: &str, timeout: Duration) -> Request {
    Request {
        kind,
        to: to.parse().unwrap(),
        timeout,
    }
}

#[test]
fn tcp_is_answered_refused_and_closed_in_order() {
    let pair = Pair::new();
    for (host, to) in [("10.99.0.1", "10.99.0.2:80"), ("fd99::1", "[fd99::2]:80")] {
        let bound = if to.starts_with('[') {
            "[::]:80"
        } else {
            "0.0.0.0:80"
        };
        let listener = visit(&netns(&pair.server), || {
            Ok(std::net::TcpListener::bind(bound).unwrap())
        })
        .unwrap();
        let serve = std::thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            let mut got = Vec::new();
            stream.write_all(b"banner").unwrap();
            stream.read_to_end(&mut got).map(|_| (peer, got))
        });
        let answer = pair.send(Kind::Tcp, to, TIMEOUT);
        let (peer, got) = serve.join().unwrap().expect("an orderly end, not a reset");
        assert_eq!(answer.outcome, Outcome::Answered, "{to}");
        assert_eq!(answer.from, Some(peer));
        assert_eq!(peer.ip(), host.parse::<IpAddr>().unwrap());
        assert_eq!(got, b"");
        let answer = pair.send(Kind::Tcp, &to.replace("80", "81"), TIMEOUT);
        assert_eq!(answer.outcome, Outcome::Refused, "{to}");
        assert_eq!(answer.from.unwrap().ip(), peer.ip());
    }
}

#[test]
fn udp_carries_its_payload_and_hears_answer_and_refusal() {
    let pair = Pair::new();
    for (any, to) in [("0.0.0.0:53", "10.99.0.2:53"), ("[::]:53", "[fd99::2]:53")] {
        let socket = visit(&netns(&pair.server), || {
            Ok(std::net::UdpSocket::bind(any).unwrap())
        })
        .unwrap();
        let serve = std::thread::spawn(move || {
            let mut buffer = [0; 64];
            let (length, peer) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(b"yes", peer).unwrap();
            (buffer[..length].to_vec(), peer)
        });
        let answer = pair.send(Kind::Udp, to, TIMEOUT);
        let (got, peer) = serve.join().unwrap();
        assert_eq!(got, PAYLOAD);
        assert_eq!(
            (answer.outcome, answer.from),
            (Outcome::Answered, Some(peer))
        );
        let closed = pair.send(Kind::Udp, &to.replace("53", "54"), TIMEOUT);
        assert_eq!(closed.outcome, Outcome::Refused, "{to}");
    }
}

#[test]
fn echo_is_answered_over_both_families_and_kinds_of_socket() {
    let pair = Pair::new();
    for ranges in ["1 0", "0 2147483647"] {
        visit(&netns(&pair.client), || {
            std::fs::write("/proc/sys/net/ipv4/ping_group_range", ranges).unwrap();
            Ok(())
        })
        .unwrap();
        for (from, to) in [("10.99.0.1", "10.99.0.2:0"), ("fd99::1", "[fd99::2]:0")] {
            let answer = pair.send(Kind::Icmp, to, TIMEOUT);
            assert_eq!(answer.outcome, Outcome::Answered, "{to} {ranges}");
            let local = answer.from.unwrap();
            assert_eq!(local.ip(), from.parse::<IpAddr>().unwrap());
            assert_ne!(local.port(), 0, "{to} {ranges}");
        }
    }
}

#[test]
fn silence_and_missing_routes_are_told_apart() {
    let pair = Pair::new();
    let short = Duration::from_millis(300);
    pair.server.ip("route add blackhole 10.99.0.1/32");
    for (kind, to) in [
        (Kind::Udp, "10.99.0.2:9"),
        (Kind::Icmp, "10.99.0.2:0"),
        (Kind::Tcp, "10.99.0.2:9"),
    ] {
        let answer = pair.send(kind, to, short);
        assert_eq!(answer.outcome, Outcome::Timeout, "{kind:?}");
        assert!(answer.took >= short && answer.from.is_some());
    }
    for kind in [Kind::Tcp, Kind::Udp, Kind::Icmp] {
        let answer = pair.send(kind, "10.250.0.1:9", short);
        assert_eq!(
            answer.outcome,
            Outcome::Unreachable(libc::ENETUNREACH),
            "{kind:?}"
        );
        assert_eq!(answer.from, None);
    }
}

#[test]
fn a_probe_leaves_nothing_in_the_namespace() {
    let pair = Pair::new();
    pair.send(Kind::Udp, "10.99.0.2:9", Duration::from_millis(50));
    let peer = netns(&pair.server);
    drop(pair.client);
    let gone = || {
        visit(&peer, || {
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            Ok(!text.contains("eth0"))
        })
        .unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(5);
    while !gone() {
        assert!(
            Instant::now() < deadline,
            "the peer's device is still there"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
