//! What a flow's report claims, in a few lines that a test can spell out.
//!
//! ```text
//! tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
//! request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
//! rule iptables-legacy nat/IP-MASQ 3
//! source-rewritten, on the wire 10.100.0.5, completed
//! ```
//! A proxy is a line too: `proxy socat at 10.100.0.5:8443 by payload, header 1 names 10.12.3.4:43210 (true)`.
//! A rule that another one marked the packet for says by whom; a finding that is about a rule is a line with its code.
//! A `?` at the end of the last line means that the verdict is not complete.

use serde_json::Value;

use super::normal::Names;

/// The claims of one flow.
#[must_use]
pub fn digest(flow: &Value, names: &Names) -> String {
    let mut lines = vec![headline(flow, names)];
    lines.extend(rewrites(list(&flow["rewrites"])));
    lines.extend(
        list(&flow["drops"])
            .iter()
            .map(|drop| format!("dropped: {}", text(&drop["reason"]))),
    );
    lines.extend(proxy(&flow["proxy"]));
    lines.extend(about_rules(list(&flow["findings"])));
    lines.push(verdict(flow));
    lines.join("\n")
}

/// The codes of a flow's findings, in order of appearance.
#[must_use]
pub fn findings(flow: &Value) -> Vec<String> {
    list(&flow["findings"])
        .iter()
        .map(|finding| text(&finding["code"]))
        .collect()
}

fn headline(flow: &Value, names: &Names) -> String {
    let tuple = &flow["flow"];
    let origin = super::normal::normal("", flow["origin"].clone(), names);
    let count = flow["count"]
        .as_u64()
        .filter(|count| *count != 1)
        .map(|count| format!(" x{count}"));
    format!(
        "{} {} > {} from {} {}{}",
        text(&tuple["proto"]),
        endpoint(&tuple["src"], &tuple["sport"]),
        endpoint(&tuple["dst"], &tuple["dport"]),
        text(&origin["kind"]),
        text(&origin["netns_name"]),
        count.unwrap_or_default()
    )
}

/// The same end of a flow, seen from the reply: an ICMP reply has the identifier on the other side, where 0 stands.
fn mirrored(back: &Value, there: &Value) -> bool {
    back["addr"] == there["addr"] && (back["port"] == there["port"] || back["port"] == 0)
}

/// A line for each rewrite; one that the replies undo says so instead of having a second line.
fn rewrites(all: &[Value]) -> Vec<String> {
    let undoes = |back: &Value, there: &Value| {
        back["direction"] == "reply"
            && there["direction"] == "request"
            && mirrored(&back["from"], &there["to"])
            && mirrored(&back["to"], &there["from"])
    };
    let mut lines = Vec::new();
    for one in all {
        if all.iter().any(|back| undoes(back, one)) {
            lines.push(format!("{}, and back", rewrite(one)));
        } else if !all.iter().any(|there| undoes(one, there)) {
            lines.push(rewrite(one));
        }
        lines.extend(rewriter(one));
        lines.extend(program(&one["program"]));
    }
    lines
}

fn rewrite(rewrite: &Value) -> String {
    let side = |side: &Value| endpoint(&side["addr"], &side["port"]);
    format!(
        "{} {} {} > {} at {}, {}, {}, by {}",
        text(&rewrite["direction"]),
        text(&rewrite["field"]),
        side(&rewrite["from"]),
        side(&rewrite["to"]),
        text(&rewrite["where"]),
        text(&rewrite["hook"]),
        text(&rewrite["agent"]),
        text(&rewrite["evidence"])
    )
}

/// The rule behind a rewrite, and the one that marked the packet for it.
fn rewriter(rewrite: &Value) -> Option<String> {
    let marked = rule(&rewrite["marked_by"]).map(|by| format!(", marked by {by}"));
    rule(&rewrite["rule"]).map(|rule| format!("rule {rule}{}", marked.unwrap_or_default()))
}

/// The program behind a rewrite.
fn program(program: &Value) -> Option<String> {
    (!program.is_null()).then(|| format!("program {}", text(&program["name"])))
}

/// A rule's place: backend, table, chain, and its number there or its handle; a chain's policy has none.
fn rule(rule: &Value) -> Option<String> {
    let number = match (&rule["handle"], text(&rule["backend"]).as_str()) {
        (handle, "nft") if !handle.is_null() => format!("handle {handle}"),
        _ if rule["index"].is_null() => "policy".to_owned(),
        _ => text(&rule["index"]),
    };
    let place = |rule: &Value| {
        format!(
            "{} {}/{} {number}",
            text(&rule["backend"]),
            text(&rule["table"]),
            text(&rule["chain"])
        )
    };
    (!rule.is_null()).then(|| place(rule))
}

/// The proxy, how it is known, and what its header says.
fn proxy(proxy: &Value) -> Option<String> {
    let header = &proxy["proxy_protocol"];
    let header = (!header.is_null()).then(|| {
        format!(
            ", header {} names {} ({})",
            text(&header["version"]),
            text(&header["client"]),
            text(&header["true_client"])
        )
    });
    (!proxy.is_null()).then(|| {
        format!(
            "proxy {} at {} by {}{}",
            text(&proxy["comm"]),
            text(&proxy["listen"]),
            text(&proxy["evidence"]),
            header.unwrap_or_default()
        )
    })
}

/// Findings that are about a rule.
fn about_rules(findings: &[Value]) -> impl Iterator<Item = String> {
    let line = |finding: &Value| {
        rule(&finding["rule"]).map(|rule| format!("{}: {rule}", text(&finding["code"])))
    };
    findings.iter().filter_map(line)
}

fn verdict(flow: &Value) -> String {
    let verdict = &flow["verdict"];
    let doubt = if verdict["complete"] == true {
        ""
    } else {
        " ?"
    };
    format!(
        "{}, on the wire {}, {}{doubt}",
        text(&verdict["source"]),
        text(&verdict["source_on_wire"]),
        text(&flow["delivery"]["code"])
    )
}

fn endpoint(addr: &Value, port: &Value) -> String {
    let addr = text(addr);
    if addr.contains(':') {
        format!("[{addr}]:{}", text(port))
    } else {
        format!("{addr}:{}", text(port))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A scalar as it reads, strings without quotes.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_claim_is_in_the_digest() {
        let flow = json!({
            "flow": {"proto": "tcp", "src": "fd12::4", "sport": 1, "dst": "fd50::20", "dport": 443},
            "origin": {"kind": "pod", "netns": 5, "netns_name": "pod"},
            "count": 3,
            "rewrites": [{"direction": "request", "field": "src", "from": {"addr": "fd12::4", "port": 1},
                "to": {"addr": "fd10::5", "port": 2}, "where": "node", "hook": null, "agent": "tc-bpf",
                "evidence": "between", "marked_by": null,
                "rule": {"backend": "nft", "table": "t", "chain": "c", "index": 1, "handle": 7}}],
            "drops": [{"reason": "NETFILTER_DROP"}],
            "delivery": {"code": "dropped"},
            "findings": [{"code": "events-lost", "rule": null}, {"code": "unowned-rule",
                "rule": {"backend": "iptables-nft", "table": "nat", "chain": "c", "index": 1, "handle": 7}}],
            "verdict": {"source": "source-rewritten", "source_on_wire": "fd10::5", "complete": false},
        });
        let text = "tcp [fd12::4]:1 > [fd50::20]:443 from pod pod x3\n\
                    request src [fd12::4]:1 > [fd10::5]:2 at node, null, tc-bpf, by between\n\
                    rule nft t/c handle 7\n\
                    dropped: NETFILTER_DROP\n\
                    unowned-rule: iptables-nft nat/c 1\n\
                    source-rewritten, on the wire fd10::5, dropped ?";
        assert_eq!(digest(&flow, &Names::of(&[])), text);
        assert_eq!(findings(&flow), ["events-lost", "unowned-rule"]);
    }
}
