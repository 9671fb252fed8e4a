//! Flows by number. Numbers are reused; a serial tells the new tenant from the old.

/// A flow's number and serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FlowRef {
    index: u32,
    serial: u32,
}

#[derive(Debug)]
struct Slot<T> {
    serial: u32,
    value: Option<T>,
}

/// A table of flows with stable references.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> FlowRef {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                serial: 0,
                value: None,
            });
            // The correlator's cap keeps the number of slots far below 2^32.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[index as usize];
        slot.serial = slot.serial.wrapping_add(1);
        slot.value = Some(value);
        FlowRef {
            index,
            serial: slot.serial,
        }
    }

    pub(super) fn get(&self, at: FlowRef) -> Option<&T> {
        let slot = self.slots.get(at.index as usize)?;
        slot.value.as_ref().filter(|_| slot.serial == at.serial)
    }

    pub(super) fn get_mut(&mut self, at: FlowRef) -> Option<&mut T> {
        let slot = self.slots.get_mut(at.index as usize)?;
        slot.value.as_mut().filter(|_| slot.serial == at.serial)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    pub(super) fn remove(&mut self, at: FlowRef) -> Option<T> {
        let slot = self.slots.get_mut(at.index as usize)?;
        if slot.serial != at.serial {
            return None;
        }
        let value = slot.value.take()?;
        self.free.push(at.index);
        Some(value)
    }
}
