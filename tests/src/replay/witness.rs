//! The kernel's own word on which rules a packet met, in which order: nftables' trace, and for
//! iptables-legacy the packet log that its rules write to for a traced packet. One rule of a table
//! of ours switches both on, for every packet and before all other rules.

use super::netlink::{Netlink, attribute};
use super::packets::Probe;
use crate::lab::Lab;
use anyhow::Result;
use std::collections::BTreeMap;
use std::iter::once;
use tracer_core::evaluate::{At, End};
use tracer_core::observed::RulePlace;
use tracer_core::observed::nflog::{self, message as logged};
use tracer_core::observed::nftrace::{self, message as traced};
use tracer_core::packet::{Proto, Tuple};
use tracer_core::ruleset::{Backend, Family, Ruleset};

/// The table that switches the trace on.
pub(super) const TABLE: &str = "judge";
/// It, before everything else.
pub(super) const RULES: &str = "table inet judge {
\tchain in { type filter hook prerouting priority -450; meta nftrace set 1; }
\tchain out { type filter hook output priority -450; meta nftrace set 1; }
}
";

/// `NFNLGRP_NFTRACE`.
const TRACE_GROUP: libc::c_int = 9;
/// `NFT_MSG_TRACE`, `NFULNL_MSG_PACKET` and `NFULNL_MSG_CONFIG` with their subsystems.
const TRACE: u16 = (10 << 8) | 17;
const PACKET: u16 = 4 << 8;
const CONFIG: u16 = (4 << 8) | 1;

/// Listens to both.
#[derive(Debug)]
pub(super) struct Witness {
    trace: Netlink,
    log: Netlink,
    heard: Heard,
}

/// What was heard of the present round's packets.
#[derive(Debug, Default)]
struct Heard {
    /// Of nftables: the traversal's number tells the packet by what it first looked like.
    packets: BTreeMap<u32, Tuple>,
    rules: BTreeMap<Tuple, Vec<RulePlace>>,
    /// Of iptables-legacy, in which a line shows the packet as it is there: destinations may be
    /// translated, the source's port is still the packet's own.
    lines: BTreeMap<(Proto, u16), Vec<RulePlace>>,
}

impl Witness {
    pub(super) fn new(lab: &Lab, ns: &str) -> Result<Self> {
        lab.in_ns(ns, || {
            let trace = Netlink::open()?;
            trace.join(TRACE_GROUP)?;
            let mut log = Netlink::open()?;
            bind(&mut log)?;
            Ok(Self {
                trace,
                log,
                heard: Heard::default(),
            })
        })?
    }

    /// Forgets what was heard.
    pub(super) fn forget(&mut self) -> Result<()> {
        self.listen()?;
        self.heard = Heard::default();
        Ok(())
    }

    /// Takes in what was said since.
    pub(super) fn listen(&mut self) -> Result<()> {
        let heard = &mut self.heard;
        self.trace.drain(|kind, body| {
            if kind == TRACE {
                traced(body)
                    .into_iter()
                    .for_each(|message| heard.rule(message));
            }
        })?;
        self.log.drain(|kind, body| {
            if kind == PACKET {
                logged(body)
                    .into_iter()
                    .for_each(|message| heard.line(message));
            }
        })
    }

    /// Whether other packets than these met rules.
    pub(super) fn saw_others(&self, probes: &[Probe]) -> bool {
        let known = |tuple: &Tuple| probes.iter().any(|probe| probe.tuple() == *tuple);
        !self.heard.packets.values().all(known)
    }

    /// The rules that a packet met, in order: those of nftables and those of iptables-legacy.
    pub(super) fn met<'r>(&self, probe: &Probe, rules: &'r Ruleset) -> Met<'r> {
        let tuple = probe.tuple();
        let heard = &self.heard;
        let of = |places: Option<&Vec<RulePlace>>| {
            let places = places.into_iter().flatten();
            places.filter_map(|place| find(rules, place)).collect()
        };
        Met {
            nft: of(heard.rules.get(&tuple)),
            legacy: of(heard.lines.get(&(tuple.proto, tuple.sport))),
        }
    }
}

/// The rules that one packet met, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Met<'r> {
    nft: Vec<At<'r>>,
    legacy: Vec<At<'r>>,
}

impl<'r> Met<'r> {
    /// By the evaluator's word.
    pub(super) fn of(end: &End<'r>) -> Self {
        let whole = end.trace.iter().filter(|met| met.whole).map(|met| met.at);
        let (legacy, nft) = whole.partition(|at| at.table.id.backend == Backend::IptablesLegacy);
        Self { nft, legacy }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.nft.len() + self.legacy.len()
    }
}

impl Heard {
    fn rule(&mut self, message: nftrace::Message) {
        if let Some(tuple) = message.tuple.filter(|_| message.table == TABLE) {
            self.packets.insert(message.id, tuple);
            return;
        }
        let (Some(packet), Some(handle)) = (self.packets.get(&message.id), message.handle) else {
            return;
        };
        self.rules.entry(*packet).or_default().push(RulePlace::Nft {
            family: message.family,
            table: message.table,
            chain: message.chain,
            chain_cut: false,
            handle,
            index: None,
            xt: false,
        });
    }

    fn line(&mut self, message: nflog::Message) {
        let packet = (message.tuple.proto, message.tuple.sport);
        self.lines.entry(packet).or_default().push(message.place);
    }
}

/// The rule at a place; none at the end of a chain, which iptables-legacy counts as one.
fn find<'r>(rules: &'r Ruleset, place: &RulePlace) -> Option<At<'r>> {
    let (legacy, family, table, chain, number) = match place {
        RulePlace::Legacy {
            family,
            table,
            chain,
            index,
        }
        | RulePlace::Policy {
            family,
            table,
            chain,
            index: Some(index),
        } => (true, family, table, chain, u64::from(*index)),
        RulePlace::Nft {
            family,
            table,
            chain,
            handle,
            ..
        } => (false, family, table, chain, *handle),
        _ => return None,
    };
    let table = rules.tables.iter().find(|t| {
        let id = &t.id;
        (id.backend == Backend::IptablesLegacy, id.family, &id.name) == (legacy, *family, table)
    })?;
    let chain = table.chain(chain)?;
    let rule = chain.rules.iter().find(|rule| match legacy {
        true => u64::from(rule.index) == number,
        false => rule.handle == Some(number),
    })?;
    Some(At { table, chain, rule })
}

/// Makes this socket the namespace's logger of packets, each message at once
/// (uapi linux/netfilter/nfnetlink_log.h).
fn bind(log: &mut Netlink) -> Result<()> {
    let config = |family: u8, attributes: Vec<u8>| {
        let general = [family, 0, 0, 0];
        general.into_iter().chain(attributes).collect::<Vec<u8>>()
    };
    log.ask(CONFIG, &config(0, attribute(1, &[1])))?; // bind to group 0
    let copy = attribute(2, &[0, 0, 0, 128, 2, 0]); // so many bytes of each packet
    let at_once = attribute(5, &1u32.to_be_bytes());
    log.ask(CONFIG, &config(0, [copy, at_once].concat()))?;
    for family in once(libc::AF_INET).chain(once(libc::AF_INET6)) {
        log.ask(CONFIG, &config(family as u8, attribute(1, &[3])))?; // for this family
    }
    Ok(())
}

/// Takes the table that switches the trace on out of what was read: it is not the node's.
pub(super) fn without_judge(rules: &mut Ruleset) {
    let ours = |family: Family, name: &str| family == Family::Inet && name == TABLE;
    rules.tables.retain(|t| !ours(t.id.family, &t.id.name));
}
