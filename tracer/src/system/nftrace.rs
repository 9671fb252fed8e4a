//! The kernel's own rule trace: a table of ours that switches it on for the watched flows' first
//! packets, and a socket that hears what it says.
//!
//! The table is owned by its socket (`NFT_TABLE_F_OWNER`, 5.12): no one else can change it, and it
//! goes with the socket, also by `kill -9`. It is made only where connection tracking is at work
//! already: a rule that asks for `ct state` would switch it on.

use super::SystemError;
use super::netns::{Netns, visit};
use super::nfnetlink::{Attributes, INET, Nfnetlink, nft};
use ipnet::IpNet;
use std::io;
use std::net::IpAddr;

/// The table's name: who lists the rules sees whose it is.
pub const TABLE: &str = "srctrace";

/// `NFNLGRP_NFTRACE`.
const GROUP: u32 = 9;
/// Room for so many bytes of messages between two looks.
const BUFFER: usize = 8 << 20;
/// `NFT_TABLE_F_OWNER`.
const OWNER: u32 = 2;
/// After conntrack (-200), before any translation (-100).
const PRIORITY: i32 = -150;
/// `NF_INET_PRE_ROUTING` and `NF_INET_LOCAL_OUT`, with our chains' names.
const CHAINS: [(&str, u32); 2] = [("prerouting", 0), ("output", 3)];
/// `NFNL_SUBSYS_NFTABLES` in the upper half of a message's type.
const TRACE: u16 = 10 << 8 | nft::TRACE;

/// A running trace of one namespace.
pub struct Nftrace {
    /// Owns the table.
    _owner: Nfnetlink,
    listener: Nfnetlink,
}

impl Nftrace {
    /// Switches the trace on in a namespace for new flows to these destinations (all, where there
    /// is none). The sockets keep the namespace: for the node's own only.
    ///
    /// # Errors
    /// Where no NAT is set up in the namespace, or when the kernel refuses: before 5.12, and without
    /// CAP_NET_ADMIN.
    pub fn start(netns: &Netns, dests: &[IpNet]) -> Result<Self, SystemError> {
        visit(netns, || {
            let failed = |e: io::Error| SystemError::os("switch on", "the rule trace", e);
            let mut listener = Nfnetlink::open().map_err(failed)?;
            listener.listen(GROUP, BUFFER).map_err(failed)?;
            let mut owner = Nfnetlink::open().map_err(failed)?;
            owner.create(INET, &objects(dests)).map_err(failed)?;
            Ok(Self {
                _owner: owner,
                listener,
            })
        })
    }

    /// Hands over the body of each trace message that came in.
    ///
    /// # Errors
    /// When messages were lost, or the socket fails.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.listener.drain(|kind, body| {
            if kind == TRACE {
                take(body);
            }
        })
    }
}

/// The names of iptables-legacy's tables in the calling thread's namespace, IPv4 and IPv6.
fn tables() -> [String; 2] {
    ["ip_tables_names", "ip6_tables_names"].map(|list| {
        let path = format!("/proc/thread-self/net/{list}");
        std::fs::read_to_string(path).unwrap_or_default()
    })
}

/// Whether a namespace has tables of iptables-legacy: their part of the trace goes to the packet
/// log.
///
/// # Errors
/// When the namespace is gone.
pub fn has_legacy(netns: &Netns) -> Result<bool, SystemError> {
    visit(netns, || Ok(tables().iter().any(|names| !names.is_empty())))
}

/// Whether the trace's own rule would switch connection tracking on in a namespace: then it must
/// not be made.
///
/// # Errors
/// If it would, or the kernel does not tell.
pub fn may_start(netns: &Netns) -> Result<(), SystemError> {
    visit(netns, || {
        let legacy = tables();
        let mut nat = legacy
            .iter()
            .any(|names| names.lines().any(|name| name == "nat"));
        let mut socket = Nfnetlink::open().map_err(|e| SystemError::os("ask", "nftables", e))?;
        socket
            .dump(nft::GET_CHAIN, |chain| nat |= is_nat(chain))
            .map_err(|e| SystemError::os("ask", "nftables for its chains", e))?;
        nat.then_some(()).ok_or_else(|| SystemError::Unknown {
            kind: "--observe-rules nftrace: network namespace",
            given: netns.to_string(),
            why: "has no NAT, and the trace's own rule would switch connection tracking on there; \
                  nothing translates packets in it"
                .to_owned(),
        })
    })
}

/// `NFTA_CHAIN_TYPE`.
const CHAIN_TYPE: u16 = 7;

/// Whether a chain as the kernel lists it is of type nat.
fn is_nat(chain: &[u8]) -> bool {
    tracer_core::observed::attributes(chain)
        .any(|(kind, payload)| kind == CHAIN_TYPE && payload.starts_with(b"nat\0"))
}

/// Our table, its chains and rules.
fn objects(dests: &[IpNet]) -> Vec<(u16, Attributes)> {
    let new = Attributes::default;
    let mut objects = vec![(nft::NEW_TABLE, new().text(1, TABLE).be32(2, OWNER))];
    for (name, hook) in CHAINS {
        let place = new().be32(1, hook).be32(2, PRIORITY as u32);
        let chain = new()
            .text(1, TABLE)
            .text(3, name)
            .nest(4, place)
            .text(7, "filter");
        objects.push((nft::NEW_CHAIN, chain));
    }
    for (name, _) in CHAINS {
        let mut rule = |tests: Attributes| {
            let expressions = trace_on(ct_new(tests));
            let rule = new().text(1, TABLE).text(2, name).nest(4, expressions);
            objects.push((nft::NEW_RULE, rule));
        };
        if dests.is_empty() {
            rule(new());
        }
        for dest in dests {
            rule(destination(*dest));
        }
    }
    objects
}

/// `NFT_REG_1`: every expression here hands its value on in it.
const REGISTER: u32 = 1;

/// `NFTA_DATA_VALUE`.
fn value(bytes: &[u8]) -> Attributes {
    Attributes::default().bytes(1, bytes)
}

/// `cmp`: the register is (0) or is not (1) that.
fn compare(list: Attributes, operator: u32, bytes: &[u8]) -> Attributes {
    let data = Attributes::default().be32(1, REGISTER).be32(2, operator);
    list.expression("cmp", data.nest(3, value(bytes)))
}

/// `bitwise`: the register and a mask.
fn mask(list: Attributes, bytes: &[u8]) -> Attributes {
    let len = u32::try_from(bytes.len()).unwrap_or(0);
    let registers = Attributes::default()
        .be32(1, REGISTER)
        .be32(2, REGISTER)
        .be32(3, len);
    let zero = vec![0; bytes.len()];
    let data = registers.nest(4, value(bytes)).nest(5, value(&zero));
    list.expression("bitwise", data)
}

/// `meta nfproto F; payload load of the destination; mask; compare`.
fn destination(net: IpNet) -> Attributes {
    let (family, offset, addr, netmask) = match (net.network(), net.netmask()) {
        (IpAddr::V4(addr), IpAddr::V4(mask)) => {
            (2u8, 16, addr.octets().to_vec(), mask.octets().to_vec())
        }
        (IpAddr::V6(addr), IpAddr::V6(mask)) => {
            (10, 24, addr.octets().to_vec(), mask.octets().to_vec())
        }
        _ => return Attributes::default(),
    };
    let new = Attributes::default;
    let meta = new().be32(1, REGISTER).be32(2, 15); // NFT_META_NFPROTO
    let list = compare(new().expression("meta", meta), 0, &[family]);
    let len = u32::try_from(addr.len()).unwrap_or(0);
    let load = new()
        .be32(1, REGISTER)
        .be32(2, 1)
        .be32(3, offset)
        .be32(4, len);
    compare(mask(list.expression("payload", load), &netmask), 0, &addr)
}

/// `ct state new`: of the state's bits the one of `IP_CT_NEW` is set.
fn ct_new(list: Attributes) -> Attributes {
    let new: [u8; 4] = (1u32 << 3).to_ne_bytes();
    let state = Attributes::default().be32(1, REGISTER).be32(2, 0); // NFT_CT_STATE
    compare(mask(list.expression("ct", state), &new), 1, &[0; 4])
}

/// `meta nftrace set 1`.
fn trace_on(list: Attributes) -> Attributes {
    let new = Attributes::default;
    let one = new().be32(1, REGISTER).nest(2, value(&[1]));
    let list = list.expression("immediate", one);
    list.expression("meta", new().be32(2, 12).be32(3, REGISTER)) // NFT_META_NFTRACE
}
