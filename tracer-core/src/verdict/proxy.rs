//! What a flow's report says where one of its ends is a proxy.

use super::findings::finding;
use crate::inventory::Inventory;
use crate::packet::Tuple;
use crate::proxy::{Evidence, Header, Joined, Relation, Side};
use crate::report::{
    AddrPort, Code, Finding, Flow, Proxy, ProxyProtocol, Rewrite, RewriteAgent, RewriteDirection,
    RewriteEvidence, RewriteField, Severity, SourceCode, Where,
};
use serde_json::json;
use std::net::SocketAddr;

/// Adds what is known of the proxy.
pub(super) fn add(flow: &mut Flow, relation: &Relation, inventory: &Inventory) {
    if let Some(joined) = &relation.joined {
        flow.proxy = Some(view(joined, inventory));
        flow.rewrites.extend(rewrite(flow, joined));
        judge(flow, joined);
        flow.findings.extend(unread(joined));
    }
    if let Some((count, process)) = &relation.ambiguous {
        flow.findings.push(ambiguous(*count, process));
    }
    flow.findings.extend(untrusted(flow, relation));
}

fn view(joined: &Joined, inventory: &Inventory) -> Proxy {
    let cgroup = joined.process.cgroup;
    let cgroup = cgroup.and_then(|id| inventory.cgroups.get(&id));
    let namespace = inventory.namespaces.get(&joined.netns);
    let pod = cgroup.and_then(|c| c.pod.as_ref());
    let pod = pod.or_else(|| namespace.and_then(|ns| ns.pod.as_ref()));
    // Without the node's log folders a container on the node's network has no name that could be known.
    let container = pod.or_else(|| cgroup.and_then(|c| c.container.as_ref()));
    Proxy {
        pid: joined.process.pid.unwrap_or(0),
        comm: joined.process.comm.clone().unwrap_or_default(),
        container: container.cloned(),
        listen: Some(SocketAddr::new(joined.inbound.dst, joined.inbound.dport).to_string()),
        new_flow: joined.new_flow.clone(),
        evidence: word(joined.evidence).to_owned(),
        proxy_protocol: joined.header.map(|h| protocol(h, Some(joined))),
        inbound: Some(joined.inbound.into()),
        outbound: Some(joined.outbound.into()),
    }
}

fn word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Payload => "payload",
        Evidence::Process => "process",
    }
}

fn protocol(header: Header, joined: Option<&Joined>) -> ProxyProtocol {
    ProxyProtocol {
        version: header.version,
        client: header.client.map(|c| c.to_string()),
        true_client: header
            .client
            .zip(joined)
            .map(|(named, joined)| named == source(joined.inbound)),
    }
}

fn source(tuple: Tuple) -> SocketAddr {
    SocketAddr::new(tuple.src, tuple.sport)
}

fn end(addr: SocketAddr) -> AddrPort {
    AddrPort {
        addr: addr.ip(),
        port: addr.port(),
    }
}

/// The source changes where one connection ends and the other begins, though in no packet.
fn rewrite(flow: &Flow, joined: &Joined) -> Option<Rewrite> {
    let (from, to) = (source(joined.inbound), source(joined.outbound));
    let last = u32::try_from(flow.hops.len()).ok().filter(|n| *n > 0);
    (from != to).then(|| Rewrite {
        direction: RewriteDirection::Request,
        field: if from.ip() == to.ip() {
            RewriteField::Sport
        } else {
            RewriteField::Src
        },
        from: end(from),
        to: end(to),
        between: match joined.side {
            Side::Ended => [last, None],
            Side::Opened => [None, last.map(|_| 1)],
        },
        place: Where::Proxy,
        netns: Some(joined.netns.0),
        hook: None,
        agent: RewriteAgent::Proxy,
        rule: None,
        marked_by: None,
        program: None,
        evidence: RewriteEvidence::Between,
    })
}

fn judge(flow: &mut Flow, joined: &Joined) {
    let who = who(joined);
    let (inbound, outbound) = (joined.inbound, joined.outbound);
    let [listen, to] = [inbound, outbound].map(|t| SocketAddr::new(t.dst, t.dport));
    let (client, new) = (source(inbound), source(outbound));
    let proof = match joined.evidence {
        Evidence::Payload => "",
        Evidence::Process => {
            "; by the process only: that the one was opened for the other is not proven"
        }
    };
    flow.verdict.source = SourceCode::SourceTerminated;
    match joined.side {
        Side::Ended => {
            flow.verdict.source_on_wire = Some(outbound.src);
            flow.verdict.text = format!(
                "no packet was rewritten: the connection of {client} ended in {who}, which listens \
                 on {listen}, and went on as a new one from {new} to {to}{proof}"
            );
        }
        Side::Opened => {
            flow.verdict.text = format!(
                "opened by {who}, in which the connection of {client} to {listen} had ended{proof}; \
                 behind it, {}",
                flow.verdict.text
            );
        }
    }
}

fn who(joined: &Joined) -> String {
    let comm = joined.process.comm.as_deref().unwrap_or("a process");
    match joined.process.pid {
        Some(pid) => format!("{comm} (pid {pid})"),
        None => comm.to_owned(),
    }
}

fn unread(joined: &Joined) -> Option<Finding> {
    joined.unread.then(|| Finding {
        text: "the first bytes of the connection that the proxy opened were not read by a \
               traffic-control tap: whether it sends a PROXY header is not known"
            .to_owned(),
        fix: Some(
            "trace again with `-i` and the device by which it leaves; `--tap clsact` before Linux 6.6"
                .to_owned(),
        ),
        ..finding(Code::PointUnavailable, Severity::Warning)
    })
}

fn ambiguous(count: usize, process: &crate::event::Process) -> Finding {
    let comm = process.comm.as_deref().unwrap_or("its process");
    let pid = process.pid.map(|pid| format!(" (pid {pid})"));
    Finding {
        text: format!(
            "{comm}{} held {count} connections that could be the other side of this one, and nothing \
             that was read tells which",
            pid.unwrap_or_default()
        ),
        fix: Some(
            "`-i` and the proxy's device let the first bytes of both sides be compared".to_owned(),
        ),
        data: json!({"pid": process.pid, "candidates": count}),
        ..finding(Code::ProxyAmbiguous, Severity::Info)
    }
}

/// What speaks against believing the PROXY header that the flow begins with.
fn untrusted(flow: &Flow, relation: &Relation) -> Option<Finding> {
    let header = relation.header?;
    let tuple = &flow.flow.tuple;
    let named = header.client.map(|c| c.to_string());
    let to = SocketAddr::new(tuple.dst, tuple.dport);
    let joined = relation.joined.as_ref().filter(|j| j.side == Side::Opened);
    let truth = joined.map(|j| source(j.inbound));
    let lies = truth.is_some_and(|truth| header.client.is_some_and(|c| c != truth));
    let around: Vec<String> = relation.around.iter().map(ToString::to_string).collect();
    let named = named.unwrap_or_else(|| "no client".to_owned());
    let (severity, text) = if lies {
        let truth = truth.map(|t| t.to_string()).unwrap_or_default();
        let text = format!("its PROXY header names {named}, and the client was {truth}");
        (Severity::Error, text)
    } else if joined.is_none() {
        let text = format!(
            "a PROXY header names {named}; {} sent it, and no connection of that client was seen to \
             end there: whoever reaches {to} can name any client",
            tuple.src
        );
        (Severity::Warning, text)
    } else if !around.is_empty() {
        let text = format!(
            "the PROXY header is true, but {to} was also reached from {}, past this proxy: whoever \
             does so can name any client",
            around.join(", ")
        );
        (Severity::Warning, text)
    } else {
        return None;
    };
    Some(Finding {
        text,
        fix: Some(format!(
            "let {to} be reached from the proxy only, and have it take the header from that address \
             only"
        )),
        data: json!({"version": header.version, "client": header.client.map(|c| c.to_string()),
            "around": around}),
        ..finding(Code::ProxyHeaderUntrusted, severity)
    })
}
