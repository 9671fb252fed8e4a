//! DEST: an address, a prefix or a host name, each with an optional port.

use super::parse::{self, PortRange};
use ipnet::IpNet;

/// A destination as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestSpec {
    /// Where to.
    pub target: DestTarget,
    /// Its own ports; empty: none were given with it.
    pub ports: Vec<PortRange>,
}

/// What a destination names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DestTarget {
    /// An address (a prefix of full length) or a prefix.
    Net(IpNet),
    /// A host name, to be resolved.
    Name(String),
}

impl DestTarget {
    /// Whether it is a prefix of more than one address.
    #[must_use]
    pub fn is_range(&self) -> bool {
        matches!(self, Self::Net(net) if net.prefix_len() < net.max_prefix_len())
    }
}

const ACCEPTED: &str = "accepted are 10.20.30.40, 10.20.30.40:443, fd50::20, [fd50::20]:443, 10.20.0.0/16, or a host name";

pub(super) fn parse_dest(text: &str) -> Result<DestSpec, String> {
    let (target, port) = split_port(text)?;
    let ports = match port {
        None => Vec::new(),
        Some(port) => vec![parse::port_range(port).map_err(|_| {
            format!("'{port}' is not a port; a port is 1 to 65535, or a range such as 8000-8100")
        })?],
    };
    Ok(DestSpec {
        target: parse_target(target)?,
        ports,
    })
}

/// Splits the port off. An IPv6 address has one only behind brackets.
fn split_port(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest
            .split_once(']')
            .ok_or_else(|| format!("the ] is missing; {ACCEPTED}"))?;
        if !inside.contains(':') {
            return Err(format!("brackets hold an IPv6 address; {ACCEPTED}"));
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((inside, Some(port))),
            None if after.is_empty() => Ok((inside, None)),
            None => Err(format!("after ] only :PORT is accepted; {ACCEPTED}")),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Ok((host, Some(port))),
        _ => Ok((text, None)),
    }
}

fn parse_target(text: &str) -> Result<DestTarget, String> {
    let like_address = text.contains([':', '/', '%']) || ends_in_number(text);
    if like_address {
        let why = |why| format!("{why}; {ACCEPTED}");
        let net = if text.contains('/') {
            parse::prefix(text)
        } else {
            parse::address(text).map(IpNet::from).map_err(|e| {
                if text.contains('%') {
                    e
                } else {
                    why("not an address")
                }
            })
        };
        return net.map(DestTarget::Net);
    }
    if !is_host_name(text) {
        return Err(format!("not a host name; {ACCEPTED}"));
    }
    Ok(DestTarget::Name(text.to_owned()))
}

/// Whether the last label is a number: resolvers read `10.20.30` and `0x7f000001` as addresses,
/// and not as the ones that were meant.
fn ends_in_number(text: &str) -> bool {
    let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or("");
    let hex = last
        .strip_prefix("0x")
        .or_else(|| last.strip_prefix("0X"))
        .is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

fn is_host_name(text: &str) -> bool {
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}
