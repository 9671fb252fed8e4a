//! In which order a request met what saw it.

use super::clocks::Clocks;
use super::compose::Member;
use super::links::is_before;
use super::witness::Witness;
use std::cmp::Ordering;

/// Whether the request met one part after the other, by its hop limits.
pub(super) fn apart(a: &Witness, b: &Witness) -> bool {
    let (Some(a), Some(b)) = (a.ends(), b.ends()) else {
        return false;
    };
    a.1.ttl > b.0.ttl || b.1.ttl > a.0.ttl
}

/// In the order of the request's way.
pub(super) fn sorted(mut members: Vec<Member>, clocks: &Clocks) -> Vec<Member> {
    let order = |a: &Member, b: &Member| {
        let told = a.witness.ends().zip(b.witness.ends());
        let told = told.and_then(|(a, b)| is_before(a, b));
        let began = |m: &Member| clocks.align(m.source, m.witness.lasted.0);
        match told {
            Some(true) => Ordering::Less,
            Some(false) => Ordering::Greater,
            None => began(a).cmp(&began(b)),
        }
    };
    // Few, and not always a total order: each goes behind the last that comes before it.
    let mut way: Vec<Member> = Vec::new();
    members.sort_by_key(|m| m.source);
    for member in members {
        let at = way
            .iter()
            .rposition(|other| order(other, &member) != Ordering::Greater);
        way.insert(at.map_or(0, |at| at + 1), member);
    }
    way
}
