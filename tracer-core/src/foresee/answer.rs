//! What the ways of a packet come to: each different answer once, with what must hold for it.

use super::datapath::{Decider, decider};
use super::fare::{Ended, Fare, Leg};
use super::{Forecast, Ground, Request, Sender, doubts};
use crate::attribute::{hook, is_service, role_word, view};
use crate::evaluate::{Assumption, Decision, Target, Way};
use crate::event::NetnsId;
use crate::inventory::{Inventory, Role};
use crate::report::{
    AddrPort, Fate, Finding, NoWay, OriginKind, Rewrite, RewriteAgent, RewriteDirection,
    RewriteEvidence, RewriteField, Rule, RuleEvidence, SourceCode, Where,
};
use crate::verdict::agent_words;
use crate::verdict::rules::{self, decided, kept};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr};

/// One answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) source: SourceCode,
    pub(super) source_on_wire: Option<IpAddr>,
    pub(super) dest_on_wire: Option<IpAddr>,
    pub(super) fate: Fate,
    pub(super) no_way: Option<NoWay>,
    pub(super) place: Option<Where>,
    pub(super) rule: Option<Rule>,
    pub(super) marked_by: Option<Rule>,
    pub(super) findings: Vec<Finding>,
    pub(super) text: String,
    /// What must hold for it, as far as it is not so for every answer.
    pub(super) when: Vec<Assumption>,
}

/// Every answer that the forecasts for one sender come to.
pub(super) fn answers(
    ground: &Ground<'_, '_>,
    sender: &Sender,
    forecasts: &[(Request, Forecast<'_>)],
) -> Vec<Answer> {
    let mut found: Vec<Answer> = Vec::new();
    for (request, forecast) in forecasts {
        for fare in &forecast.fares {
            let mut answer = Reader {
                ground,
                sender,
                fare,
            }
            .answer();
            if forecasts.len() > 1 {
                answer.when.push(Assumption {
                    text: format!("the protocol is {}", request.proto),
                    holds: true,
                });
            }
            match found.iter_mut().find(|known| known.is(&answer)) {
                Some(known) => {
                    known.when.retain(|when| answer.when.contains(when));
                    known.no_way = known.no_way.filter(|why| answer.no_way == Some(*why));
                }
                None => found.push(answer),
            }
        }
    }
    let shared = |when: &Assumption| found.iter().all(|answer| answer.when.contains(when));
    let lists = found.iter().map(|answer| {
        let own = answer.when.iter().filter(|when| !shared(when));
        own.cloned().collect::<Vec<_>>()
    });
    let lists: Vec<_> = lists.collect();
    for (answer, own) in found.iter_mut().zip(lists) {
        answer.when = own;
    }
    found
}

impl Answer {
    fn is(&self, other: &Self) -> bool {
        (self.source, self.source_on_wire, self.fate)
            == (other.source, other.source_on_wire, other.fate)
            && self.rule == other.rule
    }
}

/// Reads one way.
pub(super) struct Reader<'a, 'g, 'r> {
    pub(super) ground: &'a Ground<'g, 'r>,
    sender: &'a Sender,
    pub(super) fare: &'a Fare<'r>,
}

impl<'r> Reader<'_, '_, 'r> {
    fn answer(&self) -> Answer {
        let inventory = self.ground.inventory;
        let programs = doubts::programs(self.fare, inventory);
        let past = programs.iter().any(doubts::OnTheWay::decides);
        let by = past.then(|| decider(self.ground, self.sender, self.fare.dst));
        let mut answer = match &by {
            None | Some(Decider::Rules(_)) => self.by_rules(),
            Some(Decider::List { entry, .. }) => self.by_list(*entry),
            Some(Decider::Programs) => {
                self.untold("a program on the way decides what becomes of it")
            }
        };
        let met = programs.iter().map(|program| program.finding(by.as_ref()));
        answer.findings.extend(met);
        answer.when.clone_from(&self.fare.assumed);
        answer
    }

    /// What the rules make of it.
    fn by_rules(&self) -> Answer {
        match self.fare.ended {
            Ended::Stopped => self.stopped(),
            Ended::Refused(netns, refusal) => self.refused(netns, refusal),
            Ended::Nobody { netns, ifindex } => self.nobody(netns, ifindex),
            Ended::Unknown => self.untold("it cannot be told what would become of it"),
            Ended::Left { .. } | Ended::Delivered(_) => self.arrives(),
        }
    }

    /// Programs decide, and keep the source by their list. Whether the packet meets the rules is not known: so it is kept
    /// where these would keep it, too.
    fn by_list(&self, entry: IpNet) -> Answer {
        let answer = self.by_rules();
        if answer.source != SourceCode::SourcePreserved {
            return self.untold(&format!(
                "{entry} of Cilium's list keeps the source; whether the packet meets the rules, which would not let it \
                 leave so, cannot be told"
            ));
        }
        Answer {
            text: format!("{}; {entry} of Cilium's list exempts it", answer.text),
            ..answer
        }
    }

    /// It leaves, or reaches a socket.
    fn arrives(&self) -> Answer {
        let inventory = self.ground.inventory;
        let changes = self.changes();
        let source = self.fare.source;
        let is_changed = changes
            .iter()
            .any(|change| change.rewrite.from != change.rewrite.to);
        let (code, mut text) = match changes.as_slice() {
            [first, ..] if is_changed => {
                (SourceCode::SourceRewritten, self.changed(first, &changes))
            }
            _ => (
                SourceCode::SourcePreserved,
                format!("{} would be kept", self.source_words()),
            ),
        };
        let mut answer = Answer {
            source: code,
            source_on_wire: source,
            dest_on_wire: self.fare.dst,
            ..self.untold("")
        };
        if let Some(last) = changes.last() {
            answer.place = Some(last.rewrite.place);
            answer.rule.clone_from(&last.rewrite.rule);
            answer.marked_by.clone_from(&last.rewrite.marked_by);
        }
        match (code, changes.last()) {
            (SourceCode::SourceRewritten, _) => {
                for change in changes.iter().filter(|c| c.whole) {
                    let rules = self.ground.rules.get(&change.leg.netns);
                    let asked = rules.map(|r| (r.ruleset, change.leg.shadowed.as_slice()));
                    let found = decided::findings(&change.rewrite, asked, inventory);
                    answer.findings.extend(found);
                }
            }
            (_, Some(last)) => {
                if let Some(rule) = &last.rewrite.rule {
                    text.push_str(&format!(
                        ": {} gives it the address that it has",
                        rules::name(rule)
                    ));
                }
            }
            (_, None) => self.why_kept(&mut answer, &mut text),
        }
        text.push_str(&self.ending());
        answer.fate = match self.fare.ended {
            Ended::Left { .. } => Fate::Leaves,
            _ => Fate::Delivered,
        };
        answer.text = text;
        answer
    }

    /// What kept the source: asked of the node, or, where the node is not met, of the last namespace.
    fn why_kept(&self, answer: &mut Answer, text: &mut String) {
        let legs = &self.fare.legs;
        let on_node = |leg: &&Leg<'_>| self.ground.inventory.role(leg.netns) == Role::Node;
        let Some(leg) = legs.iter().rfind(on_node).or(legs.last()) else {
            return;
        };
        let finding = match kept::by_rules(&leg.end, |_| RuleEvidence::Replayed) {
            Some(finding) => {
                let rule = finding.rule.as_ref().map(rules::name).unwrap_or_default();
                text.push_str(&format!("; {rule} exempts it"));
                answer.rule.clone_from(&finding.rule);
                answer.place = Some(self.whose(leg));
                finding
            }
            None if leg.way == (Way::Bridged { shown: false }) => {
                let place = self.in_words(leg.netns);
                text.push_str(&format!("; a bridge {place} sends it past the rules there"));
                kept::bridged_past(&place)
            }
            None => {
                let place = self.in_words(leg.netns);
                text.push_str(&format!("; no rule of any store {place} would rewrite it"));
                kept::nothing_matches(&leg.near_misses, &place)
            }
        };
        answer.findings.push(finding);
    }

    fn source_words(&self) -> String {
        match self.fare.from {
            Some(addr) => format!("source {addr}"),
            None => "the client's source".to_owned(),
        }
    }

    fn changed(&self, first: &Change<'_, 'r>, changes: &[Change<'_, 'r>]) -> String {
        let mut text = self.source_words();
        for change in changes {
            let again = if std::ptr::eq(change, first) {
                " would become"
            } else {
                ", then"
            };
            let to = match &change.target {
                Target::One(addr) => addr.to_string(),
                Target::Same => change.rewrite.from.addr.to_string(),
                Target::OneOf(_) => "one of several addresses".to_owned(),
                Target::Unknown(what) => what.clone(),
            };
            let place = role_word(change.rewrite.place);
            text.push_str(&format!(
                "{again} {to} {place}{}",
                agent_words(&change.rewrite)
            ));
        }
        text
    }

    fn ending(&self) -> String {
        let inventory = self.ground.inventory;
        match self.fare.ended {
            Ended::Left { netns, ifindex } => {
                let name = inventory
                    .link(netns, ifindex)
                    .map(|link| link.name.as_str());
                format!("; it would leave by {}", name.unwrap_or("a device"))
            }
            Ended::Delivered(netns) => format!("; it would be delivered {}", self.in_words(netns)),
            _ => String::new(),
        }
    }

    /// A namespace in a sentence.
    pub(super) fn in_words(&self, netns: NetnsId) -> String {
        let inventory: &Inventory = self.ground.inventory;
        match (inventory.role(netns), inventory.called(netns)) {
            (Role::Node, _) => "on the node".to_owned(),
            (_, Some(name)) => format!("in {name}"),
            (_, None) => format!("in namespace {}", netns.0),
        }
    }

    pub(super) fn whose(&self, leg: &Leg<'_>) -> Where {
        let own = leg.netns == self.sender.netns && self.sender.kind == OriginKind::Pod;
        match self.ground.inventory.role(leg.netns) {
            Role::Node => Where::Node,
            _ if own => Where::Pod,
            _ => Where::Gateway,
        }
    }

    fn changes(&self) -> Vec<Change<'_, 'r>> {
        let legs = self.fare.legs.iter();
        legs.filter_map(|leg| Some(self.change(leg, leg.end.source.as_ref()?)))
            .collect()
    }

    /// A translation of the source as the report has it.
    fn change<'a>(&self, leg: &'a Leg<'r>, decision: &Decision<'r>) -> Change<'a, 'r> {
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let port = |addr: Option<IpAddr>| AddrPort {
            addr: addr.unwrap_or(unknown),
            port: 0,
        };
        let base = decision.by.chain.base.as_ref();
        let base = base.or_else(|| decision.path.first()?.chain.base.as_ref());
        let replayed = RuleEvidence::Replayed;
        let rule = view(decision.by, &decision.path, replayed);
        let marked_by = decision.marked_by.last();
        let marked_by = marked_by.map(|marker| view(marker.by, &marker.path, replayed));
        let mut place = self.whose(leg);
        let service = [Some(&rule), marked_by.as_ref()]
            .into_iter()
            .flatten()
            .any(is_service);
        if service && place == Where::Node {
            place = Where::Service;
        }
        Change {
            leg,
            whole: leg.before.is_some() && leg.end.src.0.is_some(),
            target: decision.translation.addr.clone(),
            rewrite: Rewrite {
                direction: RewriteDirection::Request,
                field: RewriteField::Src,
                from: port(leg.before),
                to: port(leg.end.src.0),
                between: [None, None],
                place,
                netns: Some(leg.netns.0),
                hook: base.and_then(|base| hook(base.hook)),
                agent: RewriteAgent::Netfilter,
                rule: Some(rule),
                marked_by,
                program: None,
                evidence: RewriteEvidence::Between,
            },
        }
    }
}

/// A translation of the source.
struct Change<'a, 'r> {
    leg: &'a Leg<'r>,
    /// Whether both addresses are known.
    whole: bool,
    target: Target,
    rewrite: Rewrite,
}
