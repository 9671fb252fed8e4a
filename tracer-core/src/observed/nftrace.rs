//! The kernel's own rule trace: messages of `NFNLGRP_NFTRACE`, one per rule that matched.
//!
//! `NFT_MSG_TRACE` (uapi linux/netfilter/nf_tables.h): addresses stand only in the first message of
//! a base chain's traversal, the later ones carry its id. A traversal ends with a rule that decides
//! or with the chain's policy. A `RULE` message without a handle is the end of a chain.

use super::attributes::{attributes, be32, be64, text};
use super::decode::{family, verdict_of};
use super::headers;
use crate::packet::Tuple;
use crate::ruleset::{Family, Verdict};

/// `NFTA_TRACE_*`.
mod attribute {
    pub(super) const TABLE: u16 = 1;
    pub(super) const CHAIN: u16 = 2;
    pub(super) const RULE_HANDLE: u16 = 3;
    pub(super) const TYPE: u16 = 4;
    pub(super) const VERDICT: u16 = 5;
    pub(super) const ID: u16 = 6;
    pub(super) const NETWORK_HEADER: u16 = 8;
    pub(super) const TRANSPORT_HEADER: u16 = 9;
    pub(super) const IIF: u16 = 10;
    pub(super) const OIF: u16 = 12;
    pub(super) const MARK: u16 = 14;
    pub(super) const POLICY: u16 = 16;
    pub(super) const CT_ID: u16 = 18;
}

/// `NFTA_VERDICT_*`.
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;

/// `struct nfgenmsg`: family, version, resource.
const GENERAL: usize = 4;

/// What a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A chain's policy decided (1).
    Policy,
    /// The end of a chain, back to its caller (2).
    Return,
    /// A rule matched (3).
    Rule,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Of the traversal: the same for one packet.
    pub id: u32,
    /// What it tells.
    pub kind: Kind,
    /// The table's family.
    pub family: Family,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The rule; `None` at the end of a chain.
    pub handle: Option<u64>,
    /// What the rule or policy said.
    pub verdict: Option<Verdict>,
    /// The packet, in the first message of a traversal.
    pub tuple: Option<Tuple>,
    /// The device by which it came in.
    pub iif: Option<u32>,
    /// The device by which it goes out.
    pub oif: Option<u32>,
    /// Its mark after the rule, where it has one.
    pub mark: Option<u32>,
    /// Its conntrack entry's id, as `conntrack -L -o id` prints it (newer kernels).
    pub ct_id: Option<u32>,
}

/// Reads the body of one `NFT_MSG_TRACE` message; `None` where it lacks what every such message has.
#[must_use]
pub fn message(body: &[u8]) -> Option<Message> {
    let mut raw = Raw::default();
    for (kind, payload) in attributes(body.get(GENERAL..)?) {
        raw.take(kind, payload);
    }
    Some(Message {
        id: raw.id?,
        kind: raw.kind?,
        family: family(*body.first()?)?,
        table: raw.table?,
        chain: raw.chain?,
        handle: raw.handle,
        verdict: raw.verdict,
        tuple: raw
            .network
            .and_then(|network| headers::tuple(network, raw.transport)),
        iif: raw.iif,
        oif: raw.oif,
        mark: raw.mark,
        ct_id: raw.ct_id,
    })
}

#[derive(Default)]
struct Raw<'b> {
    id: Option<u32>,
    kind: Option<Kind>,
    table: Option<String>,
    chain: Option<String>,
    handle: Option<u64>,
    verdict: Option<Verdict>,
    network: Option<&'b [u8]>,
    transport: Option<&'b [u8]>,
    iif: Option<u32>,
    oif: Option<u32>,
    mark: Option<u32>,
    ct_id: Option<u32>,
}

impl<'b> Raw<'b> {
    fn take(&mut self, kind: u16, payload: &'b [u8]) {
        match kind {
            attribute::TABLE => self.table = Some(text(payload)),
            attribute::CHAIN => self.chain = Some(text(payload)),
            attribute::RULE_HANDLE => self.handle = be64(payload),
            attribute::TYPE => self.kind = be32(payload).and_then(traced),
            attribute::VERDICT => self.verdict = verdict(payload),
            attribute::POLICY => self.verdict = be32(payload).and_then(policy),
            attribute::ID => self.id = be32(payload),
            attribute::NETWORK_HEADER => self.network = Some(payload),
            attribute::TRANSPORT_HEADER => self.transport = Some(payload),
            attribute::IIF => self.iif = be32(payload),
            attribute::OIF => self.oif = be32(payload),
            attribute::MARK => self.mark = be32(payload),
            attribute::CT_ID => self.ct_id = be32(payload),
            _ => {}
        }
    }
}

fn traced(kind: u32) -> Option<Kind> {
    Some(match kind {
        1 => Kind::Policy,
        2 => Kind::Return,
        3 => Kind::Rule,
        _ => return None,
    })
}

fn verdict(payload: &[u8]) -> Option<Verdict> {
    let mut number = None;
    let mut chain = String::new();
    for (kind, payload) in attributes(payload) {
        match kind {
            VERDICT_CODE => number = be32(payload),
            VERDICT_CHAIN => chain = text(payload),
            _ => {}
        }
    }
    verdict_of(number?.cast_signed(), || chain)
}

/// A policy's verdict, which leads nowhere.
fn policy(number: u32) -> Option<Verdict> {
    verdict_of(number.cast_signed(), String::new)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((payload.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A message of table `ip nat` with these further attributes.
    pub(crate) fn trace(id: u32, chain: &str, kind: u32, more: &[Vec<u8>]) -> Vec<u8> {
        let chain = [chain.as_bytes(), b"\0"].concat();
        let own = [
            vec![2, 0, 0, 0],
            attribute(1, b"nat\0"),
            attribute(2, &chain),
            attribute(4, &kind.to_be_bytes()),
            attribute(6, &id.to_be_bytes()),
        ];
        [own.concat(), more.concat()].concat()
    }

    pub(crate) fn said(code: i32, chain: &[u8]) -> Vec<u8> {
        let mut inner = attribute(1, &code.to_be_bytes());
        if !chain.is_empty() {
            inner.extend(attribute(2, chain));
        }
        attribute(5 | 0x8000, &inner)
    }

    #[test]
    fn a_rule_that_jumps_is_read() {
        let mut network = vec![0; 20];
        network[0] = 0x45;
        network[9] = 17;
        network[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let more = [
            attribute(3, &7u64.to_be_bytes()),
            said(-3, b"IP-MASQ\0"),
            attribute(8, &network),
            attribute(9, &[0, 5, 0, 53]),
            attribute(12, &3u32.to_be_bytes()),
            attribute(14, &0x4000u32.to_be_bytes()),
            attribute(18, &9u32.to_be_bytes()),
        ];
        let read = message(&trace(5, "POSTROUTING", 3, &more)).unwrap();
        assert_eq!(
            (read.id, read.kind, read.family),
            (5, Kind::Rule, Family::Ip)
        );
        assert_eq!(
            (read.table.as_str(), read.chain.as_str()),
            ("nat", "POSTROUTING")
        );
        assert_eq!(
            (read.handle, read.mark, read.ct_id),
            (Some(7), Some(0x4000), Some(9))
        );
        assert_eq!((read.iif, read.oif), (None, Some(3)));
        assert_eq!(read.verdict, Some(Verdict::Jump("IP-MASQ".into())));
        let tuple = read.tuple.unwrap();
        assert_eq!((tuple.sport, tuple.dport), (5, 53));
    }

    #[test]
    fn a_message_without_its_parts_is_none() {
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[2, 0, 0, 0]), None);
        assert_eq!(message(&trace(5, "c", 9, &[])), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let _ = message(&bytes);
        }

        #[test]
        fn any_attributes_are_read_without_harm(kind in 0u16..24, payload: Vec<u8>) {
            let _ = message(&trace(1, "c", 3, &[attribute(kind, &payload)]));
        }
    }
}
