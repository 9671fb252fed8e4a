//! Why a source was kept: what exempted it, or that nothing would have rewritten it.

use super::super::Context;
use super::super::findings::finding;
use super::{name, name_at, place};
use crate::attribute::{Ruling, evidence, view};
use crate::evaluate::{At, End, Exemption, NearMiss, Way, words};
use crate::report::{Code, Finding, RuleEvidence, Severity};
use serde_json::json;

/// Why the source was kept.
pub(super) fn kept(ruling: &Ruling<'_, '_>, context: &Context<'_>) -> Option<Finding> {
    let given = &ruling.given;
    let [end] = given.ends.as_slice() else {
        return undecided(ruling);
    };
    let evidence = |at| evidence(at, ruling, context.hits);
    let kept = by_rules(end, evidence);
    kept.or_else(|| {
        let nothing = given.doubts.is_empty() && end.source.is_none();
        nothing.then(|| {
            let place = place(ruling, "on the node", context);
            if ruling.way == (Way::Bridged { shown: false }) {
                return bridged_past(&place);
            }
            nothing_matches(&ruling.outcome.near_misses, &place)
        })
    })
}

/// The rule that keeps a packet's source at this end of its way.
pub(crate) fn by_rules<'r>(
    end: &End<'r>,
    evidence: impl Fn(At<'r>) -> RuleEvidence,
) -> Option<Finding> {
    if let Some(at) = end.untracked {
        return Some(untracked(at));
    }
    let exemption = end.exempted_by()?;
    (!exemption.asks_only_a_mark()).then(|| exempt(exemption, evidence(exemption.by)))
}

fn exempt(exemption: &Exemption<'_>, evidence: RuleEvidence) -> Finding {
    let rule = view(exemption.by, &exemption.path, evidence);
    let name = name(&rule);
    let (code, text) = match &exemption.member {
        Some(member) => (
            Code::ExemptBySet,
            format!("kept by {name}: {member} is a member of the set that it asks for"),
        ),
        None => (Code::ExemptByRule, format!("kept by {name}")),
    };
    Finding {
        text,
        data: json!({
            "member": exemption.member,
            "instead_of": exemption.from.map(|at| name_at(at)),
        }),
        rule: Some(rule),
        ..finding(code, Severity::Info)
    }
}

fn untracked(at: At<'_>) -> Finding {
    let rule = view(at, &[at], RuleEvidence::Replayed);
    Finding {
        text: format!(
            "kept because {} says not to track the packet: rules that translate are not asked then",
            name(&rule)
        ),
        rule: Some(rule),
        ..finding(Code::ExemptByRule, Severity::Info)
    }
}

/// No rule at that place would have done anything to the source. `place`: `on the node`.
pub(crate) fn nothing_matches(near: &[NearMiss<'_>], place: &str) -> Finding {
    let near: Vec<String> = near
        .iter()
        .map(|miss| format!("{} but for {}", name_at(miss.rule), words::test(miss.test)))
        .collect();
    let mut text = format!("no rule of any store {place} would rewrite its source");
    if let Some(first) = near.first() {
        text.push_str(&format!("; the nearest is {first}"));
    }
    Finding {
        text,
        data: json!({ "near": near }),
        ..finding(Code::NoRuleMatches, Severity::Info)
    }
}

/// The rules there are not shown the packet at all.
pub(crate) fn bridged_past(place: &str) -> Finding {
    Finding {
        text: format!("a bridge {place} sends it from port to port, past the rules there"),
        data: json!({ "near": [] }),
        ..finding(Code::NoRuleMatches, Severity::Info)
    }
}

/// More than one way is possible, and what was seen does not tell which.
fn undecided(ruling: &Ruling<'_, '_>) -> Option<Finding> {
    let answer = ruling.outcome.source();
    let depends = answer.depends_on.join("; ");
    (!depends.is_empty()).then(|| Finding {
        text: format!("which rule kept it cannot be told: it depends on {depends}"),
        data: json!({"depends_on": answer.depends_on}),
        ..finding(Code::RuleUncertain, Severity::Info)
    })
}
