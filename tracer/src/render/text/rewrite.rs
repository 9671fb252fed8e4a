//! The lines about a rewrite: where, by what, from what to what, by which rule.

use super::super::escape;
use super::super::look::{Look, Role, name};
use super::words;
use tracer_core::report::{
    AddrPort, Flow, Rewrite, RewriteAgent, RewriteDirection, RewriteEvidence, RewriteField, Rule,
    RuleEvidence, Where,
};

/// Whether this rewrite is about the source, which is the question.
pub(super) fn is_answer(rewrite: &Rewrite) -> bool {
    rewrite.direction == RewriteDirection::Request && rewrite.field == RewriteField::Src
}

/// All lines of one rewrite.
pub(super) fn rewrite(flow: &Flow, rewrite: &Rewrite, look: Look) -> String {
    let (mark, role) = if is_answer(rewrite) {
        ("▶", Role::Answer)
    } else {
        ("▷", Role::Title)
    };
    let mut text = format!("  {mark}  {}\n", look.paint(role, &title(flow, rewrite)));
    for line in details(flow, rewrite) {
        text.push_str(&format!("     {line}\n"));
    }
    text
}

fn title(flow: &Flow, rewrite: &Rewrite) -> String {
    let reply = match rewrite.direction {
        RewriteDirection::Request => "",
        RewriteDirection::Reply => "reply: ",
    };
    let field = match rewrite.field {
        RewriteField::Src => "source",
        RewriteField::Dst => "destination",
        RewriteField::Sport | RewriteField::Dport if flow.flow.proto.0.is_icmp() => "identifier",
        RewriteField::Sport => "source port",
        RewriteField::Dport => "destination port",
    };
    format!(
        "{reply}{field} rewritten {}: {}",
        place(flow, rewrite),
        agent(rewrite)
    )
}

/// Where it happened; of several hosts, on which or between which.
fn place(flow: &Flow, rewrite: &Rewrite) -> String {
    let host = |n: Option<u32>| {
        let hop = flow.hops.iter().find(|hop| Some(hop.n) == n)?;
        Some(hop.host.as_str())
    };
    let last = flow.hops.last().map(|hop| hop.host.as_str());
    let several = flow.hops.iter().any(|hop| Some(hop.host.as_str()) != last);
    let [before, after] = rewrite.between.map(host);
    let at = match rewrite.place {
        Where::Downstream => before.or(after),
        _ => after.or(before),
    };
    let at = at.or(last).unwrap_or("this machine");
    let place = words::place(rewrite.place, at);
    match (before, after) {
        (Some(a), Some(b)) if rewrite.place == Where::Downstream && a != b => {
            format!("between {} and {}", name(a), name(b))
        }
        _ if several => format!("{place} ({})", name(at)),
        _ => place,
    }
}

fn agent(rewrite: &Rewrite) -> String {
    let who = match (rewrite.agent, &rewrite.program) {
        (RewriteAgent::TcBpf, Some(program)) => {
            format!("eBPF program {} (id {})", name(&program.name), program.id)
        }
        (RewriteAgent::TcBpf, None) => "an eBPF program".to_owned(),
        (RewriteAgent::Netfilter, _) => "netfilter".to_owned(),
        (RewriteAgent::Ipvs, _) => "IPVS".to_owned(),
        (RewriteAgent::Stateless, _) => "netfilter without conntrack".to_owned(),
        (RewriteAgent::Proxy, _) => "a proxy".to_owned(),
        (RewriteAgent::Unknown, _) => "by what is not known".to_owned(),
    };
    match rewrite.hook {
        Some(hook) => format!("{who} {}", words::hook(hook)),
        None => who,
    }
}

fn details(flow: &Flow, rewrite: &Rewrite) -> Vec<String> {
    let proto = flow.flow.proto;
    let only_id = proto.0.is_icmp() && rewrite.from.addr == rewrite.to.addr;
    let end = |end: &AddrPort| match only_id {
        true => format!("id {}", end.port),
        false => words::endpoint(proto, end.addr, end.port),
    };
    let mut lines = vec![format!("{} ⇒ {}", end(&rewrite.from), end(&rewrite.to))];
    lines.extend(rewrite.rule.as_ref().map(rule));
    lines.extend(
        rewrite
            .marked_by
            .as_ref()
            .map(|r| format!("marked by {}", rule(r))),
    );
    if rewrite.evidence == RewriteEvidence::Between {
        lines.push(match rewrite.between {
            [Some(a), Some(b)] => format!("known only from what hops {a} and {b} saw"),
            _ => "known only from what one hop saw".to_owned(),
        });
    }
    lines
}

/// `iptables-legacy nat/IP-MASQ rule 3 (ip-masq-agent), observed:  -j MASQUERADE`
pub(super) fn rule(rule: &Rule) -> String {
    let owner = rule
        .owner
        .as_deref()
        .map(|o| format!(" ({})", name(o)))
        .unwrap_or_default();
    format!("{}{owner}, {}", escape(&rule.name()), words_of(rule))
}

/// What follows the rule's name: `observed:  -j MASQUERADE`
pub(super) fn words_of(rule: &Rule) -> String {
    let evidence = match rule.evidence {
        RuleEvidence::Observed => "observed",
        RuleEvidence::Replayed => "replayed",
    };
    let appended = format!("-A {} ", rule.chain);
    let text = rule.text.strip_prefix(&appended).unwrap_or(&rule.text);
    format!("{evidence}:  {}", escape(&without_comments(text)))
}

/// An iptables rule without its comments, which say who it belongs to and no more.
fn without_comments(text: &str) -> String {
    const COMMENT: &str = "-m comment --comment ";
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once(COMMENT) {
        kept.push_str(before);
        rest = comment[argument(comment)..].trim_start();
    }
    kept.push_str(rest);
    kept.trim_end().to_owned()
}

/// How long the first argument is, quotes and escapes included.
fn argument(text: &str) -> usize {
    let quoted = text.starts_with('"');
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(usize::from(quoted)) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' if quoted => return at + 1,
            ' ' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn comments_are_left_out_of_a_rule() {
        let cut = [
            ("-m comment --comment \"a \\\" b\" -j X", "-j X"),
            (
                "-d 10.0.0.0/8 -m comment --comment plain -j RETURN",
                "-d 10.0.0.0/8 -j RETURN",
            ),
            ("-j X -m comment --comment \"open", "-j X"),
            ("-m comment --comment ", ""),
            ("-j MASQUERADE", "-j MASQUERADE"),
        ];
        for (rule, short) in cut {
            assert_eq!(without_comments(rule), short);
        }
    }
}
