//! pcapng: sections of blocks. Interfaces are described by blocks of their own, each with its link type and the
//! unit of its times.

use super::blocks::Window;
use super::{Item, MAX_BLOCK, Trouble};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{
    Block, EnhancedPacketBlock, InterfaceDescriptionBlock, InterfaceStatisticsBlock, PcapNGOption,
    parse_block_be, parse_block_le,
};
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use tracer_core::capture::{Interface, LinkType, Packet};
use tracer_core::event::Dir;

/// The type of a section's header, which is the same in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Of each block: its type and its length.
const HEAD: usize = 8;
/// The least block: its type, and its length twice.
const LEAST: usize = 12;
const MOST_INTERFACES: usize = 4096;
/// Longest name that is kept, in characters.
const MOST_NAME: usize = 64;
const SECOND_NS: u128 = 1_000_000_000;

/// Numbers of options.
mod option {
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const IF_IPV4: u16 = 4;
    pub(super) const IF_IPV6: u16 = 5;
    pub(super) const IF_TSRESOL: u16 = 9;
    pub(super) const IF_TSOFFSET: u16 = 14;
    pub(super) const EPB_FLAGS: u16 = 2;
    pub(super) const ISB_IFDROP: u16 = 5;
    pub(super) const ISB_OSDROP: u16 = 7;
}

/// An interface of the section.
#[derive(Clone, Debug)]
struct Described {
    interface: Interface,
    clock: Clock,
}

/// How its times are written.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// `if_tsresol`: units of 10^-n seconds, or of 2^-n with the highest bit set.
    resolution: u8,
    /// Seconds to be added.
    offset_s: i64,
}

/// A pcapng file.
#[derive(Debug)]
pub(super) struct NextGeneration<R> {
    window: Window<R>,
    big_endian: bool,
    described: Vec<Described>,
    lost: u64,
    cut: Option<u64>,
}

impl<R: Read> NextGeneration<R> {
    pub(super) fn new(input: R, first: &[u8]) -> Self {
        Self {
            window: Window::new(input, first),
            big_endian: false,
            described: Vec::new(),
            lost: 0,
            cut: None,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Item<'_>>, Trouble> {
        let at = self.window.at();
        let damaged = |what: String| Trouble::Damaged { at, what };
        let Some(len) = self.block_len().map_err(|trouble| match trouble {
            Bad::Io(error) => Trouble::Unreadable(error),
            Bad::What(what) => damaged(what),
        })?
        else {
            return Ok(None);
        };
        let block = self.window.take(len);
        let parsed = match self.big_endian {
            true => parse_block_be(block),
            false => parse_block_le(block),
        };
        let Ok((_, block)) = parsed else {
            return Err(damaged("a block that cannot be read".to_owned()));
        };
        match block {
            Block::EnhancedPacket(block) => {
                let Some(of) = self.described.get(block.if_id as usize) else {
                    return Err(damaged(
                        "a packet of an interface that is not described".to_owned(),
                    ));
                };
                Ok(Some(packet(&block, of, self.big_endian)))
            }
            Block::SimplePacket(_) => Ok(Some(Item::Unreadable)),
            Block::InterfaceDescription(block) => {
                if self.described.len() >= MOST_INTERFACES {
                    return Err(damaged(format!("more than {MOST_INTERFACES} interfaces")));
                }
                let number = self.described.len() as u32 + 1;
                self.described
                    .push(describe(&block, number, self.big_endian));
                Ok(Some(Item::Interfaces))
            }
            Block::InterfaceStatistics(block) => {
                self.lost = self.lost.saturating_add(dropped(&block, self.big_endian));
                Ok(Some(Item::Other))
            }
            Block::SectionHeader(_) => {
                self.described.clear();
                Ok(Some(Item::Other))
            }
            _ => Ok(Some(Item::Other)),
        }
    }

    /// The length of the next block, all of which is there; `None` at the end.
    fn block_len(&mut self) -> Result<Option<usize>, Bad> {
        let at = self.window.at();
        let Some(head) = self.window.peek(LEAST)? else {
            self.cut = (!self.window.is_empty()).then_some(at);
            return Ok(None);
        };
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        if head.starts_with(&MAGIC) {
            let order = word(HEAD);
            self.big_endian = u32::from_be_bytes(order) == BYTE_ORDER;
            if !self.big_endian && u32::from_le_bytes(order) != BYTE_ORDER {
                return Err(Bad::What("a section without a byte order".to_owned()));
            }
        }
        let len = match self.big_endian {
            true => u32::from_be_bytes(word(4)),
            false => u32::from_le_bytes(word(4)),
        } as usize;
        if !(LEAST..=MAX_BLOCK).contains(&len) || !len.is_multiple_of(4) {
            return Err(Bad::What(format!("a block of {len} bytes")));
        }
        if self.window.peek(len)?.is_none() {
            self.cut = Some(at);
            return Ok(None);
        }
        Ok(Some(len))
    }

    pub(super) fn interfaces(&self) -> Vec<Interface> {
        self.described
            .iter()
            .map(|one| one.interface.clone())
            .collect()
    }

    pub(super) fn cut(&self) -> Option<u64> {
        self.cut
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn read(&self) -> u64 {
        self.window.read()
    }
}

/// What is wrong with a block.
enum Bad {
    Io(std::io::Error),
    What(String),
}

impl From<std::io::Error> for Bad {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

fn packet<'a>(block: &EnhancedPacketBlock<'a>, of: &Described, big_endian: bool) -> Item<'a> {
    let Some(link) = of.interface.link else {
        return Item::Unreadable;
    };
    let units = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
    let flags = find(&block.options, option::EPB_FLAGS).and_then(|bytes| u32_of(bytes, big_endian));
    let data = block.data;
    let captured = (block.caplen as usize).min(data.len());
    Item::Packet(Packet {
        time_ns: of.clock.time_ns(units),
        link,
        interface: of.interface.number,
        side: flags.and_then(side),
        len: block.orig_len(),
        bytes: &data[..captured],
    })
}

/// The lowest two bits: inbound, outbound, or not known.
fn side(flags: u32) -> Option<Dir> {
    match flags & 3 {
        1 => Some(Dir::Ingress),
        2 => Some(Dir::Egress),
        _ => None,
    }
}

fn describe(block: &InterfaceDescriptionBlock<'_>, number: u32, big_endian: bool) -> Described {
    let options = &block.options;
    let name = find(options, option::IF_NAME).map(|name| {
        let name = String::from_utf8_lossy(name);
        name.trim_end_matches('\0')
            .chars()
            .take(MOST_NAME)
            .collect()
    });
    let addrs = options
        .iter()
        .filter_map(|one| address(one.code.0, one.as_bytes().ok()?));
    let resolution = find(options, option::IF_TSRESOL).and_then(|bytes| bytes.first());
    let offset = find(options, option::IF_TSOFFSET).and_then(|bytes| i64_of(bytes, big_endian));
    Described {
        interface: Interface {
            number,
            name,
            addrs: addrs.take(MOST_NAME).collect(),
            link: u32::try_from(block.linktype.0).ok().and_then(LinkType::of),
        },
        clock: Clock {
            resolution: resolution.copied().unwrap_or(6),
            offset_s: offset.unwrap_or(0),
        },
    }
}

fn address(code: u16, bytes: &[u8]) -> Option<IpNet> {
    match (code, bytes) {
        (option::IF_IPV4, [a, b, c, d, mask @ ..]) => {
            let addr = Ipv4Addr::new(*a, *b, *c, *d);
            let mask: [u8; 4] = mask.try_into().ok()?;
            Ipv4Net::with_netmask(addr, mask.into()).ok().map(IpNet::V4)
        }
        (option::IF_IPV6, [addr @ .., len]) => {
            let addr: [u8; 16] = addr.try_into().ok()?;
            Ipv6Net::new(Ipv6Addr::from(addr), *len).ok().map(IpNet::V6)
        }
        _ => None,
    }
}

fn dropped(block: &InterfaceStatisticsBlock<'_>, big_endian: bool) -> u64 {
    let count = |code| {
        let bytes = find(&block.options, code)?;
        u64::try_from(i64_of(bytes, big_endian)?).ok()
    };
    let counts = [option::ISB_IFDROP, option::ISB_OSDROP].map(count);
    counts.into_iter().flatten().fold(0, u64::saturating_add)
}

fn find<'a>(options: &'a [PcapNGOption<'_>], code: u16) -> Option<&'a [u8]> {
    options
        .iter()
        .find(|one| one.code.0 == code)?
        .as_bytes()
        .ok()
}

fn u32_of(bytes: &[u8], big_endian: bool) -> Option<u32> {
    let bytes: [u8; 4] = bytes.try_into().ok()?;
    Some(if big_endian {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    })
}

fn i64_of(bytes: &[u8], big_endian: bool) -> Option<i64> {
    let bytes: [u8; 8] = bytes.try_into().ok()?;
    Some(if big_endian {
        i64::from_be_bytes(bytes)
    } else {
        i64::from_le_bytes(bytes)
    })
}

impl Clock {
    /// Nanoseconds since 1970 of so many units.
    fn time_ns(self, units: u64) -> u64 {
        let units = u128::from(units);
        let n = u32::from(self.resolution & 0x7f);
        let ns = match self.resolution & 0x80 {
            0 if n <= 9 => units * 10u128.pow(9 - n),
            0 => 10u128.checked_pow(n - 9).map_or(0, |unit| units / unit),
            _ => (units * SECOND_NS) >> n,
        };
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        let ns = i128::try_from(ns)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_the_interface_says() {
        let at = |resolution, offset_s, units| {
            let clock = Clock {
                resolution,
                offset_s,
            };
            clock.time_ns(units)
        };
        assert_eq!(at(6, 0, 1_500_000), 1_500_000_000);
        assert_eq!(at(9, 0, 1_500_000_000), 1_500_000_000);
        assert_eq!(at(12, 0, 1_500_000_000_000), 1_500_000_000);
        assert_eq!(at(0x80 | 10, 0, 1536), 1_500_000_000);
        assert_eq!(at(3, 3600, 1), 3600 * 1_000_000_000 + 1_000_000);
        for resolution in 0..=255 {
            for units in [0, 1, u64::MAX] {
                at(resolution, i64::MIN, units);
                at(resolution, i64::MAX, units);
            }
        }
    }
}
