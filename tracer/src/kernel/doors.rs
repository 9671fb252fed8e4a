//! Doors: where a program may not read kernel memory, nothing tells it in which namespace its packet
//! is, and devices of different namespaces have the same numbers. (`bpf_get_netns_cookie` is there
//! for traffic-control programs from 6.15 on only.) So each namespace has a door for each side: a
//! program of a few instructions that notes the namespace's number and goes on, by tail call, to the
//! one program that does the work. Loading one takes well under a millisecond, loading the work
//! again would take a hundred times that.

use super::bpf::{self, Instruction, Order};
use super::taps::{Side, classifier};
use super::{KernelError, Programs};
use aya::Ebpf;
use aya::maps::Map;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use tracer_core::event::NetnsId;

/// Both sides, by their rooms' numbers.
const SIDES: [Side; 2] = [Side::Ingress, Side::Egress];

/// The doors made, and what was attached of them.
#[derive(Default)]
pub(super) struct Doors {
    /// Where doors lead to: the programs of [`SIDES`]. Only made where it is needed: when somebody
    /// lists all maps in the moment in which its owner dies, the kernel may forget to free it.
    rooms: Option<OwnedFd>,
    made: BTreeMap<(NetnsId, Side), OwnedFd>,
    links: Vec<OwnedFd>,
}

impl Side {
    fn room(self) -> u32 {
        match self {
            Self::Ingress => 0,
            Self::Egress => 1,
        }
    }

    fn direct_program(self) -> &'static str {
        match self {
            Self::Ingress => "srctrace_ingress_direct",
            Self::Egress => "srctrace_egress_direct",
        }
    }

    /// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS`; and where among others: nobody is to change a packet
    /// between the wire and us.
    fn tcx(self) -> (u32, Order) {
        match self {
            Self::Ingress => (46, Order::First),
            Self::Egress => (47, Order::Last),
        }
    }
}

impl Programs {
    /// Loads the programs that read no kernel memory, and puts them where doors lead to.
    ///
    /// # Errors
    /// When the kernel refuses them.
    pub(super) fn load_direct(&mut self) -> Result<(), KernelError> {
        let door = |source| KernelError::Door { source };
        let mut rooms = Vec::new();
        for side in SIDES {
            let program = side.direct_program();
            let refused = |source| KernelError::Program {
                program,
                source: Box::new(source),
            };
            let loaded = classifier(&mut self.ebpf, program)?;
            loaded.load().map_err(refused)?;
            rooms.push(loaded.fd().map_err(refused)?.try_clone().map_err(door)?);
        }
        let rooms: Vec<_> = rooms.iter().map(AsFd::as_fd).collect();
        self.doors.rooms = Some(bpf::program_array(&rooms).map_err(door)?);
        Ok(())
    }

    /// The door of a namespace's side, made where there is none yet.
    pub(super) fn door(
        &mut self,
        netns: NetnsId,
        side: Side,
    ) -> Result<BorrowedFd<'_>, KernelError> {
        let lacking = || KernelError::ForeignObject("no direct programs".to_owned());
        let rooms = self.doors.rooms.as_ref().ok_or_else(lacking)?;
        let maps = (here(&self.ebpf)?, rooms.as_raw_fd());
        let made = match self.doors.made.entry((netns, side)) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(slot) => {
                let code = code(maps, netns, side.room());
                let door = bpf::load_classifier("srctrace_door", &code);
                slot.insert(door.map_err(|source| KernelError::Door { source })?)
            }
        };
        let made: &OwnedFd = made;
        Ok(made.as_fd())
    }

    /// Attaches the door to a device of the calling thread's namespace.
    pub(super) fn attach_door(
        &mut self,
        netns: NetnsId,
        (ifindex, name): (u32, &str),
        side: Side,
    ) -> Result<(), KernelError> {
        let (attach_type, order) = side.tcx();
        let link = bpf::link_tcx(self.door(netns, side)?, ifindex, attach_type, order);
        let link = link.map_err(|source| KernelError::Link {
            target: format!("device {name}"),
            source,
        })?;
        self.doors.links.push(link);
        self.attached.tcx += 1;
        Ok(())
    }
}

fn here(ebpf: &Ebpf) -> Result<RawFd, KernelError> {
    match ebpf.map("HERE") {
        Some(Map::PerCpuArray(map)) => Ok(map.fd().as_fd().as_raw_fd()),
        _ => Err(KernelError::ForeignObject("no map HERE".to_owned())),
    }
}

/// What a door does: `if let Some(here) = HERE[0] { *here = netns; tail_call(ROOMS[room]) }; next`.
fn code((here, rooms): (RawFd, RawFd), netns: NetnsId, room: u32) -> [Instruction; 16] {
    let (map, next) = (1 << 4, u32::MAX);
    let (here, rooms) = (here.cast_unsigned(), rooms.cast_unsigned());
    [
        instruction(0xbf, 0x16, 0, 0),        // r6 = r1, the context
        instruction(0x62, 0x0a, -4, 0),       // *(u32 *)(r10 - 4) = 0
        instruction(0xbf, 0xa2, 0, 0),        // r2 = r10
        instruction(0x07, 0x02, 0, next - 3), // r2 -= 4
        instruction(0x18, map | 1, 0, here),  // r1 = HERE
        [0; 8],
        instruction(0x85, 0, 0, LOOKUP), // r0 = map_lookup_elem(r1, r2)
        instruction(0x15, 0, 6, 0),      // if r0 == 0 go to the end
        instruction(0x62, 0x00, 0, netns.0), // *(u32 *)r0 = netns
        instruction(0xbf, 0x61, 0, 0),   // r1 = r6
        instruction(0x18, map | 2, 0, rooms), // r2 = ROOMS
        [0; 8],
        instruction(0xb7, 0x03, 0, room),   // r3 = room
        instruction(0x85, 0, 0, TAIL_CALL), // tail_call(r1, r2, r3)
        instruction(0xb7, 0x00, 0, next),   // r0 = TC_ACT_UNSPEC
        instruction(0x95, 0, 0, 0),         // exit
    ]
}

/// The helpers `map_lookup_elem` and `tail_call`.
const LOOKUP: u32 = 1;
const TAIL_CALL: u32 = 12;

fn instruction(opcode: u8, registers: u8, offset: i16, immediate: u32) -> Instruction {
    let [low, high] = offset.to_le_bytes();
    let [a, b, c, d] = immediate.to_le_bytes();
    [opcode, registers, low, high, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `tests/object.rs` holds the compiled programs to it: a door only looks, and says "next".
    #[test]
    fn a_door_calls_two_helpers_and_lets_the_packet_go_on() {
        let code = code((3, 4), NetnsId(0xf000_0001), 1);
        let called = code.iter().filter(|one| one[0] == 0x85);
        assert_eq!(called.map(|one| one[4]).collect::<Vec<_>>(), [1, 12]);
        assert_eq!(
            code[14..],
            [
                [0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
                [0x95, 0, 0, 0, 0, 0, 0, 0],
            ]
        );
        assert_eq!(code[8][4..], [1, 0, 0, 0xf0]);
        let exits = code.iter().filter(|one| one[0] == 0x95).count();
        let target = 7 + 1 + usize::from(code[7][2]);
        assert_eq!((exits, target), (1, 14));
    }
}
