//! Parsers of single values. Each error says what is accepted; which argument and value it is
//! about, [`super::UsageError`] adds.

use ipnet::IpNet;
use jiff::SignedDuration;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;
use tracer_core::expect::{Denied, Source};

/// Destination ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The lowest, at least 1.
    pub first: u16,
    /// The highest, at least `first`.
    pub last: u16,
}

impl PortRange {
    /// The one port that it is, if it is one.
    #[must_use]
    pub fn single(self) -> Option<u16> {
        (self.first == self.last).then_some(self.first)
    }

    /// Whether it holds a port.
    #[must_use]
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// How a network namespace was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetnsRef {
    /// A name under /run/netns, or one that a CNI gave.
    Name(String),
    /// The namespace of a process.
    Pid(u32),
    /// A file.
    Path(PathBuf),
}

/// How a pod was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    /// Its Kubernetes namespace; `None`: in any.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Where a probe is to be sent from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromRef {
    /// Certainly a network namespace.
    Netns(NetnsRef),
    /// Certainly a pod: `namespace/name`.
    Pod(PodRef),
    /// A namespace of that name or else a pod of that name.
    Name(String),
}

/// A time after which to stop; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit(pub(super) Option<Duration>);

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const NETNS: &str = "a namespace is a name as `ip netns` prints it, a process id, or a path such as /proc/42/ns/net";
const POD: &str = "a pod is NAME or NAMESPACE/NAME as kubectl prints it";

pub(super) fn port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err("a port is a number from 1 to 65535".to_owned()),
    }
}

pub(super) fn port_range(text: &str) -> Result<PortRange, String> {
    let accepted =
        "ports are numbers from 1 to 65535 or ranges of them, such as 443 or 443,8000-8100";
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first = port(first).map_err(|_| accepted)?;
    let last = port(last).map_err(|_| accepted)?;
    if last < first {
        return Err(format!(
            "the range is upside down, write {last}-{first}; {accepted}"
        ));
    }
    Ok(PortRange { first, last })
}

/// An address; one that is IPv4 written as IPv6 (`::ffff:10.0.0.1`) counts as IPv4, as on the wire.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(addr) => Ok(addr.to_canonical()),
        Err(_) if text.contains('%') => Err(
            "an address with a zone is not accepted; leave the % part out, -i names the interface"
                .to_owned(),
        ),
        Err(_) => Err("an address is IPv4 or IPv6, such as 10.20.30.40 or fd50::20".to_owned()),
    }
}

pub(super) fn prefix(text: &str) -> Result<IpNet, String> {
    let Some((addr, len)) = text.split_once('/') else {
        return address(text).map(IpNet::from);
    };
    let accepted = "a prefix is ADDR/LENGTH, such as 10.20.0.0/16 or fd50::/64";
    let addr = addr.parse::<IpAddr>().map_err(|_| accepted)?;
    let digits = !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit());
    let len = len.parse().ok().filter(|_| digits).ok_or(accepted)?;
    let longest = if addr.is_ipv4() { 32 } else { 128 };
    let net = IpNet::new(addr, len)
        .map_err(|_| format!("the length of this prefix is 0 to {longest}; {accepted}"))?;
    let whole = net.trunc();
    if whole.addr() != addr {
        return Err(format!(
            "there are bits set beyond /{len}; did you mean {whole} or {addr}?"
        ));
    }
    Ok(unmapped(whole))
}

/// `::ffff:10.0.0.0/104` as 10.0.0.0/8: packets never carry the mapped form.
fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    match (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(96)) {
        (Some(addr), Some(len)) => IpNet::new(Ipv4Addr::into(addr), len).unwrap_or(net),
        _ => net,
    }
}

pub(super) fn netns(text: &str) -> Result<NetnsRef, String> {
    if text.contains('/') {
        return Ok(NetnsRef::Path(text.into()));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse() {
            Ok(pid) if pid > 0 && pid <= i32::MAX.unsigned_abs() => Ok(NetnsRef::Pid(pid)),
            _ => Err(format!("no process has that id; {NETNS}")),
        };
    }
    let odd = text.is_empty() || text == "." || text == ".." || text.len() > 255;
    if odd || text.chars().any(char::is_control) {
        return Err(NETNS.to_owned());
    }
    Ok(NetnsRef::Name(text.to_owned()))
}

pub(super) fn pod(text: &str) -> Result<PodRef, String> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    if !is_kube_name(name, 253) || namespace.is_some_and(|ns| !is_kube_name(ns, 63)) {
        return Err(POD.to_owned());
    }
    Ok(PodRef {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    })
}

fn is_kube_name(name: &str, longest: usize) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= longest
        && edge(name.bytes().next())
        && edge(name.bytes().last())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
}

/// `shop/web` is a pod, `/run/netns/web` and `./web` are files, `web` may be either kind.
pub(super) fn from(text: &str) -> Result<FromRef, String> {
    if text.contains('/') && !text.starts_with(['/', '.']) {
        return pod(text).map(FromRef::Pod);
    }
    Ok(match netns(text)? {
        NetnsRef::Name(name) => FromRef::Name(name),
        certain => FromRef::Netns(certain),
    })
}

/// The kernel's own rule for a device's name.
pub(super) fn interface(text: &str) -> Result<String, String> {
    let bad = |b: u8| b == b'/' || b == b':' || b.is_ascii_whitespace() || b.is_ascii_control();
    if text.is_empty() || text.len() > 15 || matches!(text, "." | "..") || text.bytes().any(bad) {
        return Err("an interface name has 1 to 15 characters, without space, / and :".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn host(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 253 || text.chars().any(|c| c.is_control() || c == ' ') {
        return Err("a host name has 1 to 253 characters, without spaces".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn count(text: &str) -> Result<NonZeroU64, String> {
    text.parse()
        .map_err(|_| "a number of flows is 1 or more".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Limit, String> {
    let accepted = "a time is a number of seconds, or has a unit, such as 30s, 10m or 1h30m; 0 means until Ctrl-C";
    if text == "0" {
        return Ok(Limit(None));
    }
    // `timeout`, `sleep` and `ping -w` take bare seconds: so do fingers.
    let parsed: SignedDuration = match text.parse::<u32>() {
        Ok(seconds) => SignedDuration::from_secs(seconds.into()),
        Err(_) => text.parse().map_err(|_| accepted)?,
    };
    let time =
        Duration::try_from(parsed).map_err(|_| format!("a time cannot be negative; {accepted}"))?;
    if time > YEAR {
        return Err(format!("that is more than a year; {accepted}"));
    }
    Ok(Limit((!time.is_zero()).then_some(time)))
}

pub(super) fn expect_denied(text: &str) -> Result<Denied, String> {
    text.parse()
        .map_err(|_| "accepted are policy, route, any".to_owned())
}

pub(super) fn expect_source(text: &str) -> Result<Source, String> {
    match text {
        "preserved" => Ok(Source::Preserved),
        "pod" => Ok(Source::Pod),
        "node" => Ok(Source::Node),
        _ => prefix(text).map(Source::Within).map_err(|why| {
            if text.contains('/') {
                why
            } else {
                "accepted are preserved, pod, node, an address, or a prefix such as 10.100.0.0/24"
                    .to_owned()
            }
        }),
    }
}
/// Payload is not recorded, so only its absence can be asked for.
pub(super) fn snaplen(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Ok(0),
        _ => Err(
            "payload is not recorded by this version; accepted is 0: headers only, as without it"
                .to_owned(),
        ),
    }
}
