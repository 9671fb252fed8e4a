//! What rules would do, for people.

use crate::render::escape;
use crate::render::look::{Look, Role, name, pad, widest};
use tracer_core::report::{Explain, Leg, OriginKind, Rule, Sender, SourceCode, Way};

/// A block for each kind of sender that gets an answer of its own.
#[must_use]
pub fn explain(lines: &[Explain], look: Look) -> String {
    let mut out = String::new();
    let mut asked = None;
    for line in lines {
        if asked != Some(&line.dest) {
            let gap = if asked.is_some() { "\n" } else { "" };
            asked = Some(&line.dest);
            out.push_str(gap);
            out.push_str(&look.paint(Role::Title, &title(line)));
            out.push('\n');
        }
        out.push_str(&block(line, look));
    }
    out
}

fn title(line: &Explain) -> String {
    let dest = &line.dest;
    let proto = dest
        .proto
        .map_or(String::new(), |proto| format!("{} ", proto.0));
    let to = match (dest.addr, dest.port) {
        (addr, None) => addr.to_string(),
        (addr, Some(port)) => std::net::SocketAddr::new(addr, port).to_string(),
    };
    format!("{proto}to {to}, by the rules as they are (nothing was sent)")
}

fn block(line: &Explain, look: Look) -> String {
    let mut out = format!("\n{}\n", who(&line.origin, look));
    let role = match line.source {
        SourceCode::SourceUnknown => Role::Odd,
        _ => Role::Answer,
    };
    let answer = format!("  ▶  {}", escape(&line.text));
    out.push_str(&format!("{}\n", look.paint(role, &look.wrap(&answer))));
    for rule in [&line.rule, &line.marked_by].into_iter().flatten() {
        out.push_str(&format!("     {}\n", rule_line(rule)));
    }
    for candidate in &line.candidates {
        let source = candidate
            .source_on_wire
            .map_or(String::new(), |addr| addr.to_string());
        let rule = candidate.rule.as_ref();
        let rule = rule.map_or(String::new(), |rule| {
            format!(" by {}", escape(&rule.name()))
        });
        let when = match candidate.when.as_slice() {
            [] => "otherwise".to_owned(),
            when => format!("when {}", escape(&when.join("; "))),
        };
        let when = format!("     {when}: {}{rule}", word(candidate.source, &source));
        out.push_str(&format!("{}\n", look.wrap(&when)));
    }
    out.push_str(&way(&line.path, look));
    for finding in &line.findings {
        let text = format!("     {}", escape(&finding.text));
        out.push_str(&format!(
            "{}\n",
            look.paint(finding.severity.into(), &look.wrap(&text))
        ));
    }
    out
}

pub(super) fn word(source: SourceCode, addr: &str) -> String {
    match source {
        SourceCode::SourcePreserved => "kept".to_owned(),
        SourceCode::SourceRewritten if addr.is_empty() => "rewritten".to_owned(),
        SourceCode::SourceRewritten => addr.to_owned(),
        _ => "not told".to_owned(),
    }
}

/// The sender, and how many others get the same.
pub(super) fn who(origin: &Sender, look: Look) -> String {
    let called = origin.pod.as_deref().or(origin.netns_name.as_deref());
    let called = called.filter(|_| look.names).map(name);
    let called = called.unwrap_or_else(|| format!("namespace {}", origin.netns.unwrap_or(0)));
    let addr = origin.addr.map_or(String::new(), |addr| format!(" {addr}"));
    let device = origin.ifname.as_deref().map(name).unwrap_or_default();
    let who = match origin.kind {
        OriginKind::Pod => format!("pod {called}{addr}"),
        OriginKind::Node => format!("the node{addr}"),
        OriginKind::Gateway => format!("a client{addr} that {called} forwards for, in by {device}"),
        OriginKind::External => format!("a client{addr} that comes in by {device}"),
    };
    match origin.count {
        0 | 1 => who,
        n => format!("{who} and {} more: {}", n - 1, others(&origin.others)),
    }
}

fn others(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|n| name(n)).collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// A rule by its name, and whose it is.
pub(super) fn rule_name(rule: &Rule) -> String {
    let owner = rule.owner.as_ref();
    let owner = owner.map_or(String::new(), |owner| format!(" ({})", escape(owner)));
    format!("{}{owner}", escape(&rule.name()))
}

fn rule_line(rule: &Rule) -> String {
    let path = match rule.path.as_slice() {
        [] | [_] => String::new(),
        path => format!(
            "   [{}]",
            path.iter()
                .map(|p| escape(p))
                .collect::<Vec<_>>()
                .join(" → ")
        ),
    };
    let name = rule_name(rule);
    format!("{name}, replayed:  {}{path}", escape(&rule.text))
}

/// The namespaces on the way.
fn way(path: &[Leg], look: Look) -> String {
    let named: Vec<String> = path
        .iter()
        .map(|leg| {
            leg.netns_name
                .as_deref()
                .map_or_else(|| leg.netns.to_string(), name)
        })
        .collect();
    let width = widest(named.iter().map(String::as_str));
    let mut out = String::new();
    for (leg, named) in path.iter().zip(&named) {
        let by = |device: &Option<String>| device.as_deref().map(name).unwrap_or_default();
        let devices = match leg.way {
            Way::Sent => format!("out by {}", by(&leg.oif)),
            Way::Delivered => format!("in by {}, to a socket", by(&leg.iif)),
            Way::Forwarded => format!("in by {}, out by {}", by(&leg.iif), by(&leg.oif)),
            Way::Bridged => format!("bridged from {} to {}", by(&leg.iif), by(&leg.oif)),
        };
        let via = leg.via.map_or(String::new(), |via| format!(" via {via}"));
        let rules = match leg.rules.as_slice() {
            [] => String::new(),
            rules if look.verbose > 0 => format!("   [{}]", escape(&rules.join(", "))),
            _ => String::new(),
        };
        let line = format!("     {}  {devices}{via}{rules}", pad(named, width));
        out.push_str(&format!("{}\n", look.paint(Role::Faint, line.trim_end())));
    }
    out
}
