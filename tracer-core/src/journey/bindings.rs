//! Which flow a tuple belongs to. A tuple means nothing by itself: two labs, two pods or two
//! conntrack zones may use the same addresses at the same time. The key therefore carries the
//! namespace, and the zone where it is known.

use super::Direction;
use super::slab::FlowRef;
use crate::event::NetnsId;
use crate::packet::Tuple;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A tuple in its namespace and zone, and its reverse: they are bound together, and kept as one, by
/// the lesser. Zone 0 is the default zone, and stands for "not known".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    netns: NetnsId,
    zone: u16,
    tuple: Tuple,
}

impl Key {
    /// The key, and whether the tuple is the reverse of that in the key.
    fn of(netns: NetnsId, zone: u16, tuple: Tuple) -> (Self, bool) {
        let reversed = tuple.reversed();
        let is_reverse = reversed < tuple;
        let tuple = if is_reverse { reversed } else { tuple };
        (Self { netns, zone, tuple }, is_reverse)
    }
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    flow: FlowRef,
    /// Of the tuple in the key.
    dir: Direction,
    zone: u16,
    /// A flow of another zone with the same tuple, alive at the same time.
    rival: Option<FlowRef>,
}

/// The outcome of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    Nothing,
    One(FlowRef, Direction),
    /// Both fit, because the zone of the sighting is not known.
    Two(FlowRef, FlowRef),
}

#[derive(Debug, Default)]
pub(super) struct Bindings {
    map: HashMap<Key, Bound, RandomState>,
}

impl Bindings {
    /// Binds a tuple, and its reverse in the other direction, and gives the keys that are new for
    /// this flow.
    pub(super) fn bind(
        &mut self,
        netns: NetnsId,
        zone: u16,
        tuple: Tuple,
        flow: FlowRef,
        dir: Direction,
        keys: &mut Vec<Key>,
    ) {
        let (key, is_reverse) = Key::of(netns, zone, tuple);
        let dir = dir.flipped_if(is_reverse);
        self.bind_key(key, zone, flow, dir, keys);
        if zone != 0 {
            // Sightings without a conntrack entry (at ingress) do not tell their zone.
            self.bind_key(Key { zone: 0, ..key }, zone, flow, dir, keys);
        }
    }

    fn bind_key(
        &mut self,
        key: Key,
        zone: u16,
        flow: FlowRef,
        dir: Direction,
        keys: &mut Vec<Key>,
    ) {
        let new = Bound {
            flow,
            dir,
            zone,
            rival: None,
        };
        match self.map.entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(new);
                add(keys, key);
            }
            Entry::Occupied(mut slot) => {
                let old = slot.get_mut();
                if old.flow == flow {
                    old.zone = old.zone.max(zone);
                    return;
                }
                let rival = (old.zone != 0 && zone != 0 && old.zone != zone).then_some(old.flow);
                *old = Bound { rival, ..new };
                add(keys, key);
            }
        }
    }

    /// Whose tuple this is.
    pub(super) fn find(&self, netns: NetnsId, zone: u16, tuple: Tuple) -> Lookup {
        let (key, is_reverse) = Key::of(netns, zone, tuple);
        let zoned = (zone != 0).then(|| self.map.get(&key)).flatten();
        let unzoned = || {
            self.map
                .get(&Key { zone: 0, ..key })
                .filter(|b| zone == 0 || b.zone == 0 || b.zone == zone)
        };
        match zoned.or_else(unzoned) {
            None => Lookup::Nothing,
            Some(b) => match b.rival {
                Some(rival) if zone == 0 => Lookup::Two(b.flow, rival),
                _ => Lookup::One(b.flow, b.dir.flipped_if(is_reverse)),
            },
        }
    }

    /// Forgets a flow's keys, except those that another flow took over.
    pub(super) fn unbind(&mut self, flow: FlowRef, keys: &[Key]) {
        for key in keys {
            if let Entry::Occupied(mut slot) = self.map.entry(*key) {
                if slot.get().flow == flow {
                    slot.remove();
                } else if slot.get().rival == Some(flow) {
                    slot.get_mut().rival = None;
                }
            }
        }
    }

    /// Makes the keys of one flow another's.
    pub(super) fn rebind(&mut self, from: FlowRef, to: FlowRef, keys: &[Key]) {
        for key in keys {
            if let Some(bound) = self.map.get_mut(key) {
                if bound.flow == from {
                    bound.flow = to;
                }
                if bound.rival == Some(from) || bound.rival == Some(to) {
                    bound.rival = None;
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }
}

/// Most flows have a key or a few, and very many flows are remembered: room is made for no more.
fn add(keys: &mut Vec<Key>, key: Key) {
    if keys.len() == keys.capacity() {
        keys.reserve_exact(1 + keys.len());
    }
    keys.push(key);
}
