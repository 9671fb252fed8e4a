//! A forecast as the report shows it.

use super::answer::{Answer, answers};
use super::{Forecast, Ground, Request, Sender};
use crate::inventory::Inventory;
use crate::report::{
    self, Candidate, Explain, Fate, Finding, OriginKind, ProtoName, RuleEvidence, SCHEMA,
    SourceCode,
};
use crate::verdict::rules;

/// The forecasts for one sender, one for each protocol that was tried, as one line. `None` without any.
#[must_use]
pub fn tell(
    ground: &Ground<'_, '_>,
    sender: &Sender,
    forecasts: &[(Request, Forecast<'_>)],
) -> Option<Explain> {
    let (request, first) = forecasts.first()?;
    let inventory = ground.inventory;
    let answers = answers(ground, sender, forecasts);
    let depends_on = depends_on(forecasts, &answers);
    let one = match answers.as_slice() {
        [one] => Some(one),
        _ => None,
    };
    let (head, others) = answers
        .split_first()
        .map_or((&[][..], &[][..]), |(one, rest)| {
            (one.findings.as_slice(), rest)
        });
    // What holds for one answer only says nothing of the others.
    let of_all = |finding: &&Finding| others.iter().all(|other| other.findings.contains(finding));
    let findings: Vec<Finding> = head.iter().filter(of_all).cloned().collect();
    let from = first.fares.first().and_then(|fare| fare.from);
    Some(Explain {
        schema: SCHEMA,
        dest: report::Asked {
            addr: request.dst,
            proto: (forecasts.len() == 1).then_some(ProtoName(request.proto)),
            port: request.dport,
        },
        origin: origin(inventory, sender, from),
        source: common(&answers, |a| a.source).unwrap_or(SourceCode::SourceUnknown),
        source_on_wire: common(&answers, |a| a.source_on_wire).flatten(),
        dest_on_wire: common(&answers, |a| a.dest_on_wire).flatten(),
        fate: common(&answers, |a| a.fate).unwrap_or(Fate::Unknown),
        place: common(&answers, |a| a.place).flatten(),
        rule: common(&answers, |a| a.rule.clone()).flatten(),
        marked_by: one.and_then(|a| a.marked_by.clone()),
        path: first.fares.first().map_or(Vec::new(), |fare| {
            fare.legs
                .iter()
                .map(|leg| leg_view(leg, inventory))
                .collect()
        }),
        candidates: candidates(&answers),
        text: text(&answers, &depends_on),
        depends_on,
        findings,
        evidence: RuleEvidence::Replayed,
        config_state: None,
    })
}

/// What decides, or puts all of it in doubt.
pub(super) fn depends_on(forecasts: &[(Request, Forecast<'_>)], answers: &[Answer]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, forecast) in forecasts {
        add(&mut found, forecast.doubts.iter().cloned());
    }
    if answers.len() > 1 {
        add(&mut found, deciding(answers));
    }
    found
}

/// The answers, where there is more than one.
pub(super) fn candidates(answers: &[Answer]) -> Vec<Candidate> {
    match answers {
        [_] => Vec::new(),
        several => several.iter().map(candidate).collect(),
    }
}

fn add(known: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for one in more {
        if !known.contains(&one) {
            known.push(one);
        }
    }
}

/// What all answers have in common.
pub(super) fn common<T: PartialEq>(answers: &[Answer], of: impl Fn(&Answer) -> T) -> Option<T> {
    let mut values = answers.iter().map(of);
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// What decides between the answers.
fn deciding(answers: &[Answer]) -> Vec<String> {
    let mut texts = Vec::new();
    for answer in answers {
        add(&mut texts, answer.when.iter().map(|when| when.text.clone()));
    }
    texts
}

fn candidate(answer: &Answer) -> Candidate {
    let when = answer.when.iter().map(|assumption| match assumption.holds {
        true => assumption.text.clone(),
        false => format!("not: {}", assumption.text),
    });
    Candidate {
        source: answer.source,
        source_on_wire: answer.source_on_wire,
        fate: answer.fate,
        rule: answer.rule.clone(),
        when: when.collect(),
    }
}

fn text(answers: &[Answer], depends_on: &[String]) -> String {
    let mut text = match answers {
        [] => "it cannot be told what would become of it".to_owned(),
        [one] => one.text.clone(),
        several => {
            let short: Vec<String> = several.iter().map(short).collect();
            short.join(", or ")
        }
    };
    if !depends_on.is_empty() {
        text.push_str("; it depends on ");
        text.push_str(&depends_on.join("; "));
    }
    text
}

/// One of several answers in a few words.
fn short(answer: &Answer) -> String {
    let rule = answer.rule.as_ref().map(rules::name);
    let by = rule.map_or(String::new(), |rule| format!(" ({rule})"));
    match (answer.source, answer.fate, answer.source_on_wire) {
        (SourceCode::SourceRewritten, _, Some(addr)) => format!("source {addr}{by}"),
        (SourceCode::SourceRewritten, _, None) => format!("rewritten{by}"),
        (SourceCode::SourcePreserved, ..) => format!("source kept{by}"),
        (_, Fate::Dropped, _) => format!("dropped{by}"),
        (_, Fate::NoRoute, _) => "no way to it".to_owned(),
        _ => "not told".to_owned(),
    }
}

pub(super) fn origin(
    inventory: &Inventory,
    sender: &Sender,
    from: Option<std::net::IpAddr>,
) -> report::Sender {
    let namespace = inventory.namespaces.get(&sender.netns);
    let is_pod = matches!(sender.kind, OriginKind::Pod | OriginKind::Gateway);
    let device = sender
        .iif
        .and_then(|index| inventory.link(sender.netns, index));
    report::Sender {
        kind: sender.kind,
        netns: Some(sender.netns.0),
        netns_name: namespace.and_then(|ns| ns.name.clone()),
        pod: namespace.and_then(|ns| ns.pod.clone()).filter(|_| is_pod),
        ifname: device.map(|link| link.name.clone()),
        addr: from,
        count: 1,
        others: Vec::new(),
    }
}

fn leg_view(leg: &super::Leg<'_>, inventory: &Inventory) -> report::Leg {
    let device = |index: Option<u32>| {
        let link = inventory.link(leg.netns, index?)?;
        Some(link.name.clone())
    };
    report::Leg {
        netns: leg.netns.0,
        netns_name: inventory.name(leg.netns).map(str::to_owned),
        way: leg.way.into(),
        iif: device(leg.iif),
        oif: device(leg.oif),
        via: leg.via,
        rules: leg.end.trace.iter().map(|met| met.at.to_string()).collect(),
    }
}

impl From<crate::evaluate::Way> for report::Way {
    fn from(way: crate::evaluate::Way) -> Self {
        match way {
            crate::evaluate::Way::Forwarded => Self::Forwarded,
            crate::evaluate::Way::Delivered => Self::Delivered,
            crate::evaluate::Way::Sent => Self::Sent,
            crate::evaluate::Way::Bridged { .. } => Self::Bridged,
        }
    }
}

/// Joins lines of senders of one kind that get the same answer: the first stands for all.
#[must_use]
pub fn grouped(lines: Vec<Explain>) -> Vec<Explain> {
    let mut groups: Vec<Explain> = Vec::new();
    for line in lines {
        match groups.iter_mut().find(|group| same(group, &line)) {
            Some(group) => {
                group.origin.count += line.origin.count;
                group.origin.others.extend(name(&line.origin));
            }
            None => groups.push(line),
        }
    }
    groups
}

/// The name of a sender: its pod's, else its namespace's.
fn name(origin: &report::Sender) -> Option<String> {
    origin.pod.clone().or_else(|| origin.netns_name.clone())
}

/// Whether two senders get the same answer. Where a source is kept, each keeps its own.
fn same(a: &Explain, b: &Explain) -> bool {
    let wire = |line: &Explain| {
        let kept = line.source_on_wire == line.origin.addr;
        line.source_on_wire.filter(|_| !kept)
    };
    let beyond = |line: &Explain| {
        let mut path = line.path.clone();
        for leg in &mut path {
            leg.iif = None;
        }
        path.get(1..).map(<[_]>::to_vec)
    };
    let candidates = |line: &Explain| -> Vec<_> {
        let all = line.candidates.iter();
        all.map(|c| (c.source, c.fate, c.rule.clone(), c.when.clone()))
            .collect()
    };
    let findings = |line: &Explain| -> Vec<_> {
        line.findings
            .iter()
            .map(|f| (f.code, f.rule.clone()))
            .collect()
    };
    a.origin.kind == b.origin.kind
        && (a.source, a.fate, a.place) == (b.source, b.fate, b.place)
        && a.rule == b.rule
        && a.marked_by == b.marked_by
        && a.depends_on == b.depends_on
        && a.config_state == b.config_state
        && wire(a) == wire(b)
        && beyond(a) == beyond(b)
        && candidates(a) == candidates(b)
        && findings(a) == findings(b)
}
