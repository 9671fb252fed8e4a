//! iptables-legacy's part of the rule trace: it goes to the packet log, one message per rule.
//!
//! `NFULNL_MSG_PACKET` (uapi linux/netfilter/nfnetlink_log.h) with a prefix that `ip_tables` writes:
//! `TRACE: TABLE:CHAIN:rule|return|policy:NUMBER ` (net/ipv4/netfilter/ip_tables.c). Nothing tells
//! which message is a packet's last in a table: it is the one after which another table, another
//! hook or nothing follows.

use super::attributes::{attributes, be32, text};
use super::decode::{family, hook};
use super::{RuleHit, RulePlace, headers};
use crate::event::NetnsId;
use crate::packet::Tuple;
use crate::ruleset::{Family, Hook, Verdict};
use std::collections::BTreeMap;

/// `NFULA_*`.
mod attribute {
    pub(super) const PACKET_HEADER: u16 = 1;
    pub(super) const MARK: u16 = 2;
    pub(super) const PAYLOAD: u16 = 9;
    pub(super) const PREFIX: u16 = 10;
}

/// `struct nfgenmsg`.
const GENERAL: usize = 4;
/// At most so many packets are on their way at a time.
const MOST: usize = 4096;
/// At most so many rules of one packet in one table are kept.
const MOST_RULES: usize = 1024;
/// A packet's messages follow each other within microseconds.
const PAUSE_NS: u64 = 50_000_000;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The packet's family.
    pub family: Family,
    /// At which hook.
    pub hook: Hook,
    /// The packet as that hook has it.
    pub tuple: Tuple,
    /// The table.
    pub table: String,
    /// The rule, or the policy.
    pub place: RulePlace,
    /// `Return` where it ended a chain without a condition; of other rules it is not told.
    pub verdict: Option<Verdict>,
    /// The packet's mark.
    pub mark: Option<u32>,
}

/// Reads the body of one `NFULNL_MSG_PACKET` message; `None` where it is no trace.
#[must_use]
pub fn message(body: &[u8]) -> Option<Message> {
    let family = family(*body.first()?)?;
    let (mut at, mut mark, mut payload, mut prefix) = (None, None, None, None);
    for (kind, value) in attributes(body.get(GENERAL..)?) {
        match kind {
            attribute::PACKET_HEADER => at = value.get(2).copied().and_then(hook),
            attribute::MARK => mark = be32(value),
            attribute::PAYLOAD => payload = Some(value),
            attribute::PREFIX => prefix = Some(text(value)),
            _ => {}
        }
    }
    let (table, place, verdict) = step(family, &prefix?)?;
    Some(Message {
        family,
        hook: at?,
        tuple: headers::tuple(payload?, None)?,
        table,
        place,
        verdict,
        mark,
    })
}

/// Reads a prefix. A chain's name may hold colons, the others may not.
fn step(family: Family, prefix: &str) -> Option<(String, RulePlace, Option<Verdict>)> {
    let (table, rest) = prefix.strip_prefix("TRACE: ")?.trim_end().split_once(':')?;
    let (rest, number) = rest.rsplit_once(':')?;
    let (chain, kind) = rest.rsplit_once(':')?;
    let (table, chain) = (table.to_owned(), chain.to_owned());
    let index = number.parse().ok()?;
    let verdict = (kind == "return").then_some(Verdict::Return);
    let of = table.clone();
    let place = match kind {
        "policy" => RulePlace::Policy {
            family,
            table,
            chain,
            index: Some(index),
        },
        _ => RulePlace::Legacy {
            family,
            table,
            chain,
            index,
        },
    };
    Some((of, place, verdict))
}

/// A packet in a table.
#[derive(Clone, Debug)]
struct Open {
    time_ns: u64,
    hook: Hook,
    table: String,
    mark: Option<u32>,
    steps: Vec<(RulePlace, Option<Verdict>)>,
}

/// Puts the messages of one namespace together.
#[derive(Clone, Debug)]
pub struct LoggedTraversals {
    netns: NetnsId,
    open: BTreeMap<(Family, Tuple), Open>,
}

impl LoggedTraversals {
    /// For messages of a namespace.
    #[must_use]
    pub fn new(netns: NetnsId) -> Self {
        Self {
            netns,
            open: BTreeMap::new(),
        }
    }

    /// Takes a message in; the hit in the table before, if the packet has left it.
    pub fn take(&mut self, time_ns: u64, message: Message) -> Option<RuleHit> {
        let key = (message.family, message.tuple);
        let goes_on = |open: &Open| (open.hook, &open.table) == (message.hook, &message.table);
        let left = match self.open.get(&key) {
            Some(open) if !goes_on(open) => self.close(key),
            _ => None,
        };
        if self.open.len() >= MOST && !self.open.contains_key(&key) {
            self.open.pop_first();
        }
        let open = self.open.entry(key).or_insert_with(|| Open {
            time_ns,
            hook: message.hook,
            table: message.table,
            mark: None,
            steps: Vec::new(),
        });
        (open.time_ns, open.mark) = (time_ns, message.mark);
        if open.steps.len() < MOST_RULES {
            open.steps.push((message.place, message.verdict));
        }
        left
    }

    /// The hits of packets of which nothing was heard for a while.
    pub fn settle(&mut self, now_ns: u64) -> Vec<RuleHit> {
        let quiet = |open: &Open| open.time_ns.saturating_add(PAUSE_NS) <= now_ns;
        let over = self.open.iter().filter(|(_, open)| quiet(open));
        let over: Vec<_> = over.map(|(key, _)| *key).collect();
        over.into_iter().filter_map(|key| self.close(key)).collect()
    }

    fn close(&mut self, key: (Family, Tuple)) -> Option<RuleHit> {
        let mut open = self.open.remove(&key)?;
        let (place, verdict) = open.steps.pop()?;
        Some(RuleHit {
            time_ns: open.time_ns,
            skb: None,
            netns: self.netns,
            hook: Some(open.hook),
            tuple: key.1,
            conntrack: None,
            place,
            verdict,
            path: open.steps,
            mark: open.mark,
            ct_id: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::nftrace::tests::attribute;
    use super::*;
    use proptest::prelude::*;

    fn logged(hook: u8, prefix: &str) -> Vec<u8> {
        let mut packet = vec![0; 28];
        (packet[0], packet[9]) = (0x45, 17);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        [
            vec![2, 0, 0, 0],
            attribute(1, &[8, 0, hook, 0]),
            attribute(9, &packet),
            attribute(10, &[prefix.as_bytes(), b"\0"].concat()),
        ]
        .concat()
    }

    #[test]
    fn a_packets_last_rule_in_a_table_is_the_hit() {
        let mut logged_traversals = LoggedTraversals::new(NetnsId(1));
        let mut take =
            |hook, prefix: &str| logged_traversals.take(5, message(&logged(hook, prefix)).unwrap());
        assert_eq!(take(0, "TRACE: nat:PREROUTING:policy:1 "), None);
        let policy = take(4, "TRACE: nat:POSTROUTING:rule:2 ").unwrap();
        assert_eq!(policy.place.to_string(), "ip nat/PREROUTING policy");
        assert_eq!(take(4, "TRACE: nat:a:b:rule:4 "), None);
        assert_eq!(logged_traversals.settle(6), []);
        let hits = logged_traversals.settle(5 + PAUSE_NS);
        assert_eq!(hits.len(), 1);
        assert_eq!(
            hits[0].place.to_string(),
            "iptables-legacy ip nat/a:b rule 4"
        );
        assert_eq!(hits[0].hook, Some(Hook::Postrouting));
        let path: Vec<_> = hits[0]
            .path
            .iter()
            .map(|(place, _)| place.to_string())
            .collect();
        assert_eq!(path, ["iptables-legacy ip nat/POSTROUTING rule 2"]);
    }

    /// The kernel calls an unconditional ACCEPT of a built-in chain a policy: only its number tells.
    #[test]
    fn a_policy_keeps_its_number() {
        let policy = message(&logged(4, "TRACE: nat:POSTROUTING:policy:2 ")).unwrap();
        let RulePlace::Policy { index, .. } = policy.place else {
            panic!("{}", policy.place);
        };
        assert_eq!(index, Some(2));
    }

    #[test]
    fn what_is_no_trace_is_none() {
        for prefix in [
            "",
            "TRACE: ",
            "TRACE: nat",
            "other nat:c:rule:1",
            "TRACE: nat:c:rule:x",
        ] {
            assert_eq!(message(&logged(4, prefix)), None, "{prefix}");
        }
        assert_eq!(message(&logged(9, "TRACE: nat:c:rule:1 ")), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>, prefix: String) {
            let _ = message(&bytes);
            let _ = message(&logged(4, &prefix));
        }
    }
}
