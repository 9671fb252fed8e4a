//! What makes two flows, of two reports, flows of one path.

use crate::report::{Flow, OriginKind, PathView, ProtoName};
use ipnet::IpNet;
use std::net::IpAddr;

/// A path by what names its sender best.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    who: Who,
    to: To,
}

/// A path by what stays of its sender after a roll-out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loose {
    who: LooseWho,
    to: To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct To {
    proto: u8,
    dst: IpAddr,
    dport: u16,
}

/// A sender.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    /// The node's own traffic: whichever of its addresses it has, on whichever node.
    Node,
    Pod(String),
    Address(OriginKind, IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LooseWho {
    Node,
    Set(String),
    Net(OriginKind, IpNet),
}

impl Path {
    pub(super) fn of(flow: &Flow) -> Self {
        let tuple = &flow.flow.tuple;
        let origin = &flow.origin;
        let who = match (&origin.pod, origin.kind) {
            (Some(pod), _) => Who::Pod(pod.clone()),
            (None, OriginKind::Node) => Who::Node,
            (None, kind) => Who::Address(kind, tuple.src),
        };
        let to = To {
            proto: flow.flow.proto.0.0,
            dst: tuple.dst,
            dport: tuple.dport,
        };
        Self { who, to }
    }

    /// As the report shows it.
    pub(super) fn view(&self, kind: OriginKind) -> PathView {
        let who = match &self.who {
            Who::Node => "node".to_owned(),
            Who::Pod(pod) => pod.clone(),
            Who::Address(_, addr) => addr.to_string(),
        };
        PathView {
            kind,
            who,
            proto: ProtoName(crate::packet::Proto(self.to.proto)),
            dst: self.to.dst,
            dport: self.to.dport,
        }
    }

    pub(super) fn loose(&self) -> Loose {
        let who = match &self.who {
            Who::Node => LooseWho::Node,
            Who::Pod(pod) => LooseWho::Set(set(pod).to_owned()),
            Who::Address(kind, addr) => LooseWho::Net(*kind, around(*addr)),
        };
        Loose { who, to: self.to }
    }
}

impl Loose {
    /// The same path, by this name of its sender.
    pub(super) fn view(&self, of: &PathView) -> PathView {
        let who = match &self.who {
            LooseWho::Node => "node".to_owned(),
            LooseWho::Set(set) => format!("{set}-*"),
            LooseWho::Net(_, net) => net.to_string(),
        };
        PathView { who, ..of.clone() }
    }
}

/// The network that an address is most likely in together with its pod's successor.
fn around(addr: IpAddr) -> IpNet {
    let bits = if addr.is_ipv4() { 24 } else { 64 };
    IpNet::new(addr, bits).map_or_else(|_| addr.into(), |net| net.trunc())
}

/// `shop/web` of `shop/web-7d9f8bdc4-x2x9k`, `shop/db` of `shop/db-0`.
fn set(pod: &str) -> &str {
    let Some((rest, last)) = pod.rsplit_once('-') else {
        return pod;
    };
    match rest.rsplit_once('-') {
        Some((set, hash)) if is_random(last, 5..=5) && is_random(hash, 6..=10) => set,
        _ => rest,
    }
}

/// Whether a Deployment's controller may have made this word up: it uses just these letters.
fn is_random(word: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    let letter = |c: u8| b"bcdfghjklmnpqrstvwxz2456789".contains(&c);
    length.contains(&word.len()) && word.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::set;

    #[test]
    fn pods_of_one_set() {
        for (pod, of) in [
            ("shop/web-7d9f8bdc4-x2x9k", "shop/web"),
            ("shop/db-0", "shop/db"),
            ("shop/agent-x2x9k", "shop/agent"),
            ("shop/front-end-x2x9k", "shop/front-end"),
            ("shop/alone", "shop/alone"),
            ("", ""),
        ] {
            assert_eq!(set(pod), of, "{pod}");
        }
    }
}
