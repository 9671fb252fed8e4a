//! What rules do to worlds.

use super::Bits;
use super::index::At;
use super::lookup::{Lookup, lookup};
use super::outcome::{Exemption, Fate};
use super::walk::{Exits, Walk};
use super::words;
use super::world::{Ghost, Tracking, World};
use crate::ruleset::{Action, Backend, Element, Field, SetId, Step, Value, Verdict};

/// Members of a map that are followed where it is not known which one decides, at most.
const MAX_MEMBERS: usize = 16;

impl<'r> Walk<'_, 'r> {
    /// Does what a rule says in one world.
    pub(super) fn act(
        &mut self,
        at: At<'r>,
        action: &'r Action,
        mut world: World<'r>,
        exits: &mut Exits<'r>,
    ) {
        match action {
            Action::Verdict(verdict) => return self.verdict(at, verdict, None, world, exits),
            Action::VerdictMap { fields, map } => return self.map(at, fields, map, world, exits),
            Action::ChanceOf(actions) => return self.chance(at, actions, world, exits),
            Action::Nat(nat) => return self.nat(at, nat, world, exits),
            Action::SetMark { and, xor } => {
                let mark = world.state.mark.masked(*and, *xor);
                world.set_mark(self.marker(at), !and | xor, mark);
            }
            Action::RestoreMark { nfmask, ctmask } if world.has_entry() => {
                let taken = world.state.ct_mark.masked(*ctmask, 0);
                let mark = world.state.mark.masked(!nfmask, 0).xor(taken);
                world.set_mark(self.marker(at), nfmask | ctmask, mark);
            }
            // xt_CONNMARK goes on without an entry, nft_ct does not.
            Action::RestoreMark { .. } if at.table.id.backend == Backend::Nft => {
                world.gives_up();
                return exits.next.push(world);
            }
            Action::SetCtMark { and, xor } if world.has_entry() => {
                world.state.ct_mark = world.state.ct_mark.masked(*and, *xor);
                world.changed();
            }
            Action::SaveMark { nfmask, ctmask } if world.has_entry() => {
                let taken = world.state.mark.masked(*nfmask, 0);
                world.state.ct_mark = world.state.ct_mark.masked(!ctmask, 0).xor(taken);
                world.changed();
            }
            Action::Notrack if world.state.tracking == Tracking::NotYet => {
                world.state.tracking = Tracking::Untracked(at);
            }
            Action::SetZone(zone) => world.state.zone = Some(*zone),
            Action::SetField { field, value } => write_field(at, field, value.as_ref(), &mut world),
            Action::Tproxy | Action::Offload => world.state.diverted.push(at),
            Action::Unknown(text) if world.ghost == Ghost::None => {
                self.log.doubt(format!("what {text} does ({at})"));
            }
            _ => {}
        }
        exits.on.push(world);
    }

    fn verdict(
        &mut self,
        at: At<'r>,
        verdict: &Verdict,
        member: Option<&Element>,
        mut world: World<'r>,
        exits: &mut Exits<'r>,
    ) {
        match verdict {
            Verdict::Continue => exits.on.push(world),
            Verdict::Jump(chain) => exits.on.extend(self.enter(at, chain, world)),
            Verdict::Goto(chain) => exits.back.extend(self.enter(at, chain, world)),
            Verdict::Accept | Verdict::Return => {
                if self.passes_through(at, &world) {
                    return exits.next.push(world);
                }
                self.haunt(at, member, &mut world, exits);
                if *verdict == Verdict::Return {
                    return exits.back.push(world);
                }
                world.exit = Some(Fate::Passes);
                self.done.push(world);
            }
            Verdict::Drop | Verdict::Reject(_) => {
                let path = self.path_to(at);
                let reject = match verdict {
                    Verdict::Reject(with) => Some(with.clone()),
                    _ => None,
                };
                world.exit = Some(Fate::Dropped {
                    by: at,
                    path,
                    reject,
                });
                self.done.push(world);
            }
            Verdict::Queue => {
                world.exit = Some(Fate::Queued(at));
                self.done.push(world);
            }
        }
    }

    /// A ghost that asks what would be without a rule passes that rule's like in the same chain:
    /// overlapping exemptions are one.
    fn passes_through(&self, at: At<'r>, world: &World<'r>) -> bool {
        match &world.ghost {
            Ghost::Without(rule) => std::ptr::eq(rule.by.chain, at.chain),
            _ => false,
        }
    }

    /// A rule ends a NAT chain's walk: notes it, and sends a ghost on to see what the packet would
    /// have met without it.
    fn haunt(
        &mut self,
        at: At<'r>,
        member: Option<&Element>,
        world: &mut World<'r>,
        exits: &mut Exits<'r>,
    ) {
        if !self.base.is_nat() || world.ghost != Ghost::None {
            return;
        }
        let tests = at.rule.steps.iter().filter_map(|step| match step {
            Step::Test(test) if !test.negated => Some(test),
            _ => None,
        });
        let tested = tests.filter_map(|test| self.member(test, world)).next();
        let exemption = Exemption {
            by: at,
            path: self.path_to(at),
            member: member.map(|element| element.text.clone()).or(tested),
            from: None,
        };
        let mut ghost = world.clone();
        ghost.ghost = Ghost::Without(exemption.clone());
        exits.next.push(ghost);
        world.state.kept.push(exemption);
    }

    /// A verdict map: what its element says, or the next rule.
    fn map(
        &mut self,
        at: At<'r>,
        fields: &[Field],
        map: &SetId,
        mut world: World<'r>,
        exits: &mut Exits<'r>,
    ) {
        self.log.asks(fields);
        match lookup(&self.view(&world), self.rules, fields, map) {
            Lookup::Found(element) => self.element(at, element, world, exits),
            Lookup::Missing | Lookup::Absent => {
                world.gives_up();
                exits.next.push(world);
            }
            Lookup::Maybe(elements) if elements.is_empty() || elements.len() > MAX_MEMBERS => {
                if world.ghost == Ghost::None {
                    self.log
                        .doubt(format!("what {} says ({at})", words::set(map)));
                }
                exits.on.push(world);
            }
            Lookup::Maybe(elements) => {
                for element in elements {
                    let text = format!("{} in {}", element.text, words::set(map));
                    self.element(at, element, world.clone().assuming(&text, true), exits);
                }
                let text = format!("nothing in {}", words::set(map));
                let mut world = world.assuming(&text, true);
                world.gives_up();
                exits.next.push(world);
            }
        }
    }

    fn element(
        &mut self,
        at: At<'r>,
        element: &'r Element,
        world: World<'r>,
        exits: &mut Exits<'r>,
    ) {
        match &element.action {
            Some(Action::Verdict(verdict)) => {
                self.verdict(at, verdict, Some(element), world, exits);
            }
            Some(action) => self.act(at, action, world, exits),
            None => exits.on.push(world),
        }
    }

    /// Every action that chance may take.
    fn chance(
        &mut self,
        at: At<'r>,
        actions: &'r [Action],
        world: World<'r>,
        exits: &mut Exits<'r>,
    ) {
        for (n, action) in actions.iter().enumerate() {
            let text = format!("branch {} of {} ({at})", n + 1, actions.len());
            self.act(at, action, world.clone().assuming(&text, true), exits);
        }
    }
}

/// Writes addresses or ports without conntrack.
fn write_field<'r>(at: At<'r>, field: &Field, value: Option<&Value>, world: &mut World<'r>) {
    let addr = match value {
        Some(Value::Addrs(one, other)) if one == other => Some(*one),
        Some(Value::Masked { addr, mask }) if super::nat::is_host(*mask) => Some(*addr),
        _ => None,
    };
    let port = match value {
        Some(Value::Number(port)) => u16::try_from(*port).ok(),
        _ => None,
    };
    let state = &mut world.state;
    match field {
        Field::Saddr => state.src = addr,
        Field::Daddr => state.dst = addr,
        Field::Sport => state.sport = port,
        Field::Dport => state.dport = port,
        Field::Mark { .. } => state.mark = Bits::UNKNOWN,
        _ => return,
    }
    state.stateless.push(at);
    world.changed();
}
