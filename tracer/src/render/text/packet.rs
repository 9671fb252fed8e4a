//! One sighting in one line, for `--each-packet`.

use super::super::look::{Look, Role, name, pad};
use super::words;
use tracer_core::report::{Dir, Hop, ProtoTuple};

/// One line: when (seconds of the host's uptime), where, which way, and the packet there.
#[must_use]
pub fn packet(tuple: &ProtoTuple, hop: &Hop, look: Look) -> String {
    let place = match (&hop.netns_name, hop.netns) {
        (Some(known), _) if look.names => name(known),
        (_, Some(id)) => id.to_string(),
        _ => "?".to_owned(),
    };
    let device = hop
        .ifname
        .as_deref()
        .map_or_else(|| format!("#{}", hop.ifindex), name);
    let dir = if hop.dir == Dir::Ingress { "in" } else { "out" };
    let time = format!("{:.6}", hop.t_us as f64 / 1e6);
    format!(
        "{}  {}  {}  {dir:<3}  {} {}\n",
        look.paint(Role::Faint, &time),
        pad(&place, 8),
        pad(&device, 8),
        tuple.proto.0,
        words::tuple(tuple),
    )
}
