//! Tunnels that processes speak: who has a tun device open, which sockets may carry its packets, and which peers
//! conntrack knows of those.
//!
//! Kernel: an open tun device names itself in `/proc/PID/fdinfo/FD` (`tun_chr_show_fdinfo`), sockets name their
//! inode there and in `/proc/PID/net/{udp,tcp}{,6}`.

use super::netns::{Netns, parse_link, pids, process};
use super::peers::peers;
use super::{Roots, SystemError};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use tracer_core::inventory::{Carrier, Holder, Tunnel};
use tracer_core::packet::{Proto, Tuple};

/// Most descriptors of a process that are looked at.
const DESCRIPTORS: usize = 4096;
/// Most lines of a table of sockets that are read.
const SOCKETS: usize = 1 << 16;
/// State of a UDP socket that is connected, and of an open TCP connection (`TCP_ESTABLISHED`).
const ESTABLISHED: u32 = 1;
/// State of a UDP socket that is bound only (`TCP_CLOSE`).
const BOUND: u32 = 7;

/// What is known of the tunnel behind a tun device of a namespace whose own addresses are `own`. `around`: further
/// namespaces whose conntrack may know the peers.
pub(super) fn tunnel(
    roots: &Roots,
    netns: &Netns,
    device: &str,
    own: &[IpAddr],
    around: &[&Netns],
) -> Tunnel {
    let here = |pid: &u32| {
        let link = std::fs::read_link(roots.of(*pid, "ns/net")).ok();
        link.and_then(|link| parse_link(link.to_str()?)) == Some(netns.id)
    };
    let mut found = Tunnel::default();
    for pid in pids(roots).filter(here).collect::<Vec<_>>() {
        let files = descriptors(roots, pid);
        if files.iter().any(|file| file.holds(device)) {
            let comm = process(roots, pid).map_or_else(String::new, |process| process.comm);
            found.processes.push(Holder { pid, comm });
            found.sockets.extend(carriers(roots, pid, &files));
        }
    }
    found.processes.sort_by_key(|holder| holder.pid);
    let spaces = [netns].into_iter().chain(around.iter().copied());
    for space in spaces {
        found.peers_asked |= add_peers(space, own, &mut found.sockets).is_ok();
    }
    found
}

/// An open file of a process.
struct File {
    target: PathBuf,
    info: PathBuf,
}

impl File {
    fn holds(&self, device: &str) -> bool {
        let is_tun = self.target.ends_with("net/tun");
        let name = |text: String| {
            let line = text.lines().find_map(|line| line.strip_prefix("iff:"));
            line.map(|name| name.trim().to_owned())
        };
        is_tun
            && std::fs::read_to_string(&self.info)
                .ok()
                .and_then(name)
                .as_deref()
                == Some(device)
    }
}

fn descriptors(roots: &Roots, pid: u32) -> Vec<File> {
    let entries = std::fs::read_dir(roots.of(pid, "fd"));
    let entries = entries.into_iter().flatten().flatten().take(DESCRIPTORS);
    entries
        .filter_map(|entry| {
            Some(File {
                target: std::fs::read_link(entry.path()).ok()?,
                info: roots.of(pid, "fdinfo").join(entry.file_name()),
            })
        })
        .collect()
}

/// The inode of `socket:[4711]`.
fn socket_inode(target: &str) -> Option<u64> {
    let number = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// The sockets of a process that may carry packets to others: not those that listen, nor those to this machine.
fn carriers(roots: &Roots, pid: u32, files: &[File]) -> Vec<Carrier> {
    let inodes: BTreeSet<u64> = files
        .iter()
        .filter_map(|file| socket_inode(file.target.to_str()?))
        .collect();
    let mut found = Vec::new();
    for (table, proto) in [
        ("udp", Proto::UDP),
        ("udp6", Proto::UDP),
        ("tcp", Proto::TCP),
        ("tcp6", Proto::TCP),
    ] {
        let text = std::fs::read_to_string(roots.of(pid, &format!("net/{table}")));
        let text = text.unwrap_or_default();
        let rows = text.lines().skip(1).take(SOCKETS).filter_map(row);
        let own = rows.filter(|row| inodes.contains(&row.inode));
        found.extend(own.filter_map(|row| row.carrier(proto)));
    }
    found
}

/// A line of a table of sockets.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    state: u32,
    inode: u64,
}

impl Row {
    fn carrier(&self, proto: Proto) -> Option<Carrier> {
        let connected = self.state == ESTABLISHED;
        let bound = proto == Proto::UDP && self.state == BOUND && self.local.port() != 0;
        if !(connected || bound) || self.remote.ip().is_loopback() || self.local.ip().is_loopback()
        {
            return None;
        }
        let peer = Tuple {
            src: self.remote.ip(),
            sport: self.remote.port(),
            dst: self.local.ip(),
            dport: self.local.port(),
            proto,
        };
        Some(Carrier {
            proto,
            local: self.local,
            connected,
            peers: if connected { vec![peer] } else { Vec::new() },
        })
    }
}

fn row(line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    Some(Row {
        local: address(words.get(1)?)?,
        remote: address(words.get(2)?)?,
        state: u32::from_str_radix(words.get(3)?, 16).ok()?,
        inode: words.get(9)?.parse().ok()?,
    })
}

/// `0100007F:04AA`: words as they lie in memory, in hex; an IPv4 address in IPv6's table is IPv4.
fn address(text: &str) -> Option<SocketAddr> {
    let (addr, port) = text.split_once(':')?;
    let word = |at: usize| {
        let hex = addr.get(8 * at..8 * at + 8)?;
        Some(u32::from_str_radix(hex, 16).ok()?.to_ne_bytes())
    };
    let ip = match addr.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Adds the peers that a namespace's conntrack knows of sockets that are not connected.
fn add_peers(netns: &Netns, own: &[IpAddr], sockets: &mut [Carrier]) -> Result<(), SystemError> {
    for socket in sockets.iter_mut().filter(|socket| !socket.connected) {
        let port = socket.local.port();
        let locals = match socket.local.ip() {
            ip if ip.is_unspecified() => own.to_vec(),
            ip => vec![ip],
        };
        for local in locals {
            let end = SocketAddr::new(local, port);
            for peer in peers(netns, socket.proto, end)? {
                if !socket.peers.contains(&peer) {
                    socket.peers.push(peer);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernels_table_is_read() {
        let line = "  512: 00000000:04AA 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 48213 2 0 0";
        let row = row(line).unwrap();
        assert_eq!(row.local, "0.0.0.0:1194".parse().unwrap());
        assert_eq!((row.state, row.inode), (BOUND, 48213));
        let carrier = row.carrier(Proto::UDP).unwrap();
        assert!(!carrier.connected && carrier.peers.is_empty());
        assert_eq!(row.carrier(Proto::TCP), None);
    }

    #[test]
    fn addresses_are_words_in_hex() {
        let v4 = address("0100000A:0050").unwrap();
        assert_eq!(v4, "10.0.0.1:80".parse().unwrap());
        let mapped = address("0000000000000000FFFF00000100000A:0050").unwrap();
        assert_eq!(mapped, v4);
        let v6 = address("000012FD000000000000000004000000:01BB").unwrap();
        assert_eq!(v6, "[fd12::4]:443".parse().unwrap());
        for wrong in ["", ":", "0100000A", "zz:1", "0100000A0:1", "é:1"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
