//! A forecast as a map has it: without words.

use super::answer::{Answer, answers};
use super::datapath::BY_RULES;
use super::told::{candidates, common, depends_on, origin};
use super::{Forecast, Ground, Request, Sender};
use crate::report::{self, Code, Fate, Finding, Said, SourceCode, SourceIs};
use std::net::IpAddr;

/// What the forecasts for one sender come to, one for each protocol that was tried, and the address that it sends from.
/// `None` without any.
#[must_use]
pub fn said(
    ground: &Ground<'_, '_>,
    sender: &Sender,
    forecasts: &[(Request, Forecast<'_>)],
) -> Option<(Said, Option<IpAddr>)> {
    let (request, first) = forecasts.first()?;
    let inventory = ground.inventory;
    let answers = answers(ground, sender, forecasts);
    let from = first.fares.first().and_then(|fare| fare.from);
    let mut depends_on = depends_on(forecasts, &answers);
    depends_on.extend(program(&answers));
    let source = common(&answers, |a| a.source).unwrap_or(SourceCode::SourceUnknown);
    let source_on_wire = common(&answers, |a| a.source_on_wire).flatten();
    let kept = source == SourceCode::SourcePreserved;
    let source_is = match source_on_wire {
        addr if kept && addr == from => SourceIs::Sender,
        Some(addr) if inventory.node_owns(addr) => SourceIs::Node,
        Some(_) => SourceIs::Other,
        None => SourceIs::Unknown,
    };
    let dest = |to: &IpAddr| *to != request.dst;
    let one = (answers.len() == 1).then(|| answers.first()).flatten();
    let said = Said {
        source,
        source_on_wire,
        source_is,
        dest_on_wire: common(&answers, |a| a.dest_on_wire).flatten().filter(dest),
        fate: common(&answers, |a| a.fate).unwrap_or(Fate::Unknown),
        no_way: common(&answers, |a| a.no_way).flatten(),
        place: common(&answers, |a| a.place).flatten(),
        rule: common(&answers, |a| a.rule.clone()).flatten(),
        marked_by: one.and_then(|a| a.marked_by.clone()),
        candidates: candidates(&answers),
        depends_on,
    };
    Some((said, from))
}

/// A sender in a report, as it sends from that address.
#[must_use]
pub fn as_it_asks(
    ground: &Ground<'_, '_>,
    sender: &Sender,
    from: Option<IpAddr>,
) -> report::Sender {
    origin(ground.inventory, sender, from)
}

/// A program that decides, in whichever answer. Where rules decide in spite of it, the map's lines are those of the rules.
fn program(answers: &[Answer]) -> Option<String> {
    let (first, rest) = answers.split_first()?;
    let of_all = |finding: &&Finding| rest.iter().all(|other| other.findings.contains(finding));
    let decides = |finding: &&Finding| {
        finding.code == Code::ProgramDecides && finding.data["decided_by"] != BY_RULES
    };
    let mut found = first.findings.iter().filter(decides).filter(of_all);
    found.next().map(|finding| finding.text.clone())
}
