//! `explain`'s questions about an agent's configuration.

use super::dest::{DestSpec, DestTarget};
use super::error::UsageError;
use super::parse;
use clap::ValueEnum;
use ipnet::IpNet;
use std::path::PathBuf;
use tracer_core::masqconfig::{Agent, Want};

/// A configuration, and what to do with it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Configuration")]
pub(super) struct ConfigArgs {
    /// An agent's configuration, or its ConfigMap as kubectl prints it (-: standard input): compared
    /// with the agent's file and the rules, and what it would change
    #[arg(long, value_name = "FILE|-")]
    config: Option<PathBuf>,
    /// Whose reading of it [default: the running agent's, else upstream's]
    #[arg(long, value_name = "AGENT", value_enum)]
    agent: Option<AgentArg>,
    /// End with status 1 where the rules are not those of the configuration
    #[arg(long)]
    strict: bool,
    /// A network elsewhere that routes pods' addresses back (repeatable)
    #[arg(long, value_name = "CIDR", value_parser = parse::prefix)]
    onprem: Vec<IpNet>,
    /// Flows that were seen (recording, or JSON report): whose source would change
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// The source that DEST should see: the smallest edit that gives it (nothing is applied)
    #[arg(long, value_name = "SOURCE", value_enum)]
    want: Option<WantArg>,
}

/// Agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AgentArg {
    /// kubernetes-sigs/ip-masq-agent
    Upstream,
    /// Azure/ip-masq-agent-v2
    Azure,
    /// Cilium's built-in one
    Cilium,
}

/// Sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WantArg {
    /// The pod's own
    Pod,
    /// The node's
    Node,
}

/// What is asked about a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigOptions {
    /// The file; `-` is standard input.
    pub file: Option<PathBuf>,
    /// Whose reading; `None`: by the process, the names and the rules.
    pub agent: Option<Agent>,
    /// Whether drift is a violation.
    pub strict: bool,
    /// Networks that route pods' addresses back.
    pub onprem: Vec<IpNet>,
    /// Flows that were seen.
    pub flows: Option<PathBuf>,
    /// What is wanted, and for which destinations.
    pub want: Option<(Want, IpNet)>,
}

impl ConfigOptions {
    pub(super) fn from_args(args: ConfigArgs, dest: Option<&DestSpec>) -> Result<Self, UsageError> {
        let want = args.want.map(|want| match want {
            WantArg::Pod => Want::Pod,
            WantArg::Node => Want::Node,
        });
        Ok(Self {
            file: args.config,
            agent: args.agent.map(|agent| match agent {
                AgentArg::Upstream => Agent::Upstream,
                AgentArg::Azure => Agent::Azure,
                AgentArg::Cilium => Agent::Cilium,
            }),
            strict: args.strict,
            onprem: args.onprem,
            flows: args.flows,
            want: want.map(|want| Ok((want, wanted(dest)?))).transpose()?,
        })
    }

    /// Whether there is something to tell without a destination.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.file.is_some() || self.want.is_some() || self.strict || self.flows.is_some()
    }
}

fn wanted(dest: Option<&DestSpec>) -> Result<IpNet, UsageError> {
    match dest.map(|dest| &dest.target) {
        Some(DestTarget::Net(net)) => Ok(*net),
        _ => Err(UsageError::new(
            "--want needs the destination as an address or a prefix: --want pod --dest 10.20.0.0/16",
        )),
    }
}
