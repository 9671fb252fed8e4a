//! The blob that iptables-legacy's kernel half keeps a table in, as `getsockopt` hands it out: from
//! a place in it to chain and rule number.
//!
//! Layout: `struct ipt_entry` / `struct ip6t_entry` (uapi linux/netfilter_ipv4/ip_tables.h,
//! ip6_tables.h) up to `target_offset` and `next_offset`, then matches, then one `struct
//! xt_entry_target` {size u16, name[29], revision u8}. Built-in chains begin where the table's hooks
//! point to, chains of users behind an `ERROR` target that holds their name, and an `ERROR` target
//! ends it all. The bytes count as hostile.

use crate::ruleset::{Family, Hook};

/// Where `target_offset` lies in an entry of a family: behind `struct ipt_ip` or `struct ip6t_ip6`
/// and the `nfcache` word; `next_offset` follows it.
fn target_offset_at(family: Family) -> usize {
    if family == Family::Ip6 { 140 } else { 88 }
}

/// Name of a target: at 2 in `struct xt_entry_target`, 29 bytes.
const TARGET_NAME: std::ops::Range<usize> = 2..31;
/// Where a target's data begins.
const TARGET_DATA: usize = 32;
/// The name of a chain in an `ERROR` target: `XT_FUNCTION_MAXNAMELEN` bytes.
const CHAIN_NAME: usize = 30;

/// A table's blob, with what `IPT_SO_GET_INFO` says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Whose.
    pub family: Family,
    /// Where each hook's chain begins, in order of hooks; `None` where the table has none.
    pub hooks: [Option<u32>; 5],
    /// `num_entries`.
    pub number: u32,
    /// The entries.
    pub bytes: Vec<u8>,
}

const HOOKS: [Hook; 5] = [
    Hook::Prerouting,
    Hook::Input,
    Hook::Forward,
    Hook::Output,
    Hook::Postrouting,
];

/// Chain and number of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The chain.
    pub chain: String,
    /// Number in the chain, from 1. A built-in chain's policy is counted after its last rule.
    pub index: u32,
}

impl Blob {
    /// The rule whose target's data lies at `offset`; `None` where no entry holds that place as
    /// its target's data, or the bytes make no sense before it.
    #[must_use]
    pub fn locate(&self, offset: u32) -> Option<Numbered> {
        let offset = usize::try_from(offset).ok()?;
        let mut at = 0;
        let mut here: Option<Numbered> = None;
        while let Some(entry) = self.entry(at) {
            if let Some(name) = self.chain_begins(at, entry) {
                here = Some(Numbered {
                    chain: name,
                    index: 0,
                });
            }
            if let Some(here) = &mut here
                && !is_error(entry.target)
            {
                here.index = here.index.checked_add(1)?;
            }
            let end = at.checked_add(entry.len)?;
            if offset < end {
                let data = at.checked_add(entry.target_at)?.checked_add(TARGET_DATA)?;
                return here.filter(|here| here.index > 0 && offset >= data);
            }
            at = end;
        }
        None
    }

    /// The name of the chain that begins with the entry at `at`.
    fn chain_begins(&self, at: usize, entry: Entry<'_>) -> Option<String> {
        if is_error(entry.target) {
            let name = entry.target.get(TARGET_DATA..)?;
            return Some(text(name.get(..CHAIN_NAME).unwrap_or(name)));
        }
        let begins = |begin: &Option<u32>| begin.is_some_and(|b| usize::try_from(b) == Ok(at));
        let hook = HOOKS.iter().zip(&self.hooks).find(|(_, b)| begins(b))?.0;
        Some(hook.to_string().to_uppercase())
    }

    fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let bytes = self.bytes.get(at..)?;
        let field = target_offset_at(self.family);
        let word = |at: usize| {
            let bytes = bytes.get(at..)?.first_chunk()?;
            Some(usize::from(u16::from_ne_bytes(*bytes)))
        };
        let (target_at, len) = (word(field)?, word(field + 2)?);
        // Also keeps the walk going: an entry is longer than its header.
        if len <= field || target_at <= field {
            return None;
        }
        let target = bytes.get(target_at..len)?;
        Some(Entry {
            len,
            target_at,
            target,
        })
    }
}

#[derive(Clone, Copy)]
struct Entry<'b> {
    len: usize,
    target_at: usize,
    target: &'b [u8],
}

fn is_error(target: &[u8]) -> bool {
    target
        .get(TARGET_NAME)
        .is_some_and(|name| name.starts_with(b"ERROR\0"))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An entry with a target of so many bytes of data.
    fn entry(family: Family, target: &[u8], data: &[u8]) -> Vec<u8> {
        let header = if family == Family::Ip6 { 168 } else { 112 };
        let mut bytes = vec![0; header + TARGET_DATA];
        bytes[header + 2..header + 2 + target.len()].copy_from_slice(target);
        bytes.extend(data);
        let field = target_offset_at(family);
        let (at, len) = (header as u16, bytes.len() as u16);
        bytes[field..field + 2].copy_from_slice(&at.to_ne_bytes());
        bytes[field + 2..field + 4].copy_from_slice(&len.to_ne_bytes());
        bytes
    }

    fn chain(family: Family, name: &[u8]) -> Vec<u8> {
        let mut data = [0; 32];
        data[..name.len()].copy_from_slice(name);
        entry(family, b"ERROR", &data)
    }

    /// A table like the kernel's, and where each entry's target data begins.
    fn nat(family: Family) -> (Blob, Vec<u32>) {
        let entries = [
            entry(family, b"", &[0; 8]),            // PREROUTING's policy
            entry(family, b"", &[0; 8]),            // POSTROUTING 1: a jump
            entry(family, b"MASQUERADE", &[0; 24]), // POSTROUTING 2
            entry(family, b"", &[0; 8]),            // POSTROUTING's policy
            chain(family, b"IP-MASQ"),
            entry(family, b"", &[0; 8]),            // IP-MASQ 1: RETURN
            entry(family, b"MASQUERADE", &[0; 24]), // IP-MASQ 2
            entry(family, b"", &[0; 8]),            // IP-MASQ's end
            chain(family, b"ERROR"),
        ];
        let header = if family == Family::Ip6 { 168 } else { 112 };
        let (mut bytes, mut data) = (Vec::new(), Vec::new());
        let mut starts = Vec::new();
        for entry in entries {
            starts.push(bytes.len() as u32);
            data.push((bytes.len() + header + TARGET_DATA) as u32);
            bytes.extend(entry);
        }
        let hooks = [Some(starts[0]), None, None, None, Some(starts[1])];
        let number = 9;
        (
            Blob {
                family,
                hooks,
                number,
                bytes,
            },
            data,
        )
    }

    #[test]
    fn a_place_becomes_chain_and_number() {
        for family in [Family::Ip, Family::Ip6] {
            let (blob, data) = nat(family);
            let at = |n: usize| blob.locate(data[n]).map(|r| (r.chain, r.index));
            let rule = |chain: &str, index| Some((chain.to_owned(), index));
            assert_eq!(at(0), rule("PREROUTING", 1));
            assert_eq!(at(1), rule("POSTROUTING", 1));
            assert_eq!(at(2), rule("POSTROUTING", 2));
            assert_eq!(at(5), rule("IP-MASQ", 1));
            assert_eq!(at(6), rule("IP-MASQ", 2));
            assert_eq!(at(4), None, "a chain's head is no rule");
            assert_eq!(
                blob.locate(data[6] - TARGET_DATA as u32),
                None,
                "no target data"
            );
            assert_eq!(blob.locate(u32::MAX), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_searched_without_harm(bytes: Vec<u8>, offset: u32, hooks: [Option<u32>; 5], six: bool) {
            let family = if six { Family::Ip6 } else { Family::Ip };
            let _ = Blob { family, hooks, number: 0, bytes }.locate(offset);
        }

        #[test]
        fn a_damaged_blob_is_searched_without_harm(at in 0usize..1500, value: u8, offset in 0u32..2000) {
            let (mut blob, _) = nat(Family::Ip);
            let len = blob.bytes.len();
            blob.bytes[at % len] = value;
            let _ = blob.locate(offset);
        }
    }
}
