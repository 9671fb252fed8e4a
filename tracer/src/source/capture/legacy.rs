//! pcap: a header, then packets.

use super::blocks::Window;
use super::{Item, MAX_BLOCK, Trouble};
use pcap_parser::{
    LegacyPcapBlock, PcapError, nom, parse_pcap_frame, parse_pcap_frame_be,
    parse_pcap_frame_modified, parse_pcap_header,
};
use std::io::Read;
use tracer_core::capture::{Interface, LinkType, Packet};

const HEADER: usize = 24;
/// What tcpdump writes at most (`MAXIMUM_SNAPLEN` of libpcap), and the least limit here.
const USUAL: usize = 262_144;
const SECOND_NS: u64 = 1_000_000_000;

type Frame = fn(&[u8]) -> nom::IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

/// A pcap file.
#[derive(Debug)]
pub(super) struct Legacy<R> {
    window: Window<R>,
    frame: Frame,
    /// Bytes before a packet's own.
    head: usize,
    big_endian: bool,
    /// Nanoseconds in the unit of the fractions of a second.
    unit_ns: u64,
    /// Most bytes of a packet.
    most: usize,
    link: LinkType,
    cut: Option<u64>,
}

impl<R: Read> Legacy<R> {
    /// Reads the header.
    pub(super) fn new(input: R, first: &[u8]) -> Result<Self, Trouble> {
        let mut window = Window::new(input, first);
        let damaged = |what: &str| Trouble::Damaged {
            at: 0,
            what: what.to_owned(),
        };
        if window.peek(HEADER)?.is_none() {
            return Err(damaged("it ends in the middle of its header"));
        }
        let Ok((_, header)) = parse_pcap_header(window.take(HEADER)) else {
            return Err(damaged("a header that cannot be read"));
        };
        if header.version_major != 2 {
            return Err(damaged(&format!(
                "format {}.{}; 2.x is read",
                header.version_major, header.version_minor
            )));
        }
        // The upper bits tell of checksums behind the frames.
        let number = header.network.0 as u32 & 0xffff;
        let big_endian = header.is_bigendian();
        let (frame, head): (Frame, usize) = match header.is_modified_format() {
            true => (parse_pcap_frame_modified, 24),
            false if big_endian => (parse_pcap_frame_be, 16),
            false => (parse_pcap_frame, 16),
        };
        Ok(Self {
            window,
            frame,
            head,
            big_endian,
            unit_ns: if header.is_nanosecond_precision() {
                1
            } else {
                1000
            },
            most: (header.snaplen as usize).clamp(USUAL, MAX_BLOCK),
            link: LinkType::of(number).ok_or(Trouble::Link(number))?,
            cut: None,
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<Item<'_>>, Trouble> {
        let at = self.window.at();
        let Some(head) = self.window.peek(self.head)? else {
            self.cut = (!self.window.is_empty()).then_some(at);
            return Ok(None);
        };
        let len = [head[8], head[9], head[10], head[11]];
        let len = match self.big_endian {
            true => u32::from_be_bytes(len),
            false => u32::from_le_bytes(len),
        } as usize;
        if len > self.most {
            let what = format!("a packet of {len} bytes");
            return Err(Trouble::Damaged { at, what });
        }
        if self.window.peek(self.head + len)?.is_none() {
            self.cut = Some(at);
            return Ok(None);
        }
        let Ok((_, packet)) = (self.frame)(self.window.take(self.head + len)) else {
            let what = "a packet that cannot be read".to_owned();
            return Err(Trouble::Damaged { at, what });
        };
        let fraction = u64::from(packet.ts_usec) * self.unit_ns;
        Ok(Some(Item::Packet(Packet {
            time_ns: u64::from(packet.ts_sec) * SECOND_NS + fraction,
            link: self.link,
            interface: 0,
            side: None,
            len: packet.origlen,
            bytes: packet.data,
        })))
    }

    pub(super) fn interfaces(&self) -> Vec<Interface> {
        vec![Interface {
            // The only interface that the old cooked frames can be of.
            name: (self.link == LinkType::Cooked).then(|| "any".to_owned()),
            link: Some(self.link),
            ..Interface::default()
        }]
    }

    pub(super) fn cut(&self) -> Option<u64> {
        self.cut
    }

    pub(super) fn read(&self) -> u64 {
        self.window.read()
    }
}
