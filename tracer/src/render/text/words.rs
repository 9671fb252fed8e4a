//! The words for codes, addresses and times.

use super::super::look::{Look, Role, name};
use std::net::{IpAddr, SocketAddr};
use tracer_core::report::{
    DeliveryCode, Dir, Origin, OriginKind, ProtoName, ProtoTuple, RewriteHook, Where,
};

/// An address with its port, where the protocol has ports.
pub(super) fn endpoint(proto: ProtoName, addr: IpAddr, port: u16) -> String {
    if port == 0 || proto.0.is_icmp() {
        addr.to_string()
    } else {
        SocketAddr::new(addr, port).to_string()
    }
}

/// `10.12.3.4:43210 → 10.20.30.40:443`, for ICMP with the identifier.
pub(in crate::render) fn tuple(flow: &ProtoTuple) -> String {
    let proto = flow.proto;
    let t = &flow.tuple;
    let id = if proto.0.is_icmp() && t.sport != 0 {
        format!(" id {}", t.sport)
    } else {
        String::new()
    };
    format!(
        "{} → {}{id}",
        endpoint(proto, t.src, t.sport),
        endpoint(proto, t.dst, t.dport)
    )
}

pub(super) fn delivery(code: DeliveryCode) -> (&'static str, Role) {
    match code {
        DeliveryCode::Completed => ("completed", Role::Good),
        DeliveryCode::HandshakeOnly => ("handshake only", Role::Odd),
        DeliveryCode::NoReply => ("no reply", Role::Bad),
        DeliveryCode::ReplyLost => ("reply lost", Role::Bad),
        DeliveryCode::Refused => ("refused", Role::Bad),
        DeliveryCode::Dropped => ("dropped", Role::Bad),
        DeliveryCode::InProgress => ("in progress", Role::Faint),
    }
}

/// Who began the flow, in a few words.
pub(super) fn origin(origin: &Origin, look: Look) -> String {
    let place = || namespace(origin.netns_name.as_deref(), origin.netns, look);
    let pod = origin.pod.as_deref().filter(|_| look.names);
    match origin.kind {
        OriginKind::Pod => pod.map_or_else(place, name),
        OriginKind::Gateway => format!("through {}", pod.map_or_else(place, name)),
        OriginKind::Node => match (pod, process(origin, look)) {
            (Some(pod), _) => format!("{} on the node", name(pod)),
            (None, Some(process)) => format!("{process} on the node"),
            (None, None) => "the node".to_owned(),
        },
        OriginKind::External => match &origin.ifname {
            Some(ifname) => format!("from outside by {}", name(ifname)),
            None => "from outside".to_owned(),
        },
    }
}

/// As [`origin`], to be read after "from".
pub(super) fn begun_at(of: &Origin, look: Look) -> String {
    let text = origin(of, look);
    match text.strip_prefix("from ") {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

fn process(origin: &Origin, look: Look) -> Option<String> {
    let process = origin.process.as_ref()?;
    let comm = process.comm.as_deref().filter(|_| look.names).map(name);
    match (comm, process.pid) {
        (Some(comm), Some(pid)) => Some(format!("{comm}[{pid}]")),
        (Some(comm), None) => Some(comm),
        (None, Some(pid)) => Some(format!("pid {pid}")),
        (None, None) => None,
    }
}

/// A namespace by name, or by number where there is none or none is wanted.
pub(super) fn namespace(known: Option<&str>, netns: Option<u32>, look: Look) -> String {
    match (known.filter(|_| look.names), netns) {
        (Some(known), _) => name(known),
        (None, Some(netns)) => format!("netns {netns}"),
        (None, None) => "?".to_owned(),
    }
}

/// Who waits for the reply.
pub(super) fn sender(kind: OriginKind) -> &'static str {
    match kind {
        OriginKind::Pod => "the pod",
        OriginKind::Node => "the node",
        OriginKind::Gateway => "the gateway",
        OriginKind::External => "the client",
    }
}

pub(super) fn place(place: Where, host: &str) -> String {
    match place {
        Where::Pod => "in the pod".to_owned(),
        Where::Node => "on the node".to_owned(),
        Where::Service => "on the node, for a Service".to_owned(),
        Where::Gateway => "in the gateway pod".to_owned(),
        Where::Downstream => format!("after {}", name(host)),
        Where::Proxy => "by a proxy".to_owned(),
    }
}

pub(super) fn hook(hook: RewriteHook) -> &'static str {
    match hook {
        RewriteHook::Prerouting => "PREROUTING",
        RewriteHook::Input => "INPUT",
        RewriteHook::Forward => "FORWARD",
        RewriteHook::Output => "OUTPUT",
        RewriteHook::Postrouting => "POSTROUTING",
        RewriteHook::TcIngress => "tc ingress",
        RewriteHook::TcEgress => "tc egress",
        RewriteHook::Xdp => "XDP",
    }
}

pub(super) fn direction(dir: Dir) -> &'static str {
    match dir {
        Dir::Ingress => "in",
        Dir::Egress => "out",
    }
}

/// Microseconds, in the unit that a person would choose.
pub(super) fn time(us: i64) -> String {
    let whole = us.unsigned_abs();
    let sign = if us < 0 { "-" } else { "+" };
    match whole {
        0..1_000 => format!("{sign}{whole} µs"),
        1_000..1_000_000 => format!("{sign}{}.{} ms", whole / 1_000, whole % 1_000 / 100),
        _ => format!(
            "{sign}{}.{} s",
            whole / 1_000_000,
            whole % 1_000_000 / 100_000
        ),
    }
}

/// `1 flow`, `2 flows`.
pub(in crate::render) fn count(n: u64, one: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {one}{s}")
}
