//! Trace messages to hits: one per base chain that a packet went through.

use super::nftrace::{Kind, Message};
use super::{RuleHit, RulePlace};
use crate::event::NetnsId;
use crate::packet::Tuple;
use crate::ruleset::Verdict;
use std::collections::BTreeMap;

/// At most so many traversals are open: each ends within microseconds, unless messages are lost.
const MOST: usize = 4096;
/// At most so many rules of one traversal are kept.
const MOST_RULES: usize = 1024;

/// A packet on its way.
#[derive(Clone, Debug)]
struct Open {
    first: Tuple,
    path: Vec<(RulePlace, Option<Verdict>)>,
}

/// Puts the messages of one namespace together.
#[derive(Clone, Debug)]
pub struct Traversals {
    netns: NetnsId,
    /// Our own table, whose rules only switch the trace on.
    own: String,
    open: BTreeMap<u32, Open>,
}

impl Traversals {
    /// For messages of a namespace. `own`: the table whose rules are not told.
    #[must_use]
    pub fn new(netns: NetnsId, own: &str) -> Self {
        Self {
            netns,
            own: own.to_owned(),
            open: BTreeMap::new(),
        }
    }

    /// Takes a message in; the hit, where a traversal ends with it.
    pub fn take(&mut self, time_ns: u64, message: Message) -> Option<RuleHit> {
        if let Some(first) = message.tuple {
            self.begin(message.id, first);
        }
        if message.table == self.own {
            return None; // says what the packet first looked like, and nothing else
        }
        let open = self.open.get_mut(&message.id)?;
        let (mark, ct_id) = (message.mark, message.ct_id);
        let ends = message.kind == Kind::Policy || decides(message.verdict.as_ref());
        let (place, verdict) = step(message)?;
        if !ends {
            if open.path.len() < MOST_RULES {
                open.path.push((place, verdict));
            }
            return None;
        }
        Some(RuleHit {
            time_ns,
            skb: None,
            netns: self.netns,
            hook: None, // no message tells it: the chain with which it begins does
            tuple: open.first,
            conntrack: None,
            place,
            verdict,
            path: std::mem::take(&mut open.path),
            mark,
            ct_id,
        })
    }

    /// A packet's first message in a base chain. Its addresses may be translated by then: the
    /// first ever are what the namespace first had.
    fn begin(&mut self, id: u32, tuple: Tuple) {
        if self.open.len() >= MOST && !self.open.contains_key(&id) {
            self.open.pop_first();
        }
        let open = self.open.entry(id).or_insert_with(|| Open {
            first: tuple,
            path: Vec::new(),
        });
        open.path.clear();
    }
}

fn decides(verdict: Option<&Verdict>) -> bool {
    matches!(
        verdict,
        Some(Verdict::Accept | Verdict::Drop | Verdict::Queue)
    )
}

/// What a message adds to the path; `None` for a rule without a handle, the end of a chain.
fn step(message: Message) -> Option<(RulePlace, Option<Verdict>)> {
    let Message {
        kind,
        family,
        table,
        chain,
        handle,
        verdict,
        ..
    } = message;
    let place = match kind {
        Kind::Policy => RulePlace::Policy {
            family,
            table,
            chain,
            index: None,
        },
        Kind::Rule | Kind::Return => RulePlace::Nft {
            family,
            table,
            chain,
            chain_cut: false,
            handle: handle?,
            index: None,
            xt: false,
        },
    };
    Some((place, verdict))
}

#[cfg(test)]
mod tests {
    use super::super::nftrace::message;
    use super::super::nftrace::tests::{attribute, said, trace};
    use super::*;

    fn header(last: u8) -> Vec<u8> {
        let mut network = vec![0; 20];
        (network[0], network[9]) = (0x45, 17);
        network[12..20].copy_from_slice(&[10, 0, 0, last, 10, 0, 0, 2]);
        attribute(8, &network)
    }

    fn handle(number: u64) -> Vec<u8> {
        attribute(3, &number.to_be_bytes())
    }

    /// As measured: a jump, a rule that goes on, a masquerade in the chain jumped to; then another
    /// base chain that the same packet runs through to its policy.
    #[test]
    fn a_traversal_becomes_one_hit_with_its_path() {
        let mut traversals = Traversals::new(NetnsId(1), "ours");
        let mut take = |bytes: &[u8]| traversals.take(9, message(bytes).unwrap());
        let jump = [handle(9), said(-3, b"IP-MASQ\0"), header(1)];
        assert_eq!(take(&trace(5, "POSTROUTING", 3, &jump)), None);
        assert_eq!(
            take(&trace(5, "IP-MASQ", 3, &[handle(11), said(-1, b"")])),
            None
        );
        let hit = take(&trace(5, "IP-MASQ", 3, &[handle(12), said(1, b"")])).unwrap();
        assert_eq!(hit.place.to_string(), "nft ip nat/IP-MASQ handle 12");
        let path: Vec<_> = hit
            .path
            .iter()
            .map(|(place, _)| place.to_string())
            .collect();
        assert_eq!(
            path,
            [
                "nft ip nat/POSTROUTING handle 9",
                "nft ip nat/IP-MASQ handle 11"
            ]
        );
        assert_eq!(
            take(&trace(5, "late", 3, &[said(-1, b""), header(5)])),
            None
        );
        let hit = take(&trace(5, "late", 1, &[attribute(16, &1u32.to_be_bytes())])).unwrap();
        assert_eq!(hit.place.to_string(), "ip nat/late policy");
        assert_eq!(hit.verdict, Some(Verdict::Accept));
        assert_eq!(
            hit.tuple.src.to_string(),
            "10.0.0.1",
            "the first addresses count"
        );
        assert_eq!(hit.path, []);
    }

    #[test]
    fn a_message_whose_beginning_was_lost_gives_nothing() {
        let mut traversals = Traversals::new(NetnsId(1), "ours");
        let end = message(&trace(5, "c", 3, &[handle(1), said(1, b"")])).unwrap();
        assert_eq!(traversals.take(9, end), None);
    }
}
