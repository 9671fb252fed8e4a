//! Cases of WireGuard in a pod, and between node and far side.
//!
//! ```text
//! peer-client 10.13.0.2 wg0 == (through pod's p0, the node and eth0) == wg0 10.13.0.1 pod
//! ```

use super::story::{FROM_POD, Rules, Story, Truth, VIRTUAL};
use crate::lab::Topology;

/// The pod's end: knows the client by its tunnel address.
const SERVER: Rules = Rules::Wireguard(
    "pod",
    "[Interface]\nPrivateKey = UDPQ+LDwENnn9ybYFwTwX/cRk7kwaul1gwiCO8lO/3w=\nListenPort = 51820\n\
     [Peer]\nPublicKey = NFw/H+wU9cbPqjUdCIaxzZkH4ddjqVe/ahNdVugmT2w=\nAllowedIPs = 10.13.0.2/32\n",
);
/// The client's end: everything goes through the tunnel, which ends at the node's port 51820.
const CLIENT: Rules = Rules::Wireguard(
    "peer-client",
    "[Interface]\nPrivateKey = qIWkf+Ehgp3QuRNqxFzu8HZMEvafCZxM2UES0SZ7FUQ=\nListenPort = 51821\n\
     [Peer]\nPublicKey = OaQzNm7uy7pgWQOl6CtkiMUZqm4FquFmNVgQTf1R+gU=\nAllowedIPs = 0.0.0.0/0\n\
     Endpoint = 192.168.50.10:51820\n",
);
/// The port that leads to the VPN pod, and the node's masquerade for its pods.
const NODE: Rules = Rules::Nat(
    "-A PREROUTING -i eth0 -p udp -m udp --dport 51820 -j DNAT --to-destination 10.77.1.10:51820\n\
     -A POSTROUTING -s 10.77.0.0/16 -o eth0 -j MASQUERADE",
);

const VPN: Story = Story {
    ground: vpn,
    client: ("peer-client", "192.168.50.20:8080"),
    needs: &["wireguard"],
    kernels: VIRTUAL,
    ..FROM_POD
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "field_c59_wireguard_masqueraded_twice",
        rules: &[
            SERVER,
            CLIENT,
            Rules::NatIn("pod", "-A POSTROUTING -s 10.13.0.0/24 -o p0 -j MASQUERADE"),
            NODE,
        ],
        truth: Truth::Seen("192.168.50.10"),
        claims: &[
            "tcp 10.13.0.2:43210 > 192.168.50.20:8080 from gateway pod
             request src 10.13.0.2:43210 > 10.77.1.10:43210 at gateway, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        findings: &[(0, "double-rewrite"), (0, "carried-inside")],
        ..VPN
    },
    Story {
        name: "field_c58_wireguard_rule_for_another_device",
        rules: &[
            SERVER,
            CLIENT,
            Rules::NatIn("pod", "-A POSTROUTING -s 10.13.0.0/24 -o ens5 -j MASQUERADE"),
            NODE,
        ],
        claims: &[
            "tcp 10.13.0.2:43210 > 192.168.50.20:8080 from gateway pod
             source-preserved, on the wire 10.13.0.2, no-reply",
        ],
        findings: &[(0, "carried-inside")],
        ..VPN
    },
    Story {
        name: "field_c59_wireguard_source_is_not_allowed",
        rules: &[
            // The pod's end takes from the client another address than it has.
            Rules::Wireguard(
                "pod",
                "[Interface]\nPrivateKey = UDPQ+LDwENnn9ybYFwTwX/cRk7kwaul1gwiCO8lO/3w=\nListenPort = 51820\n\
                 [Peer]\nPublicKey = NFw/H+wU9cbPqjUdCIaxzZkH4ddjqVe/ahNdVugmT2w=\nAllowedIPs = 10.13.0.3/32\n",
            ),
            CLIENT,
            NODE,
        ],
        // Nobody but the sender sees such a packet in the clear: what is told is the tunnel's own flow.
        args: &["--dest", "192.168.50.20", "--dest", "192.168.50.10", "--port", "51820", "--port", "8080"],
        claims: &[
            "udp 192.168.90.2:51821 > 192.168.50.10:51820 from external null
             request dst 192.168.50.10:51820 > 10.77.1.10:51820 at node, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/PREROUTING 1
             source-preserved, on the wire 192.168.90.2, completed",
        ],
        ..VPN
    },
];

/// A WireGuard server in the pod, and its client behind `peer`.
fn vpn(net: &mut Topology) {
    net.forward("pod")
        .forward("peer")
        .veth(("peer-client", "c0"), ("peer", "e9"))
        .addr("peer-client", "c0", "192.168.90.2/24")
        .addr("peer", "e9", "192.168.90.1/24")
        .route("peer-client", "192.168.50.10 via 192.168.90.1")
        .route("node", "192.168.90.0/24 via 192.168.50.20");
    wireguard(net, "pod", "10.13.0.1/24");
    wireguard(net, "peer-client", "10.13.0.2/24");
    net.route("peer-client", "192.168.50.20 dev wg0");
}

/// A WireGuard device, which has no link-local address to wait for.
fn wireguard(net: &mut Topology, ns: &str, addr: &str) {
    net.ip(ns, "link add wg0 type wireguard")
        .ip(ns, &format!("addr add {addr} dev wg0"))
        .ip(ns, "link set wg0 up");
}
