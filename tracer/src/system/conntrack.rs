//! Connection tracking over netlink, where packets cannot show the entry that they carry: which
//! entry of a namespace has this tuple.
//!
//! Kernel: `net/netfilter/nf_conntrack_netlink.c`. A question about a tuple finds the entry that has
//! it in either direction, in the default zone.

use super::SystemError;
use super::attributes::{NESTED, attribute, list, put, word};
use super::netlink::Netlink;
use super::netns::{Netns, visit};
use netlink_packet_core::NLM_F_ACK;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use tracer_core::event::{Conntrack, Icmp};
use tracer_core::packet::{Proto, Tuple};

/// `NFNL_SUBSYS_CTNETLINK` with `IPCTNL_MSG_CT_NEW` and `IPCTNL_MSG_CT_GET`.
pub(super) const ENTRY: u16 = 1 << 8;
pub(super) const GET: u16 = ENTRY | 1;
/// Size of `struct nfgenmsg`, bytes.
const HEADER: usize = 4;

const MODULES: &str = "/sys/module";

const CTA_TUPLE_ORIG: u16 = 1;
pub(super) const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_MARK: u16 = 8;
const CTA_ZONE: u16 = 18;
pub(super) const CTA_TUPLE_IP: u16 = 1;
pub(super) const CTA_TUPLE_PROTO: u16 = 2;
/// Source and destination, of IPv4 and IPv6.
pub(super) const CTA_IP: [[u16; 2]; 2] = [[1, 2], [3, 4]];
pub(super) const CTA_PROTO_NUM: u16 = 1;
pub(super) const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
/// Identifier, type and code, of ICMP and ICMPv6.
const CTA_PROTO_ICMP: [[u16; 3]; 2] = [[4, 5, 6], [7, 8, 9]];

/// A packet whose entry is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its tuple.
    pub tuple: Tuple,
    /// Type and code of an ICMP packet.
    pub icmp: Option<Icmp>,
}

impl Question {
    /// About a packet that answers this one.
    fn reversed(self) -> Self {
        let kind = |kind| match kind {
            8 => 0,
            0 => 8,
            128 => 129,
            129 => 128,
            other => other,
        };
        Self {
            tuple: self.tuple.reversed(),
            icmp: self.icmp.map(|icmp| Icmp {
                kind: kind(icmp.kind),
                ..icmp
            }),
        }
    }
}

/// Whether this kernel tracks connections at all: without the module there is no entry to ask for.
#[must_use]
pub fn is_there() -> bool {
    Path::new(MODULES).join("nf_conntrack").exists()
}

/// Why the kernel is not asked: the question itself would make it load a module.
///
/// # Errors
/// What is missing, in words.
pub fn askable() -> Result<(), String> {
    let modules = Path::new(MODULES);
    // A part that is built in has no state; what it is asked loads nothing.
    let tracking = modules.join("nf_conntrack");
    let built_in = tracking.exists() && !tracking.join("initstate").exists();
    if built_in || modules.join("nf_conntrack_netlink").exists() {
        return Ok(());
    }
    Err("module nf_conntrack_netlink is not loaded, and srctrace loads none".to_owned())
}

/// The entry of each packet, as it is in the namespace's default zone now.
///
/// # Errors
/// When the namespace is gone or may not be asked.
pub fn entries(
    netns: &Netns,
    questions: &[Question],
) -> Result<Vec<Option<Conntrack>>, SystemError> {
    visit(netns, || {
        let mut socket = Netlink::open_netfilter()?;
        let found = questions.iter().map(|q| entry(&mut socket, *q));
        found
            .collect::<io::Result<_>>()
            .map_err(|e| SystemError::os("ask for conntrack entries of", netns, e))
    })
}

/// Before translation a packet has its entry's tuple; after it only its answer has.
fn entry(socket: &mut Netlink, asked: Question) -> io::Result<Option<Conntrack>> {
    for question in [asked, asked.reversed()] {
        let Some(body) = write(question) else {
            continue;
        };
        let mut answer = None;
        let sent = socket.raw(GET, NLM_F_ACK, &body, |kind, body| {
            if kind == ENTRY {
                answer = read(body, asked.tuple);
            }
        });
        match sent {
            Ok(()) if answer.is_some() => return Ok(answer),
            Ok(()) => {}
            Err(e) if is_no(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// There is no such entry, or there can be none: of an ICMP error, of a protocol without ports.
fn is_no(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP)
    )
}

/// A question; `None` for addresses of two families.
fn write(question: Question) -> Option<Vec<u8>> {
    let Question { tuple, icmp } = question;
    let (family, is_v6) = match (tuple.src, tuple.dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (libc::AF_INET, 0),
        (IpAddr::V6(_), IpAddr::V6(_)) => (libc::AF_INET6, 1),
        _ => return None,
    };
    let mut ip = Vec::new();
    for (kind, addr) in CTA_IP[is_v6].into_iter().zip([tuple.src, tuple.dst]) {
        match addr {
            IpAddr::V4(v4) => put(&mut ip, kind, &v4.octets()),
            IpAddr::V6(v6) => put(&mut ip, kind, &v6.octets()),
        }
    }
    let mut proto = Vec::new();
    put(&mut proto, CTA_PROTO_NUM, &[tuple.proto.0]);
    if let (true, Some(icmp)) = (tuple.proto.is_icmp(), icmp) {
        let [id, kind, code] = CTA_PROTO_ICMP[usize::from(tuple.proto == Proto::ICMPV6)];
        put(&mut proto, id, &tuple.sport.to_be_bytes());
        put(&mut proto, kind, &[icmp.kind]);
        put(&mut proto, code, &[icmp.code]);
    } else {
        put(&mut proto, CTA_PROTO_SRC_PORT, &tuple.sport.to_be_bytes());
        put(&mut proto, CTA_PROTO_DST_PORT, &tuple.dport.to_be_bytes());
    }
    let mut both = Vec::new();
    put(&mut both, CTA_TUPLE_IP | NESTED, &ip);
    put(&mut both, CTA_TUPLE_PROTO | NESTED, &proto);
    let mut body = vec![u8::try_from(family).ok()?, 0, 0, 0];
    put(&mut body, CTA_TUPLE_ORIG | NESTED, &both);
    Some(body)
}

/// The two tuples of an entry.
pub(super) fn tuples(body: &[u8]) -> Option<(Tuple, Tuple)> {
    let all = || list(body.get(HEADER..).unwrap_or_default());
    let tuple = |kind| read_tuple(attribute(all(), kind)?);
    Some((tuple(CTA_TUPLE_ORIG)?, tuple(CTA_TUPLE_REPLY)?))
}

/// An entry, if it is this packet's.
fn read(body: &[u8], packet: Tuple) -> Option<Conntrack> {
    let all = || list(body.get(HEADER..).unwrap_or_default());
    let (orig, reply) = tuples(body)?;
    let number = |kind| Some(u32::from_be(word(attribute(all(), kind)?, 0)));
    let zone = attribute(all(), CTA_ZONE).map_or(Some(0), be16);
    let forward = packet == orig || packet == reply.reversed();
    let is_reply = packet == reply || packet == orig.reversed();
    (forward || is_reply).then_some(Conntrack {
        orig,
        reply,
        status: number(CTA_STATUS)?,
        zone,
        mark: number(CTA_MARK),
        is_reply: !forward,
    })
}

fn read_tuple(bytes: &[u8]) -> Option<Tuple> {
    let ip = attribute(list(bytes), CTA_TUPLE_IP)?;
    let proto = attribute(list(bytes), CTA_TUPLE_PROTO)?;
    let addr = |end: usize| CTA_IP.iter().find_map(|kinds| address(ip, kinds[end]));
    let number = |kind| attribute(list(proto), kind).and_then(be16);
    let id = CTA_PROTO_ICMP.iter().find_map(|kinds| number(kinds[0]));
    Some(Tuple {
        src: addr(0)?,
        dst: addr(1)?,
        sport: id.or_else(|| number(CTA_PROTO_SRC_PORT)).unwrap_or(0),
        dport: number(CTA_PROTO_DST_PORT).unwrap_or(0),
        proto: Proto(*attribute(list(proto), CTA_PROTO_NUM)?.first()?),
    })
}

fn address(ip: &[u8], kind: u16) -> Option<IpAddr> {
    let bytes = attribute(list(ip), kind)?;
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn be16(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|two| u16::from_be_bytes(*two))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::TestNetns;
    use std::process::Command;

    fn tuple(src: &str, dst: &str, proto: Proto) -> Tuple {
        let (src, dst): (std::net::SocketAddr, std::net::SocketAddr) =
            (src.parse().unwrap(), dst.parse().unwrap());
        Tuple {
            src: src.ip(),
            sport: src.port(),
            dst: dst.ip(),
            dport: dst.port(),
            proto,
        }
    }

    fn about(tuple: Tuple) -> Question {
        Question { tuple, icmp: None }
    }

    /// An entry of a real kernel, found by each of the four tuples that its packets have.
    #[test]
    fn an_entry_is_found_before_and_after_translation() {
        let space = TestNetns::new("conntrack");
        let made = Command::new("ip")
            .args(["netns", "exec", &space.0, "conntrack", "-I", "-p", "tcp"])
            .args(["-s", "10.12.3.4", "-d", "10.20.30.40", "--sport", "43210"])
            .args(["--dport", "443", "--state", "ESTABLISHED", "-t", "60"])
            .args(["--src-nat", "10.100.0.5"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let path = format!("/run/netns/{}", space.0);
        let netns = Netns::at(Path::new(&path)).unwrap();
        let tcp = |src, dst| tuple(src, dst, Proto::TCP);
        let before = tcp("10.12.3.4:43210", "10.20.30.40:443");
        let after = tcp("10.100.0.5:43210", "10.20.30.40:443");
        let other = tcp("10.12.3.4:43211", "10.20.30.40:443");
        let mixed = tcp("10.12.3.4:43210", "[fd50::20]:443");
        let asked = [
            before,
            after,
            before.reversed(),
            after.reversed(),
            other,
            mixed,
        ];
        let unreachable = Icmp {
            kind: 3,
            code: 3,
            seq: 0,
        };
        let mut asked = asked.map(about).to_vec();
        asked.push(Question {
            tuple: tuple("10.20.30.40:0", "10.12.3.4:0", Proto::ICMP),
            icmp: Some(unreachable),
        });
        let found = entries(&netns, &asked).unwrap();
        let replies: Vec<_> = found.iter().map(|e| e.map(|e| e.is_reply)).collect();
        assert_eq!(
            replies,
            [
                Some(false),
                Some(false),
                Some(true),
                Some(true),
                None,
                None,
                None
            ]
        );
        let entry = found[1].unwrap();
        assert_eq!((entry.orig, entry.reply), (before, after.reversed()));
        assert_eq!((entry.zone, entry.mark), (Some(0), Some(0)));
        assert_ne!(entry.status & Conntrack::SRC_NAT, 0);
    }

    #[test]
    fn an_echo_is_asked_for_by_its_kind_and_the_reply_by_its_own() {
        let ping = Question {
            tuple: tuple("10.12.3.4:77", "10.20.30.40:0", Proto::ICMP),
            icmp: Some(Icmp {
                kind: 8,
                code: 0,
                seq: 1,
            }),
        };
        let back = ping.reversed();
        assert_eq!((back.tuple.sport, back.icmp.unwrap().kind), (77, 0));
        assert_eq!(back.reversed(), ping);
        let body = write(ping).unwrap();
        let both = attribute(list(&body[HEADER..]), CTA_TUPLE_ORIG).unwrap();
        assert_eq!(read_tuple(both), Some(ping.tuple));
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_read_without_harm(bytes: Vec<u8>) {
            let _ = read(&bytes, tuple("10.0.0.1:1", "10.0.0.2:2", Proto::UDP));
        }
    }
}
