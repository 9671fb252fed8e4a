//! The block of one flow, or of one group of flows.

use super::super::escape;
use super::super::look::{Look, Role, name};
use super::choices::choices;
use super::hops::hops;
use super::last::last;
use super::points;
use super::rewrite::{is_answer, rewrite, rule, words_of};
use super::words;
use std::net::SocketAddr;
use tracer_core::report::{
    AddrPort, Code, Drop, Finding, Flow, Proxy, Rewrite, RewriteDirection, Rule, Severity,
    SourceCode, Where,
};

/// A flow as text, ending with an empty line.
#[must_use]
pub fn flow(flow: &Flow, look: Look) -> String {
    let mut text: String = pieces(flow, look).into_iter().map(|p| p.text).collect();
    text.push('\n');
    text
}

/// What a piece of a flow's block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Which flow, from where, and what came of it.
    Heading,
    /// Where it was sighted.
    Hop,
    /// What changed it.
    Rewrite,
    /// What became of its source, where no rewrite says it.
    Answer,
    /// Where it died.
    Drop,
    /// What was found.
    Finding(Severity),
    /// All of it in a sentence or two.
    Last,
}

/// A part of a flow's block: whole lines that are safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: Kind,
    /// Its lines, each with its end.
    pub text: String,
}

/// A flow's block, piece by piece.
#[must_use]
pub fn pieces(flow: &Flow, look: Look) -> Vec<Piece> {
    let piece = |kind, text| Piece { kind, text };
    let mut all = vec![piece(Kind::Heading, heading(flow, look))];
    all.extend(steps(flow, look));
    all.push(piece(Kind::Answer, answer(flow, look)));
    for drop in &flow.drops {
        let mut text = dropped(drop, look);
        let about = flow.findings.iter().find(|finding| is_about(finding, drop));
        text.push_str(&about.map_or(String::new(), |finding| cause(finding, look)));
        all.push(piece(Kind::Drop, text));
    }
    all.push(piece(Kind::Hop, points::unseen(flow, look)));
    let said = |finding: &&Finding| flow.drops.iter().any(|drop| is_about(finding, drop));
    for finding in flow.findings.iter().filter(|finding| !said(finding)) {
        let kind = Kind::Finding(finding.severity);
        all.push(piece(kind, told(flow, finding, look)));
    }
    let last = format!("  {}", look.paint(Role::Title, &last(flow)));
    all.push(piece(Kind::Last, format!("{}\n", look.wrap(&last))));
    all.retain(|piece| !piece.text.is_empty());
    all
}

fn heading(flow: &Flow, look: Look) -> String {
    let tuple = format!("{} {}", flow.flow.proto.0, words::tuple(&flow.flow));
    let (word, role) = words::delivery(flow.delivery.code);
    format!(
        "{}    {}    {}, {}↑ {}↓\n",
        look.paint(Role::Title, &tuple),
        words::origin(&flow.origin, look),
        look.paint(role, word),
        flow.packets.request,
        flow.packets.reply
    )
}

/// Hops and rewrites of the request in order, then the rewrites of the reply.
fn steps(flow: &Flow, look: Look) -> Vec<Piece> {
    let mut all = Vec::new();
    let request = |r: &&Rewrite| r.direction == RewriteDirection::Request;
    // Where a proxy is no packet was rewritten: the answer says what was.
    let packets = |r: &&Rewrite| r.place != Where::Proxy;
    let mut pending: Vec<&Rewrite> = flow
        .rewrites
        .iter()
        .filter(request)
        .filter(packets)
        .collect();
    let changed = |r: &Rewrite| Piece {
        kind: if is_answer(r) {
            Kind::Answer
        } else {
            Kind::Rewrite
        },
        text: rewrite(flow, r, look),
    };
    for (hop, line) in flow.hops.iter().zip(hops(flow, look)) {
        pending.retain(|r| {
            let here = r.between[1] == Some(hop.n);
            if here {
                all.push(changed(r));
            }
            !here
        });
        all.push(Piece {
            kind: Kind::Hop,
            text: line,
        });
        pending.retain(|r| {
            let here = r.between[1].is_none() && r.between[0] == Some(hop.n);
            if here {
                all.push(changed(r));
            }
            !here
        });
    }
    let reply = flow
        .rewrites
        .iter()
        .filter(|r| !request(r) && (look.verbose > 0 || !is_undo(flow, r)));
    for r in pending.into_iter().chain(reply) {
        all.push(changed(r));
    }
    all
}

/// Whether a rewrite of the reply only takes back one of the request.
fn is_undo(flow: &Flow, reply: &Rewrite) -> bool {
    flow.rewrites.iter().any(|r| {
        r.direction == RewriteDirection::Request
            && same(flow, &r.from, &reply.to)
            && same(flow, &r.to, &reply.from)
    })
}

/// Whether two ends are one: ICMP has no ports, and its identifier is at the sender's end only.
fn same(flow: &Flow, a: &AddrPort, b: &AddrPort) -> bool {
    a.addr == b.addr && (a.port == b.port || flow.flow.proto.0.is_icmp())
}

/// The line with the answer, where no rewrite of the source gave it.
fn answer(flow: &Flow, look: Look) -> String {
    let line = match flow.verdict.source {
        SourceCode::SourcePreserved => format!("source kept: {}", kept(flow)),
        SourceCode::SourceTerminated => match &flow.proxy {
            Some(proxy) => ended_by(flow, proxy, look),
            None => escape(&flow.verdict.text).into_owned(),
        },
        SourceCode::SourceRewritten if flow.rewrites.iter().any(is_answer) => return String::new(),
        SourceCode::SourceRewritten => escape(&flow.verdict.text).into_owned(),
        SourceCode::SourceUnknown => format!("cannot be told: {}", escape(&flow.verdict.text)),
    };
    let line = format!("  ▶  {}", look.paint(Role::Answer, &line));
    format!("{}\n", look.wrap(&line))
}

/// From where to where the source stayed the same, as far as it was seen.
fn kept(flow: &Flow) -> String {
    let source = flow.flow.tuple.src;
    match flow.hops.as_slice() {
        [] => source.to_string(),
        [only] => format!("{source} at hop {}, the only one that saw it", only.n),
        [first, .., last] => format!("{source}, the same from hop {} to hop {}", first.n, last.n),
    }
}

/// Which process it ended in or came from, and what its other connection is.
fn ended_by(flow: &Flow, proxy: &Proxy, look: Look) -> String {
    let who = if look.names {
        format!("{} (pid {})", name(&proxy.comm), proxy.pid)
    } else {
        format!("pid {}", proxy.pid)
    };
    let listen = proxy.listen.as_deref().map(|l| escape(l).into_owned());
    let sure = match proxy.evidence.as_str() {
        "process" => " (by the process only)",
        _ => "",
    };
    let mut line = match (&proxy.inbound, &proxy.outbound) {
        (Some(client), _) if proxy.new_flow.as_deref() == Some(&flow.id) => format!(
            "opened by the proxy {who} for {}{}{sure}",
            SocketAddr::new(client.src, client.sport),
            listen
                .map(|l| format!(", who came to {l}"))
                .unwrap_or_default(),
        ),
        (_, outbound) => {
            let listen = listen
                .map(|l| format!(", listening on {l}"))
                .unwrap_or_default();
            let on = outbound.as_ref().map(|o| {
                format!(
                    "; goes on as {} → {}{sure}",
                    SocketAddr::new(o.src, o.sport),
                    SocketAddr::new(o.dst, o.dport)
                )
            });
            let on = on.or_else(|| {
                let id = proxy.new_flow.as_deref()?;
                Some(format!("; its own connection is flow {}", escape(id)))
            });
            format!(
                "connection ended by the proxy {who}{listen}{}",
                on.unwrap_or_default()
            )
        }
    };
    line.push_str(&header(proxy));
    line
}

/// What its PROXY header says.
fn header(proxy: &Proxy) -> String {
    let Some(header) = &proxy.proxy_protocol else {
        return String::new();
    };
    let client = header.client.as_deref().unwrap_or("nobody");
    let truth = match header.true_client {
        Some(true) => ", truly",
        Some(false) => ", which is not the client",
        None => "",
    };
    format!(
        "; its PROXY header (version {}) names {}{truth}",
        header.version,
        escape(client)
    )
}

fn dropped(drop: &Drop, look: Look) -> String {
    let what = match drop.direction {
        RewriteDirection::Request => "request",
        RewriteDirection::Reply => "reply",
    };
    let after = drop.after.map(|n| format!(" after hop {n}"));
    let space = words::namespace(drop.netns_name.as_deref(), drop.netns, look);
    let title = format!(
        "{what} dropped{} in {space}, {}: {}",
        after.unwrap_or_default(),
        words::count(drop.count, "packet"),
        escape(
            drop.reason
                .as_deref()
                .unwrap_or("the kernel gave no reason")
        )
    );
    let at = drop
        .location
        .as_deref()
        .map(|at| format!(" at {}", escape(at)));
    let mut text = format!(
        "  ✗  {}{}\n",
        look.paint(Role::Bad, &title),
        at.unwrap_or_default()
    );
    let program = drop
        .program
        .as_ref()
        .map(|p| format!("by eBPF program {} (id {})", name(&p.name), p.id));
    let explain = drop.explain.as_deref().map(|e| escape(e).into_owned());
    let lines = [explain, drop.rule.as_ref().map(rule), program];
    for line in lines.into_iter().flatten() {
        text.push_str(&format!("     {line}\n"));
    }
    text
}

/// Whether a finding only repeats what is said of a drop.
fn is_about(finding: &Finding, drop: &Drop) -> bool {
    let told = |explain| finding.text.strip_suffix(explain)?.strip_suffix(": ");
    drop.explain.as_deref().and_then(told).is_some()
}

/// The code and the remedy below a drop.
fn cause(finding: &Finding, look: Look) -> String {
    let code = look.paint(Role::Faint, &format!("[{}]", code(finding.code)));
    match &finding.fix {
        Some(fix) => format!("     fix: {} {code}\n", escape(fix)),
        None => format!("     {code}\n"),
    }
}

fn told(flow: &Flow, finding: &Finding, look: Look) -> String {
    let severity = match finding.severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let line = format!(
        "  {} {} {}",
        look.paint(finding.severity.into(), &format!("{severity}:")),
        escape(&finding.text),
        look.paint(Role::Faint, &format!("[{}]", code(finding.code)))
    );
    let mut text = format!("{}\n", look.wrap(&line));
    let shown = |about: &&Rule| flow.rewrites.iter().any(|r| r.rule.as_ref() == Some(about));
    if let Some(about) = finding.rule.as_ref().filter(|about| !shown(about)) {
        let named = finding.text.contains(&about.name());
        let line = if named { words_of(about) } else { rule(about) };
        text.push_str(&format!("     {line}\n"));
    }
    if let Some(fix) = &finding.fix {
        let line = format!("     fix: {}", escape(fix));
        text.push_str(&format!("{}\n", look.wrap(&line)));
    }
    text.push_str(&choices(&finding.data, look));
    text
}

/// The code as JSON prints it.
fn code(code: Code) -> String {
    match serde_json::to_value(code) {
        Ok(serde_json::Value::String(text)) => text,
        _ => format!("{code:?}"),
    }
}
