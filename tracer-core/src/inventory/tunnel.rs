//! A tunnel that a process speaks: packets that leave by its device go into the process, and those that the
//! process writes come in there. What carries them is another flow, of the process's sockets.

use crate::event::Dir;
use crate::packet::{Proto, Tuple};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Who has a tun device open, and what may carry its packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Processes of the device's namespace that have it open.
    pub processes: Vec<Holder>,
    /// Their sockets that may carry packets: connected ones, and bound ones for datagrams.
    pub sockets: Vec<Carrier>,
    /// Whether any conntrack could be asked for the peers of sockets that are not connected.
    pub peers_asked: bool,
}

/// A process that has a tun device open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub comm: String,
}

/// A socket that may carry a tunnel's packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carrier {
    /// UDP or TCP.
    pub proto: Proto,
    /// Its own end; an unspecified address where it is bound to none.
    pub local: SocketAddr,
    /// Whether the socket itself names its peer.
    pub connected: bool,
    /// The packets that it gets, one tuple a peer: the socket's own, or those that conntrack knows.
    pub peers: Vec<Tuple>,
}

/// How the packets that carry a tunnel's are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The process has one socket for it, which is connected.
    Socket,
    /// The process has one socket for it, and conntrack knows one peer of that.
    OnlyPeer,
}

impl Proof {
    /// The word in a report's data.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::OnlyPeer => "only-peer",
        }
    }
}

impl Tunnel {
    /// What carries the packets that go through the device in this direction.
    ///
    /// # Errors
    /// Why that is not proven, in words.
    pub fn outer(&self, dir: Dir) -> Result<(Tuple, Proof), String> {
        match self.processes.len() {
            0 => return Err("no process of its namespace was found that has it open".to_owned()),
            1 => {}
            many => return Err(format!("{many} processes have it open")),
        }
        let mut peers = self
            .sockets
            .iter()
            .flat_map(|socket| socket.peers.iter().map(move |peer| (*peer, socket)));
        let Some((peer, socket)) = peers.next() else {
            return Err(self.no_peer().to_owned());
        };
        let others = peers.count();
        if others > 0 {
            return Err(format!("it has {} peers at that time", others + 1));
        }
        let proof = match socket.connected {
            true => Proof::Socket,
            false => Proof::OnlyPeer,
        };
        let tuple = match dir {
            Dir::Ingress => peer,
            Dir::Egress => peer.reversed(),
        };
        Ok((tuple, proof))
    }

    fn no_peer(&self) -> &'static str {
        if self.sockets.is_empty() {
            "no socket of it was found that could carry packets"
        } else if self.peers_asked {
            "its socket names no peer, and conntrack knows none"
        } else {
            "its socket names no peer, and conntrack could not be asked"
        }
    }

    /// Whether a packet to this destination is one of those that carry others.
    #[must_use]
    pub fn takes(&self, packet: Tuple) -> bool {
        self.sockets.iter().any(|socket| {
            let local = socket.local;
            let here = local.ip().is_unspecified() || local.ip() == packet.dst;
            socket.proto == packet.proto && local.port() == packet.dport && here
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u16) -> Tuple {
        Tuple {
            src: [192, 168, 90, 2].into(),
            sport: n,
            dst: [10, 12, 9, 4].into(),
            dport: 1194,
            proto: Proto::UDP,
        }
    }

    fn tunnel(connected: bool, peers: Vec<Tuple>) -> Tunnel {
        Tunnel {
            processes: vec![Holder {
                pid: 7,
                comm: "openvpn".to_owned(),
            }],
            sockets: vec![Carrier {
                proto: Proto::UDP,
                local: ([0, 0, 0, 0], 1194).into(),
                connected,
                peers,
            }],
            peers_asked: true,
        }
    }

    #[test]
    fn one_peer_is_proven_and_two_are_not() {
        let one = tunnel(false, vec![peer(1)]);
        assert_eq!(one.outer(Dir::Ingress), Ok((peer(1), Proof::OnlyPeer)));
        let connected = tunnel(true, vec![peer(1)]);
        let sent = Ok((peer(1).reversed(), Proof::Socket));
        assert_eq!(connected.outer(Dir::Egress), sent);
        let two = tunnel(false, vec![peer(1), peer(2)]);
        let why = "it has 2 peers at that time".to_owned();
        assert_eq!(two.outer(Dir::Ingress), Err(why));
        assert!(tunnel(false, Vec::new()).outer(Dir::Ingress).is_err());
        assert!(Tunnel::default().outer(Dir::Ingress).is_err());
        let mut shared = one;
        shared.processes.extend(shared.processes.clone());
        assert!(shared.outer(Dir::Ingress).is_err());
    }

    #[test]
    fn its_own_flow_is_known_by_its_socket() {
        let tunnel = tunnel(false, Vec::new());
        assert!(tunnel.takes(peer(1)));
        assert!(!tunnel.takes(peer(1).reversed()));
    }
}
