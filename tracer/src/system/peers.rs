//! Which packets come to one of this machine's sockets, by what conntrack knows: one tuple a peer.
//!
//! Kernel: `ctnetlink_dump_table`, with a filter on the tuple of replies (5.8 and up; older kernels send all
//! entries, and the rest is left out here).

use super::SystemError;
use super::attributes::{NESTED, put};
use super::conntrack::{self, tuples};
use super::netlink::Netlink;
use super::netns::{Netns, visit};
use netlink_packet_core::NLM_F_DUMP;
use std::net::{IpAddr, SocketAddr};
use tracer_core::packet::{Proto, Tuple};

const CTA_FILTER: u16 = 25;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;
/// Source address, protocol and source port (`CTA_FILTER_F_*` of net/netfilter/nf_internals.h).
const FLAGS: u32 = 1 << 0 | 1 << 3 | 1 << 4;
/// Most peers that are told: more than one is too many to know which it is.
const MOST: usize = 64;

/// The packets that come to a socket of a namespace, or by way of it, as that one's conntrack knows them: as they
/// are when they arrive.
///
/// # Errors
/// When the namespace is gone or may not be asked, or this machine tracks nothing.
pub(super) fn peers(
    netns: &Netns,
    proto: Proto,
    local: SocketAddr,
) -> Result<Vec<Tuple>, SystemError> {
    if !conntrack::is_there() {
        return Ok(Vec::new());
    }
    let refused = |why: String| SystemError::Answer {
        object: "conntrack".to_owned(),
        detail: why,
    };
    conntrack::askable().map_err(refused)?;
    visit(netns, || {
        let mut socket = Netlink::open_netfilter()?;
        let mut found: Vec<Tuple> = Vec::new();
        let take = |kind, body: &[u8]| {
            let reply = tuples(body).filter(|_| kind == conntrack::ENTRY);
            let reply = reply.map(|(_, reply)| reply);
            let ours = |reply: &Tuple| reply.proto == proto && reply.source() == local;
            if let Some(reply) = reply.filter(ours).filter(|_| found.len() < MOST) {
                found.push(reply.reversed());
            }
        };
        socket
            .raw(conntrack::GET, NLM_F_DUMP, &question(proto, local), take)
            .map_err(|e| SystemError::os("list conntrack entries of", netns, e))?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    })
}

fn question(proto: Proto, local: SocketAddr) -> Vec<u8> {
    let mut ip = Vec::new();
    let family = match local.ip() {
        IpAddr::V4(v4) => {
            put(&mut ip, conntrack::CTA_IP[0][0], &v4.octets());
            libc::AF_INET
        }
        IpAddr::V6(v6) => {
            put(&mut ip, conntrack::CTA_IP[1][0], &v6.octets());
            libc::AF_INET6
        }
    };
    let mut ports = Vec::new();
    put(&mut ports, conntrack::CTA_PROTO_NUM, &[proto.0]);
    put(
        &mut ports,
        conntrack::CTA_PROTO_SRC_PORT,
        &local.port().to_be_bytes(),
    );
    let mut reply = Vec::new();
    put(&mut reply, conntrack::CTA_TUPLE_IP | NESTED, &ip);
    put(&mut reply, conntrack::CTA_TUPLE_PROTO | NESTED, &ports);
    let mut filter = Vec::new();
    put(&mut filter, CTA_FILTER_REPLY_FLAGS, &FLAGS.to_ne_bytes());
    let mut body = vec![u8::try_from(family).unwrap_or(0), 0, 0, 0];
    put(&mut body, conntrack::CTA_TUPLE_REPLY | NESTED, &reply);
    put(&mut body, CTA_FILTER | NESTED, &filter);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::TestNetns;
    use std::path::Path;
    use std::process::Command;

    /// Entries of a real kernel: two that lead to the socket, and one that does not.
    #[test]
    fn peers_are_those_whose_packets_arrive_at_the_socket() {
        let space = TestNetns::new("peers");
        for (sport, dport) in [("41194", "1194"), ("41195", "1194"), ("41194", "1195")] {
            let made = Command::new("ip")
                .args(["netns", "exec", &space.0, "conntrack", "-I", "-p", "udp"])
                .args(["-s", "192.168.90.2", "-d", "10.100.0.5", "--sport", sport])
                .args(["--dport", dport, "-t", "60", "--dst-nat", "10.12.9.4"])
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        let netns = Netns::at(Path::new(&format!("/run/netns/{}", space.0))).unwrap();
        let local = "10.12.9.4:1194".parse().unwrap();
        let found = peers(&netns, Proto::UDP, local).unwrap();
        let sources: Vec<String> = found.iter().map(|t| t.source().to_string()).collect();
        assert_eq!(sources, ["192.168.90.2:41194", "192.168.90.2:41195"]);
        assert!(found.iter().all(|tuple| tuple.destination() == local));
        assert_eq!(peers(&netns, Proto::TCP, local).unwrap(), []);
    }
}
