//! Reading what the kernel half counted.

use super::load::named;
use super::{KernelError, Programs};
use aya::maps::{Array, HashMap, PerCpuArray};
use tracer_common::{BulkSlot, FlowKey, FlowState, counter};
use zerocopy::{FromBytes, IntoBytes};

/// The kernel half's own counters, summed over CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events put into the ring.
    pub told: u64,
    /// Events that the ring had no room for.
    pub lost: u64,
    /// Program runs that gave up because they nested.
    pub nested: u64,
    /// Rules that ran and could not be told.
    pub hits_missed: u64,
    /// Runs of the probes on rules that every packet passes.
    pub passed: u64,
}

const KEY: usize = size_of::<FlowKey>();
const STATE: usize = size_of::<FlowState>();
const SLOT: usize = size_of::<BulkSlot>();

impl Programs {
    /// The counters now.
    ///
    /// # Errors
    /// When the kernel refuses the read.
    pub fn counters(&mut self) -> Result<Counters, KernelError> {
        let failed = |source| KernelError::Map {
            map: "COUNTERS",
            source: Box::new(source),
        };
        let map: PerCpuArray<_, u64> =
            PerCpuArray::try_from(named(&mut self.ebpf, "COUNTERS")?).map_err(failed)?;
        let sum = |index| -> Result<u64, KernelError> {
            Ok(map.get(&index, 0).map_err(failed)?.iter().sum())
        };
        Ok(Counters {
            told: sum(counter::TOLD)?,
            lost: sum(counter::LOST)?,
            nested: sum(counter::NESTED)?,
            hits_missed: sum(counter::HITS_MISSED)?,
            passed: sum(counter::PASSED)?,
        })
    }

    /// One tuple's counters at one tap: wire packets and bytes. `None` where the tap knows none (any
    /// more).
    pub fn flow_counter(&mut self, key: &FlowKey) -> Option<(u64, u64)> {
        let map: HashMap<_, [u8; KEY], [u8; STATE]> =
            HashMap::try_from(self.ebpf.map_mut("FLOWS")?).ok()?;
        let mut bytes = [0; KEY];
        bytes.copy_from_slice(key.as_bytes());
        let state = FlowState::read_from_bytes(&map.get(&bytes, 0).ok()?).ok()?;
        Some(self.counts(&state))
    }

    /// Wire packets and bytes of a flow: what its state says, and what was counted beside that.
    fn counts(&mut self, state: &FlowState) -> (u64, u64) {
        let slot = (state.sum != 0).then(|| {
            let map: Array<_, [u8; SLOT]> = Array::try_from(self.ebpf.map_mut("BULK")?).ok()?;
            let bytes = map.get(&BulkSlot::index(state.sum), 0).ok()?;
            BulkSlot::read_from_bytes(&bytes).ok()
        });
        match slot.flatten() {
            // Wrapping: while the programs move counts, either may lack what the other has.
            Some(slot) if slot.sum == state.sum => (
                state.packets.wrapping_add(slot.packets),
                state.bytes.wrapping_add(slot.bytes),
            ),
            _ => (state.packets, state.bytes),
        }
    }

    /// Every tuple's wire packets at every tap, as they are now. Entries that go while the table is
    /// read are left out.
    ///
    /// # Errors
    /// When the map cannot be used at all.
    pub fn flow_counters(
        &mut self,
        mut entry: impl FnMut(FlowKey, u64),
    ) -> Result<(), KernelError> {
        let failed = |source| KernelError::Map {
            map: "FLOWS",
            source: Box::new(source),
        };
        let map: HashMap<_, [u8; KEY], [u8; STATE]> =
            HashMap::try_from(named(&mut self.ebpf, "FLOWS")?).map_err(failed)?;
        let flows: Vec<_> = map.iter().flatten().collect();
        for (key, state) in flows {
            if let (Ok(key), Ok(state)) = (
                FlowKey::read_from_bytes(&key),
                FlowState::read_from_bytes(&state),
            ) {
                entry(key, self.counts(&state).0);
            }
        }
        Ok(())
    }
}
