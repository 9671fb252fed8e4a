//! The hop table of a flow.

use super::super::look::{Look, Role, name, pad, widest};
use super::words;
use std::collections::BTreeSet;
use tracer_core::report::{ConntrackView, Flow, Hop, ProtoName, TupleView};

/// One hop in pieces, before the widths are known.
struct Row {
    n: String,
    place: String,
    ifname: String,
    dir: &'static str,
    what: String,
    time: String,
    more: Vec<String>,
}

/// One text (a line or more) for each hop, in order.
pub(super) fn hops(flow: &Flow, look: Look) -> Vec<String> {
    let hosts: BTreeSet<&str> = flow.hops.iter().map(|h| h.host.as_str()).collect();
    let rows: Vec<Row> = flow
        .hops
        .iter()
        .map(|hop| row(flow, hop, hosts.len() > 1, look))
        .collect();
    let width = |column: fn(&Row) -> &str| widest(rows.iter().map(column));
    let (n, place, ifname, what, time) = (
        width(|r| &r.n),
        width(|r| &r.place),
        width(|r| &r.ifname),
        width(|r| &r.what),
        width(|r| &r.time),
    );
    rows.iter()
        .map(|r| {
            let line = format!(
                "  {:>n$}  {}  {}  {:<3}  {}",
                r.n,
                pad(&r.place, place),
                pad(&r.ifname, ifname),
                r.dir,
                pad(&r.what, what),
            );
            let mut text = if r.time.is_empty() {
                line.trim_end().to_owned()
            } else {
                let at = format!("{:>time$}", r.time);
                format!("{line}  {}", look.paint(Role::Faint, &at))
            };
            text.push('\n');
            for more in &r.more {
                text.push_str(&format!("  {:n$}  {}\n", "", look.paint(Role::Faint, more)));
            }
            text
        })
        .collect()
}

fn row(flow: &Flow, hop: &Hop, with_host: bool, look: Look) -> Row {
    let space = words::namespace(hop.netns_name.as_deref(), hop.netns, look);
    let ifname = match &hop.ifname {
        Some(ifname) => name(ifname),
        // A capture that does not tell the interface.
        None if hop.ifindex == 0 => "-".to_owned(),
        None => format!("if{}", hop.ifindex),
    };
    Row {
        n: hop.n.to_string(),
        place: if with_host {
            format!("{}/{space}", name(&hop.host))
        } else {
            space
        },
        ifname,
        dir: words::direction(hop.dir),
        what: what(flow, hop),
        time: if hop.n == 1 {
            String::new()
        } else {
            words::time(hop.t_us)
        },
        more: more(flow.flow.proto, hop, look),
    }
}

/// The source here; the destination too where it is not the one that the origin asked for.
fn what(flow: &Flow, hop: &Hop) -> String {
    let proto = flow.flow.proto;
    let mut text = words::endpoint(proto, hop.tuple.src, hop.tuple.sport);
    if (hop.tuple.dst, hop.tuple.dport) != (flow.flow.tuple.dst, flow.flow.tuple.dport) {
        let dst = words::endpoint(proto, hop.tuple.dst, hop.tuple.dport);
        text.push_str(&format!(" → {dst}"));
    }
    if let Some(point) = &hop.point {
        text.push_str(&format!(" [{}]", name(point)));
    }
    text
}

fn more(proto: ProtoName, hop: &Hop, look: Look) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(outer) = &hop.outer {
        lines.push(format!("inside {} → {}", outer.src, outer.dst));
    }
    if let Some(mark) = hop.mark.filter(|&m| m != 0 && look.verbose > 0) {
        lines.push(format!("mark {mark:#x}"));
    }
    if let Some(ct) = hop.ct.as_ref().filter(|_| look.verbose > 0) {
        lines.push(conntrack(proto, ct));
    }
    lines
}

fn conntrack(proto: ProtoName, ct: &ConntrackView) -> String {
    let tuple = |t: &TupleView| {
        let src = words::endpoint(proto, t.src, t.sport);
        format!("{src} → {}", words::endpoint(proto, t.dst, t.dport))
    };
    let number = |name: &str, value: Option<u32>| match value {
        Some(value) if value != 0 => format!(", {name} {value}"),
        _ => String::new(),
    };
    format!(
        "conntrack {}, reply {}{}{}, {}",
        tuple(&ct.orig),
        tuple(&ct.reply),
        number("zone", ct.zone.map(u32::from)),
        number("mark", ct.mark),
        super::super::escape(&ct.status.join(" ")),
    )
}
