//! One way in which the packet may fare, as far as it has been followed.

use super::Bits;
use super::index::At;
use super::outcome::{Assumption, Decision, Exemption, Fate, Marker, Met};
use super::packet::{FlowState, Packet};
use std::net::{IpAddr, SocketAddr};

/// The packet after the rules walked so far. Where a test cannot be decided, a world becomes two;
/// worlds that have become alike again are merged.
#[derive(Clone, Debug)]
pub(super) struct World<'r> {
    pub(super) state: State<'r>,
    /// What is followed besides the packet's own way.
    pub(super) ghost: Ghost<'r>,
    /// How its walk through the present base chain ended.
    pub(super) exit: Option<Fate<'r>>,
    /// Who set the mark bits that rules on the present path tested, with the path's depth.
    pub(super) asked: Vec<(usize, Marker<'r>)>,
    /// What was taken for granted to come here.
    pub(super) assumed: Vec<Assumption>,
    /// Assumptions from here on still hold of the packet as it is now.
    pub(super) since: usize,
    /// Rules whose tests all held, in order.
    pub(super) trace: Vec<Met<'r>>,
}

/// What tells worlds apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State<'r> {
    pub(super) src: Option<IpAddr>,
    pub(super) dst: Option<IpAddr>,
    pub(super) sport: Option<u16>,
    pub(super) dport: Option<u16>,
    pub(super) mark: Bits,
    /// Its mark when its way was last chosen.
    pub(super) routed: Bits,
    /// Which rule wrote which bits of the mark last.
    pub(super) setters: Vec<(u32, Marker<'r>)>,
    pub(super) flow: FlowState,
    pub(super) ct_mark: Bits,
    pub(super) ct_status: Bits,
    pub(super) zone: Option<u16>,
    pub(super) tracking: Tracking<'r>,
    pub(super) source: Option<Decision<'r>>,
    pub(super) destination: Option<Decision<'r>>,
    /// Whether NAT hooks have settled source and destination (`nf_nat_initialized`).
    pub(super) settled: [bool; 2],
    /// Rules that ended a NAT chain's walk without a translation.
    pub(super) kept: Vec<Exemption<'r>>,
    /// Rules that wrote addresses or ports without conntrack.
    pub(super) stateless: Vec<At<'r>>,
    /// Rules that handed the packet to a local socket or its flow to the fast path.
    pub(super) diverted: Vec<At<'r>>,
}

/// Where conntrack stands with the packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tracking<'r> {
    /// It has not seen it yet.
    NotYet,
    /// A rule said not to.
    Untracked(At<'r>),
    /// It has.
    Tracked,
}

/// Worlds that only ask "what if": they change nothing of the answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ghost<'r> {
    /// None: the packet's own way.
    None,
    /// What it would have met without this rule.
    Without(Exemption<'r>),
    /// What would have translated it had this rule not.
    After(At<'r>),
}

impl<'r> World<'r> {
    pub(super) fn new(packet: &Packet) -> Self {
        let tuple = packet.tuple;
        let known = packet.known;
        let ports = packet.later_fragment != Some(true);
        Self {
            state: State {
                src: Some(tuple.src).filter(|_| known.src),
                dst: Some(tuple.dst),
                sport: Some(tuple.sport).filter(|_| ports && known.sport),
                dport: Some(tuple.dport).filter(|_| ports && known.dport),
                mark: packet.mark,
                routed: packet.mark,
                setters: Vec::new(),
                flow: packet.flow.state,
                ct_mark: packet.flow.mark,
                ct_status: packet.flow.status,
                zone: packet.flow.zone,
                tracking: Tracking::NotYet,
                source: None,
                destination: None,
                settled: [false; 2],
                kept: Vec::new(),
                stateless: Vec::new(),
                diverted: Vec::new(),
            },
            ghost: Ghost::None,
            exit: None,
            asked: Vec::new(),
            assumed: Vec::new(),
            since: 0,
            trace: Vec::new(),
        }
    }

    /// IPVS sends it to another destination. That is written into its entry without NAT's status bit.
    pub(super) fn sent_on(&mut self, to: SocketAddr) {
        self.state.dst = Some(to.ip());
        self.state.dport = Some(to.port());
        self.changed();
    }

    /// Whether conntrack has an entry for the packet where it is now.
    pub(super) fn has_entry(&self) -> bool {
        self.state.tracking == Tracking::Tracked && self.state.flow != FlowState::Invalid
    }

    pub(super) fn decision(&self, source: bool) -> Option<&Decision<'r>> {
        if source {
            self.state.source.as_ref()
        } else {
            self.state.destination.as_ref()
        }
    }

    /// The same world with something taken for granted.
    pub(super) fn assuming(mut self, text: &str, holds: bool) -> Self {
        self.assumed.push(Assumption {
            text: text.to_owned(),
            holds,
        });
        self
    }

    /// What was already assumed of the packet as it is now.
    pub(super) fn recalled(&self, text: &str) -> Option<bool> {
        let found = self.live().iter().find(|a| a.text == text);
        found.map(|a| a.holds)
    }

    /// What was assumed since the packet last changed.
    fn live(&self) -> &[Assumption] {
        self.assumed.get(self.since..).unwrap_or_default()
    }

    /// Stands for another world that is like this one: what both assumed stays, and is recalled where both would.
    fn joins(&mut self, other: &Self) {
        let mut live = self.live().to_vec();
        live.retain(|a| other.live().contains(a));
        self.assumed
            .retain(|a| other.assumed.contains(a) && !live.contains(a));
        self.assumed.dedup();
        self.changed();
        self.assumed.append(&mut live);
    }

    /// The packet changed: what was assumed of it before need not hold any more.
    pub(super) fn changed(&mut self) {
        self.since = self.assumed.len();
    }

    /// The rule's tests hold.
    pub(super) fn meets(&mut self, at: At<'r>) {
        self.trace.push(Met { at, whole: true });
    }

    /// The rule that it last met was given up.
    pub(super) fn gives_up(&mut self) {
        if let Some(met) = self.trace.last_mut() {
            met.whole = false;
        }
    }

    /// Writes bits of the mark: `(mark & and) ^ xor`.
    pub(super) fn set_mark(&mut self, by: Marker<'r>, written: u32, mark: Bits) {
        self.state.mark = mark;
        for (bits, _) in &mut self.state.setters {
            *bits &= !written;
        }
        self.state.setters.retain(|(bits, _)| *bits != 0);
        self.state.setters.push((written, by));
        self.changed();
    }

    /// The way is chosen by the mark as it is now: behind prerouting; of what is made here again where a chain of type
    /// route (iptables' mangle OUTPUT is one) or NAT changed it (`ip_route_me_harder`). A mark that another chain
    /// writes at output comes too late.
    pub(super) fn chooses_way(&mut self) {
        self.state.routed = self.state.mark;
    }

    /// Remembers who set the mark bits that a rule tests.
    pub(super) fn asks_mark(&mut self, depth: usize, mask: u32) {
        let setters = self.state.setters.iter();
        for (_, by) in setters.filter(|(bits, _)| bits & mask != 0) {
            self.asked.push((depth, by.clone()));
        }
    }

    fn alike(&self, other: &Self) -> bool {
        self.state == other.state && self.ghost == other.ghost && self.exit == other.exit
    }
}

/// Merges worlds that have become alike: what they assumed in common stays assumed.
pub(super) fn merge<'r>(worlds: Vec<World<'r>>) -> Vec<World<'r>> {
    if worlds.len() < 2 {
        return worlds;
    }
    let mut merged: Vec<World<'r>> = Vec::with_capacity(worlds.len());
    for world in worlds {
        match merged.iter_mut().find(|other| other.alike(&world)) {
            Some(other) => other.joins(&world),
            None => merged.push(world),
        }
    }
    merged
}
