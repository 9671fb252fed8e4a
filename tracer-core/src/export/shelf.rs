//! Sightings that wait until their flow is judged.

use super::words::comment;
use super::{Interface, Packet, headers};
use crate::attribute::number_at;
use crate::event::Event;
use crate::inventory::Inventory;
use crate::journey::{Closed, Hop, Journey, Place};
use crate::packet::Tuple;
use crate::point::Point;
use crate::report::{Flow, RewriteDirection};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Most sightings that wait. Those that waited longest go first: nobody asked for their flow.
const MOST: usize = 1 << 16;
/// Most of one tuple at one device.
const MOST_ALIKE: usize = 256;

/// Sightings by where they were and what they looked like there.
#[derive(Debug, Default)]
pub struct Shelf {
    held: HashMap<(Place, Tuple), Vec<Event>, RandomState>,
    count: usize,
    left: u64,
}

impl Shelf {
    /// Takes in a sighting.
    pub fn put(&mut self, event: &Event) {
        let alike = self
            .held
            .entry((Place::of(event), event.tuple))
            .or_default();
        if alike.len() >= MOST_ALIKE {
            self.left += 1;
            return;
        }
        alike.push(event.clone());
        self.count += 1;
        if self.count > MOST {
            self.make_room();
        }
    }

    /// The packets of a flow that is told, in the order in which they were sighted.
    pub fn take(
        &mut self,
        (closed, flow): (&Closed, &Flow),
        points: &[Point],
        inventory: &Inventory,
    ) -> Vec<Packet> {
        let journey = &closed.journey;
        let ways = [
            (RewriteDirection::Request, journey.request.hops()),
            (RewriteDirection::Reply, journey.reply.hops()),
            (RewriteDirection::Reply, journey.error.hops()),
        ];
        let mut found = Vec::new();
        for (direction, hops) in ways {
            for hop in hops {
                let events = self.at(hop, journey);
                found.extend(
                    events
                        .into_iter()
                        .map(|event| (direction, hop.place, event)),
                );
            }
        }
        found.sort_by_key(|(_, _, event)| event.time_ns);
        let packet = |(direction, place, event): (RewriteDirection, Place, Event)| Packet {
            time_ns: event.time_ns,
            interface: Interface::at(place, points, inventory),
            dir: place.dir,
            bytes: headers(&event),
            length: event.l3_len,
            comment: comment(flow, direction, number_at(journey, place), &event),
        };
        found.into_iter().map(packet).collect()
    }

    /// The sightings of a flow at one of its hops, by the tap that sees the wire.
    fn at(&mut self, hop: &Hop, journey: &Journey) -> Vec<Event> {
        let tuple = hop.tuple();
        let key = tuple.map(|tuple| (hop.place, tuple));
        let Some(alike) = key.and_then(|key| self.held.get_mut(&key)) else {
            return Vec::new();
        };
        let lasted = journey.first_ns..=journey.last_ns;
        let mine = |event: &mut Event| lasted.contains(&event.time_ns);
        let taken: Vec<Event> = alike.extract_if(.., mine).collect();
        self.count -= taken.len();
        let wire = hop.wire_tap();
        taken.into_iter().filter(|e| e.tap == wire).collect()
    }

    /// Sightings that are in no file: their flow was not told, or there were too many.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left + self.count as u64
    }

    /// Leaves out the older half.
    fn make_room(&mut self) {
        let mut times: Vec<u64> = self.held.values().flatten().map(|e| e.time_ns).collect();
        let middle = times.len() / 2;
        let (_, cut, _) = times.select_nth_unstable(middle);
        let cut = *cut;
        self.held.retain(|_, alike| {
            alike.retain(|event| event.time_ns >= cut);
            !alike.is_empty()
        });
        let kept: usize = self.held.values().map(Vec::len).sum();
        self.left += (self.count - kept) as u64;
        self.count = kept;
    }
}
