//! Answers for packets that do not arrive, or of which nothing can be told.

use super::answer::{Answer, Reader};
use crate::attribute::would_stop;
use crate::event::NetnsId;
use crate::inventory::Refusal;
use crate::report::{Fate, NoWay, SourceCode};
use crate::verdict::rules;

impl Reader<'_, '_, '_> {
    pub(super) fn untold(&self, text: &str) -> Answer {
        Answer {
            source: SourceCode::SourceUnknown,
            source_on_wire: None,
            dest_on_wire: None,
            fate: Fate::Unknown,
            no_way: None,
            place: None,
            rule: None,
            marked_by: None,
            findings: Vec::new(),
            text: text.to_owned(),
            when: Vec::new(),
        }
    }

    pub(super) fn stopped(&self) -> Answer {
        let leg = self.fare.legs.last();
        let rule = leg.and_then(|leg| would_stop(&leg.end.fate));
        let by = rule.as_ref().map_or(String::new(), |rule| {
            format!(" by {}", rules::stopper_name(rule))
        });
        let place = leg.map_or(String::new(), |leg| self.in_words(leg.netns));
        Answer {
            fate: Fate::Dropped,
            place: leg.map(|leg| self.whose(leg)),
            rule,
            ..self.untold(&format!("it would be dropped {place}{by}"))
        }
    }

    pub(super) fn refused(&self, netns: NetnsId, refusal: Refusal) -> Answer {
        let (no_way, why) = match refusal {
            Refusal::NoRoute => (NoWay::NoRoute, "no route"),
            Refusal::Unreachable => (
                NoWay::Unreachable,
                "unreachable (a route says so, or forwarding is off)",
            ),
            Refusal::Prohibited => (NoWay::Prohibited, "prohibited by a route"),
            Refusal::Blackhole => (NoWay::Blackhole, "a blackhole route"),
            Refusal::ReversePath => (
                NoWay::ReversePath,
                "its source may not come in there (reverse-path check)",
            ),
        };
        let to = self
            .fare
            .dst
            .map_or(String::new(), |dst| format!(" to {dst}"));
        let place = self.in_words(netns);
        Answer {
            fate: Fate::NoRoute,
            no_way: Some(no_way),
            ..self.untold(&format!("there is no way{to} {place}: {why}"))
        }
    }

    pub(super) fn nobody(&self, netns: NetnsId, ifindex: u32) -> Answer {
        let link = self.ground.inventory.link(netns, ifindex);
        let device = link.map_or("a device", |link| link.name.as_str());
        let place = self.in_words(netns);
        Answer {
            fate: Fate::NoRoute,
            no_way: Some(NoWay::Nobody),
            ..self.untold(&format!("nobody behind {device} {place} has that address"))
        }
    }
}
