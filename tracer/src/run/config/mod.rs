//! `explain`'s part about an agent's configuration: what was meant, what the agent's pod has, what is
//! installed, and what an edit would change. Nothing is ever applied.

mod flows;
mod given;
mod plan;
mod wanted;

use super::clock;
use super::failure::Failure;
use super::terrain::Terrain;
use crate::cli::{ConfigOptions, ExplainOptions};
use crate::render::escape;
use crate::sink;
use crate::system::agent::{self, AgentProcess};
use crate::system::{Roots, host};
use flows::Seen;
use given::Given;
use std::net::IpAddr;
use tracer_core::event::NetnsId;
use tracer_core::foresee::Needs;
use tracer_core::inventory::{Inventory, Namespace, Role};
use tracer_core::masqconfig::{
    self, Agent, Config, Flags, Held, Installed, Installer, Kernel, Ranges, Running, Scene,
};
use tracer_core::report::{self, ConfigReport, EditReport, PlanReport};
use tracer_core::ruleset::Ruleset;

/// What there is to tell.
#[derive(Default)]
pub(super) struct Part {
    /// The stages compared; `None`: there is no agent, no chain of one and no configuration.
    pub(super) report: Option<ConfigReport>,
    /// What the configuration that was given, or the edit, would change.
    pub(super) plans: Vec<PlanReport>,
    /// The edit that was asked for.
    pub(super) edit: Option<EditReport>,
}

/// Reads and compares everything.
pub(super) fn part(
    options: &ExplainOptions,
    terrain: &mut Terrain,
    addrs: &[IpAddr],
) -> Result<Part, Failure> {
    let config = &options.config;
    // What is wrong with the files is told before anything is asked.
    let given = config.file.as_deref().map(Given::read).transpose()?;
    let seen = config.flows.as_deref().map(flows::read).transpose()?;
    let Some(node) = terrain.inventory.node else {
        return Ok(Part::default());
    };
    terrain.supply(&Needs {
        rules: [node]
            .into_iter()
            .filter(|id| !terrain.rules.contains_key(id))
            .collect(),
        ..Needs::default()
    });
    let rules = terrain.rules.get(&node).cloned().unwrap_or_default();
    let known = Known::look(config, given.as_ref(), terrain.is_live(), node, &rules);
    let ranges = ranges(&terrain.inventory, config);
    let report = known.report(&rules, &terrain.inventory, &ranges, seen.as_ref());
    let mut part = Part {
        report,
        ..Part::default()
    };
    let ask = plan::Ask {
        node,
        rules: &rules,
        flags: &known.flags,
        addrs,
        options,
        seen: seen.as_ref(),
    };
    if let Some((want, dest)) = config.want {
        let (edit, after) = wanted::edit(&known, &rules, want, dest, terrain, options)?;
        part.edit = Some(edit);
        if let Some(after) = after {
            part.plans = plan::plans(terrain, &ask, &after);
        }
    } else if let Some(Ok(after)) = known.given.as_ref().map(|held| &held.reading.config) {
        part.plans = plan::plans(terrain, &ask, after);
    }
    Ok(part)
}

/// What is known of the agent and its configuration.
struct Known {
    agent: Agent,
    flags: Flags,
    running: Running,
    given: Option<Held>,
    mounted: Option<Held>,
}

impl Known {
    fn look(
        options: &ConfigOptions,
        given: Option<&Given>,
        live: bool,
        node: NetnsId,
        rules: &Ruleset,
    ) -> Self {
        let roots = Roots::default();
        let process = live.then(|| agent::find(&roots, node)).flatten();
        let of_process = process.as_ref().map(|process| process.agent);
        let of_file = given.and_then(Given::agent);
        let agent = options
            .agent
            .or(of_file)
            .or(of_process)
            .unwrap_or_else(|| by_rules(rules));
        let flags = match &process {
            Some(process) => Flags::of(agent, process.command.iter().map(String::as_str)),
            None => guessed(agent, rules),
        };
        let mounted = process
            .as_ref()
            .and_then(|process| mounted(&roots, process, agent, &flags));
        let running = match process {
            Some(process) => Running::Yes(report::AgentProcess {
                pid: process.pid,
                started: process.started.map(clock::utc),
                command: process.command,
            }),
            None if live && host::sees_host_processes(&roots) => Running::No,
            None => Running::Unknown,
        };
        Self {
            given: given.map(|given| given.held(agent, &flags)),
            agent,
            flags,
            running,
            mounted,
        }
    }

    fn report(
        &self,
        rules: &Ruleset,
        inventory: &Inventory,
        ranges: &Ranges,
        seen: Option<&Seen>,
    ) -> Option<ConfigReport> {
        let none = Namespace::default();
        let here = inventory
            .node
            .and_then(|node| inventory.namespaces.get(&node));
        let pods = pods(inventory);
        let found = Installed::find(rules, &self.flags.chain);
        let in_force = |chain: &&Installed<'_>| {
            chain.by == Installer::Agent && !chain.jumps.is_empty() && chain.masquerades
        };
        let chains: Vec<&Installed<'_>> = found.iter().filter(in_force).collect();
        let exempt: Vec<ipnet::IpNet> = chains.iter().flat_map(|chain| chain.nets()).collect();
        let wire = seen.filter(|_| !chains.is_empty());
        let wire = wire.map(|seen| seen.wire(&exempt, inventory));
        masqconfig::tell(&Scene {
            agent: self.agent,
            flags: &self.flags,
            running: &self.running,
            given: self.given.as_ref(),
            mounted: self.mounted.as_ref(),
            kernel: Kernel {
                rules,
                here: here.unwrap_or(&none),
                pods: &pods,
            },
            wire: wire.as_ref(),
            ranges,
            now: clock::now().realtime_ns / 1_000_000_000,
            utc: &clock::utc,
        })
    }

    fn meant(&self) -> Option<&Held> {
        self.given.as_ref().or(self.mounted.as_ref())
    }

    /// The configuration that an edit begins with: what was given, else what the agent has, else what
    /// is installed.
    fn base(&self, rules: &Ruleset) -> Result<Config, String> {
        if let Some(held) = self.meant() {
            return held.reading.config.clone().map_err(|invalid| {
                format!(
                    "{} is refused as a whole ({invalid}): correct that first",
                    held.from
                )
            });
        }
        let own = masqconfig::read(self.agent, &[], &self.flags).config;
        let own = own.map_err(|invalid| invalid.to_string())?;
        let found = Installed::find(rules, &self.flags.chain);
        let chains: Vec<&Installed<'_>> = found
            .iter()
            .filter(|chain| chain.by == Installer::Agent)
            .collect();
        if chains.is_empty() {
            return Ok(own);
        }
        Ok(installed(&chains, own))
    }
}

/// The chains as a configuration that would write them.
fn installed(chains: &[&Installed<'_>], own: Config) -> Config {
    let local = own.exempt(false).into_iter().chain(own.exempt(true));
    let own_local: Vec<_> = local
        .filter(|net| !own.entries.iter().any(|e| e.net == *net))
        .collect();
    let nets = || chains.iter().flat_map(|chain| chain.nets());
    let lacks = |v6: bool| {
        let of_family = |net: &&ipnet::IpNet| net.addr().is_ipv6() == v6;
        own_local
            .iter()
            .filter(of_family)
            .any(|net| !nets().any(|known| known == *net))
    };
    let entries = nets().filter(|net| !own_local.contains(net));
    let config = Config {
        entries: entries.map(masqconfig::Entry::own).collect(),
        defaults: false,
        masq_link_local: lacks(false),
        masq_link_local_v6: chains.iter().any(|chain| chain.v6()) && lacks(true),
        ..own.clone()
    };
    match config.exempt(false) == own.exempt(false) && config.exempt(true) == own.exempt(true) {
        true => own,
        false => config,
    }
}

/// Whose rules these look like.
fn by_rules(rules: &Ruleset) -> Agent {
    let found = Installed::find(rules, &Flags::default().chain);
    match found.iter().any(Installed::is_azures) {
        true => Agent::Azure,
        false => Agent::Upstream,
    }
}

/// The flags of an agent that does not run, as far as its rules tell.
fn guessed(agent: Agent, rules: &Ruleset) -> Flags {
    let usual = Flags::of(agent, []);
    let found = Installed::find(rules, &usual.chain);
    let own = found.iter().any(|chain| chain.by == Installer::Agent);
    let signed = found.iter().find(|chain| chain.is_signed());
    let chain = match signed.filter(|_| !own) {
        Some(other) => other.chain.name.clone(),
        None => usual.chain.clone(),
    };
    Flags {
        ipv6: found
            .iter()
            .any(|found| found.v6() && found.chain.name == chain),
        chain,
        ..usual
    }
}

/// The file in the agent's pod. One that cannot be read is told, and not taken for absent.
fn mounted(roots: &Roots, process: &AgentProcess, agent: Agent, flags: &Flags) -> Option<Held> {
    let found = match process.files(roots) {
        Ok(found) => found,
        Err(error) => {
            let line = format!(
                "srctrace: the file of the agent (process {}) cannot be read: {error}; run as root with CAP_SYS_PTRACE",
                process.pid
            );
            sink::note(&format!("{}\n", escape(&line)));
            return None;
        }
    };
    let names: Vec<String> = found
        .iter()
        .map(|m| format!("/etc/config/{}", m.file.name))
        .collect();
    let from = match names.as_slice() {
        [] => format!(
            "no file in /etc/config of process {} (defaults)",
            process.pid
        ),
        names => format!("{} of process {}", names.join(", "), process.pid),
    };
    let files: Vec<masqconfig::File> = found.iter().map(|m| m.file.clone()).collect();
    Some(Held {
        from,
        reading: masqconfig::read(agent, &files, flags),
        changed: found.iter().map(|m| m.changed).max().or(process.started),
    })
}

/// Pods of the node: an address, and the node's device to it.
fn pods(inventory: &Inventory) -> Vec<(IpAddr, String)> {
    let Some(node) = inventory.node else {
        return Vec::new();
    };
    let spaces = inventory.namespaces.iter();
    let pods = spaces.filter(|(id, _)| inventory.role(**id) == Role::Pod);
    let mut found = Vec::new();
    for (_, ns) in pods {
        for link in ns.links.values().filter(|link| !link.loopback) {
            let Some((_, index)) = link.peer.filter(|(peer, _)| *peer == node) else {
                continue;
            };
            let Some(device) = inventory.link(node, index) else {
                continue;
            };
            let name = upper(inventory, node, index).unwrap_or_else(|| device.name.clone());
            let addrs = link.addrs.iter().map(|net| net.addr());
            found.extend(addrs.map(|addr| (addr, name.clone())));
        }
    }
    found
}

/// The bridge that a device belongs to: its packets come in by that.
fn upper(inventory: &Inventory, node: NetnsId, index: u32) -> Option<String> {
    let master = inventory.link(node, index)?.master?;
    Some(inventory.link(node, master)?.name.clone())
}

/// The networks around, as the node shows them.
fn ranges(inventory: &Inventory, options: &ConfigOptions) -> Ranges {
    let mut ranges = Ranges {
        onprem: options.onprem.clone(),
        ..Ranges::default()
    };
    let usable = |net: &ipnet::IpNet| match net.addr() {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    };
    for (id, ns) in &inventory.namespaces {
        let role = inventory.role(*id);
        let links = ns.links.values().filter(|link| !link.loopback);
        for link in links {
            let to_pod = link
                .peer
                .is_some_and(|(peer, _)| inventory.role(peer) == Role::Pod);
            let of_pod = link
                .peer
                .is_some_and(|(peer, _)| Some(peer) == inventory.node);
            let nets = link
                .addrs
                .iter()
                .filter(|net| usable(net))
                .map(ipnet::IpNet::trunc);
            match role {
                Role::Pod if of_pod => ranges.pods.extend(nets),
                Role::Node if !to_pod && link.kind != "bridge" => ranges.nodes.extend(nets),
                _ => {}
            }
        }
    }
    ranges.pods = ipnet::IpNet::aggregate(&ranges.pods);
    ranges.nodes = ipnet::IpNet::aggregate(&ranges.nodes);
    ranges.nodes.retain(|net| !ranges.pods.contains(net));
    ranges
}
