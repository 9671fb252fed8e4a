//! What a rule finds in a packet, and how that compares.

use super::bits::{Bits, Truth};
use super::here::is_type;
use super::packet::{Known, Owner, Packet, Ports};
use super::world::{Tracking, World};
use crate::inventory::Namespace;
use crate::packet::Proto;
use crate::ruleset::{AddrTypeOf, Field, Hook, Op, Value};
use std::net::IpAddr;

/// A field of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading<'w> {
    /// An address.
    Addr(IpAddr),
    /// A number.
    Number(u64),
    /// A word of which bits may be unknown.
    Bits(Bits),
    /// A device's name.
    Name(&'w str),
    /// An address of which the type is asked, perhaps of one device.
    Typed(IpAddr, Option<&'w str>),
    /// The packet has no such field: the rule does not match, negated or not (`NFT_BREAK`, and the
    /// early returns of x_tables' matches).
    Absent,
    /// Not known.
    Unknown,
}

/// Where a rule looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'w, 'r> {
    pub(super) packet: &'w Packet,
    pub(super) here: &'w Namespace,
    pub(super) hook: Hook,
    pub(super) world: &'w World<'r>,
}

impl<'w> View<'w, '_> {
    /// Reads a field.
    pub(super) fn read(&self, field: &Field) -> Reading<'w> {
        let state = &self.world.state;
        let packet = self.packet;
        match field {
            Field::Saddr => addr(state.src),
            Field::Daddr => addr(state.dst),
            Field::Sport => self.port(state.sport),
            Field::Dport => self.port(state.dport),
            Field::Proto => Reading::Number(packet.tuple.proto.0.into()),
            Field::Version => Reading::Number(packet.version().into()),
            Field::Iif => self.iif().map_or(Reading::Unknown, Reading::Name),
            Field::Oif => self.oif().map_or(Reading::Unknown, Reading::Name),
            Field::Mark { and, xor } => Reading::Bits(state.mark.masked(*and, *xor)),
            Field::SrcType(of) => self.typed(state.src, *of),
            Field::DstType(of) => self.typed(state.dst, *of),
            Field::TcpFlags { mask } => match packet.tcp_flags {
                _ if packet.tuple.proto != Proto::TCP => Reading::Absent,
                flags => self.transport(flags.map(|f| (f & mask).into())),
            },
            Field::IcmpType => self.icmp(packet.icmp.map(|(kind, _)| kind)),
            Field::IcmpCode => self.icmp(packet.icmp.map(|(_, code)| code)),
            Field::LaterFragment => number(packet.later_fragment),
            Field::Length => number(packet.length),
            Field::Ttl => number(packet.ttl),
            Field::PhysIn | Field::PhysOut | Field::Phys => self.ports(field),
            Field::SocketUid => owner(packet.uid),
            Field::SocketGid => owner(packet.gid),
            _ => self.conntrack(field),
        }
    }

    /// The in device: also told in postrouting (from 5.7, net/ipv4/ip_output.c), but not by a bridge
    /// (net/bridge/br_netfilter_hooks.c, `br_nf_post_routing`).
    fn iif(&self) -> Option<&'w str> {
        match (&self.packet.ports, self.hook) {
            (Ports::Through { .. }, Hook::Postrouting) => Some(""),
            _ => self.packet.iif.as_deref(),
        }
    }

    /// A bridge's ports. The one out is known when the packet is sent on to it; before, a rule that asks for it does not
    /// match, negated or not (net/netfilter/xt_physdev.c, `physdev_mt`).
    fn ports(&self, field: &Field) -> Reading<'w> {
        let sent_on = matches!(self.hook, Hook::Forward | Hook::Postrouting);
        match (&self.packet.ports, field) {
            (Ports::Unknown, _) => Reading::Unknown,
            (Ports::None, Field::Phys) => Reading::Bits(Bits::all(0)),
            (Ports::None, _) => Reading::Name(""),
            (Ports::Through { .. }, Field::Phys) => {
                Reading::Bits(Bits::all(if sent_on { 3 } else { 1 }))
            }
            (Ports::Through { from, .. }, Field::PhysIn) => Reading::Name(from),
            (Ports::Through { to, .. }, _) if sent_on => Reading::Name(to),
            (Ports::Through { .. }, _) => Reading::Absent,
        }
    }

    /// The out device, empty before the route is chosen.
    fn oif(&self) -> Option<&'w str> {
        match self.hook {
            Hook::Ingress | Hook::Prerouting | Hook::Input => Some(""),
            _ => self.packet.oif.as_deref(),
        }
    }

    fn typed(&self, addr: Option<IpAddr>, of: AddrTypeOf) -> Reading<'w> {
        let device = match of {
            AddrTypeOf::Any => Some(None),
            AddrTypeOf::Iif => self.iif().map(Some),
            AddrTypeOf::Oif => self.oif().map(Some),
        };
        match (addr, device) {
            (Some(addr), Some(device)) => Reading::Typed(addr, device),
            _ => Reading::Unknown,
        }
    }

    /// Something of the transport header, which later fragments do not have.
    fn transport(&self, value: Option<u64>) -> Reading<'w> {
        match self.packet.later_fragment {
            Some(true) => Reading::Absent,
            Some(false) => number(value),
            None => Reading::Unknown,
        }
    }

    /// A port. nftables reads `th dport` of any protocol: what stands there is not known here.
    fn port(&self, port: Option<u16>) -> Reading<'w> {
        let has_ports = matches!(self.packet.tuple.proto.0, 6 | 17 | 33 | 132 | 136);
        self.transport(port.filter(|_| has_ports).map(u64::from))
    }

    fn icmp(&self, value: Option<u8>) -> Reading<'w> {
        if !self.packet.tuple.proto.is_icmp() {
            return Reading::Absent;
        }
        self.transport(value.map(u64::from))
    }

    /// Fields of the conntrack entry (net/netfilter/nft_ct.c: the state of a packet without entry
    /// is "invalid", or "untracked" where a rule said so; every other key breaks the rule).
    fn conntrack(&self, field: &Field) -> Reading<'w> {
        let state = &self.world.state;
        if *field == Field::CtState {
            return Reading::Bits(match state.tracking {
                Tracking::NotYet => Bits::all(1),
                Tracking::Untracked(_) => Bits::all(64),
                Tracking::Tracked => state.flow.bits(),
            });
        }
        if !self.world.has_entry() {
            return Reading::Absent;
        }
        let flow = &self.packet.flow;
        let new = state.flow == super::FlowState::New;
        let orig = flow.orig.or_else(|| new.then_some(self.packet.tuple));
        let known = match flow.orig {
            Some(_) => Known::ALL,
            None => self.packet.known,
        };
        match field {
            Field::CtMark { and, xor } => Reading::Bits(state.ct_mark.masked(*and, *xor)),
            Field::CtStatus => Reading::Bits(state.ct_status),
            Field::CtDirection => number(flow.reply),
            Field::CtZone => number(state.zone),
            Field::CtOrigSaddr => addr(orig.filter(|_| known.src).map(|t| t.src)),
            Field::CtOrigDaddr => addr(orig.map(|t| t.dst)),
            Field::CtOrigSport => number(orig.filter(|_| known.sport).map(|t| t.sport)),
            Field::CtOrigDport => number(orig.filter(|_| known.dport).map(|t| t.dport)),
            _ => Reading::Unknown,
        }
    }

    /// How a reading compares with values; one that holds is enough. `None`: the field is absent.
    pub(super) fn compare(&self, reading: Reading<'_>, op: Op, values: &[Value]) -> Option<Truth> {
        if let Reading::Absent = reading {
            return None;
        }
        if let Reading::Addr(addr) = reading
            && !values.is_empty()
            && values.iter().all(|v| !same_family(v, addr))
        {
            return None;
        }
        let one = |value: &Value| self.holds(reading, op, value);
        Some(values.iter().map(one).fold(Truth::No, Truth::or))
    }

    fn holds(&self, reading: Reading<'_>, op: Op, value: &Value) -> Truth {
        match (reading, value) {
            (Reading::Unknown, _) => Truth::Unknown,
            (Reading::Number(n), _) => number_holds((n, n), op, value),
            (Reading::Bits(bits), Value::Number(n)) => match (op, u32::try_from(*n)) {
                (Op::Equal, Ok(n)) => bits.is(n),
                (Op::HasAny, Ok(n)) => bits.has_any(n),
                (Op::Equal | Op::HasAny, Err(_)) => Truth::No,
                _ => bits_hold(bits, op, value),
            },
            (Reading::Bits(bits), _) => bits_hold(bits, op, value),
            (Reading::Addr(addr), _) => Truth::of(addr_holds(addr, op, value)),
            (Reading::Name(name), Value::Name(want)) => Truth::of(name == want),
            (Reading::Name(name), Value::NamePrefix(want)) => Truth::of(name.starts_with(want)),
            (Reading::Typed(addr, device), Value::Type(want)) => {
                is_type(self.here, addr, device, *want)
            }
            _ => Truth::No,
        }
    }
}

fn addr<'w>(addr: Option<IpAddr>) -> Reading<'w> {
    addr.map_or(Reading::Unknown, Reading::Addr)
}

fn number<'w, N: Into<u64>>(number: Option<N>) -> Reading<'w> {
    number.map_or(Reading::Unknown, |n| Reading::Number(n.into()))
}

fn owner<'w>(owner: Owner) -> Reading<'w> {
    match owner {
        Owner::Unknown => Reading::Unknown,
        Owner::None => Reading::Absent,
        Owner::Is(id) => Reading::Number(id.into()),
    }
}

/// Of an address type or number no family is asked; of addresses it must be the packet's.
fn same_family(value: &Value, addr: IpAddr) -> bool {
    match value {
        Value::Masked { addr: of, .. } | Value::Addrs(of, _) => of.is_ipv4() == addr.is_ipv4(),
        _ => true,
    }
}

fn bits_hold(bits: Bits, op: Op, value: &Value) -> Truth {
    let (least, greatest) = bits.bounds();
    number_holds((least.into(), greatest.into()), op, value)
}

/// How a number compares of which only bounds are known.
fn number_holds((least, greatest): (u64, u64), op: Op, value: &Value) -> Truth {
    let (low, high) = match value {
        Value::Number(n) => (*n, *n),
        Value::Numbers(low, high) => (*low, *high),
        _ => return Truth::No,
    };
    let (all, none) = match op {
        Op::Equal => (
            least >= low && greatest <= high,
            greatest < low || least > high,
        ),
        Op::Less => (greatest < low, least >= low),
        Op::AtMost => (greatest <= high, least > high),
        Op::Greater => (least > high, greatest <= high),
        Op::AtLeast => (least >= low, greatest < low),
        Op::HasAny if least == greatest => (least & low != 0, least & low == 0),
        Op::HasAny => (false, false),
    };
    match (all, none) {
        (true, _) => Truth::Yes,
        (_, true) => Truth::No,
        _ => Truth::Unknown,
    }
}

fn addr_holds(addr: IpAddr, op: Op, value: &Value) -> bool {
    match (value, op) {
        (Value::Masked { addr: want, mask }, Op::Equal) => {
            let ((v, a), (w, b), (x, m)) = (to_bits(addr), to_bits(*want), to_bits(*mask));
            v == w && v == x && a & m == b & m
        }
        (Value::Addrs(low, high), Op::Equal) => *low <= addr && addr <= *high,
        (Value::Addrs(low, _), Op::Less) => addr < *low,
        (Value::Addrs(_, high), Op::AtMost) => addr <= *high,
        (Value::Addrs(_, high), Op::Greater) => addr > *high,
        (Value::Addrs(low, _), Op::AtLeast) => addr >= *low,
        _ => false,
    }
}

/// Family and bits.
pub(super) fn to_bits(addr: IpAddr) -> (bool, u128) {
    match addr {
        IpAddr::V4(v4) => (true, v4.to_bits().into()),
        IpAddr::V6(v6) => (false, v6.to_bits()),
    }
}
