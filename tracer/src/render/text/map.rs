//! What every destination would get, for people.

use super::explain::{rule_name, who, word};
use crate::render::escape;
use crate::render::look::{Look, Role, pad, widest};
use ipnet::IpNet;
use tracer_core::report::{Fate, Gathered, Map, NoWay, Rule, SaidShort, Sender, SourceIs};

/// A table for each sender.
#[must_use]
pub fn map(lines: &[Map], look: Look) -> String {
    let mut out = String::new();
    for table in lines.chunk_by(|a, b| a.origin == b.origin && family(a) == family(b)) {
        let gap = if out.is_empty() { "" } else { "\n" };
        let title = table
            .first()
            .map_or(String::new(), |line| who(&line.origin, look));
        out.push_str(&format!("{gap}{}\n", look.paint(Role::Title, &title)));
        let rows: Vec<[String; 3]> = table.iter().map(row).collect();
        let width = |n: usize| widest(rows.iter().filter_map(|row| row.get(n)).map(String::as_str));
        let (first, second) = (width(0), width(1));
        for [prefix, source, rule] in &rows {
            let line = format!("  {}  {}  {rule}", pad(prefix, first), pad(source, second));
            out.push_str(&format!("{}\n", line.trim_end()));
        }
    }
    if !lines.is_empty() {
        out.push_str("\nThe longest prefix that holds a destination counts.\n");
    }
    out
}

fn family(line: &Map) -> bool {
    line.prefix.addr().is_ipv4()
}

fn row(line: &Map) -> [String; 3] {
    let said = &line.said;
    let mut rule = said.rule.as_ref().map_or(String::new(), rule_name);
    if let Some(why) = said.no_way {
        rule = no_way(why).to_owned();
    }
    if let Some(to) = said.dest_on_wire {
        rule = format!("{rule}  to {to}");
    }
    if !said.depends_on.is_empty() {
        let each = said.candidates.iter().map(|candidate| {
            let addr = candidate
                .source_on_wire
                .map_or(String::new(), |addr| addr.to_string());
            let by = candidate
                .rule
                .as_ref()
                .map_or(String::new(), |rule| format!(" by {}", rule_name(rule)));
            format!("{}{by}", word(candidate.source, &addr))
        });
        let each: Vec<String> = each.collect();
        let depends = escape(&said.depends_on.join("; ")).into_owned();
        let parts = [rule, each.join(" or "), format!("depends on {depends}")];
        let parts = parts.iter().filter(|part| !part.is_empty());
        rule = parts.cloned().collect::<Vec<_>>().join("  ");
    }
    [
        line.prefix.to_string(),
        short(&said.into()),
        rule.trim().to_owned(),
    ]
}

/// Why there is no way.
fn no_way(why: NoWay) -> &'static str {
    match why {
        NoWay::NoRoute => "no route",
        NoWay::Unreachable => "unreachable",
        NoWay::Prohibited => "prohibited",
        NoWay::Blackhole => "blackhole",
        NoWay::ReversePath => "reverse-path check",
        NoWay::Nobody => "nobody there",
    }
}

/// What a destination gets, in a word or two.
fn short(said: &SaidShort) -> String {
    let source = match (said.source_is, said.source_on_wire) {
        (SourceIs::Sender, _) => "kept".to_owned(),
        (SourceIs::Node, Some(addr)) => format!("{addr} (the node)"),
        (_, Some(addr)) => addr.to_string(),
        (_, None) => word(said.source, ""),
    };
    let known = said.depends_on.is_empty() || said.source_on_wire.is_some();
    match said.fate {
        Fate::Dropped => "dropped".to_owned(),
        Fate::NoRoute => "no way".to_owned(),
        Fate::Delivered if known => format!("{source}, delivered here"),
        _ if known => source,
        _ => "depends".to_owned(),
    }
}

/// What changed: a line for each change, with the fewest prefixes that it takes.
#[must_use]
pub fn changes(changes: &[Gathered<'_>], look: Look) -> String {
    if changes.is_empty() {
        return "no destination gets another source than before\n".to_owned();
    }
    let mut out = String::new();
    let mut last: Option<&Sender> = None;
    for gathered in changes {
        let change = gathered.change;
        if last != Some(&change.origin) {
            last = Some(&change.origin);
            out.push_str(&format!(
                "{}\n",
                look.paint(Role::Title, &who(&change.origin, look))
            ));
        }
        let by = |rule: &Option<Rule>| {
            rule.as_ref()
                .map_or(String::new(), |r| format!(" by {}", rule_name(r)))
        };
        for (prefix, left_out) in &gathered.prefixes {
            let line = format!(
                "  {prefix}{}  was {}{}, is {}{}",
                but_for(left_out, look),
                short(&change.from),
                by(&change.rule_before),
                short(&change.to),
                by(&change.rule_after)
            );
            out.push_str(&format!("{}\n", look.paint(Role::Odd, &line)));
        }
    }
    out
}

/// So many prefixes that are left out are told.
const LEFT_OUT: usize = 8;

/// `, but for 10.12.3.0/24, 10.66.0.0/16`.
fn but_for(left_out: &[IpNet], look: Look) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    let told = if look.verbose > 0 {
        left_out.len()
    } else {
        LEFT_OUT
    };
    let mut names: Vec<String> = left_out.iter().take(told).map(IpNet::to_string).collect();
    if left_out.len() > told {
        names.push(format!("{} more (-v)", left_out.len() - told));
    }
    format!(", but for {}", names.join(", "))
}
