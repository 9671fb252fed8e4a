//! How a packet went through a namespace: in by one device, out by another, or from and to a socket
//! there. Rules are asked about passages.

use super::before_first;
use crate::event::{Dir, NetnsId};
use crate::journey::{Hop, Journey};
use crate::packet::Tuple;

/// One namespace on the way of a flow's first request.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// Which namespace.
    pub netns: NetnsId,
    /// The sighting on the way in, of stacked devices (a bridge and its port) the last, whose name
    /// rules see; `None` where the packet was made there.
    pub entry: Option<&'a Hop>,
    /// The sighting on the way out, of stacked devices (a VLAN and its carrier) the first, whose
    /// name rules see; `None` where it went to a socket there, or no further.
    pub exit: Option<&'a Hop>,
    /// The packet's tuple before the namespace's rules.
    pub before: Tuple,
}

/// The passages of the request, in order.
#[must_use]
pub(super) fn passages(journey: &Journey) -> Vec<Passage<'_>> {
    let mut found: Vec<Passage<'_>> = Vec::new();
    for (i, hop) in journey.request.hops().iter().enumerate() {
        if hop.outer.is_some() {
            continue; // what the rules see there is the packet around it
        }
        let Some(before) = before(journey, hop, i == 0) else {
            continue;
        };
        let here = found.last_mut().filter(|p| p.netns == hop.place.netns);
        match (here, hop.place.dir) {
            (Some(passage), Dir::Egress) => passage.exit = passage.exit.or(Some(hop)),
            (Some(passage), Dir::Ingress) if passage.exit.is_none() => {
                passage.entry = Some(hop);
                // A bridge may have shown it to the rules below that.
                let entry = hop.conntrack();
                if entry.is_none_or(|entry| entry.orig != passage.before) {
                    passage.before = before;
                }
            }
            (_, dir) => found.push(Passage {
                netns: hop.place.netns,
                entry: Some(hop).filter(|_| dir == Dir::Ingress),
                exit: Some(hop).filter(|_| dir == Dir::Egress),
                before,
            }),
        }
    }
    found
}

/// The packet before the rules of a namespace: as it came in, or as its socket made it.
fn before(journey: &Journey, hop: &Hop, first: bool) -> Option<Tuple> {
    match hop.place.dir {
        Dir::Ingress => hop.tuples().next_back(),
        Dir::Egress if first => before_first(journey, hop).or_else(|| hop.tuples().next()),
        Dir::Egress => hop.tuples().next(),
    }
}
