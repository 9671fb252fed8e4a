//! One rule of an `iptables-save` dump.

use super::super::{Action, Rule, Step, Test, Verdict, owner};
use super::line::{Module, Part};
use super::{Origin, line, matches, targets};
use std::collections::{BTreeMap, BTreeSet};

/// Where a rule stands.
pub(super) struct Place<'a> {
    /// Its dump.
    pub(super) origin: &'a Origin<'a>,
    /// Its chain.
    pub(super) chain: &'a str,
    /// All chains of its table.
    pub(super) chains: &'a BTreeMap<String, usize>,
}

/// Reads `-A CHAIN …`; ipsets that the rule writes go to `written`.
pub(super) fn read(
    text: &str,
    index: u32,
    place: &Place<'_>,
    written: &mut BTreeSet<String>,
) -> Rule {
    let words = line::words(text);
    let parts = line::parts(words.get(2..).unwrap_or_default());
    let comment = comment(&parts);
    let mut steps = Vec::new();
    let (jumps, tests): (Vec<_>, Vec<_>) = parts
        .iter()
        .partition(|part| matches!(part.module, Module::Jump(_) | Module::Goto(_)));
    for part in tests {
        steps.extend(
            matches::read(part, place.origin)
                .into_iter()
                .map(Step::Test),
        );
    }
    for part in jumps {
        steps.extend(jump(part, place).into_iter().map(Step::Do));
        written.extend(
            part.option("--add-set")
                .map(|option| option.arg().to_owned()),
        );
        written.extend(
            part.option("--del-set")
                .map(|option| option.arg().to_owned()),
        );
    }
    Rule {
        index,
        handle: None,
        text: text.to_owned(),
        owner: owner::of(
            place.chain,
            comment.as_deref(),
            steps.iter().filter_map(callee),
        ),
        comment,
        steps,
    }
}

/// A chain is known by its exact name; only what is none can be a target.
fn jump(part: &Part, place: &Place<'_>) -> Vec<Action> {
    match &part.module {
        Module::Goto(name) => vec![Action::Verdict(Verdict::Goto(name.clone()))],
        Module::Jump(name) if place.chains.contains_key(name) => {
            vec![Action::Verdict(Verdict::Jump(name.clone()))]
        }
        Module::Jump(name) => targets::read(name, part),
        _ => Vec::new(),
    }
}

fn callee(step: &Step) -> Option<&str> {
    match step {
        Step::Do(Action::Verdict(Verdict::Jump(name) | Verdict::Goto(name))) => Some(name),
        _ => None,
    }
}

fn comment(parts: &[Part]) -> Option<String> {
    let comments: Vec<_> = parts
        .iter()
        .filter(|part| part.module == Module::Match("comment".into()))
        .flat_map(|part| &part.options)
        .filter(|option| option.name == "--comment")
        .map(|option| option.arg())
        .collect();
    (!comments.is_empty()).then(|| comments.join(" "))
}

/// Turns tests that must all hold round: one that fails is enough.
pub(super) fn negate(mut tests: Vec<Test>) -> Vec<Test> {
    for test in &mut tests {
        test.negated = !test.negated;
    }
    match tests.len() {
        0 | 1 => tests,
        _ => vec![Test {
            negated: false,
            condition: super::super::Condition::AnyOf(tests),
        }],
    }
}
