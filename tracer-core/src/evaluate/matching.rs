//! Whether a rule's tests hold, and what is worth telling where one does not.

use super::bits::Truth;
use super::here::is_xt_type_v6;
use super::index::At;
use super::lookup::{Lookup, lookup};
use super::outcome::{Exemption, NearMiss};
use super::read::Reading;
use super::walk::{MAX_NOTES, Walk};
use super::world::{Ghost, World};
use crate::ruleset::{Action, Backend, Condition, Field, Step, Test};
use std::net::IpAddr;

impl<'r> Walk<'_, 'r> {
    /// Whether a test holds in a world.
    pub(super) fn test(&self, at: At<'r>, test: &Test, world: &World<'r>) -> Truth {
        let view = self.view(world);
        let holds = match &test.condition {
            Condition::Compare { field, op, values } => {
                self.log.asks(std::slice::from_ref(field));
                let xt = at.table.id.backend != Backend::Nft;
                let reading = view.read(field);
                let compared = match reading {
                    Reading::Typed(IpAddr::V6(addr), device) if xt => {
                        Some(is_xt_type_v6(self.here, addr, device, values))
                    }
                    _ => view.compare(reading, *op, values),
                };
                match compared {
                    Some(truth) => truth,
                    // xt_owner inverts also for packets without a socket.
                    None if is_owner(field) && xt => Truth::No,
                    None => return Truth::No,
                }
            }
            Condition::Member { fields, set } => {
                self.log.asks(fields);
                match lookup(&view, self.rules, fields, set) {
                    Lookup::Found(_) => Truth::Yes,
                    Lookup::Missing => Truth::No,
                    Lookup::Maybe(_) => Truth::Unknown,
                    Lookup::Absent => return Truth::No,
                }
            }
            Condition::AnyOf(tests) => {
                let each = tests.iter().map(|test| self.test(at, test, world));
                each.fold(Truth::No, Truth::or)
            }
            Condition::Chance(_) | Condition::Unknown(_) => Truth::Unknown,
        };
        holds.negated_if(test.negated)
    }

    /// Notes a NAT rule that only this test kept from translating the packet. Where that was a
    /// member of a set which the rule excludes, the member exempted it.
    pub(super) fn missed(&mut self, at: At<'r>, n: usize, world: &World<'r>) {
        let steps = &at.rule.steps;
        let translates = |step: &Step| matches!(step, Step::Do(Action::Nat(_)));
        if !self.base.is_nat() || world.ghost != Ghost::None || !steps.iter().any(translates) {
            return;
        }
        let mut rest = steps.iter().skip(n + 1);
        let only = rest.all(|step| match step {
            Step::Test(test) => self.test(at, test, world) == Truth::Yes,
            Step::Do(_) => true,
        });
        let Some(Step::Test(test)) = steps.get(n).filter(|_| only) else {
            return;
        };
        let member = test.negated.then(|| self.member(test, world)).flatten();
        if member.is_some() {
            let path = self.path_to(at);
            self.log.exempted.push(Exemption {
                by: at,
                path,
                member,
                from: Some(at),
            });
        } else if self.log.near_misses.len() < MAX_NOTES {
            self.log.near_misses.push(NearMiss { rule: at, test });
        }
    }

    /// The member of a set that makes this condition hold, as its tool prints it.
    pub(super) fn member(&self, test: &Test, world: &World<'r>) -> Option<String> {
        let Condition::Member { fields, set } = &test.condition else {
            return None;
        };
        match lookup(&self.view(world), self.rules, fields, set) {
            Lookup::Found(element) => Some(element.text.clone()),
            _ => None,
        }
    }
}

fn is_owner(field: &Field) -> bool {
    matches!(field, Field::SocketUid | Field::SocketGid)
}

/// The mark bits that a test looks at.
pub(super) fn mark_mask(test: &Test) -> Option<u32> {
    match &test.condition {
        Condition::Compare {
            field: Field::Mark { and, .. },
            ..
        } => Some(*and),
        Condition::Member { fields, .. } => {
            let marks = fields.iter().filter_map(|field| match field {
                Field::Mark { and, .. } => Some(*and),
                _ => None,
            });
            marks.reduce(|a, b| a | b)
        }
        Condition::AnyOf(tests) => tests.iter().filter_map(mark_mask).reduce(|a, b| a | b),
        _ => None,
    }
}
