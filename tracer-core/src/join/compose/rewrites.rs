//! What changed, on the hosts and between them.

use super::Scene;
use super::hops::Numbers;
use crate::journey::Direction;
use crate::packet::Tuple;
use crate::report::{
    AddrPort, Rewrite, RewriteAgent, RewriteDirection, RewriteEvidence, RewriteField, Where,
};
use std::net::SocketAddr;

/// Every change of the request, then of the reply, in the order in which the packets met them.
pub(super) fn rewrites(scene: &Scene<'_>, numbers: &Numbers) -> Vec<Rewrite> {
    let count = scene.members.len();
    let mut all = Vec::new();
    for at in 0..count {
        all.extend(own(scene, numbers, at, RewriteDirection::Request));
        if at + 1 < count {
            all.extend(border(scene, numbers, at, Direction::Request));
        }
    }
    for at in (0..count).rev() {
        all.extend(own(scene, numbers, at, RewriteDirection::Reply));
        if at > 0 {
            all.extend(border(scene, numbers, at - 1, Direction::Reply));
        }
    }
    all
}

fn own(scene: &Scene<'_>, numbers: &Numbers, at: usize, dir: RewriteDirection) -> Vec<Rewrite> {
    let those = scene.members[at].flow.rewrites.iter();
    those
        .filter(|r| r.direction == dir)
        .map(|r| Rewrite {
            between: r.between.map(|n| numbers.of(at, n)),
            ..r.clone()
        })
        .collect()
}

/// What changed between a part's last hop and the next one's first: somewhere that nobody looked at.
fn border(scene: &Scene<'_>, numbers: &Numbers, at: usize, dir: Direction) -> Vec<Rewrite> {
    let near = scene.members[at].witness.way(dir);
    let far = scene.members[at + 1].witness.way(dir);
    let hops = [numbers.ends(at).1, numbers.ends(at + 1).0];
    let (before, after, between) = match dir {
        Direction::Request => (near.last(), far.first(), hops),
        Direction::Reply => (far.last(), near.first(), [hops[1], hops[0]]),
    };
    let (Some(before), Some(after)) = (before, after) else {
        return Vec::new();
    };
    if !scene.comparable(at, at + 1) {
        return Vec::new();
    }
    changes(before.tuple, after.tuple)
        .map(|(field, from, to)| Rewrite {
            direction: match dir {
                Direction::Request => RewriteDirection::Request,
                Direction::Reply => RewriteDirection::Reply,
            },
            field,
            from: view(from),
            to: view(to),
            between,
            place: Where::Downstream,
            netns: None,
            hook: None,
            agent: RewriteAgent::Unknown,
            rule: None,
            marked_by: None,
            program: None,
            evidence: RewriteEvidence::Between,
        })
        .collect()
}

fn changes(a: Tuple, b: Tuple) -> impl Iterator<Item = (RewriteField, SocketAddr, SocketAddr)> {
    let field = |from: SocketAddr, to: SocketAddr, addr, port| match from == to {
        true => None,
        false if from.ip() == to.ip() => Some((port, from, to)),
        false => Some((addr, from, to)),
    };
    let src = field(
        a.source(),
        b.source(),
        RewriteField::Src,
        RewriteField::Sport,
    );
    let (from, to) = (a.destination(), b.destination());
    let dst = field(from, to, RewriteField::Dst, RewriteField::Dport);
    src.into_iter().chain(dst)
}

fn view(addr: SocketAddr) -> AddrPort {
    AddrPort {
        addr: addr.ip(),
        port: addr.port(),
    }
}
