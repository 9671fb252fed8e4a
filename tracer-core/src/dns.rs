//! Names: what a pod's resolv.conf says, the questions that its resolver would be asked, and the answers.

use resolv_conf::{Config, ScopedIp};
use simple_dns::{
    CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE, rdata::RData,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Resolvers that the C library asks at most (`MAXNS`).
const RESOLVERS: usize = 3;
/// Names that a search list makes of one, at most.
const CANDIDATES: usize = 16;
/// Addresses of one answer that are kept.
const ADDRESSES: usize = 16;

/// How names are resolved in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolving {
    /// Whom to ask, the first one first.
    pub resolvers: Vec<IpAddr>,
    /// What is put behind short names.
    pub search: Vec<String>,
    /// A name with so many dots is asked as it is first.
    pub ndots: usize,
}

impl Resolving {
    /// One resolver, and names as they are.
    #[must_use]
    pub fn by(resolver: IpAddr) -> Self {
        Self {
            resolvers: vec![resolver],
            search: Vec::new(),
            ndots: 1,
        }
    }

    /// As a resolv.conf says; lines that are not understood are passed over, as the C library does. Of resolvers with
    /// a zone (`fe80::1%eth0`) the zone is lost: those are left out.
    #[must_use]
    pub fn of_file(bytes: &[u8]) -> Self {
        let (config, _) = Config::parse_with_errors(bytes);
        let plain = |one: &ScopedIp| match one {
            ScopedIp::V6(_, Some(_)) => None,
            other => Some(IpAddr::from(other).to_canonical()),
        };
        Self {
            resolvers: config
                .nameservers
                .iter()
                .filter_map(plain)
                .take(RESOLVERS)
                .collect(),
            search: config.get_last_search_or_domain().cloned().collect(),
            ndots: usize::try_from(config.ndots).unwrap_or(usize::MAX),
        }
    }

    /// The names that are asked for, in order: the first that exists counts.
    #[must_use]
    pub fn candidates(&self, name: &str) -> Vec<String> {
        let whole = name.trim_end_matches('.').to_owned();
        if name.ends_with('.') {
            return vec![whole];
        }
        let searched = self.search.iter().map(|domain| {
            let domain = domain.trim_matches('.');
            match domain {
                "" => whole.clone(),
                domain => format!("{whole}.{domain}"),
            }
        });
        let dots = name.bytes().filter(|byte| *byte == b'.').count();
        let mut all: Vec<String> = match dots >= self.ndots {
            true => [whole.clone()].into_iter().chain(searched).collect(),
            false => searched.chain([whole.clone()]).collect(),
        };
        all.truncate(CANDIDATES);
        all
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Name servers: of the root every resolver knows some, or refuses to say.
    Ns,
}

/// What a resolver answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Addresses.
    Addresses(Vec<IpAddr>),
    /// There is no such name (NXDOMAIN).
    NoSuchName,
    /// There is one, without what was asked for.
    NoAddress,
    /// An error, in words.
    Failed(String),
}

/// A query. `None`: that cannot be a name.
#[must_use]
pub fn query(id: u16, name: &str, asked: Asked) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let kind = match asked {
        Asked::A => TYPE::A,
        Asked::Aaaa => TYPE::AAAA,
        Asked::Ns => TYPE::NS,
    };
    let name = Name::new(name).ok()?;
    let question = Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false);
    packet.questions.push(question);
    packet.build_bytes_vec().ok()
}

/// Reads an answer; `None`: it is none to that query.
#[must_use]
pub fn answer(bytes: &[u8], id: u16) -> Option<Reply> {
    let packet = Packet::parse(bytes).ok()?;
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) {
        return None;
    }
    Some(match packet.rcode() {
        RCODE::NoError => addresses(&packet),
        RCODE::NameError => Reply::NoSuchName,
        RCODE::ServerFailure => Reply::Failed("a failure of its own (SERVFAIL)".to_owned()),
        RCODE::Refused => Reply::Failed("that it refuses to say (REFUSED)".to_owned()),
        RCODE::FormatError => Reply::Failed("that it does not understand (FORMERR)".to_owned()),
        RCODE::NotImplemented => Reply::Failed("that it cannot do that (NOTIMP)".to_owned()),
        other => Reply::Failed(format!("with the error {other:?}")),
    })
}

fn addresses(packet: &Packet<'_>) -> Reply {
    let found = packet
        .answers
        .iter()
        .filter_map(|record| match &record.rdata {
            RData::A(a) => Some(IpAddr::from(Ipv4Addr::from(a.address))),
            RData::AAAA(a) => Some(IpAddr::from(Ipv6Addr::from(a.address))),
            _ => None,
        });
    let found: Vec<IpAddr> = found.take(ADDRESSES).collect();
    match found.is_empty() {
        true => Reply::NoAddress,
        false => Reply::Addresses(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use simple_dns::{ResourceRecord, rdata};

    const POD: &[u8] = b"search shop.svc.cluster.local svc.cluster.local cluster.local\n\
        nameserver 10.96.0.10\nnameserver fe80::1%eth0\nnameserver nonsense\noptions ndots:5\n\xff\n";

    #[test]
    fn a_pods_file_is_read_as_the_c_library_does() {
        let read = Resolving::of_file(POD);
        assert_eq!(read.resolvers, ["10.96.0.10".parse::<IpAddr>().unwrap()]);
        assert_eq!(read.ndots, 5);
        let short = read.candidates("db");
        assert_eq!(
            short,
            [
                "db.shop.svc.cluster.local",
                "db.svc.cluster.local",
                "db.cluster.local",
                "db"
            ]
        );
        assert_eq!(read.candidates("db.example.")[..], ["db.example"]);
        assert_eq!(read.candidates("a.b.c.d.e.f")[0], "a.b.c.d.e.f");
        let none = Resolving::of_file(b"");
        assert_eq!((none.resolvers.len(), none.ndots), (0, 1));
        assert_eq!(none.candidates("db"), ["db"]);
    }

    fn reply(id: u16, rcode: RCODE, records: &[RData<'static>]) -> Vec<u8> {
        let mut packet = Packet::new_reply(id);
        packet.questions.clear();
        *packet.rcode_mut() = rcode;
        let record = |data: &RData<'static>| {
            ResourceRecord::new(
                Name::new_unchecked("db.example"),
                CLASS::IN,
                60,
                data.clone(),
            )
        };
        packet.answers = records.iter().map(record).collect();
        packet.build_bytes_vec().unwrap()
    }

    #[test]
    fn answers_are_told_apart() {
        let a = RData::A(rdata::A {
            address: 0x0a14_1e28,
        });
        let alias = RData::CNAME(rdata::CNAME(Name::new_unchecked("x.example")));
        let rows = [
            (
                RCODE::NoError,
                vec![alias.clone(), a],
                Some(Reply::Addresses(vec!["10.20.30.40".parse().unwrap()])),
            ),
            (RCODE::NoError, vec![alias], Some(Reply::NoAddress)),
            (RCODE::NameError, vec![], Some(Reply::NoSuchName)),
            (
                RCODE::ServerFailure,
                vec![],
                Some(Reply::Failed("a failure of its own (SERVFAIL)".into())),
            ),
        ];
        for (rcode, records, should) in rows {
            assert_eq!(answer(&reply(7, rcode, &records), 7), should);
        }
        assert_eq!(answer(&reply(7, RCODE::NoError, &[]), 8), None);
        assert_eq!(answer(&query(7, "db.example", Asked::A).unwrap(), 7), None);
        assert!(answer(&query(7, ".", Asked::Ns).unwrap(), 7).is_none());
    }

    #[test]
    fn the_root_is_a_name_and_an_overlong_label_is_none() {
        assert_eq!(query(1, ".", Asked::Ns).unwrap()[12..], [0, 0, 2, 0, 1]);
        assert_eq!(query(1, &"a".repeat(64), Asked::A), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..64) {
            let _ = answer(&bytes, 7);
            let _ = Resolving::of_file(&bytes);
            let mut whole = reply(7, RCODE::NoError, &[RData::A(rdata::A { address: 1 })]);
            whole.truncate(cut);
            let _ = answer(&whole, 7);
        }
    }
}
