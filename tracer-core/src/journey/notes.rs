//! What is remembered of a packet for a while, to recognise it at its next point.

use super::Direction;
use super::correlator::Correlator;
use super::place::Place;
use super::print::{self, Mark};
use super::slab::FlowRef;
use crate::event::{Dir, Event, Fingerprint, Fragment, NetnsId, Tap};
use crate::inventory::Inventory;
use crate::packet::Proto;
use std::net::IpAddr;

/// What is remembered of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct SkbNote {
    pub(super) flow: FlowRef,
    /// `None` for an ICMP error about the flow.
    pub(super) dir: Option<Direction>,
    pub(super) place: Place,
    tap: Tap,
    pub(super) print: Fingerprint,
}

/// Flows that had a packet with this mark: two are enough to know that it is ambiguous.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates(pub(super) [Option<(FlowRef, Direction)>; 2]);

/// What the fragments of one datagram have in common.
pub(super) type FragmentKey = (NetnsId, IpAddr, IpAddr, Proto, u32);

pub(super) fn fragment_key(event: &Event, place: Place) -> Option<FragmentKey> {
    let t = event.tuple;
    (event.print.fragment != Fragment::Whole).then_some((
        place.netns,
        t.src,
        t.dst,
        t.proto,
        event.print.ip_id?,
    ))
}

impl Correlator {
    /// Notes by what this packet can be recognised at its next point.
    pub(super) fn remember(
        &mut self,
        event: &Event,
        place: Place,
        at: FlowRef,
        dir: Option<Direction>,
    ) {
        let now = event.time_ns;
        if self.has_buffers {
            let note = SkbNote {
                flow: at,
                dir,
                place,
                tap: event.tap,
                print: event.print,
            };
            self.skbs.note(now, event.skb, note);
        }
        let Some(dir) = dir else {
            return;
        };
        if let Some(key) = fragment_key(event, place) {
            self.fragments.note(now, key, (at, dir));
        }
        if let Some(mark) = Mark::of(event) {
            let noted = self.marks.get(now, &mark).copied();
            let flows = match noted {
                Some(Candidates([Some(first), second])) if first.0 != at => {
                    [Some(first), second.or(Some((at, dir)))]
                }
                Some(Candidates([first @ Some(_), second])) => [first, second],
                _ => [Some((at, dir)), None],
            };
            self.marks.note(now, mark, Candidates(flows));
        }
    }
}

/// Whether a buffer can have got from where it was noted to here, as the same packet. Buffers are
/// reused at once, and small datagrams look alike: those must have taken a step that exists.
pub(super) fn continues(
    note: &SkbNote,
    event: &Event,
    place: Place,
    inventory: &Inventory,
) -> bool {
    if note.place == place && note.tap == event.tap {
        return false;
    }
    let same_netns = note.place.netns == place.netns;
    let strong = print::is_strong(&event.print);
    if place.dir == Dir::Egress && event.local {
        let here = same_netns || (strong && handed_over(note.place, place, inventory));
        if !here || note.place.dir == Dir::Ingress {
            return false;
        }
    }
    if strong {
        return true;
    }
    match (place.dir, inventory.peer(place.netns, place.ifindex)) {
        (Dir::Egress, _) => same_netns,
        (Dir::Ingress, Some(peer)) => {
            let from = note.place;
            same_netns || (from.dir == Dir::Egress && peer == (from.netns, from.ifindex))
        }
        (Dir::Ingress, None) => same_netns || note.place.dir == Dir::Egress,
    }
}

/// Whether the program of a netkit device may have sent a packet on: that runs before the packet has
/// come in at the other end, so no device has noted it there (`netkit_xmit`).
fn handed_over(from: Place, to: Place, inventory: &Inventory) -> bool {
    let link = inventory.link(from.netns, from.ifindex);
    link.is_some_and(|link| {
        link.kind == "netkit" && link.peer.is_some_and(|(netns, _)| netns == to.netns)
    })
}
