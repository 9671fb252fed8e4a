//! Translations: which addresses a NAT rule chooses.

use super::bits::Truth;
use super::here;
use super::index::At;
use super::lookup::{Lookup, lookup};
use super::outcome::{Decision, Fate, Marker, Port, Target, Translation};
use super::packet::{Flow, FlowState};
use super::walk::{Exits, Walk};
use super::world::{Ghost, World};
use crate::event::Conntrack;
use crate::ruleset::{Nat, NatKind, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl<'r> Walk<'_, 'r> {
    /// A NAT rule: the first that sets a mapping of its kind wins (net/netfilter/nf_nat_core.c,
    /// `nf_nat_inet_fn`). What comes after it is walked by a ghost, to tell what it shadows.
    pub(super) fn nat(
        &mut self,
        at: At<'r>,
        nat: &'r Nat,
        mut world: World<'r>,
        exits: &mut Exits<'r>,
    ) {
        let Some(translation) = self.translation(nat, &world) else {
            world.gives_up();
            return exits.next.push(world);
        };
        match world.ghost.clone() {
            Ghost::Without(mut exemption) => {
                exemption.from = Some(at);
                if !self.log.exempted.contains(&exemption) {
                    self.log.exempted.push(exemption);
                }
            }
            Ghost::After(by) => {
                self.shadow(by, at);
                exits.next.push(world);
            }
            Ghost::None => {
                let mut ghost = world.clone();
                ghost.ghost = Ghost::After(at);
                exits.next.push(ghost);
                let decision = Decision {
                    by: at,
                    path: self.path_to(at),
                    translation,
                    marked_by: marked_by(&world),
                };
                if nat.kind.is_source(self.hook) {
                    world.state.source = Some(decision);
                } else {
                    world.state.destination = Some(decision);
                }
                world.exit = Some(Fate::Passes);
                self.done.push(world);
            }
        }
    }

    /// Into what a rule translates; `None` where its map has no element for the packet (the rule
    /// then does not match, `NFT_BREAK`).
    fn translation(&self, nat: &Nat, world: &World<'r>) -> Option<Translation> {
        let mut port = match nat.ports {
            Some((low, high)) => Port::Within(low, high),
            None if nat.random => Port::Any,
            None => Port::Kept,
        };
        let mut addrs = nat.addrs.clone();
        let mut unknown = None;
        if let Some((fields, map)) = &nat.map {
            self.log.asks(fields);
            match lookup(&self.view(world), self.rules, fields, map) {
                Lookup::Found(element) => {
                    let (ports, values) = element.data.iter().cloned().partition(is_port);
                    addrs = values;
                    port = from_data(&ports).unwrap_or(port);
                }
                Lookup::Missing | Lookup::Absent => return None,
                Lookup::Maybe(_) => unknown = Some(super::words::set(map)),
            }
        }
        let addr = match unknown {
            Some(set) => Target::Unknown(format!("what {set} says")),
            None => self.target(nat.kind, addrs, world),
        };
        Some(Translation {
            kind: nat.kind,
            addr,
            port,
        })
    }

    fn target(&self, kind: NatKind, addrs: Vec<Value>, world: &World<'r>) -> Target {
        let view = self.view(world);
        let one = |addr: Option<IpAddr>, what: &str| match addr {
            Some(addr) => Target::One(addr),
            None => Target::Unknown(what.to_owned()),
        };
        match (kind, addrs.as_slice()) {
            (NatKind::Masquerade, _) => {
                let oif = view.packet.oif.as_deref();
                let addr = oif.and_then(|oif| here::masquerade(self.here, oif, world.state.dst));
                one(addr, "the out device's address")
            }
            (NatKind::Redirect, _) => {
                let iif = view.packet.iif.as_deref();
                let addr = iif.zip(world.state.dst);
                let addr = addr.and_then(|(iif, dst)| here::redirect(self.here, iif, dst));
                one(addr, "the in device's address")
            }
            (_, []) => Target::Same,
            (_, [Value::Addrs(low, high)]) if low == high => Target::One(*low),
            (_, [Value::Masked { addr, mask }]) if is_host(*mask) => Target::One(*addr),
            (_, [Value::Masked { addr, mask }]) => {
                let source = kind.is_source(self.hook);
                let old = if source {
                    world.state.src
                } else {
                    world.state.dst
                };
                let new = old.and_then(|old| mapped(old, *addr, *mask));
                one(new, "an address of the prefix")
            }
            _ => Target::OneOf(addrs),
        }
    }
}

/// The packet after the translation that was decided for it.
pub(super) fn translate(world: &mut World<'_>, source: bool) {
    let Some(translation) = world.decision(source).map(|d| d.translation.clone()) else {
        return;
    };
    let state = &mut world.state;
    let (addr, port) = if source {
        (&mut state.src, &mut state.sport)
    } else {
        (&mut state.dst, &mut state.dport)
    };
    let before = (*addr, *port);
    match translation.addr {
        Target::Same => {}
        Target::One(new) => *addr = Some(new),
        Target::OneOf(_) | Target::Unknown(_) => *addr = None,
    }
    match translation.port {
        Port::Kept => {}
        Port::Within(low, high) => *port = Some(low).filter(|_| low == high),
        Port::Any => *port = None,
    }
    if before != (*addr, *port) {
        let bit = if source {
            Conntrack::SRC_NAT
        } else {
            Conntrack::DST_NAT
        };
        state.ct_status = state.ct_status.masked(!bit, bit);
        world.changed();
    }
}

/// A packet of a flow that is not new, after what its binding does to it: the destination before
/// the route is chosen, the source after (`nf_nat_packet`). Not known where the entry is not.
pub(super) fn bound(world: &mut World<'_>, flow: &Flow, source: bool) {
    let old = matches!(
        world.state.flow,
        FlowState::Established | FlowState::Related
    );
    let translated = Conntrack::SRC_NAT | Conntrack::DST_NAT;
    if !old || !world.has_entry() || flow.status.has_any(translated) == Truth::No {
        return;
    }
    let state = &mut world.state;
    if source {
        state.src = flow.becomes.map(|tuple| tuple.src);
        state.sport = flow.becomes.map(|tuple| tuple.sport);
    } else {
        state.dst = flow.becomes.map(|tuple| tuple.dst);
        state.dport = flow.becomes.map(|tuple| tuple.dport);
    }
    world.changed();
}

/// Who set the mark bits that rules on the path tested, each once.
fn marked_by<'r>(world: &World<'r>) -> Vec<Marker<'r>> {
    let mut by: Vec<Marker<'r>> = Vec::new();
    for (_, marker) in &world.asked {
        if !by.contains(marker) {
            by.push(marker.clone());
        }
    }
    by
}

fn is_port(value: &Value) -> bool {
    matches!(value, Value::Number(_) | Value::Numbers(..))
}

fn from_data(ports: &[Value]) -> Option<Port> {
    let port = |n: u64| u16::try_from(n).ok();
    match ports.first()? {
        Value::Number(n) => Some(Port::Within(port(*n)?, port(*n)?)),
        Value::Numbers(low, high) => Some(Port::Within(port(*low)?, port(*high)?)),
        _ => None,
    }
}

/// Whether a mask leaves one address.
pub(super) fn is_host(mask: IpAddr) -> bool {
    match mask {
        IpAddr::V4(v4) => v4 == Ipv4Addr::BROADCAST,
        IpAddr::V6(v6) => v6.to_bits() == u128::MAX,
    }
}

/// The host part stays, the network part is replaced (NETMAP, `snat prefix to`).
fn mapped(old: IpAddr, net: IpAddr, mask: IpAddr) -> Option<IpAddr> {
    match (old, net, mask) {
        (IpAddr::V4(old), IpAddr::V4(net), IpAddr::V4(mask)) => {
            let (old, net, mask) = (old.to_bits(), net.to_bits(), mask.to_bits());
            Some(Ipv4Addr::from_bits(old & !mask | net & mask).into())
        }
        (IpAddr::V6(old), IpAddr::V6(net), IpAddr::V6(mask)) => {
            let (old, net, mask) = (old.to_bits(), net.to_bits(), mask.to_bits());
            Some(Ipv6Addr::from_bits(old & !mask | net & mask).into())
        }
        _ => None,
    }
}
