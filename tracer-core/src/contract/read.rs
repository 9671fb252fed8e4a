//! A contract's text to values. It is strict: what it does not know is an error with line and key, for a
//! word that is misspelt in a contract would be a condition that nobody checks.

use super::MAX_BYTES;
use super::terms::{Agreed, Contract, Dest, Identity, Senders, Terms};
use crate::expect::Source;
use crate::packet::Proto;
use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use toml::value::Datetime;

/// What is wrong with a contract, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BadContract {
    /// Line of the text, from 1.
    pub line: usize,
    /// The way to the key, `to[0].source`; empty where it is about no key.
    pub key: String,
    /// What is wrong, and what is accepted.
    pub why: String,
}

impl fmt::Display for BadContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" | "." => write!(f, "line {}: {}", self.line, self.why),
            key => write!(f, "line {}: {key}: {}", self.line, self.why),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u64,
    to: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(deserialize_with = "dest")]
    dest: Dest,
    #[serde(default, deserialize_with = "probe")]
    probe: Option<Dest>,
    #[serde(default, deserialize_with = "proto")]
    proto: Option<Proto>,
    #[serde(default)]
    from: From,
    #[serde(deserialize_with = "source")]
    source: Source,
    #[serde(deserialize_with = "prefix")]
    replies_to: IpNet,
    identity: Identity,
    agreed: When,
    note: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    #[serde(default, deserialize_with = "pods")]
    pods: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    netns: Vec<String>,
    #[serde(default, deserialize_with = "prefixes")]
    cidrs: Vec<IpNet>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    by: String,
    #[serde(deserialize_with = "date")]
    on: String,
}

impl FromStr for Contract {
    type Err = BadContract;

    fn from_str(text: &str) -> Result<Self, BadContract> {
        if text.len() > MAX_BYTES {
            return Err(bad(
                1,
                "",
                &format!("it is larger than {} KiB", MAX_BYTES >> 10),
            ));
        }
        let at = |error: &toml::de::Error| error.span().map_or(1, |span| line_at(text, span.start));
        let parsed = toml::Deserializer::parse(text)
            .map_err(|error| bad(at(&error), "", error.message()))?;
        let file: File = serde_path_to_error::deserialize(parsed).map_err(|error| {
            let key = error.path().to_string();
            let inner = error.into_inner();
            bad(at(&inner), &key, inner.message())
        })?;
        if file.version != 1 {
            let why = format!(
                "{} is another format than this version reads (1)",
                file.version
            );
            return Err(bad(line_of(text, "version", 0), "version", &why));
        }
        let mut contract = Self::default();
        for (n, entry) in file.to.into_iter().enumerate() {
            let line = line_of(text, "[[to]]", n);
            let terms = entry.terms(line);
            let wrong = |(key, why): (&str, String)| bad(line, &format!("to[{n}].{key}"), &why);
            consistent(&terms).map_err(wrong)?;
            twin(&terms, &contract.terms).map_err(wrong)?;
            contract.terms.push(terms);
        }
        match contract.terms.is_empty() {
            true => Err(bad(1, "to", "no entry: give at least one [[to]]")),
            false => Ok(contract),
        }
    }
}

impl Entry {
    fn terms(self, line: usize) -> Terms {
        Terms {
            line,
            dest: self.dest,
            probe: self.probe,
            proto: self.proto,
            from: Senders {
                pods: self.from.pods,
                namespaces: self.from.namespaces,
                netns: self.from.netns,
                cidrs: self.from.cidrs,
            },
            source: self.source,
            replies_to: self.replies_to,
            identity: self.identity,
            agreed: Agreed {
                by: self.agreed.by,
                on: self.agreed.on,
            },
            note: self.note,
        }
    }
}

fn bad(line: usize, key: &str, why: &str) -> BadContract {
    BadContract {
        line,
        key: key.to_owned(),
        // One line, whatever the library says.
        why: why.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// What cannot all be true of one entry.
fn consistent(terms: &Terms) -> Result<(), (&'static str, String)> {
    let v4 = terms.dest.net.addr().is_ipv4();
    let family = |net: &IpNet| net.addr().is_ipv4() == v4;
    let other = |what: &str| {
        format!(
            "{what} is of another address family than dest, {}",
            terms.dest
        )
    };
    if !family(&terms.replies_to) {
        return Err(("replies_to", other(&terms.replies_to.to_string())));
    }
    if let Source::Within(net) = terms.source {
        if !family(&net) {
            return Err(("source", other(&net.to_string())));
        }
        if !terms.replies_to.contains(&net) && !net.contains(&terms.replies_to) {
            let why = format!(
                "{} does not lie in replies_to, {}: no reply would come back to it",
                terms.source, terms.replies_to
            );
            return Err(("source", why));
        }
    }
    if let Some(net) = terms.from.cidrs.iter().find(|net| !family(net)) {
        return Err(("from.cidrs", other(&net.to_string())));
    }
    if let Some(probe) = terms.probe {
        probes(terms, probe).map_err(|why| ("probe", why))?;
    }
    if terms.dest.port.is_some() && terms.proto.is_some_and(Proto::is_icmp) {
        return Err(("dest", "ICMP has no ports; leave the port out".to_owned()));
    }
    Ok(())
}

/// What of an entry's own destination cannot be asked.
fn probes(terms: &Terms, probe: Dest) -> Result<(), String> {
    let dest = terms.dest;
    if !probe.is_single() {
        return Err(format!(
            "{probe} is a prefix: give one address of dest, {dest}"
        ));
    }
    if !dest.net.contains(&probe.net) {
        return Err(format!("{probe} is none of dest, {dest}"));
    }
    if probe.port.is_some() && dest.port.is_some() && probe.port != dest.port {
        return Err(format!("{probe} has another port than dest, {dest}"));
    }
    if probe.port.is_some() && terms.proto.is_some_and(Proto::is_icmp) {
        return Err("ICMP has no ports; leave the port out".to_owned());
    }
    Ok(())
}

/// A second entry for the same would never count.
fn twin(terms: &Terms, before: &[Terms]) -> Result<(), (&'static str, String)> {
    let same = |other: &&Terms| {
        (other.dest, other.proto, &other.from) == (terms.dest, terms.proto, &terms.from)
    };
    match before.iter().find(same) {
        Some(other) => Err((
            "dest",
            format!("the entry of line {} is for the same", other.line),
        )),
        None => Ok(()),
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// The line of the `n`th line that begins with a word; the first one where there is none.
fn line_of(text: &str, word: &str, n: usize) -> usize {
    let squeezed = |line: &str| line.split_whitespace().collect::<String>();
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| squeezed(line).starts_with(word));
    lines.nth(n).map_or(1, |(at, _)| at + 1)
}

fn dest<'de, D: Deserializer<'de>>(from: D) -> Result<Dest, D::Error> {
    let text = String::deserialize(from)?;
    parse_dest(&text).ok_or_else(|| {
        D::Error::custom(format!(
            "{text:?} is no destination: give 10.20.30.40, 10.20.30.40:443, [fd50::20]:443 or 10.20.0.0/16 (no host bits set)"
        ))
    })
}

fn probe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Dest>, D::Error> {
    dest(from).map(Some)
}

fn parse_dest(text: &str) -> Option<Dest> {
    if let Ok(to) = text.parse::<SocketAddr>() {
        let port = Some(to.port()).filter(|port| *port != 0)?;
        return Some(Dest {
            net: to.ip().into(),
            port: Some(port),
        });
    }
    let net = parse_prefix(text)?;
    Some(Dest { net, port: None })
}

fn parse_prefix(text: &str) -> Option<IpNet> {
    if let Ok(addr) = text.parse::<IpAddr>() {
        return Some(addr.into());
    }
    let net = text.parse::<IpNet>().ok()?;
    (net == net.trunc()).then_some(net)
}

fn prefix_of<E: serde::de::Error>(text: &str) -> Result<IpNet, E> {
    parse_prefix(text).ok_or_else(|| {
        E::custom(format!(
            "{text:?} is no prefix: give 10.100.0.0/16 (no host bits set) or an address"
        ))
    })
}

fn prefix<'de, D: Deserializer<'de>>(from: D) -> Result<IpNet, D::Error> {
    prefix_of(&String::deserialize(from)?)
}

fn prefixes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let all = Vec::<String>::deserialize(from)?;
    all.iter().map(|text| prefix_of(text)).collect()
}

fn pods<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all = Vec::<String>::deserialize(from)?;
    let wrong = |pod: &&String| {
        let star = pod.find('*').is_some_and(|at| at + 1 != pod.len());
        star || pod.split('/').count() != 2 || pod.starts_with('/') || pod.ends_with('/')
    };
    match all.iter().find(wrong) {
        Some(pod) => Err(D::Error::custom(format!(
            "{pod:?} is no pod: give namespace/name; a * may stand at its end"
        ))),
        None => Ok(all),
    }
}

fn source<'de, D: Deserializer<'de>>(from: D) -> Result<Source, D::Error> {
    let text = String::deserialize(from)?;
    let source: Source = text.parse().map_err(D::Error::custom)?;
    match source {
        Source::Within(net) if net != net.trunc() => Err(D::Error::custom(format!(
            "{text:?} has host bits set: give {}",
            net.trunc()
        ))),
        source => Ok(source),
    }
}

fn proto<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Proto>, D::Error> {
    let text = String::deserialize(from)?;
    Ok(Some(match text.as_str() {
        "tcp" => Proto::TCP,
        "udp" => Proto::UDP,
        "icmp" => Proto::ICMP,
        "sctp" => Proto::SCTP,
        _ => {
            return Err(D::Error::custom(format!(
                "{text:?} is not accepted: give tcp, udp, icmp or sctp"
            )));
        }
    }))
}

fn date<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let date = Datetime::deserialize(from)?;
    match (date.date, date.time) {
        (Some(_), None) => Ok(date.to_string()),
        _ => Err(D::Error::custom(format!(
            "{date} is no date: give it as 2026-11-20, without quotes"
        ))),
    }
}
