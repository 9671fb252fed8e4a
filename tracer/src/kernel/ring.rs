//! The event ring.

use super::KernelError;
use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use std::os::fd::{AsFd, BorrowedFd};

/// Our end of the event ring.
pub struct Ring(RingBuf<MapData>);

impl Ring {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        let map = ebpf
            .take_map("EVENTS")
            .ok_or_else(|| KernelError::ForeignObject("no map EVENTS".to_owned()))?;
        RingBuf::try_from(map)
            .map(Self)
            .map_err(|source| KernelError::Map {
                map: "EVENTS",
                source: Box::new(source),
            })
    }

    /// Hands over what is in the ring, at most `limit` records; says how many there were.
    pub fn drain(&mut self, limit: usize, mut record: impl FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while taken < limit
            && let Some(item) = self.0.next()
        {
            record(&item);
            taken += 1;
        }
        taken
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
