//! What a trace is asked to do, checked as a whole.

use super::agreed::AgreedOptions;
use super::args::{DoctorOutput, OutputArgs, OutputFormat, ProtoArg, RuleMode, TapMode, TraceArgs};
use super::dest::DestSpec;
use super::error::UsageError;
use super::parse::{NetnsRef, PodRef, PortRange};
use super::point::{self, PointSpec};
use super::probe::ProbeOptions;
use ipnet::IpNet;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;
use tracer_common::MAX_PORT_RANGES;
use tracer_core::contract::{Checker, Contract};
use tracer_core::expect::{Denied, Expectation, Expectations, Source};
use tracer_core::packet::Proto;
use tracer_core::trace::Checks;

/// A checked trace command.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOptions {
    /// Which flows.
    pub filter: FilterOptions,
    /// The namespace that is the node; `None`: the one srctrace is started in.
    pub node_netns: Option<NetnsRef>,
    /// Look only at these namespaces; empty: at all.
    pub scope: Vec<NetnsRef>,
    /// This machine's name in reports; `None`: its host name.
    pub host: Option<String>,
    /// Devices that are given names.
    pub points: Vec<PointSpec>,
    /// How packets are tapped.
    pub tap: TapMode,
    /// How the rule that ran is observed.
    pub observe_rules: RuleMode,
    /// When to stop.
    pub stop: StopOptions,
    /// Send one request.
    pub probe: Option<ProbeOptions>,
    /// What was agreed, as a file: it names the destinations.
    pub agreed: Option<AgreedOptions>,
    /// What must hold.
    pub check: CheckOptions,
    /// Where to record it.
    pub record: Option<RecordOptions>,
    /// Where to write its packets.
    pub pcap: Option<PathBuf>,
    /// How to print.
    pub output: OutputOptions,
}

/// A recording that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// The file.
    pub file: PathBuf,
    /// Whether addresses and names are replaced in it.
    pub redact: bool,
}

/// A checked merge command.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeOptions {
    /// What to join.
    pub files: Vec<PathBuf>,
    /// Where to write the packets of the only one.
    pub pcap: Option<PathBuf>,
    /// How to print.
    pub output: OutputOptions,
}

/// A checked diff command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// A recording or report.
    pub before: PathBuf,
    /// A later one.
    pub after: PathBuf,
    /// How to print.
    pub output: DoctorOutput,
}

/// Which flows to trace. Every part that is not empty must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterOptions {
    /// Destinations as given; [`TraceOptions::resolve`] gives addresses.
    pub dests: Vec<DestSpec>,
    /// Destination ports for those destinations that name none, at most 16 ranges.
    pub ports: Vec<PortRange>,
    /// IP protocols; empty: all.
    pub protos: Vec<Proto>,
    /// Sources as the origin sends them.
    pub sources: Vec<IpNet>,
    /// Namespaces in which flows begin.
    pub netns: Vec<NetnsRef>,
    /// Pods in which flows begin.
    pub pods: Vec<PodRef>,
    /// Interfaces of the node that flows cross.
    pub interfaces: Vec<String>,
}

/// When a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopOptions {
    /// After this time; `None`: not before Ctrl-C.
    pub after: Option<Duration>,
    /// After this many flows.
    pub flows: Option<NonZeroU64>,
}

/// What must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// The source that flows must leave with.
    pub source: Option<Source>,
    /// Flows must be answered.
    pub reply: bool,
    /// Flows must be stopped, by this.
    pub denied: Option<Denied>,
    /// What was agreed, once it is read.
    pub contract: Option<Contract>,
    /// The source that the far side says it saw.
    pub peer_saw: Option<IpAddr>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    /// Text or NDJSON.
    pub format: OutputFormat,
    /// Flows or groups.
    pub grouping: Grouping,
    /// Have every packet told.
    pub each_packet: bool,
    /// Show names.
    pub names: bool,
    /// How often `-v` was given.
    pub verbose: u8,
}

/// What gets a block of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Each flow in JSON; in text groups as soon as there are many flows.
    #[default]
    Auto,
    /// Each way that flows took.
    Group,
    /// Each flow.
    Each,
}

impl TraceOptions {
    pub(super) fn from_args(args: TraceArgs) -> Result<Self, UsageError> {
        let agreed = AgreedOptions::from_args(&args)?;
        let probe_args = match agreed {
            Some(_) => (None, None),
            None => (args.probe, args.from),
        };
        let filter = FilterOptions {
            dests: [args.positional, args.dest].concat(),
            ports: args.port,
            protos: protos(&args.proto),
            sources: args.src,
            netns: args.netns,
            pods: args.pod,
            interfaces: args.interface,
        };
        filter.check(agreed.is_some())?;
        point::check(&args.point)?;
        let probe = match probe_args {
            (Some(kind), from) => Some(ProbeOptions::check(kind, from, &filter)?),
            (None, _) => None,
        };
        Ok(Self {
            filter,
            node_netns: args.node_netns,
            scope: args.scope,
            host: args.host,
            points: args.point,
            tap: args.tap,
            observe_rules: args.observe_rules,
            stop: StopOptions {
                after: args.duration.0,
                flows: args.flows,
            },
            probe,
            agreed,
            check: CheckOptions {
                source: args.expect_source,
                reply: args.expect_reply,
                denied: args.expect_denied,
                contract: None,
                peer_saw: args.peer_saw,
            },
            record: args.record.map(|file| RecordOptions {
                file,
                redact: args.redact,
            }),
            pcap: args.pcap,
            output: OutputOptions {
                each_packet: args.each_packet,
                ..OutputOptions::from_args(&args.output)
            },
        })
    }
}

impl MergeOptions {
    pub(super) fn check(
        files: Vec<PathBuf>,
        pcap: Option<PathBuf>,
        output: &OutputArgs,
    ) -> Result<Self, UsageError> {
        if pcap.is_some() && files.len() > 1 {
            return Err(UsageError::new(
                "merge -w writes the packets of one recording: give one FILE with it",
            ));
        }
        Ok(Self {
            files,
            pcap,
            output: OutputOptions::from_args(output),
        })
    }
}

impl OutputOptions {
    /// Of a command that has no page to print.
    pub(super) fn without_page(args: &OutputArgs) -> Result<Self, UsageError> {
        match args.output {
            OutputFormat::Html => Err(UsageError::new(
                "-o html is for traces, merge and --contract; accepted here are text and json",
            )),
            _ => Ok(Self::from_args(args)),
        }
    }

    pub(super) fn from_args(args: &OutputArgs) -> Self {
        Self {
            format: args.output,
            grouping: match (args.group, args.each) {
                (true, _) => Grouping::Group,
                (_, true) => Grouping::Each,
                _ => Grouping::Auto,
            },
            each_packet: false,
            names: !args.no_names,
            verbose: args.verbose,
        }
    }
}

impl CheckOptions {
    /// What was expected, in the order of the options.
    #[must_use]
    pub fn expectations(&self) -> Vec<Expectation> {
        let source = self.source.map(Expectation::Source);
        let reply = self.reply.then_some(Expectation::Reply);
        let denied = self.denied.map(Expectation::Denied);
        source.into_iter().chain(reply).chain(denied).collect()
    }

    /// What flows are compared with.
    #[must_use]
    pub fn checks(&self) -> Checks {
        Checks {
            expectations: Expectations::new(self.expectations()),
            contract: self.contract.clone().map(Checker::new),
            peer_saw: self.peer_saw,
        }
    }
}

impl FilterOptions {
    fn check(&self, agreed: bool) -> Result<(), UsageError> {
        if agreed && !(self.dests.is_empty() && self.ports.is_empty()) {
            return Err(UsageError::new(
                "--contract names the destinations and their ports itself: leave DEST and --port out",
            ));
        }
        if self.is_empty() && !agreed {
            return Err(UsageError::new(
                "nothing to look for: give a destination such as 10.20.30.40:443, or one of --src, --port, --netns, --pod, -i; \
                 tracing every packet of a node is refused because it would bury the answer (0.0.0.0/0 or ::/0 as DEST still does it)",
            ));
        }
        if self.ports.len() > MAX_PORT_RANGES {
            return Err(UsageError::new(&format!(
                "--port: {} ports and ranges were given, accepted are at most {MAX_PORT_RANGES}; join neighbours into ranges",
                self.ports.len()
            )));
        }
        let with_ports = !self.ports.is_empty() || self.dests.iter().any(|d| !d.ports.is_empty());
        if with_ports && !self.protos.is_empty() && self.protos.iter().all(|p| p.is_icmp()) {
            return Err(UsageError::new(
                "--proto icmp: ICMP has no ports; leave the port out, or add another --proto",
            ));
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.dests.is_empty()
            && self.ports.is_empty()
            && self.sources.is_empty()
            && self.netns.is_empty()
            && self.pods.is_empty()
            && self.interfaces.is_empty()
    }
}

fn protos(given: &[ProtoArg]) -> Vec<Proto> {
    let mut all: Vec<Proto> = given
        .iter()
        .flat_map(|proto| match proto {
            ProtoArg::Tcp => &[Proto::TCP][..],
            ProtoArg::Udp => &[Proto::UDP],
            ProtoArg::Icmp => &[Proto::ICMP, Proto::ICMPV6],
            ProtoArg::Sctp => &[Proto::SCTP],
        })
        .copied()
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
