//! The smallest edit of a configuration that gives a destination another source.

use super::prefixes::{covers, minus};
use super::{Config, Entry, Flags};
use ipnet::IpNet;
use std::fmt::Write as _;

/// The source that is wanted at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The pod's own: the destination is to be exempt.
    Pod,
    /// The node's: it is to be masqueraded.
    Node,
}

/// An edit. Nothing applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Single changes, in the order of the text.
    pub changes: Vec<Change>,
    /// The configuration after it.
    pub after: Config,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A prefix is listed.
    Add(IpNet),
    /// A prefix is taken out.
    Remove(IpNet),
    /// Another key gets a value.
    Set(&'static str, String),
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Add(net) => write!(f, "+ {net}"),
            Self::Remove(net) => write!(f, "- {net}"),
            Self::Set(key, value) => write!(f, "{key}: {value}"),
        }
    }
}

/// The smallest edit; `Ok` with no changes: it is so already.
///
/// # Errors
/// Why no edit of the configuration can give it.
pub fn edit(config: &Config, flags: &Flags, dest: IpNet, want: Want) -> Result<Edit, String> {
    let v6 = dest.addr().is_ipv6();
    if v6 && !flags.ipv6 {
        return Err(
            "the agent runs without --enable-ipv6: it writes no IPv6 rules, and refuses a list with IPv6 prefixes".to_owned(),
        );
    }
    let mut after = config.clone();
    let mut changes = match want {
        Want::Pod => exempted(&mut after, dest, v6),
        Want::Node => masqueraded(&mut after, dest, v6),
    };
    let count = i64::try_from(after.entries.len()).unwrap_or(i64::MAX);
    if count > after.cidr_limit {
        after.cidr_limit = count;
        changes.push(Change::Set("cidrLimit", count.to_string()));
    }
    if !changes.is_empty() {
        after.defaults = false;
    }
    Ok(Edit { changes, after })
}

fn exempted(config: &mut Config, dest: IpNet, v6: bool) -> Vec<Change> {
    if covers(&config.exempt(v6), dest) {
        return Vec::new();
    }
    config.entries.push(Entry::own(dest));
    vec![Change::Add(dest)]
}

/// Entries inside go, those around are cut in pieces.
fn masqueraded(config: &mut Config, dest: IpNet, v6: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut entries = Vec::new();
    for entry in &config.entries {
        let meets = entry.net.contains(&dest) || dest.contains(&entry.net);
        if !meets {
            entries.push(entry.clone());
            continue;
        }
        changes.push(Change::Remove(entry.net));
        for rest in minus(entry.net, &[dest]) {
            changes.push(Change::Add(rest));
            entries.push(Entry::own(rest));
        }
    }
    config.entries = entries;
    let rest = config
        .exempt(v6)
        .into_iter()
        .any(|net| net.contains(&dest) || dest.contains(&net));
    if rest {
        let key = match v6 {
            true => {
                config.masq_link_local_v6 = true;
                super::decode::LOCAL_V6
            }
            false => {
                config.masq_link_local = true;
                super::decode::LOCAL
            }
        };
        changes.push(Change::Set(key, "true".to_owned()));
    }
    changes
}

/// A configuration as a file that the agent reads so.
#[must_use]
pub fn yaml(config: &Config) -> String {
    let mut text = String::new();
    if !config.defaults {
        text.push_str(match config.entries.is_empty() {
            true => "nonMasqueradeCIDRs: []\n",
            false => "nonMasqueradeCIDRs:\n",
        });
        for entry in &config.entries {
            let quote = if entry.net.addr().is_ipv6() { "\"" } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "- {quote}{}{quote}", entry.net);
        }
    }
    if config.cidr_limit != 64 {
        let _ = writeln!(text, "cidrLimit: {}", config.cidr_limit);
    }
    for (key, is) in [
        (super::decode::LOCAL, config.masq_link_local),
        (super::decode::LOCAL_V6, config.masq_link_local_v6),
    ] {
        if is {
            let _ = writeln!(text, "{key}: true");
        }
    }
    if let Some(span) = config
        .resync
        .filter(|span| *span != super::Span::seconds(60))
    {
        let _ = writeln!(text, "resyncInterval: {}", go(span));
    }
    text
}

/// A span as Go reads it.
fn go(span: super::Span) -> String {
    match span.0 % 1_000_000_000 {
        0 => format!("{}s", span.0 / 1_000_000_000),
        _ => format!("{}ns", span.0),
    }
}
