//! The options as clap reads them: names, help, and one value parser each.

use super::agreed::LIVE;
use super::config::ConfigArgs;
use super::dest::{DestSpec, parse_dest};
use super::ladder::{self, LadderArgs};
use super::parse::{self, FromRef, NetnsRef, PodRef, PortRange};
use super::point::{self, PointSpec};
use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use tracer_core::expect::{Denied, Source};

const ABOUT: &str = "Names the hop that rewrote a flow's source address";
const LONG_ABOUT: &str = "Watches real packets on this node and names the hop that changed a flow's \
source address, by what, and whether the reply came back. Without a subcommand it traces.";
const AFTER_HELP: &str = "Examples:
  srctrace 10.20.30.40                      every flow on this node to that address
  srctrace 10.20.30.40:443 --pod shop/web   only those that one pod begins
  srctrace 10.20.30.40:443 --probe --from shop/web --expect-source node
                                            send one request, and check the source it leaves with

Exit status: 0 done and every expectation holds, 1 an expectation was violated, 2 wrong usage,
3 cannot trace here, 4 no matching traffic, 5 not certain, 6 output failed.";

const HANDOVER_HELP: &str =
    "Exit status: 0 printed, 2 the file is malformed, 4 no flow in it was seen leaving.";

const DIFF_HELP: &str = "Exit status: 1 a source changed, 0 none did, 2 a file is malformed, \
4 the files have no path in common, 5 the sources of those cannot be told.";

#[derive(Debug, Parser)]
#[command(name = "srctrace", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(max_term_width = 100)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Sub>,
    #[command(flatten)]
    pub(super) trace: TraceArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Sub {
    /// Say what can be observed on this machine, what is missing and why
    Doctor {
        /// How to print it
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
        output: DoctorOutput,
    },
    /// Join recordings and packet captures of several machines into one path per flow (needs no root)
    Merge {
        /// Recordings that --record made, and captures (pcap, pcapng) of tcpdump and the like
        #[arg(value_name = "FILE", required = true, num_args = 1..)]
        files: Vec<PathBuf>,
        /// Write the packets of one recording's flows as pcapng
        #[arg(short = 'w', long, value_name = "FILE.pcapng")]
        pcap: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Compare two recordings or JSON reports: whose source changed, one line each (needs no root)
    #[command(after_help = DIFF_HELP)]
    Diff {
        /// A recording (--record), or what --output json printed
        #[arg(value_name = "BEFORE")]
        before: PathBuf,
        /// The same, of later
        #[arg(value_name = "AFTER")]
        after: PathBuf,
        /// How to print it
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
        output: DoctorOutput,
    },
    /// Print the text for the other side's team: what left, what to route back, what to capture (needs no root)
    #[command(after_help = HANDOVER_HELP)]
    Handover {
        /// A recording (--record), or what --output json printed
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Say which rule would decide for a destination, for each kind of sender; sends nothing
    Explain(Box<ExplainArgs>),
    /// Tell from rules alone which source every destination gets, by prefix, and by which rule
    Map {
        /// Compare with an older map: its JSON lines, or a recording; exit status 1 when a source changed
        #[arg(long, value_name = "OLD")]
        diff: Option<PathBuf>,
        #[command(flatten)]
        senders: SenderArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Try rungs from near to far until one stays silent, and name the layer: forwarding, route, policy, Service, DNS, far side
    #[command(after_help = ladder::HELP)]
    Ladder(Box<LadderArgs>),
    /// Print the JSON Schema of the lines that --output json prints
    Schema,
    /// Remove what a killed run with --tap clsact left on interfaces
    Cleanup,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff)
    Man,
}

/// What `explain` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// The destination: 10.20.30.40, 10.20.30.40:443, fd50::20, [fd50::20]:443, or a host name
    #[arg(value_name = "DEST", value_parser = parse_dest)]
    pub(super) positional: Option<DestSpec>,
    /// The destination, as DEST
    #[arg(long, value_name = "DEST", value_parser = parse_dest, conflicts_with = "positional")]
    pub(super) dest: Option<DestSpec>,
    /// Destination port, where DEST names none
    #[arg(long, value_name = "N", value_parser = parse::port)]
    pub(super) port: Option<u16>,
    /// Protocol [default: TCP, UDP and ICMP are tried]
    #[arg(long, value_name = "PROTO", value_enum)]
    pub(super) proto: Option<ProtoArg>,
    /// The sender's address [default: its own by its route]
    #[arg(long, value_name = "ADDR", value_parser = parse::address)]
    pub(super) src: Option<IpAddr>,
    #[command(flatten)]
    pub(super) senders: SenderArgs,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Whose traffic is asked about, and where.
#[derive(Debug, clap::Args)]
pub(super) struct SenderArgs {
    /// Only senders in this network namespace (repeatable)
    #[arg(long, value_name = "NAME|PID|PATH", value_parser = parse::netns)]
    pub(super) netns: Vec<NetnsRef>,
    /// Only this pod (repeatable)
    #[arg(long, value_name = "[NS/]NAME", value_parser = parse::pod)]
    pub(super) pod: Vec<PodRef>,
    /// The namespace that is "the node" [default: the one srctrace is started in]
    #[arg(long, value_name = "NAME|PID|PATH", value_parser = parse::netns)]
    pub(super) node_netns: Option<NetnsRef>,
    /// Look only at these namespaces [default: all on this machine]
    #[arg(long, value_name = "NETNS[,NETNS]", value_parser = parse::netns, value_delimiter = ',')]
    pub(super) scope: Vec<NetnsRef>,
    /// The rules, devices and routes of a recording instead of this machine's
    #[arg(long, value_name = "FILE.srct")]
    pub(super) from_report: Option<PathBuf>,
}

/// How commands print that do not trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DoctorOutput {
    /// A table for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// How a trace prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Blocks for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
    /// One page that needs nothing else
    Html,
}

/// How packets are tapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TapMode {
    /// Raw tracepoints, and traffic-control programs where they add something
    #[default]
    Auto,
    /// Only the two raw tracepoints
    Tracepoint,
    /// Traffic-control programs through tcx links (6.6 and up)
    Tcx,
    /// Traffic-control programs through a clsact qdisc (adds one; removed at the end)
    Clsact,
}

/// How the rule that ran is observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RuleMode {
    /// Probes on NAT targets, which run once per new flow
    #[default]
    Auto,
    /// Also probes on verdicts and marks, which every packet passes; taken away where that costs too much
    Full,
    /// The kernel's own rule trace (adds a table of its own; gone at the end)
    Nftrace,
    /// Not at all: rules are still read, and replayed for each flow
    None,
}

/// What `--probe` sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbeKind {
    /// A TCP connection
    Tcp,
    /// One UDP datagram
    Udp,
    /// One ICMP echo request
    Icmp,
}

/// Protocols of `--proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ProtoArg {
    /// TCP
    Tcp,
    /// UDP
    Udp,
    /// ICMP and ICMPv6
    Icmp,
    /// SCTP
    Sctp,
}

#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// Destinations: 10.20.30.40, 10.20.30.40:443, fd50::20, [fd50::20]:443, 10.20.0.0/16, or a host name
    #[arg(value_name = "DEST", value_parser = parse_dest, display_order = 0, help_heading = "What to trace")]
    pub(super) positional: Vec<DestSpec>,
    /// A destination, as DEST (repeatable)
    #[arg(long, value_name = "DEST", value_parser = parse_dest, help_heading = "What to trace")]
    pub(super) dest: Vec<DestSpec>,
    /// Destination ports, for every DEST that names none itself
    #[arg(long, value_name = "N[,N-M]", value_parser = parse::port_range, value_delimiter = ',', help_heading = "What to trace")]
    pub(super) port: Vec<PortRange>,
    /// Protocols
    #[arg(
        long,
        value_name = "PROTO",
        value_enum,
        value_delimiter = ',',
        help_heading = "What to trace"
    )]
    pub(super) proto: Vec<ProtoArg>,
    /// Source address or prefix, as the origin sends it (repeatable)
    #[arg(long, value_name = "ADDR|CIDR", value_parser = parse::prefix, help_heading = "What to trace")]
    pub(super) src: Vec<IpNet>,
    /// Only flows that begin in this network namespace (repeatable)
    #[arg(long, value_name = "NAME|PID|PATH", value_parser = parse::netns, help_heading = "What to trace")]
    pub(super) netns: Vec<NetnsRef>,
    /// Only flows that begin in this pod (repeatable)
    #[arg(long, value_name = "[NS/]NAME", value_parser = parse::pod, help_heading = "What to trace")]
    pub(super) pod: Vec<PodRef>,
    /// Only flows that cross this interface of the node (repeatable)
    #[arg(short, long = "interface", value_name = "IFACE", value_parser = parse::interface, help_heading = "What to trace")]
    pub(super) interface: Vec<String>,

    /// The namespace that is "the node" [default: the one srctrace is started in]
    #[arg(long, value_name = "NAME|PID|PATH", value_parser = parse::netns, help_heading = "Where to look")]
    pub(super) node_netns: Option<NetnsRef>,
    /// Look only at these namespaces [default: all on this machine]
    #[arg(long, value_name = "NETNS[,NETNS]", value_parser = parse::netns, value_delimiter = ',', help_heading = "Where to look")]
    pub(super) scope: Vec<NetnsRef>,
    /// The name of this machine in reports [default: its host name]
    #[arg(long, value_name = "NAME", value_parser = parse::host, help_heading = "Where to look")]
    pub(super) host: Option<String>,
    /// Give a device a name: tun=tun0@vpn, out=eth0@shop/vpn-0:out; told is what each of them saw (repeatable)
    #[arg(long, value_name = "NAME=IFACE[@NETNS][:in|out]", value_parser = point::parse, help_heading = "Where to look")]
    pub(super) point: Vec<PointSpec>,
    /// How packets are tapped
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t,
        help_heading = "Where to look"
    )]
    pub(super) tap: TapMode,
    /// How the rule that ran is observed
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t,
        help_heading = "Where to look"
    )]
    pub(super) observe_rules: RuleMode,

    /// Stop after this time, such as 30s, 10m, 1h30m (0: not before Ctrl-C)
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "10m", help_heading = "When to stop")]
    pub(super) duration: parse::Limit,
    /// Stop after this many flows
    #[arg(short = 'c', long, value_name = "N", value_parser = parse::count, help_heading = "When to stop")]
    pub(super) flows: Option<NonZeroU64>,

    /// Send one request to the one DEST and trace it; ends on the answer or after 5 s
    #[arg(long, value_name = "KIND", num_args = 0..=1, value_enum, help_heading = "Send one request")]
    pub(super) probe: Option<Option<ProbeKind>>,
    /// The namespace or pod to send the probe from [default: where srctrace is started]
    #[arg(long, value_name = "NETNS|POD", value_parser = parse::from, requires = "probe", help_heading = "Send one request")]
    pub(super) from: Option<FromRef>,

    /// The source that flows must leave with: preserved, pod, node, an address or a prefix
    #[arg(long, value_name = "SOURCE", value_parser = parse::expect_source, help_heading = "Check")]
    pub(super) expect_source: Option<Source>,
    /// Flows must be answered
    #[arg(long, help_heading = "Check")]
    pub(super) expect_reply: bool,
    /// Flows must be stopped, and by this: policy (a rule), route (none, or one that refuses) or any
    #[arg(long, value_name = "BY", value_parser = parse::expect_denied, conflicts_with = "expect_reply", help_heading = "Check")]
    pub(super) expect_denied: Option<Denied>,
    /// What was agreed about sources, as a file; it names the destinations. With a bare --probe: one request per entry
    #[arg(long, value_name = "FILE", help_heading = "Check")]
    pub(super) contract: Option<PathBuf>,
    /// Check the contract against a recording or JSON report instead of traffic (needs no root)
    #[arg(long, value_name = "FILE", requires = "contract", conflicts_with_all = LIVE, help_heading = "Check")]
    pub(super) from_report: Option<PathBuf>,
    /// The source that the far side says it saw; compared and recorded
    #[arg(long, value_name = "ADDR", value_parser = parse::address, help_heading = "Check")]
    pub(super) peer_saw: Option<IpAddr>,

    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Tell every packet (debugging; costs more)
    #[arg(long, conflicts_with = "group", help_heading = "Output")]
    pub(super) each_packet: bool,
    /// Write the packets of each flow as pcapng: an interface per device or point, headers, and comments
    #[arg(
        short = 'w',
        long,
        value_name = "FILE.pcapng",
        conflicts_with = "redact",
        help_heading = "Output"
    )]
    pub(super) pcap: Option<PathBuf>,
    /// Record what the trace sees, to be merged with other machines' recordings or told again
    #[arg(long, value_name = "FILE.srct", help_heading = "Output")]
    pub(super) record: Option<PathBuf>,
    /// In the recording, replace addresses and names (consistently; prefixes are kept)
    #[arg(long, requires = "record", help_heading = "Output")]
    pub(super) redact: bool,
    /// Payload bytes of each packet in the recording: 0, headers only
    #[arg(long, value_name = "N", value_parser = parse::snaplen, requires = "record", help_heading = "Output")]
    pub(super) snaplen: Option<u32>,
}

/// How results are printed.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// How to print
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = "Output"
    )]
    pub(super) output: OutputFormat,
    /// One block for all flows that took the same way
    #[arg(long, conflicts_with = "each", help_heading = "Output")]
    pub(super) group: bool,
    /// One block per flow
    #[arg(long, help_heading = "Output")]
    pub(super) each: bool,
    /// No names: numbers only
    #[arg(short = 'n', long = "no-names", help_heading = "Output")]
    pub(super) no_names: bool,
    /// Say more; twice: everything
    #[arg(short, action = ArgAction::Count, help_heading = "Output")]
    pub(super) verbose: u8,
}
