//! Prefixes that fare otherwise after an edit.

use super::plan::Ask;
use ipnet::IpNet;
use std::net::IpAddr;
use tracer_core::masqconfig::{Config, Installed, Installer, prefixes};

/// Prefixes that are tried, at most.
const PREFIXES: usize = 32;

/// A prefix that fares otherwise after the edit.
pub(super) struct Changed {
    pub(super) net: IpNet,
    /// Those inside it that do not.
    pub(super) except: Vec<String>,
    /// An address that does.
    pub(super) sample: IpAddr,
}

impl Changed {
    /// Every destination but those that are exempt.
    fn beyond(v6: bool, exempt: &[IpNet]) -> Option<Self> {
        let all = if v6 { "::/0" } else { "0.0.0.0/0" };
        Some(Self {
            net: all.parse().ok()?,
            except: exempt.iter().map(ToString::to_string).collect(),
            sample: prefixes::host(prefixes::elsewhere(v6, exempt)?),
        })
    }

    /// What one of two lists has and the other lacks.
    pub(super) fn between(now: &[IpNet], then: &[IpNet]) -> Vec<Self> {
        let gone = now.iter().filter_map(|net| Self::of(*net, then));
        let new = then.iter().filter_map(|net| Self::of(*net, now));
        gone.chain(new).take(PREFIXES).collect()
    }

    /// Of an entry that one list has, what the other one lacks.
    fn of(net: IpNet, other: &[IpNet]) -> Option<Self> {
        let rest = prefixes::minus(net, other);
        let sample = rest.iter().min_by_key(|rest| rest.prefix_len())?;
        let inside = other.iter().filter(|other| net.contains(*other));
        Some(Self {
            net,
            except: inside.map(ToString::to_string).collect(),
            sample: prefixes::host(*sample),
        })
    }
}

/// What fares otherwise after the edit; all that is not exempt then, where no rule of the agent is in force
/// today.
pub(super) fn changed(ask: &Ask<'_>, after: &Config) -> Vec<Changed> {
    let found = Installed::find(ask.rules, &ask.flags.chain);
    let mut all: Vec<Changed> = Vec::new();
    for v6 in [false, true] {
        if v6 && !ask.flags.ipv6 {
            continue;
        }
        let own = |chain: &&Installed<'_>| {
            chain.by == Installer::Agent
                && chain.v6() == v6
                && !chain.jumps.is_empty()
                && chain.masquerades
        };
        let then = after.exempt(v6);
        let Some(chain) = found.iter().find(own) else {
            all.extend(Changed::beyond(v6, &then));
            continue;
        };
        let now = chain.nets();
        all.extend(Changed::between(&now, &then));
    }
    all.truncate(PREFIXES);
    all
}
