//! Walking a base chain: rules in order, with jumps, for all worlds at once.
//!
//! Follows `nft_do_chain` (net/netfilter/nf_tables_core.c) and `ipt_do_table`
//! (net/ipv4/netfilter/ip_tables.c). Both refuse rules that form a loop when they are loaded, and
//! nftables bounds jumps to 16 (`NFT_JUMP_STACK_SIZE`); here depth and steps are bounded, for a
//! ruleset that was read while it changed, or made up, may have both.

use super::bits::Truth;
use super::index::{At, BaseAt, Rules};
use super::matching::mark_mask;
use super::outcome::{Exemption, Fate, Marker, NearMiss, PtrEq, Shadowed};
use super::packet::Packet;
use super::read::View;
use super::words;
use super::world::{Ghost, World, merge};
use crate::inventory::Namespace;
use crate::ruleset::{Action, Chain, Condition, Field, Hook, Policy, Step, Test};
use std::cell::Cell;

/// Rules looked at for one packet, at most.
const MAX_STEPS: u32 = 1_000_000;
/// Worlds followed at once, at most.
const MAX_WORLDS: usize = 64;
/// Chains inside each other, at most.
const MAX_DEPTH: usize = 48;
/// Near misses and shadowed rules told, at most.
pub(super) const MAX_NOTES: usize = 64;

/// What a walk leaves behind besides the worlds.
#[derive(Debug, Default)]
pub(super) struct Log<'r> {
    pub(super) doubts: Vec<String>,
    pub(super) near_misses: Vec<NearMiss<'r>>,
    pub(super) shadowed: Vec<Shadowed<'r>>,
    pub(super) exempted: Vec<Exemption<'r>>,
    pub(super) steps: u32,
    /// Whether a rule asked for the protocol or its header.
    pub(super) asked_transport: Cell<bool>,
}

impl Log<'_> {
    /// A rule looks at these fields.
    pub(super) fn asks(&self, fields: &[Field]) {
        let transport = |field: &Field| {
            matches!(
                field,
                Field::Proto
                    | Field::Sport
                    | Field::Dport
                    | Field::CtOrigSport
                    | Field::CtOrigDport
                    | Field::TcpFlags { .. }
                    | Field::IcmpType
                    | Field::IcmpCode
            )
        };
        if fields.iter().any(transport) {
            self.asked_transport.set(true);
        }
    }

    /// Something that puts every answer in doubt.
    pub(super) fn doubt(&mut self, text: String) {
        if !self.doubts.contains(&text) && self.doubts.len() < MAX_NOTES {
            self.doubts.push(text);
        }
    }
}

/// A walk through one base chain.
#[derive(Debug)]
pub(super) struct Walk<'w, 'r> {
    pub(super) rules: &'w Rules<'r>,
    pub(super) packet: &'w Packet,
    pub(super) here: &'w Namespace,
    pub(super) hook: Hook,
    pub(super) base: BaseAt<'w, 'r>,
    pub(super) log: &'w mut Log<'r>,
    /// The rules that led to the present chain.
    pub(super) path: Vec<At<'r>>,
    /// Worlds whose walk through this base chain has ended.
    pub(super) done: Vec<World<'r>>,
}

/// Where the worlds that a rule acts on go.
#[derive(Debug, Default)]
pub(super) struct Exits<'r> {
    /// On to the next step of the rule.
    pub(super) on: Vec<World<'r>>,
    /// To the next rule.
    pub(super) next: Vec<World<'r>>,
    /// Back to the calling chain.
    pub(super) back: Vec<World<'r>>,
}

impl<'r> Walk<'_, 'r> {
    /// Walks the base chain; the policy decides where no rule does. Ghosts end here.
    pub(super) fn run(mut self, world: World<'r>) -> Vec<World<'r>> {
        let through = self.chain(self.base.chain, vec![world]);
        let mut out = self.done;
        for mut world in through {
            if self.base.base.policy == Policy::Drop {
                world.exit = Some(Fate::Policy {
                    table: PtrEq(self.base.named.table),
                    chain: PtrEq(self.base.chain),
                });
            }
            out.push(world);
        }
        for world in &mut out {
            world.asked.clear();
        }
        out.retain(|world| world.ghost == Ghost::None);
        merge(out)
    }

    /// Walks a chain; returns the worlds that come back from it.
    pub(super) fn chain(&mut self, chain: &'r Chain, mut worlds: Vec<World<'r>>) -> Vec<World<'r>> {
        let mut back = Vec::new();
        let mut next = 0;
        loop {
            let found = self.base.named.next_rule(chain, next, &worlds);
            let Some((n, rule)) = found.and_then(|n| Some((n, chain.rules.get(n)?))) else {
                break;
            };
            next = n + 1;
            self.log.steps += 1;
            if self.log.steps > MAX_STEPS {
                self.log
                    .doubt(format!("more than {MAX_STEPS} rules on the way"));
                break;
            }
            let at = At {
                table: self.base.named.table,
                chain,
                rule,
            };
            worlds = self.rule(at, worlds, &mut back);
        }
        back.append(&mut worlds);
        let depth = self.path.len();
        for world in &mut back {
            world.asked.retain(|(at, _)| *at < depth);
        }
        merge(back)
    }

    /// Walks into the chain that a rule names; returns the worlds that come back.
    pub(super) fn enter(&mut self, at: At<'r>, name: &str, world: World<'r>) -> Vec<World<'r>> {
        let Some(chain) = self.base.named.chains.get(name) else {
            self.log
                .doubt(format!("{at} goes to {name}, which is not there"));
            return vec![world];
        };
        let inside = |chain: &'r Chain| {
            let mut callers = self.path.iter().map(|at| at.chain).chain([at.chain]);
            callers.any(|caller| std::ptr::eq(caller, chain))
        };
        if inside(chain) {
            self.log.doubt(format!("{at} goes round in a ring"));
            return vec![world];
        }
        if self.path.len() >= MAX_DEPTH {
            self.log
                .doubt(format!("more than {MAX_DEPTH} chains inside each other"));
            return vec![world];
        }
        self.path.push(at);
        let back = self.chain(chain, vec![world]);
        self.path.pop();
        back
    }

    /// One rule; returns the worlds that go on to the next.
    fn rule(
        &mut self,
        at: At<'r>,
        worlds: Vec<World<'r>>,
        back: &mut Vec<World<'r>>,
    ) -> Vec<World<'r>> {
        let mut exits = Exits {
            on: worlds,
            ..Exits::default()
        };
        let mut counted = false;
        for (n, step) in at.rule.steps.iter().enumerate() {
            let worlds = std::mem::take(&mut exits.on);
            match step {
                Step::Test(test) => self.split(at, n, test, worlds, &mut exits),
                Step::Do(action) => {
                    let passive = matches!(action, Action::Pass(_));
                    for mut world in worlds {
                        if !counted && !passive {
                            world.meets(at);
                        }
                        self.act(at, action, world, &mut exits);
                    }
                    counted |= !passive;
                }
            }
            if exits.on.is_empty() {
                break;
            }
        }
        if !counted {
            exits.on.iter_mut().for_each(|world| world.meets(at));
        }
        back.append(&mut exits.back);
        exits.next.append(&mut exits.on);
        let mut worlds = merge(exits.next);
        if worlds.len() > MAX_WORLDS {
            self.log
                .doubt(format!("more than {MAX_WORLDS} ways at {at}"));
            worlds.truncate(MAX_WORLDS);
        }
        worlds
    }

    /// Sends each world on or to the next rule, or both ways where that cannot be decided.
    fn split(
        &mut self,
        at: At<'r>,
        n: usize,
        test: &'r Test,
        worlds: Vec<World<'r>>,
        exits: &mut Exits<'r>,
    ) {
        for mut world in worlds {
            if let Some(mask) = mark_mask(test) {
                world.asks_mark(self.path.len(), mask);
            }
            match self.test(at, test, &world) {
                Truth::Yes => exits.on.push(world),
                Truth::No => {
                    self.missed(at, n, &world);
                    exits.next.push(world);
                }
                Truth::Unknown => self.fork(at, test, world, exits),
            }
        }
    }

    fn fork(&mut self, at: At<'r>, test: &Test, world: World<'r>, exits: &mut Exits<'r>) {
        let lasting = matches!(
            test.condition,
            Condition::Compare { .. } | Condition::Member { .. }
        );
        let text = match words::condition(&test.condition) {
            text if lasting => text,
            text => format!("{text} ({at})"),
        };
        let held = world.recalled(&text).filter(|_| lasting);
        match held.map(|holds| holds != test.negated) {
            Some(true) => exits.on.push(world),
            Some(false) => exits.next.push(world),
            None => {
                let holds = !test.negated;
                exits.next.push(world.clone().assuming(&text, !holds));
                exits.on.push(world.assuming(&text, holds));
            }
        }
    }

    pub(super) fn view<'v>(&'v self, world: &'v World<'r>) -> View<'v, 'r> {
        View {
            packet: self.packet,
            here: self.here,
            hook: self.hook,
            world,
        }
    }

    pub(super) fn path_to(&self, at: At<'r>) -> Vec<At<'r>> {
        let mut path = self.path.clone();
        path.push(at);
        path
    }

    pub(super) fn marker(&self, at: At<'r>) -> Marker<'r> {
        Marker {
            by: at,
            path: self.path_to(at),
        }
    }

    /// Notes that a rule would have translated the packet.
    pub(super) fn shadow(&mut self, by: At<'r>, rule: At<'r>) {
        let note = Shadowed { by, rule };
        if self.log.shadowed.len() < MAX_NOTES && !self.log.shadowed.contains(&note) {
            self.log.shadowed.push(note);
        }
    }
}
