//! `diff`: one line for each path whose source changed, and what was compared.

use super::super::escape;
use super::super::look::{Look, Role, name};
use super::words;
use tracer_core::report::{Change, Compared, DeliveryCode, PathView, Rule, SourceCode, SourceSeen};

/// A path whose source changed, in one line.
#[must_use]
pub fn change(change: &Change, look: Look) -> String {
    let mut line = format!(
        "{}: {}",
        path(&change.flow),
        look.paint(
            Role::Answer,
            &format!("{} ⇒ {}", sources(&change.from), sources(&change.to))
        )
    );
    line.push_str(&format!(
        "; before: {}; now: {}",
        by(change.rule_before.as_ref(), &change.from),
        by(change.rule_after.as_ref(), &change.to)
    ));
    let (before, now) = (
        deliveries(&change.delivery_before),
        deliveries(&change.delivery_after),
    );
    if before != now {
        line.push_str(&format!("; {before} ⇒ {now}"));
    }
    if !change.complete {
        line.push_str("; not certain: not everything could be observed");
    }
    format!("{line}\n")
}

/// What was compared, and what only one of the files has.
#[must_use]
pub fn compared(sums: &Compared, look: Look) -> String {
    let mut text = String::new();
    for (word, listed, all) in [
        ("before", &sums.only_before, sums.only[0]),
        ("now", &sums.only_after, sums.only[1]),
    ] {
        for path_ in listed {
            text.push_str(&format!("only {word}: {}\n", path(path_)));
        }
        let more = all.saturating_sub(listed.len() as u64);
        if more > 0 {
            text.push_str(&format!("only {word}: {more} more\n"));
        }
    }
    let role = match sums.changed {
        0 => Role::Good,
        _ => Role::Bad,
    };
    let changed = match sums.changed {
        0 if sums.paths == 0 => "nothing to compare".to_owned(),
        0 => "no source changed".to_owned(),
        n => format!("{} changed", words::count(n, "source")),
    };
    let mut line = format!(
        "{} in both: {}",
        words::count(sums.paths, "path"),
        look.paint(role, &changed)
    );
    if sums.untold > 0 {
        line.push_str(&format!(", {} cannot be told", sums.untold));
    }
    let older: u64 = sums.older.iter().sum();
    if older > 0 {
        line.push_str(&format!(
            "; {} older than their trace, left out",
            words::count(older, "flow")
        ));
    }
    let overflow: u64 = sums.overflow.iter().sum();
    if overflow > 0 {
        line.push_str(&format!(
            "; {} on too many different paths, left out",
            words::count(overflow, "flow")
        ));
    }
    format!("{text}{line}\n")
}

/// `tcp shop/web-0 → 10.20.30.40:443`.
fn path(path: &PathView) -> String {
    format!(
        "{} {} → {}",
        path.proto.0,
        name(&path.who),
        words::endpoint(path.proto, path.dst, path.dport)
    )
}

fn sources(all: &[SourceSeen]) -> String {
    let one = |seen: &SourceSeen| {
        let addr = seen.addr.map_or("?".to_owned(), |addr| addr.to_string());
        match seen.source {
            SourceCode::SourcePreserved => format!("{addr} (kept)"),
            SourceCode::SourceTerminated => format!("{addr} (a proxy's)"),
            _ => addr,
        }
    };
    let all: Vec<String> = all.iter().map(one).collect();
    all.join(" and ")
}

/// The rule that gave a source, in words.
fn by(rule: Option<&Rule>, sources: &[SourceSeen]) -> String {
    let kept = sources
        .first()
        .is_some_and(|seen| seen.source == SourceCode::SourcePreserved);
    match rule {
        Some(rule) if kept => format!("exempt by {}", escape(&rule.name())),
        Some(rule) => escape(&rule.name()).into_owned(),
        None if kept => "no rule is known for it".to_owned(),
        None => "by what is not known".to_owned(),
    }
}

fn deliveries(codes: &[DeliveryCode]) -> String {
    let all: Vec<&str> = codes.iter().map(|code| words::delivery(*code).0).collect();
    all.join(" or ")
}
