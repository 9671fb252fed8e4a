//! `--contract`: what was agreed, checked by a trace or against a file.

use super::args::TraceArgs;
use super::dest::{DestSpec, DestTarget};
use super::error::UsageError;
use super::options::{OutputOptions, TraceOptions};
use super::parse::{FromRef, PortRange};
use std::path::PathBuf;
use tracer_core::contract::{Contract, Dest};

/// What only a trace can do.
pub(super) const LIVE: &[&str] = &[
    "positional",
    "dest",
    "port",
    "proto",
    "src",
    "netns",
    "pod",
    "interface",
    "node_netns",
    "scope",
    "host",
    "point",
    "flows",
    "probe",
    "from",
    "expect_source",
    "expect_reply",
    "expect_denied",
    "peer_saw",
    "each_packet",
    "pcap",
    "record",
];

/// A contract that is to be checked by a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedOptions {
    /// The file.
    pub file: PathBuf,
    /// Send one request per entry.
    pub probe: bool,
    /// Where all of them are sent from; `None`: from a sender of the entry.
    pub from: Option<FromRef>,
}

/// A contract that is to be checked against a recording or report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewOptions {
    /// The contract.
    pub contract: PathBuf,
    /// What was seen.
    pub seen: PathBuf,
    /// How to print.
    pub output: OutputOptions,
}

impl AgreedOptions {
    /// The contract, and whether its entries are probed.
    pub(super) fn from_args(args: &TraceArgs) -> Result<Option<Self>, UsageError> {
        let Some(file) = &args.contract else {
            return Ok(None);
        };
        if let Some(Some(kind)) = args.probe {
            return Err(UsageError::new(&format!(
                "--contract with --probe sends what each entry says: leave {} out",
                kind.as_str()
            )));
        }
        Ok(Some(Self {
            file: file.clone(),
            probe: args.probe.is_some(),
            from: args.from.clone(),
        }))
    }
}

impl ReviewOptions {
    pub(super) fn from_args(args: TraceArgs) -> Result<Self, UsageError> {
        let (Some(contract), Some(seen)) = (args.contract, args.from_report) else {
            return Err(UsageError::new("--from-report needs --contract FILE"));
        };
        Ok(Self {
            contract,
            seen,
            output: OutputOptions::from_args(&args.output),
        })
    }
}

impl TraceOptions {
    /// Looks for what the contract names, and compares with it.
    #[must_use]
    pub fn with_contract(&self, contract: Contract) -> Self {
        let mut options = self.clone();
        let dests = contract.terms.iter().map(|terms| spec(terms.dest));
        for dest in dests {
            if !options.filter.dests.contains(&dest) {
                options.filter.dests.push(dest);
            }
        }
        options.check.contract = Some(contract);
        options
    }

    /// Whether it sends anything itself.
    #[must_use]
    pub fn sends(&self) -> bool {
        self.probe.is_some() || self.agreed.as_ref().is_some_and(|agreed| agreed.probe)
    }
}

fn spec(dest: Dest) -> DestSpec {
    let port = |port| PortRange {
        first: port,
        last: port,
    };
    DestSpec {
        target: DestTarget::Net(dest.net),
        ports: dest.port.map(port).into_iter().collect(),
    }
}
