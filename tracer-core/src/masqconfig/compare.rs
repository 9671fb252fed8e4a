//! A configuration against the rules that are installed.

use super::installed::{Installed, Installer, is_of};
use super::prefixes::{covers, elsewhere, host, same};
use super::{Flags, Reading, Span, agents};
use crate::evaluate::{At, Bits, Flow, Outcome, Packet, Rules, Way, evaluate};
use crate::inventory::Namespace;
use crate::packet::{Proto, Tuple};
use crate::report::ConfigState as State;
use crate::ruleset::{Backend, Rule, Ruleset};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The rules of the node, and whose packets are tried on them.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'k, 'r> {
    /// The rules.
    pub rules: &'r Ruleset,
    /// The node's namespace.
    pub here: &'k Namespace,
    /// Pods of the node: address, and the node's device to it.
    pub pods: &'k [(IpAddr, String)],
}

/// What is known of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Now, seconds since 1970.
    pub now: i64,
    /// When the file (or ConfigMap) changed last.
    pub changed: Option<i64>,
    /// How long the kubelet may take from ConfigMap to file; 0 where the file is the mounted one.
    pub on_the_way: i64,
}

impl Timing {
    /// When the agent has looked again at the latest.
    #[must_use]
    pub fn due(&self, resync: Option<Span>) -> Option<i64> {
        /// What writing the rules may take.
        const SLACK: i64 = 5;
        let resync = resync.map_or(0, Span::whole_seconds).max(0);
        Some(
            self.changed?
                .saturating_add(resync)
                .saturating_add(self.on_the_way + SLACK),
        )
    }
}

/// One destination of the list or of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared<'r> {
    /// The prefix.
    pub net: IpNet,
    /// Whether the configuration asks for it.
    pub wanted: bool,
    /// The rule that exempts just it.
    pub rule: Option<&'r Rule>,
    /// Whether its addresses fare otherwise than the configuration asks for.
    pub matters: bool,
}

/// One family's half.
#[derive(Clone, Debug)]
pub struct Half<'r> {
    /// IPv6?
    pub v6: bool,
    /// The agent's chains: one, or one in each store.
    pub chains: Vec<Installed<'r>>,
    /// Chains of others beside it.
    pub others: Vec<Installed<'r>>,
    /// The destinations, first those of the configuration in its order.
    pub entries: Vec<Compared<'r>>,
    /// The rule that decides before the agent's chain, and a destination for which it does.
    pub shadow: Option<(At<'r>, IpAddr)>,
    /// How it compares; not [`State::Invalid`].
    pub state: State,
}

/// The whole comparison.
#[derive(Clone, Debug)]
pub struct Comparison<'r> {
    /// The worse of both halves.
    pub state: State,
    /// The halves that the agent is responsible for.
    pub halves: Vec<Half<'r>>,
}

impl<'r> Half<'r> {
    /// The chain that counts: one that a packet meets.
    #[must_use]
    pub fn chain(&self) -> Option<&Installed<'r>> {
        let met = self.chains.iter().find(|chain| !chain.jumps.is_empty());
        met.or(self.chains.first())
    }

    /// Stores in which the agent's chain is.
    #[must_use]
    pub fn stores(&self) -> Vec<Backend> {
        self.chains
            .iter()
            .map(|chain| chain.table.id.backend)
            .collect()
    }
}

/// Compares.
#[must_use]
pub fn compare<'r>(
    reading: &Reading,
    flags: &Flags,
    kernel: &Kernel<'_, 'r>,
    timing: &Timing,
) -> Comparison<'r> {
    let indexed = Rules::new(kernel.rules);
    let found = Installed::find(kernel.rules, &flags.chain);
    let families = [false, true].into_iter().filter(|v6| !v6 || flags.ipv6);
    let halves: Vec<Half<'r>> = families
        .map(|v6| {
            let judge = Judge {
                reading,
                flags,
                kernel,
                indexed: &indexed,
                timing,
                v6,
            };
            judge.half(&found)
        })
        .collect();
    let worst = halves
        .iter()
        .map(|half| half.state)
        .max_by_key(|state| weight(*state));
    let state = match reading.config {
        Err(_) => State::Invalid,
        Ok(_) => worst.unwrap_or(State::Agrees),
    };
    Comparison { state, halves }
}

/// How bad a state is: the whole is as bad as its worse half.
fn weight(state: State) -> u8 {
    match state {
        State::Agrees => 0,
        State::Lagging => 1,
        State::Differs => 2,
        State::NotRead => 3,
        State::Shadowed => 4,
        State::JumpMissing => 5,
        State::ChainMissing => 6,
        State::Invalid => 7,
    }
}

struct Judge<'j, 'k, 'r> {
    reading: &'j Reading,
    flags: &'j Flags,
    kernel: &'j Kernel<'k, 'r>,
    indexed: &'j Rules<'r>,
    timing: &'j Timing,
    v6: bool,
}

impl<'r> Judge<'_, '_, 'r> {
    fn half(&self, found: &[Installed<'r>]) -> Half<'r> {
        let of_family = found.iter().filter(|chain| chain.v6() == self.v6).cloned();
        let (chains, others): (Vec<_>, Vec<_>) =
            of_family.partition(|chain| chain.by == Installer::Agent);
        let mut half = Half {
            v6: self.v6,
            chains,
            others,
            entries: Vec::new(),
            shadow: None,
            state: State::Agrees,
        };
        half.entries = self.entries(&half);
        half.state = self.state(&mut half);
        half
    }

    fn wanted(&self) -> Option<Vec<IpNet>> {
        let config = self.reading.config.as_ref().ok()?;
        Some(config.exempt(self.v6))
    }

    fn entries(&self, half: &Half<'r>) -> Vec<Compared<'r>> {
        let wanted = self.wanted();
        let installed: &[(IpNet, &Rule)] = half.chain().map_or(&[], |chain| &chain.exempt);
        let nets: Vec<IpNet> = installed.iter().map(|(net, _)| *net).collect();
        let asked = wanted.clone().unwrap_or_default();
        let mut entries: Vec<Compared<'r>> = Vec::new();
        for net in &asked {
            if entries.iter().any(|known| known.net == *net) {
                continue;
            }
            let rule = installed.iter().find(|(known, _)| known == net);
            entries.push(Compared {
                net: *net,
                wanted: true,
                rule: rule.map(|(_, rule)| *rule),
                matters: !covers(&nets, *net),
            });
        }
        for (net, rule) in installed {
            if entries.iter().any(|known| known.net == *net) {
                continue;
            }
            entries.push(Compared {
                net: *net,
                wanted: false,
                rule: Some(rule),
                matters: wanted.is_some() && !covers(&asked, *net),
            });
        }
        entries
    }

    fn state(&self, half: &mut Half<'r>) -> State {
        let Some(chain) = half.chain().cloned() else {
            return State::ChainMissing;
        };
        if chain.jumps.is_empty() {
            return State::JumpMissing;
        }
        let Some(wanted) = self.wanted() else {
            return State::Agrees;
        };
        half.shadow = self.shadow(&chain, &wanted);
        if half.shadow.is_some() {
            return State::Shadowed;
        }
        let nets = chain.nets();
        if same(&nets, &wanted) && chain.masquerades {
            return State::Agrees;
        }
        let due = self.timing.due(self.resync());
        if due.is_some_and(|due| self.timing.now < due) {
            return State::Lagging;
        }
        let own = agents::read(self.reading.agent, &[], self.flags);
        let own = own
            .config
            .map(|config| config.exempt(self.v6))
            .unwrap_or_default();
        match self.reading.found && same(&nets, &own) {
            true => State::NotRead,
            false => State::Differs,
        }
    }

    fn resync(&self) -> Option<Span> {
        self.reading
            .config
            .as_ref()
            .ok()
            .and_then(|config| config.resync)
    }

    /// A rule outside of the agent's chain that decides what the agent's chain should: tried with a pod's
    /// packet to each exempt destination, and to one that is not exempt.
    fn shadow(&self, chain: &Installed<'r>, wanted: &[IpNet]) -> Option<(At<'r>, IpAddr)> {
        // Link-local comes first in the list, and is what nobody asks about.
        let exempt = wanted.iter().rev().map(|net| host(*net));
        let other = elsewhere(self.v6, wanted).map(host);
        let is_here = |at: At<'r>| std::ptr::eq(at.chain, chain.chain);
        for dst in exempt.chain(other) {
            let keeps = wanted.iter().any(|net| net.contains(&dst));
            for (src, device) in self.senders() {
                let outcome = self.ask(src, device, dst);
                let answer = outcome.source();
                let Some(decision) = answer.certain() else {
                    continue;
                };
                let by = match decision {
                    Some(decision) => Some(decision.by),
                    None if keeps => None,
                    None => exempted(&outcome),
                };
                if let Some(by) = by.filter(|at| !is_here(*at)) {
                    return Some((by, dst));
                }
            }
        }
        None
    }

    /// A few pods; without any, a sender of whom nothing is known.
    fn senders(&self) -> Vec<(Option<IpAddr>, Option<&str>)> {
        const TRIED: usize = 3;
        let pods = self
            .kernel
            .pods
            .iter()
            .filter(|(addr, _)| is_of(*addr, self.v6));
        let pods: Vec<_> = pods
            .take(TRIED)
            .map(|(addr, dev)| (Some(*addr), Some(dev.as_str())))
            .collect();
        match pods.is_empty() {
            true => vec![(None, None)],
            false => pods,
        }
    }

    fn ask(&self, src: Option<IpAddr>, device: Option<&str>, dst: IpAddr) -> Outcome<'r> {
        let nobody = match dst {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let tuple = Tuple {
            src: src.unwrap_or(nobody),
            sport: 40_000,
            dst,
            dport: 443,
            proto: Proto::TCP,
        };
        let mut packet = Packet::first(tuple, device, way_out(self.kernel.here, dst));
        packet.known.src = src.is_some();
        packet.mark = Bits::all(0);
        packet.flow = Flow::new();
        evaluate(self.indexed, &packet, Way::Forwarded, self.kernel.here)
    }
}

fn exempted<'r>(outcome: &Outcome<'r>) -> Option<At<'r>> {
    let mut by = outcome
        .ends
        .iter()
        .map(|end| end.exempted_by().map(|e| e.by));
    let first = by.next()??;
    by.all(|other| other == Some(first)).then_some(first)
}

/// The device by which the main routing table sends it out.
#[must_use]
pub fn way_out(here: &Namespace, dst: IpAddr) -> Option<&str> {
    let fits = here.routes.iter().filter(|route| route.to.contains(&dst));
    let best = fits.max_by_key(|route| route.to.prefix_len())?;
    here.links.get(&best.ifindex).map(|link| link.name.as_str())
}
