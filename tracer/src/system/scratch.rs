//! A network namespace of our own for a moment, with one NAT rule in it: what is known of it is
//! what the probes on rules must find. It belongs to a thread and goes with it; nothing is left.

use super::SystemError;
use super::netns::on_visitor;
use super::nfnetlink::{Attributes, Nfnetlink, nft};
use rustix::thread::UnshareFlags;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use tracer_core::observed::RulePlace;
use tracer_core::ruleset::Family;

/// Where the packet goes that meets the rule.
pub const DESTINATION: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const TABLE: &str = "srctrace-check";
/// Targets of x_tables that translate ask for a table of this name.
const TARGETS_TABLE: &str = "nat";
const CHAIN: &str = "known";
/// net/netfilter/nf_tables_api.c counts handles from 1 in each table: the chain, an empty rule, the
/// rule, another empty rule.
const HANDLE: u64 = 3;
/// Rules are put before those that are there.
const INDEX: u32 = 2;

/// `NF_INET_LOCAL_OUT` and `NF_INET_POST_ROUTING`, with the priorities of NAT there.
const OUTPUT: (u32, i32) = (3, -100);
const POSTROUTING: (u32, i32) = (4, 100);

/// How the rule translates: only ways whose module is loaded may be asked for, or the kernel would
/// load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// nftables' `masquerade`.
    Masquerade,
    /// nftables' `snat`.
    Snat,
    /// nftables' `redirect`.
    Redirect,
    /// The target `MASQUERADE` of x_tables, in an nftables rule.
    Target,
}

/// The rule's place, as the probes should tell it.
#[must_use]
pub fn place(way: Way) -> RulePlace {
    RulePlace::Nft {
        family: Family::Ip,
        table: table(way).to_owned(),
        chain: CHAIN.to_owned(),
        chain_cut: false,
        handle: HANDLE,
        index: Some(INDEX),
        xt: way == Way::Target,
    }
}

fn table(way: Way) -> &'static str {
    if way == Way::Target {
        TARGETS_TABLE
    } else {
        TABLE
    }
}

/// Runs `work` in a new namespace that holds the rule; it is given the namespace's inode number and
/// a way to send a packet that meets the rule.
///
/// # Errors
/// When the kernel refuses the namespace or the rule.
pub fn with_rule<T: Send>(
    way: Way,
    work: impl FnOnce(u32, &dyn Fn() -> io::Result<()>) -> T + Send,
) -> Result<T, SystemError> {
    on_visitor(|| {
        let failed = |what: &'static str| {
            move |e: io::Error| SystemError::os(what, "a namespace of our own", e)
        };
        // SAFETY: only the network namespace changes, of a thread that nobody else uses; no
        // descriptors or memory are involved.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(|e| failed("make")(e.into()))?;
        loopback_up().map_err(failed("switch on the loopback device of"))?;
        let inode = std::fs::metadata("/proc/thread-self/ns/net").map_err(failed("identify"))?;
        let mut socket = Nfnetlink::open().map_err(failed("open nftables of"))?;
        socket
            .create(IPV4, &objects(way))
            .map_err(failed("add a rule to"))?;
        let inode = u32::try_from(inode.st_ino()).unwrap_or(0);
        Ok(work(inode, &send))
    })?
}

/// `NFPROTO_IPV4`.
const IPV4: u8 = 2;

fn send() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // Its translation may well fail: only the attempt counts.
    let _ = socket.send_to(b"?", (DESTINATION, 9));
    Ok(())
}

fn loopback_up() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: all bytes zero are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`; the descriptor is open.
    let done = unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw mut request,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn objects(way: Way) -> Vec<(u16, Attributes)> {
    let new = Attributes::default;
    let (hook, priority) = match way {
        Way::Redirect => OUTPUT,
        _ => POSTROUTING,
    };
    let base = new().be32(1, hook).be32(2, priority.cast_unsigned());
    let table = table(way);
    let chain = new()
        .text(1, table)
        .text(3, CHAIN)
        .nest(4, base)
        .text(7, "nat");
    let rule = || new().text(1, table).text(2, CHAIN);
    vec![
        (nft::NEW_TABLE, new().text(1, table)),
        (nft::NEW_CHAIN, chain),
        (nft::NEW_RULE, rule()),
        (nft::NEW_RULE, rule().nest(4, expressions(way))),
        (nft::NEW_RULE, rule()),
    ]
}

fn expressions(way: Way) -> Attributes {
    let new = Attributes::default;
    match way {
        Way::Masquerade => new().expression("masq", new()),
        Way::Redirect => new().expression("redir", new()),
        Way::Snat => {
            let address = new().bytes(1, &Ipv4Addr::LOCALHOST.octets());
            let load = new().be32(1, 1).nest(2, address);
            // Source, IPv4, the address of register 1.
            let nat = new().be32(1, 0).be32(2, u32::from(IPV4)).be32(3, 1);
            new().expression("immediate", load).expression("nat", nat)
        }
        Way::Target => {
            // `struct nf_nat_ipv4_multi_range_compat`, aligned: one range, which says nothing.
            let mut range = [0; 24];
            range[..4].copy_from_slice(&1u32.to_ne_bytes());
            let target = new().text(1, "MASQUERADE").be32(2, 0).bytes(3, &range);
            new().expression("target", target)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the machine's own program shows it. On a kernel that has all of it, built in or loaded.
    #[test]
    fn the_rule_is_where_it_is_said_to_be_and_gone_afterwards() {
        let before = std::fs::metadata("/proc/thread-self/ns/net")
            .unwrap()
            .st_ino();
        for way in [Way::Masquerade, Way::Snat, Way::Redirect, Way::Target] {
            let listed = with_rule(way, |inode, send| {
                assert_ne!(u64::from(inode), before);
                send().unwrap();
                let list = std::process::Command::new("nft")
                    .args(["-a", "list", "ruleset"])
                    .output();
                String::from_utf8(list.unwrap().stdout).unwrap()
            });
            let listed = listed.unwrap();
            let lines: Vec<&str> = listed.lines().filter(|l| l.contains("# handle")).collect();
            let rule = lines.iter().find(|l| l.trim_end().ends_with(" handle 3"));
            let rule = rule.unwrap_or_else(|| panic!("{listed}")).to_lowercase();
            let word = match way {
                Way::Snat => "snat",
                Way::Redirect => "redirect",
                Way::Masquerade | Way::Target => "masquerade",
            };
            assert!(rule.contains(word), "{listed}");
        }
        assert_eq!(
            std::fs::metadata("/proc/thread-self/ns/net")
                .unwrap()
                .st_ino(),
            before
        );
    }
}
