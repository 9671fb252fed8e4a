//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng).

use pcap_parser::pcapng::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, OptionCode, PcapNGOption, SectionHeaderBlock,
};
use pcap_parser::{Linktype, ToVec};
use std::borrow::Cow;
use std::io;

/// Raw IP: what follows is an IPv4 or IPv6 header.
const RAW_IP: Linktype = Linktype::RAW;
/// Times are in nanoseconds.
const NANOSECONDS: u8 = 9;
/// The longest option value that fits its length field, with room to round up.
const LONGEST: usize = 65_000;

/// The head of the file.
///
/// # Errors
/// When it cannot be put together; that would be a bug.
pub fn section(os: &str, application: &str, comment: &str) -> io::Result<Vec<u8>> {
    bytes(SectionHeaderBlock {
        block_type: 0,
        block_len1: 0,
        bom: 0,
        major_version: 1,
        minor_version: 0,
        // Not known: it is being written.
        section_len: -1,
        options: vec![
            text(OptionCode::Comment, comment),
            text(OptionCode::ShbOs, os),
            text(OptionCode::ShbUserAppl, application),
        ],
        block_len2: 0,
    })
}

/// An interface: those that come later have the next numbers.
///
/// # Errors
/// As [`section`].
pub fn interface(name: &str, description: &str) -> io::Result<Vec<u8>> {
    bytes(InterfaceDescriptionBlock {
        block_type: 0,
        block_len1: 0,
        linktype: RAW_IP,
        reserved: 0,
        snaplen: 0,
        options: vec![
            text(OptionCode::IfName, name),
            text(OptionCode::IfDescription, description),
        ],
        block_len2: 0,
        if_tsresol: NANOSECONDS,
        if_tsoffset: 0,
    })
}

/// A packet at an interface: `direction` is 1 for in, 2 for out; `length` that on the wire, of which
/// `data` is the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The interface's number.
    pub interface: u32,
    /// Nanoseconds since 1970, UTC.
    pub unix_ns: u64,
    /// 1: in, 2: out.
    pub direction: u32,
    /// The bytes that are known.
    pub data: &'a [u8],
    /// How many there were.
    pub length: u32,
    /// What is said of it.
    pub comment: &'a str,
}

impl Packet<'_> {
    /// Its block.
    ///
    /// # Errors
    /// As [`section`].
    pub fn block(&self) -> io::Result<Vec<u8>> {
        let known = u32::try_from(self.data.len()).map_err(io::Error::other)?;
        bytes(EnhancedPacketBlock {
            block_type: 0,
            block_len1: 0,
            if_id: self.interface,
            ts_high: (self.unix_ns >> 32) as u32,
            ts_low: self.unix_ns as u32,
            caplen: known,
            origlen: self.length.max(known),
            data: self.data,
            options: vec![
                text(OptionCode::Comment, self.comment),
                // epb_flags has the number that if_name has.
                option(OptionCode(2), self.direction.to_le_bytes().to_vec()),
            ],
            block_len2: 0,
        })
    }
}

fn bytes(mut block: impl ToVec) -> io::Result<Vec<u8>> {
    let bytes = block.to_vec();
    bytes.map_err(|error| io::Error::other(format!("put a pcapng block together: {error:?}")))
}

fn text(code: OptionCode, text: &str) -> PcapNGOption<'static> {
    let mut text = text.to_owned();
    while text.len() > LONGEST {
        text.pop();
    }
    option(code, text.into_bytes())
}

fn option(code: OptionCode, value: Vec<u8>) -> PcapNGOption<'static> {
    PcapNGOption {
        code,
        len: u16::try_from(value.len()).unwrap_or(u16::MAX),
        value: Cow::Owned(value),
    }
}
