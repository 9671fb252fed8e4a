//! The line for the change record.

use super::check::Tally;
use super::terms::Terms;
use crate::expect::Source;
use crate::report::Agreement;

pub(super) fn agreement(terms: &Terms, tally: &Tally) -> Agreement {
    Agreement {
        to: terms.dest.to_string(),
        from: terms.from.to_string(),
        source: terms.source.to_string(),
        replies_to: terms.replies_to.to_string(),
        identity: terms.identity.to_string(),
        agreed_by: terms.agreed.by.clone(),
        agreed_on: terms.agreed.on.clone(),
        held: tally.verdict(),
        flows: tally.held + tally.violated,
        violations: tally.violated,
        skipped: tally.skipped,
        uncertain: tally.uncertain,
        answered: tally.answered,
        leaves: tally.leaves.iter().map(|(addr, _)| *addr).collect(),
        rules: tally.rules.clone(),
        checked: tally.checked.clone(),
        line: line(terms, tally),
    }
}

/// `to 10.20.30.40: leaves as 10.100.0.5 (node); replies return to 10.100.0.0/16; rule …; checked …`.
fn line(terms: &Terms, tally: &Tally) -> String {
    let to = format!("to {}", terms.dest);
    let held = tally.verdict();
    if tally.leaves.is_empty() {
        let why = match (tally.uncertain, tally.skipped) {
            (0, 0) => "no flow was seen",
            (0, _) => "only flows older than the trace were seen",
            _ => "too little was seen to tell its source",
        };
        return format!("{to}: NOT CHECKED: {why}; agreed is {}", terms.source);
    }
    let leaves: Vec<String> = tally
        .leaves
        .iter()
        .map(|(addr, what)| format!("{addr} ({what})"))
        .collect();
    let mut parts = vec![format!("leaves as {}", leaves.join(", "))];
    if held == Some(false) {
        parts[0] = format!("VIOLATED: {}, agreed is {}", parts[0], agreed(terms));
    }
    let outside: Vec<String> = tally
        .leaves
        .iter()
        .filter(|(addr, _)| !terms.replies_to.contains(addr))
        .map(|(addr, _)| addr.to_string())
        .collect();
    parts.push(match outside.is_empty() {
        true => format!("replies return to {}", terms.replies_to),
        false => format!(
            "replies return to {}, agreed is {}",
            outside.join(", "),
            terms.replies_to
        ),
    });
    if tally.answered == 0 {
        parts.push("no reply was seen".to_owned());
    }
    parts.push(match tally.rules.as_slice() {
        [] => "no rule named".to_owned(),
        [rule] => format!("rule {rule}"),
        rules => format!("rules {}", rules.join(", ")),
    });
    if tally.uncertain > 0 {
        parts.push(format!("{} flows cannot be told", tally.uncertain));
    }
    parts.push(format!(
        "checked {}",
        tally.checked.as_deref().unwrap_or("never")
    ));
    format!("{to}: {}", parts.join("; "))
}

fn agreed(terms: &Terms) -> String {
    match terms.source {
        Source::Preserved => "the sender's own".to_owned(),
        Source::Pod => "the pod's own".to_owned(),
        Source::Node => "the node's".to_owned(),
        Source::Within(_) => terms.source.to_string(),
    }
}
