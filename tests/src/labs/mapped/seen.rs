//! Destinations of a map, asked for while a trace runs.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::map;
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::labs::foretold::longest;
use crate::labs::steps::{masquerade, same, watch};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

/// Asks, from a namespace of the lab, for these destinations and some more within these prefixes. The far side and a
/// trace see the source that the map of `netns` has for them.
pub(super) struct Walk<'w> {
    /// Who asks.
    pub(super) from: &'w str,
    /// Of which namespace the map is, and of what kind of sender in it.
    pub(super) netns: &'w str,
    pub(super) kind: &'w str,
    /// Destinations of which each is asked for.
    pub(super) fixed: &'w [&'w str],
    /// Prefixes of at most 16 bits, of each of which some destinations are.
    pub(super) nets: &'w [Ipv4Addr],
}

/// Destinations of each prefix.
const OF_EACH: usize = 3;

impl Walk<'_> {
    pub(super) fn run(&self, lab: &Lab) -> Result<()> {
        let report = map(lab, &["--netns", &lab.netns(self.netns)])?;
        let lines = report.objects()?;
        let lines: Vec<&Value> = lines
            .iter()
            .filter(|line| line["origin"]["kind"] == self.kind)
            .collect();
        let dests = self.destinations()?;
        let own = |dst: &IpAddr| format!("addr replace {dst}/32 dev lo\n");
        lab.ip("peer", &dests.iter().map(own).collect::<String>())?;
        let _peer = StreamServer::start(lab, "peer", "0.0.0.0:443", Behaviour::Answer)?;
        let mut args = Vec::new();
        let names: Vec<String> = dests.iter().map(IpAddr::to_string).collect();
        args.extend(names.iter().flat_map(|dst| ["--dest", dst]));
        let report = watch(lab, &args, dests.len(), || {
            dests.iter().try_for_each(|dst| self.ask(lab, &lines, *dst))
        })?;
        let flows = report.flows()?;
        same("flows", flows.len(), dests.len())?;
        for flow in flows {
            let dst: IpAddr = flow["flow"]["dst"]
                .as_str()
                .context("a destination")?
                .parse()?;
            let told = longest(&lines, dst)?;
            ensure!(
                told["source_on_wire"] == flow["verdict"]["source_on_wire"]
                    && told["source"] == flow["verdict"]["source"],
                "traced {flow}, on the map {told}"
            );
        }
        Ok(())
    }

    fn destinations(&self) -> Result<Vec<IpAddr>> {
        let fixed = self.fixed.iter().map(|dst| dst.parse());
        let mut dests: Vec<IpAddr> = fixed.collect::<Result<_, _>>().context("destinations")?;
        let mut seed: u32 = 0x5eed_1234;
        for net in self.nets {
            for _ in 0..OF_EACH {
                // xorshift: the same destinations in every run.
                seed ^= seed << 13;
                seed ^= seed >> 17;
                seed ^= seed << 5;
                let dst = Ipv4Addr::from_bits(net.to_bits() | seed >> 16).into();
                if !dests.contains(&dst) {
                    dests.push(dst);
                }
            }
        }
        Ok(dests)
    }

    fn ask(&self, lab: &Lab, lines: &[&Value], dst: IpAddr) -> Result<()> {
        let outcome = StreamCall::new(self.from, &format!("{dst}:443"), 0).run(lab)?;
        let Outcome::Answered(seen) = outcome else {
            bail!("{dst} from {}: {outcome:?}", self.from);
        };
        let told = longest(lines, dst)?;
        same(
            &format!("the source of {} for {dst}", self.from),
            told["source_on_wire"].as_str(),
            Some(seen.ip().to_string().as_str()),
        )
    }
}

/// Destinations of every kind.
pub(super) fn is_what_is_seen() -> Result<()> {
    let lab = cast::one_pod("mapseen", RouteBack::Known).up()?;
    masquerade(&lab, &["10.20.0.0/16", "10.30.0.8/30", "172.16.0.0/12"])?;
    lab.run(
        "node",
        "iptables-legacy -t nat -I IP-MASQ 1 -d 172.20.0.0/16 -j SNAT --to-source 10.100.0.5",
    )?;
    let walk = Walk {
        from: "pod",
        netns: "pod",
        kind: "pod",
        fixed: &[
            "10.20.30.40",
            "10.30.0.10",
            "10.30.0.12",
            "172.20.1.1",
            "172.19.255.255",
            "172.21.0.0",
            "203.0.113.9",
        ],
        nets: &[
            [10, 20, 0, 0],
            [10, 30, 0, 0],
            [172, 20, 0, 0],
            [198, 51, 0, 0],
        ]
        .map(Ipv4Addr::from),
    };
    walk.run(&lab)
}
