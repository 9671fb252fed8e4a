//! What to say when nothing matches: after ten seconds of silence, and once only.

use super::escape;
use super::look::{Look, Role, name};
use super::text::words;
use tracer_core::report::ProtoTuple;

/// What is known while nothing matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hint {
    /// How long nothing matched, seconds.
    pub silent_s: u64,
    /// What is looked for, as in [`super::text::waiting`].
    pub what: String,
    /// Interfaces that are looked at.
    pub interfaces: u64,
    /// In how many namespaces.
    pub namespaces: u64,
    /// Packets that were looked at and did not match; `None` when not counted.
    pub other_packets: Option<u64>,
    /// The nearest traffic that was seen; `None` where nobody could look for it.
    pub nearest: Option<Vec<Nearest>>,
    /// The route to the destination, as `ip route get` prints it; or why there is none.
    pub route: Option<String>,
    /// cgroup programs that rewrite destinations at the socket: a name or an id each.
    pub socket_lb: Vec<String>,
}

/// Traffic that nearly matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// An example.
    pub flow: ProtoTuple,
    /// In what it is near.
    pub near: Nearby,
    /// How many packets.
    pub packets: u64,
}

/// In what traffic is near to what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearby {
    /// Another port of the same address.
    SameAddress,
    /// The same port of another address.
    SamePort,
    /// A neighbouring address.
    Neighbour,
}

/// At most so many examples and programs are shown.
const MOST: usize = 3;

/// The lines of the hint.
#[must_use]
pub fn hint(hint: &Hint, look: Look) -> String {
    let mut lines = vec![
        look.paint(
            Role::Odd,
            &format!("no {} in {} s", escape(&hint.what), hint.silent_s),
        ),
        watched(hint),
    ];
    lines.extend(hint.nearest.iter().flatten().take(MOST).map(nearest));
    if hint.nearest.as_ref().is_some_and(Vec::is_empty) {
        lines.push("nothing near it was seen: same address, same port or a neighbour".to_owned());
    }
    if let Some(route) = &hint.route {
        lines.push(format!("route from here: {}", escape(route)));
    }
    if !hint.socket_lb.is_empty() {
        lines.push(socket_lb(&hint.socket_lb));
    }
    let lines: Vec<String> = lines.iter().map(|line| look.wrap(line)).collect();
    lines.join("\n  ") + "\n"
}

fn watched(hint: &Hint) -> String {
    let others = match hint.other_packets {
        Some(0) => "; no other packet passed either".to_owned(),
        Some(n) => format!("; {} passed that did not match", words::count(n, "packet")),
        None => String::new(),
    };
    format!(
        "watching {} in {}{others}",
        words::count(hint.interfaces, "interface"),
        words::count(hint.namespaces, "namespace"),
    )
}

fn nearest(nearest: &Nearest) -> String {
    let near = match nearest.near {
        Nearby::SameAddress => "same address, other port",
        Nearby::SamePort => "same port, other address",
        Nearby::Neighbour => "neighbouring address",
    };
    format!(
        "near: {} {} ({near}, {})",
        nearest.flow.proto.0,
        words::tuple(&nearest.flow),
        words::count(nearest.packets, "packet")
    )
}

fn socket_lb(programs: &[String]) -> String {
    let shown: Vec<String> = programs.iter().take(MOST).map(|p| name(p)).collect();
    let more = match programs.len().saturating_sub(MOST) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(
        "a socket load balancer ({}{more}) may rewrite this address before there is a packet: try a backend's address",
        shown.join(", ")
    )
}
