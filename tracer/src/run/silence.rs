//! The hint after ten seconds in which nothing matched: what is near, where the route goes, whether
//! a socket load balancer may hide the address.

use super::failure::Failure;
use super::plan::Plan;
use crate::cli::Dest;
use crate::kernel::{self, Filter, Programs, Reader, Sizes};
use crate::render::{Hint, Look, Nearby, Nearest, hint};
use crate::sink;
use crate::system::Survey;
use crate::system::route::route_get;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use tokio::task::JoinHandle;
use tracer_common::tap;
use tracer_core::packet::Tuple;

/// After so long without a packet it is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long a second look, with a wider filter, takes what is near.
const GLANCE: Duration = Duration::from_millis(1500);
/// What counts as neighbouring: the same /24, or /64.
const NEIGHBOURS: (u8, u8) = (24, 64);

/// Knows what to say, and whether it was said.
pub(super) struct Silence<'a> {
    plan: &'a Plan,
    looking: Option<JoinHandle<Option<Vec<Nearest>>>>,
    spoken: bool,
}

impl<'a> Silence<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            looking: None,
            spoken: false,
        }
    }

    /// Looks around once it is time, then says what was found, once.
    pub(super) async fn speak(&mut self, silent: Duration, survey: &Survey) {
        if self.spoken || silent < PATIENCE {
            return;
        }
        let looking = self.looking.get_or_insert_with(|| {
            let dests = self.plan.resolved.dests.clone();
            tokio::task::spawn_blocking(move || glance(&dests).ok())
        });
        if !looking.is_finished() {
            return;
        }
        let nearest = looking.await.unwrap_or_default();
        self.spoken = true;
        let said = self.hint(silent, survey, nearest);
        let look = Look {
            colour: sink::stderr_colour(),
            names: true,
            verbose: 0,
            width: sink::stderr_width(),
        };
        sink::note(&hint(&said, look));
    }

    fn hint(&self, silent: Duration, survey: &Survey, nearest: Option<Vec<Nearest>>) -> Hint {
        let inventory = survey.inventory();
        let links = inventory
            .namespaces
            .values()
            .map(|ns| ns.links.len() as u64);
        let dest = self.plan.resolved.dests.first();
        let route = dest.map(|dest| match route_get(&self.plan.node, dest.net.addr()) {
            Ok(route) => route.to_string(),
            Err(error) => error.to_string(),
        });
        Hint {
            silent_s: silent.as_secs(),
            what: "matching packet".to_owned(),
            interfaces: links.sum(),
            namespaces: inventory.namespaces.len() as u64,
            other_packets: None,
            nearest,
            route,
            socket_lb: kernel::socket_rewriters(),
        }
    }
}

/// A short second trace with a wider filter. Blocks.
fn glance(dests: &[Dest]) -> Result<Vec<Nearest>, Failure> {
    if dests.is_empty() {
        return Ok(Vec::new());
    }
    let types = kernel::read_types()?;
    let (mut programs, _ring) =
        Programs::load(&wider(dests), Reader::Memory(&types), Sizes::GLANCE)?;
    programs.attach_tracepoints()?;
    std::thread::sleep(GLANCE);
    let mut found: BTreeMap<Tuple, (Nearby, u64)> = BTreeMap::new();
    programs.flow_counters(|key, packets| {
        let tuple = Tuple::from_raw(&key.tuple).filter(|_| key.tap == tap::TRANSMIT);
        let Some(tuple) = tuple else { return };
        if let Some(near) = dests.iter().find_map(|dest| nearby(dest, &tuple)) {
            let most = &mut found.entry(tuple).or_insert((near, 0)).1;
            *most = packets.max(*most);
        }
    })?;
    Ok(in_order(found))
}

/// The most telling first: one line for each service that was asked, and what has no ports last.
fn in_order(found: BTreeMap<Tuple, (Nearby, u64)>) -> Vec<Nearest> {
    let mut services: BTreeMap<_, (Tuple, Nearby, u64)> = BTreeMap::new();
    for (tuple, (near, packets)) in found {
        let service = (tuple.proto, tuple.dst, tuple.dport);
        let known = services.entry(service).or_insert((tuple, near, packets));
        if packets > known.2 {
            *known = (tuple, near, packets);
        }
    }
    let rank = |near| match near {
        Nearby::SameAddress => 0,
        Nearby::Neighbour => 1,
        Nearby::SamePort => 2,
    };
    let mut nearest: Vec<_> = services.into_values().collect();
    nearest.sort_by_key(|(tuple, near, packets)| {
        (tuple.dport == 0, rank(*near), std::cmp::Reverse(*packets))
    });
    let tell = |(tuple, near, packets): (Tuple, Nearby, u64)| Nearest {
        flow: tuple.into(),
        near,
        packets,
    };
    nearest.into_iter().map(tell).collect()
}

/// Neighbours of the destinations, and their ports anywhere.
fn wider(dests: &[Dest]) -> Filter {
    let mut wide: Vec<(IpNet, Vec<(u16, u16)>)> = dests
        .iter()
        .map(|dest| (neighbourhood(dest.net), Vec::new()))
        .collect();
    let ports: Vec<(u16, u16)> = dests
        .iter()
        .flat_map(|dest| &dest.ports)
        .map(|p| (p.first, p.last))
        .collect();
    if !ports.is_empty() {
        wide.push((everything(dests[0].net), ports));
    }
    Filter {
        dests: wide,
        ..Filter::default()
    }
}

fn neighbourhood(net: IpNet) -> IpNet {
    let most = if net.addr().is_ipv4() {
        NEIGHBOURS.0
    } else {
        NEIGHBOURS.1
    };
    IpNet::new(net.addr(), net.prefix_len().min(most)).map_or(net, |wide| wide.trunc())
}

fn everything(net: IpNet) -> IpNet {
    IpNet::new(net.addr(), 0).map_or(net, |wide| wide.trunc())
}

/// In what a request is near to a destination; `None` when it is not, or is the very thing.
fn nearby(dest: &Dest, tuple: &Tuple) -> Option<Nearby> {
    let inside = |addr: &IpAddr| dest.net.contains(addr);
    let same_port = dest.ports.iter().any(|range| range.contains(tuple.dport));
    if inside(&tuple.dst) {
        return (!same_port && !dest.ports.is_empty()).then_some(Nearby::SameAddress);
    }
    if neighbourhood(dest.net).contains(&tuple.dst) {
        return Some(Nearby::Neighbour);
    }
    same_port.then_some(Nearby::SamePort)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::PortRange;
    use tracer_core::packet::Proto;

    fn dest(net: &str, port: Option<u16>) -> Dest {
        let range = |port| PortRange {
            first: port,
            last: port,
        };
        Dest {
            net: net.parse().unwrap(),
            ports: port.map(range).into_iter().collect(),
        }
    }

    fn to(dst: &str, dport: u16) -> Tuple {
        let src = "10.12.3.4".parse().unwrap();
        Tuple {
            src,
            sport: 40000,
            dst: dst.parse().unwrap(),
            dport,
            proto: Proto::TCP,
        }
    }

    #[test]
    fn near_is_another_port_a_neighbour_or_the_same_port() {
        let wanted = dest("10.20.30.40/32", Some(443));
        assert_eq!(
            nearby(&wanted, &to("10.20.30.40", 80)),
            Some(Nearby::SameAddress)
        );
        assert_eq!(
            nearby(&wanted, &to("10.20.30.41", 80)),
            Some(Nearby::Neighbour)
        );
        assert_eq!(
            nearby(&wanted, &to("10.99.0.1", 443)),
            Some(Nearby::SamePort)
        );
        assert_eq!(nearby(&wanted, &to("10.20.30.40", 443)), None);
        assert_eq!(nearby(&wanted, &to("10.99.0.1", 80)), None);
    }

    #[test]
    fn the_wider_filter_takes_the_neighbourhood_and_the_port_anywhere() {
        let filter = wider(&[dest("10.20.30.40/32", Some(443))]);
        let expected: Vec<(IpNet, Vec<(u16, u16)>)> = vec![
            ("10.20.30.0/24".parse().unwrap(), vec![]),
            ("0.0.0.0/0".parse().unwrap(), vec![(443, 443)]),
        ];
        assert_eq!(filter.dests, expected);
    }
}
