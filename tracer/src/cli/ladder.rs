//! `ladder`: the rungs, who sends, and what each rung's trace looks for.

use super::args::{OutputArgs, RuleMode, TapMode};
use super::dest::{DestSpec, DestTarget, parse_dest};
use super::error::UsageError;
use super::options::{CheckOptions, FilterOptions, OutputOptions, StopOptions, TraceOptions};
use super::parse::{self, FromRef, NetnsRef, PortRange};
use ipnet::IpNet;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::time::Duration;
use tracer_core::packet::Proto;
use tracer_core::report::RungBy;

/// The port of resolvers.
pub const DNS: u16 = 53;

const ACCEPTED: &str = "a rung is 10.8.0.1 (an echo request), 10.12.4.4:8080 (TCP), 10.96.0.10:53/udp (a DNS query), \
db.example (its query) or db.example:443 (its query, then TCP)";

pub(super) const HELP: &str = "Rungs, the nearest first: the tunnel's peer, a pod, a Service address, a name, a public address.
  srctrace ladder --from shop/web-0 10.12.4.4 10.96.0.10:53/udp db.example:443 10.20.30.40
  srctrace ladder --client 10.8.0.2 --from shop/vpn-0 10.8.0.1 10.12.4.4 10.96.0.10:80 10.20.30.40

Exit status: 0 every rung was answered, 1 one was not, 2 wrong usage, 3 cannot trace here, 5 it was ended before the last rung.";

/// What `ladder` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct LadderArgs {
    /// The rungs, the nearest first: 10.8.0.1 (echo), 10.12.4.4:8080 (TCP), 10.96.0.10:53/udp (DNS), db.example, db.example:443
    #[arg(value_name = "ADDR", value_parser = parse_rung, required = true, num_args = 1..)]
    rungs: Vec<RungSpec>,
    /// The namespace or pod that sends; with --client the pod that forwards the client's packets
    #[arg(long, value_name = "NETNS|POD", value_parser = parse::from)]
    from: Option<FromRef>,
    /// Send nothing: say what this client must run, and watch for it
    #[arg(long, value_name = "ADDR", value_parser = parse::address)]
    client: Option<IpAddr>,
    /// The resolver for names [default: that of the sending pod's /etc/resolv.conf]
    #[arg(long, value_name = "ADDR", value_parser = parse::address)]
    dns: Option<IpAddr>,
    /// With --client: how long each rung is waited for
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "2m")]
    wait: parse::Limit,
    /// The namespace that is "the node" [default: the one srctrace is started in]
    #[arg(long, value_name = "NAME|PID|PATH", value_parser = parse::netns)]
    node_netns: Option<NetnsRef>,
    /// Look only at these namespaces [default: all on this machine]
    #[arg(long, value_name = "NETNS[,NETNS]", value_parser = parse::netns, value_delimiter = ',')]
    scope: Vec<NetnsRef>,
    #[command(flatten)]
    output: OutputArgs,
}

/// A checked ladder command.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderOptions {
    /// The rungs in order.
    pub rungs: Vec<RungSpec>,
    /// Who sends, or with a client the pod that forwards.
    pub from: Option<FromRef>,
    /// The client that sends instead.
    pub client: Option<IpAddr>,
    /// The resolver; `None`: that of the sender.
    pub dns: Option<IpAddr>,
    /// How long a client is waited for; `None`: for ever.
    pub wait: Option<Duration>,
    /// The namespace that is the node; `None`: the one srctrace is started in.
    pub node_netns: Option<NetnsRef>,
    /// Look only at these namespaces; empty: at all.
    pub scope: Vec<NetnsRef>,
    /// How to print.
    pub output: OutputOptions,
}

/// A rung as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RungSpec {
    /// Its text.
    pub text: String,
    /// What is asked.
    pub target: RungTarget,
}

/// What a rung asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RungTarget {
    /// An echo request.
    Echo(IpAddr),
    /// A TCP connection.
    Tcp(IpAddr, u16),
    /// A DNS query to this resolver.
    Resolver(IpAddr),
    /// A query for a name; with a port a TCP connection to its address after that.
    Name(String, Option<u16>),
}

impl RungTarget {
    /// How it is asked at first.
    #[must_use]
    pub fn by(&self) -> RungBy {
        match self {
            Self::Echo(_) => RungBy::Icmp,
            Self::Tcp(..) => RungBy::Tcp,
            Self::Resolver(_) | Self::Name(..) => RungBy::Dns,
        }
    }

    /// The address, where it is one.
    #[must_use]
    pub fn addr(&self) -> Option<IpAddr> {
        match self {
            Self::Echo(addr) | Self::Tcp(addr, _) | Self::Resolver(addr) => Some(*addr),
            Self::Name(..) => None,
        }
    }
}

fn parse_rung(text: &str) -> Result<RungSpec, String> {
    let why = |why: &str| format!("{why}; {ACCEPTED}");
    let (dest, udp) = match text.strip_suffix("/udp") {
        Some(dest) => (dest, true),
        None => (text.strip_suffix("/tcp").unwrap_or(text), false),
    };
    let dest =
        parse_dest(dest).map_err(|error| error.replace(", or a range such as 8000-8100", ""))?;
    let port = match dest.ports.as_slice() {
        [] => None,
        [range] => Some(
            range
                .single()
                .ok_or_else(|| why("a rung has one port, and no range"))?,
        ),
        _ => return Err(why("a rung has one port")),
    };
    if text.ends_with("/tcp") && port.is_none() {
        return Err(why("TCP needs a port"));
    }
    let target = match (dest.target, port) {
        (target, _) if target.is_range() => {
            return Err(why("a rung is one address, and no prefix"));
        }
        (DestTarget::Name(_), _) if udp => {
            return Err(why(
                "/udp asks a resolver: give its address, with the port 53",
            ));
        }
        (DestTarget::Name(name), port) => RungTarget::Name(name, port),
        (DestTarget::Net(net), Some(DNS)) if udp => RungTarget::Resolver(net.addr()),
        (DestTarget::Net(_), _) if udp => {
            return Err(why(
                "of UDP only DNS is asked, at port 53: what does not understand a datagram does not answer it",
            ));
        }
        (DestTarget::Net(net), Some(port)) => RungTarget::Tcp(net.addr(), port),
        (DestTarget::Net(net), None) => RungTarget::Echo(net.addr()),
    };
    Ok(RungSpec {
        text: text.to_owned(),
        target,
    })
}

impl LadderOptions {
    pub(super) fn from_args(args: LadderArgs) -> Result<Self, UsageError> {
        let options = Self {
            rungs: args.rungs,
            from: args.from,
            client: args.client,
            dns: args.dns,
            wait: args.wait.0,
            node_netns: args.node_netns,
            scope: args.scope,
            output: OutputOptions::without_page(&args.output)?,
        };
        if options.from.is_none() && options.client.is_none() {
            return Err(UsageError::new(
                "ladder needs a sender: --from NETNS|POD sends from there, --client ADDR watches while that client sends",
            ));
        }
        if let Some(client) = options.client {
            options
                .rungs
                .iter()
                .try_for_each(|rung| of_client(rung, client))?;
        }
        Ok(options)
    }

    /// What the trace of one request looks for: to this address and port, from the client where there is one. `None`: to any
    /// address.
    #[must_use]
    pub fn trace(&self, by: RungBy, to: Option<IpAddr>, port: Option<u16>) -> TraceOptions {
        let range = |port| PortRange {
            first: port,
            last: port,
        };
        let ports: Vec<PortRange> = port.map(range).into_iter().collect();
        let dest = |addr| DestSpec {
            target: DestTarget::Net(IpNet::from(addr)),
            ports: ports.clone(),
        };
        let protos = match by {
            RungBy::Icmp => vec![Proto::ICMP, Proto::ICMPV6],
            RungBy::Tcp => vec![Proto::TCP],
            RungBy::Dns => vec![Proto::UDP],
        };
        TraceOptions {
            filter: FilterOptions {
                dests: to.map(dest).into_iter().collect(),
                ports: ports.clone(),
                protos,
                sources: self.client.map(IpNet::from).into_iter().collect(),
                ..FilterOptions::default()
            },
            node_netns: self.node_netns.clone(),
            scope: self.scope.clone(),
            host: None,
            points: Vec::new(),
            tap: TapMode::default(),
            observe_rules: RuleMode::default(),
            stop: StopOptions {
                after: self.wait.filter(|_| self.client.is_some()),
                flows: self.client.and(NonZeroU64::new(1)),
            },
            probe: None,
            agreed: None,
            check: CheckOptions::default(),
            record: None,
            pcap: None,
            output: self.output,
        }
    }
}

/// What a client can be asked to do.
fn of_client(rung: &RungSpec, client: IpAddr) -> Result<(), UsageError> {
    let wrong = |why: &str| Err(UsageError::value("ladder --client", &rung.text, why));
    match &rung.target {
        RungTarget::Name(name, Some(port)) => wrong(&format!(
            "what a name is told cannot be seen from here: give {name} for its query, and its address with :{port} as a rung of its own"
        )),
        target
            if target
                .addr()
                .is_some_and(|addr| addr.is_ipv4() != client.is_ipv4()) =>
        {
            wrong("the client and this rung are of different address families")
        }
        _ => Ok(()),
    }
}
