//! The agent of the node, its configuration where it is found, and its chains.

use super::around::pods;
use super::flows::Seen;
use super::given::Given;
use crate::cli::ConfigOptions;
use crate::kernel;
use crate::render::escape;
use crate::run::clock;
use crate::sink;
use crate::system::agent::{self, AgentProcess};
use crate::system::{Roots, host};
use ipnet::IpNet;
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Inventory, Namespace};
use tracer_core::masqconfig::{
    self, Agent, Config, Flags, Held, Installed, Installer, Kernel, Pinned, Ranges, Running, Scene,
};
use tracer_core::report::{self, ConfigReport};
use tracer_core::ruleset::Ruleset;

/// What is known of the agent and its configuration.
pub(super) struct Known {
    agent: Agent,
    pub(super) flags: Flags,
    running: Running,
    pub(super) given: Option<Held>,
    mounted: Option<Held>,
    pub(super) pinned: Option<Pinned>,
}

impl Known {
    pub(super) fn look(
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
        let pod = process.as_ref().map(|process| process.pid);
        let pinned = live.then(|| kernel::ipmasq(&roots, pod)).flatten();
        let agent = options.agent.or(of_file).or(of_process).unwrap_or_else(|| {
            by_rules(rules, pinned.as_ref().is_some_and(|maps| maps.nets.is_ok()))
        });
        let pinned = pinned.filter(|_| agent == Agent::Cilium);
        let mut flags = match &process {
            Some(process) => Flags::of(agent, process.command.iter().map(String::as_str)),
            None => guessed(agent, rules),
        };
        // Cilium says it in its own ConfigMap; it has a map for each family that it masquerades.
        flags.ipv6 |= pinned.as_ref().is_some_and(kernel::ipmasq_v6);
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
            pinned,
        }
    }

    pub(super) fn report(
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
        let exempt = match self.agent {
            Agent::Cilium => self.in_maps().map(<[_]>::to_vec),
            _ => {
                (!chains.is_empty()).then(|| chains.iter().flat_map(|chain| chain.nets()).collect())
            }
        };
        let wire = seen.zip(exempt);
        let wire = wire.map(|(seen, exempt)| seen.wire(&exempt, inventory));
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
            pinned: self.pinned.as_ref(),
            wire: wire.as_ref(),
            ranges,
            now: clock::now().realtime_ns / 1_000_000_000,
            utc: &clock::utc,
        })
    }

    /// What Cilium's maps exempt, where they could be read.
    pub(super) fn in_maps(&self) -> Option<&[IpNet]> {
        let maps = self.pinned.as_ref()?;
        maps.nets.as_deref().ok()
    }

    /// Whether netfilter's rules decide nothing of what this agent is told.
    pub(super) fn is_cilium(&self) -> bool {
        self.agent == Agent::Cilium
    }

    fn meant(&self) -> Option<&Held> {
        self.given.as_ref().or(self.mounted.as_ref())
    }

    /// The configuration that an edit begins with: what was given, else what the agent has, else what
    /// is installed.
    pub(super) fn base(&self, rules: &Ruleset) -> Result<Config, String> {
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
        if self.is_cilium() {
            return Ok(self
                .in_maps()
                .map_or(own.clone(), |nets| as_config(nets, self.flags.ipv6, &own)));
        }
        let found = Installed::find(rules, &self.flags.chain);
        let chains: Vec<&Installed<'_>> = found
            .iter()
            .filter(|chain| chain.by == Installer::Agent)
            .collect();
        if chains.is_empty() {
            return Ok(own);
        }
        let nets: Vec<IpNet> = chains.iter().flat_map(|chain| chain.nets()).collect();
        let v6 = chains.iter().any(|chain| chain.v6());
        Ok(as_config(&nets, v6, &own))
    }
}

/// Exempt destinations as the configuration that asks for them.
fn as_config(nets: &[IpNet], v6: bool, own: &Config) -> Config {
    let local = own.exempt(false).into_iter().chain(own.exempt(true));
    let own_local: Vec<_> = local
        .filter(|net| !own.entries.iter().any(|e| e.net == *net))
        .collect();
    let lacks = |v6: bool| {
        let mut of_family = own_local.iter().filter(|net| net.addr().is_ipv6() == v6);
        of_family.any(|net| !nets.contains(net))
    };
    let entries = nets.iter().filter(|net| !own_local.contains(net));
    let config = Config {
        entries: entries.copied().map(masqconfig::Entry::own).collect(),
        defaults: false,
        masq_link_local: lacks(false),
        masq_link_local_v6: v6 && lacks(true),
        ..own.clone()
    };
    match config.exempt(false) == own.exempt(false) && config.exempt(true) == own.exempt(true) {
        true => own.clone(),
        false => config,
    }
}

/// Whose rules these look like; without any, whose maps there are.
fn by_rules(rules: &Ruleset, pinned: bool) -> Agent {
    let found = Installed::find(rules, &Flags::default().chain);
    if found.iter().any(Installed::is_azures) {
        Agent::Azure
    } else if pinned && found.is_empty() {
        Agent::Cilium
    } else {
        Agent::Upstream
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
