//! What the rule stores of a namespace do to a packet, walked as the kernel would.
//!
//! [`evaluate`] takes a packet of which not everything may be known, and the rules as they are
//! now. A test that cannot be decided (an unknown field, a match that is not understood, chance)
//! is walked both ways; where both come to the same rule the answer is certain, else it lists the
//! candidates and what decides between them. So an answer here is `replayed` evidence: what these
//! rules give for this packet, not what the kernel was seen to do.
//!
//! Kernel sources relied on: net/netfilter/nf_tables_core.c (`nft_do_chain`: verdicts, jumps),
//! net/ipv4/netfilter/ip_tables.c (`ipt_do_table`: RETURN in a built-in chain is its policy),
//! net/netfilter/nf_nat_core.c (`nf_nat_inet_fn`: NAT only for a flow's first packet, and the
//! first chain that sets a mapping wins), net/netfilter/core.c (order of hooks),
//! net/netfilter/nft_ct.c, nft_meta.c and nft_payload.c (fields that a packet does not have).

mod act;
mod answer;
mod bits;
mod guards;
mod here;
mod hooks;
mod index;
mod lookup;
mod matching;
mod members;
mod nat;
mod outcome;
mod packet;
mod ranges;
mod read;
#[cfg(test)]
mod tests;
mod tracking;
mod walk;
pub mod words;
mod world;

pub use bits::Bits;
pub use index::{At, Rules};
pub use outcome::{
    Agreement, Answer, Assumption, Decision, End, Exemption, Fate, Marker, Met, NearMiss, Outcome,
    Port, PtrEq, Seen, Shadowed, Target, Translation,
};
pub use packet::{Flow, FlowState, Known, Owner, Packet, Ports, Way};

pub(crate) use ranges::range;

use crate::inventory::Namespace;
use hooks::Passage;
use walk::Log;
use world::{Tracking, World, merge};

/// What the rules do to a packet on its way through a namespace.
#[must_use]
pub fn evaluate<'r>(rules: &Rules<'r>, packet: &Packet, way: Way, here: &Namespace) -> Outcome<'r> {
    let mut passage = Passage {
        rules,
        packet,
        here,
        log: Log::default(),
        ended: Vec::new(),
    };
    for store in &rules.ruleset.unread {
        passage
            .log
            .doubt(format!("{} could not be read: {}", store.what, store.why));
    }
    let mut worlds = vec![World::new(packet)];
    for hook in packet.hooks(way) {
        worlds = passage.hook(hook, worlds);
    }
    let mut ended = merge(passage.ended);
    ended.append(&mut worlds);
    let log = passage.log;
    Outcome {
        ends: ended.into_iter().map(|world| end(world, &log)).collect(),
        doubts: log.doubts,
        near_misses: log.near_misses,
        shadowed: log.shadowed,
        asks_transport: log.asked_transport.get(),
    }
}

fn end<'r>(world: World<'r>, log: &Log<'r>) -> End<'r> {
    let state = world.state;
    let untracked = match state.tracking {
        Tracking::Untracked(at) => Some(at),
        _ => None,
    };
    let met = |e: &Exemption<'r>| {
        let own_test = e.from == Some(e.by);
        own_test || state.kept.iter().any(|kept| kept.by == e.by)
    };
    End {
        fate: world.exit.unwrap_or(Fate::Passes),
        exemptions: log.exempted.iter().filter(|e| met(e)).cloned().collect(),
        source: state.source,
        destination: state.destination,
        untracked,
        stateless: state.stateless,
        diverted: state.diverted,
        src: (state.src, state.sport),
        dst: (state.dst, state.dport),
        mark: state.mark.get(),
        routed: state.routed,
        assumed: world.assumed,
        trace: world.trace,
    }
}
