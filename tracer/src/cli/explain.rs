//! `explain` and `map`: what would be sent, and by whom.

use super::args::{ExplainArgs, ProtoArg, SenderArgs};
use super::config::ConfigOptions;
use super::dest::DestSpec;
use super::error::UsageError;
use super::options::OutputOptions;
use super::parse::{NetnsRef, PodRef};
use super::resolve::nets;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use tracer_core::packet::Proto;

/// A checked explain command.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainOptions {
    /// Where to; `None`: only the configuration is asked about.
    pub dest: Option<DestSpec>,
    /// To which port.
    pub port: Option<u16>,
    /// By which protocol; `None`: several are tried.
    proto: Option<ProtoArg>,
    /// From which address.
    pub src: Option<IpAddr>,
    /// Whose traffic.
    pub senders: SenderOptions,
    /// The agent's configuration.
    pub config: ConfigOptions,
    /// How to print.
    pub output: OutputOptions,
}

/// A checked map command.
#[derive(Clone, Debug, PartialEq)]
pub struct MapOptions {
    /// The older map to compare with.
    pub diff: Option<PathBuf>,
    /// Whose traffic.
    pub senders: SenderOptions,
    /// How to print.
    pub output: OutputOptions,
}

/// Whose traffic is asked about, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderOptions {
    /// Only senders in these namespaces.
    pub netns: Vec<NetnsRef>,
    /// Only these pods.
    pub pods: Vec<PodRef>,
    /// The namespace that is the node; `None`: the one srctrace is started in.
    pub node_netns: Option<NetnsRef>,
    /// Look only at these namespaces; empty: at all.
    pub scope: Vec<NetnsRef>,
    /// The recording that is read instead of this machine.
    pub recording: Option<PathBuf>,
}

impl SenderOptions {
    pub(super) fn from_args(args: SenderArgs) -> Result<Self, UsageError> {
        if args.from_report.is_some() && !(args.scope.is_empty() && args.node_netns.is_none()) {
            return Err(UsageError::new(
                "--from-report: --scope and --node-netns are those of the recording; leave them out",
            ));
        }
        Ok(Self {
            netns: args.netns,
            pods: args.pod,
            node_netns: args.node_netns,
            scope: args.scope,
            recording: args.from_report,
        })
    }
}

impl ExplainOptions {
    pub(super) fn from_args(args: ExplainArgs) -> Result<Self, UsageError> {
        let dest = args.positional.or(args.dest);
        let config = ConfigOptions::from_args(args.config, dest.as_ref())?;
        // What is wanted of a prefix is asked of the configuration alone.
        let dest = dest.filter(|dest| config.want.is_none() || !dest.target.is_range());
        if dest.is_none() && !config.is_given() {
            return Err(UsageError::new(
                "explain needs a destination, such as 10.20.30.40:443, as DEST or --dest, or a configuration: --config FILE",
            ));
        }
        if dest.as_ref().is_some_and(|dest| dest.target.is_range()) {
            return Err(UsageError::new(
                "explain takes one destination, not a prefix; `srctrace map` tells every prefix",
            ));
        }
        let ports = dest.as_ref().map_or(&[][..], |dest| &dest.ports);
        let single = |range: &super::PortRange| range.single();
        let port =
            match ports {
                [] => args.port,
                [range] => Some(single(range).ok_or_else(|| {
                    UsageError::new("explain takes one port, not a range of ports")
                })?),
                _ => None,
            };
        if port.is_some() && args.proto == Some(ProtoArg::Icmp) {
            return Err(UsageError::new(
                "--proto icmp: ICMP has no ports; leave the port out, or give another --proto",
            ));
        }
        Ok(Self {
            dest,
            port,
            proto: args.proto,
            src: args.src,
            senders: SenderOptions::from_args(args.senders)?,
            config,
            output: OutputOptions::without_page(&args.output)?,
        })
    }

    /// The protocols to try, for a destination of this family. With a port, ICMP is none of them.
    #[must_use]
    pub fn protos(&self, v4: bool) -> Vec<Proto> {
        let icmp = if v4 { Proto::ICMP } else { Proto::ICMPV6 };
        match self.proto {
            Some(ProtoArg::Tcp) => vec![Proto::TCP],
            Some(ProtoArg::Udp) => vec![Proto::UDP],
            Some(ProtoArg::Sctp) => vec![Proto::SCTP],
            Some(ProtoArg::Icmp) => vec![icmp],
            None if self.port.is_some() => vec![Proto::TCP, Proto::UDP],
            None => vec![Proto::TCP, Proto::UDP, icmp],
        }
    }

    /// The addresses of the destination, and what to say of a name that was resolved.
    ///
    /// # Errors
    /// When a name has no address, or none of the family of `--src`.
    pub fn addresses(
        &self,
        mut lookup: impl FnMut(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<(Vec<IpAddr>, Vec<String>), UsageError> {
        let mut notes = Vec::new();
        let Some(dest) = &self.dest else {
            return Ok((Vec::new(), notes));
        };
        let nets = nets(&dest.target, &mut lookup, &mut notes)?;
        let meets = |addr: &IpAddr| self.src.is_none_or(|src| src.is_ipv4() == addr.is_ipv4());
        let addrs: Vec<IpAddr> = nets.iter().map(|net| net.addr()).filter(meets).collect();
        if addrs.is_empty() {
            return Err(UsageError::new(
                "--src and DEST are of different address families; give both as IPv4 or both as IPv6",
            ));
        }
        Ok((addrs, notes))
    }
}
