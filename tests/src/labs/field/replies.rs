//! Cases in which a packet or its reply vanishes, or leaves as nobody meant it to.

use super::story::{FROM_OUTSIDE, FROM_POD, Rules, Story, Truth, two_nics};

/// Strict reverse path filtering everywhere on the node.
const STRICT: Rules = Rules::Sysctl("node", "ipv4/conf/all/rp_filter", "1");
/// The pod's address belongs to the second network: it leaves by eth1.
const SOURCE_ROUTED: &[Rules] = &[
    Rules::Run(
        "node",
        "ip route add default via 192.168.60.20 dev eth1 table 42",
    ),
    Rules::Run(
        "node",
        "ip rule add from 10.77.1.10 lookup 42 priority 1536",
    ),
    Rules::Nat(
        "-A PREROUTING -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.77.1.10:8080",
    ),
    STRICT,
];

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "field_c42_reply_by_another_interface",
        ground: |net| {
            two_nics(net);
            // The node would not even answer the question for its second address, were it asked.
            net.ip("node", "link set eth1 address 02:00:00:00:00:05").ip(
                "peer",
                "neigh add 192.168.60.10 lladdr 02:00:00:00:00:05 dev e1 nud permanent",
            );
        },
        rules: &[
            Rules::Nat("-A POSTROUTING -o eth0 -j SNAT --to-source 192.168.60.10"),
            STRICT,
        ],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.60.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             dropped: IP_RPFILTER
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 192.168.60.10, reply-lost",
        ],
        findings: &[(0, "rp-filter")],
        ..FROM_POD
    },
    Story {
        name: "field_c43_node_port_of_a_pod_on_another_interface",
        ground: two_nics,
        rules: SOURCE_ROUTED,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             dropped: IP_RPFILTER
             source-unknown, on the wire null, dropped",
        ],
        findings: &[(0, "rp-filter")],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c45_forwarding_off",
        rules: &[Rules::Sysctl("node", "ipv4/ip_forward", "0")],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             dropped: IP_INADDRERRORS
             source-unknown, on the wire null, dropped",
        ],
        findings: &[(0, "forwarding-disabled")],
        ..FROM_POD
    },
    Story {
        name: "field_c45_forwarding_off_on_the_device",
        rules: &[Rules::Sysctl("node", "ipv4/conf/veth-pod/forwarding", "0")],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             dropped: IP_INADDRERRORS
             source-unknown, on the wire null, dropped",
        ],
        findings: &[(0, "forwarding-disabled")],
        ..FROM_POD
    },
    Story {
        name: "field_c46_forward_policy",
        rules: &[Rules::Legacy("*filter\n:FORWARD DROP [0:0]\nCOMMIT\n")],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             dropped: NETFILTER_DROP
             policy-drop: iptables-legacy filter/FORWARD policy
             source-unknown, on the wire null, dropped",
        ],
        findings: &[(0, "policy-drop")],
        ..FROM_POD
    },
    Story {
        name: "field_c46_reply_dropped_by_policy",
        rules: &[Rules::Legacy(
            "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i veth-pod -j ACCEPT\nCOMMIT\n",
        )],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             dropped: NETFILTER_DROP
             policy-drop: iptables-legacy filter/FORWARD policy
             source-preserved, on the wire 10.77.1.10, reply-lost",
        ],
        findings: &[(0, "policy-drop")],
        ..FROM_POD
    },
    Story {
        name: "field_c40_stateless_rewrite",
        rules: &[
            Rules::Run("node", "ip addr add 192.168.50.77/32 dev eth0"),
            Rules::Nft(
                "table ip raw-rewrite {\n chain post {\n type filter hook postrouting priority 0; policy accept;\n ip saddr 10.77.1.10 ip saddr set 192.168.50.77\n }\n}\n",
            ),
        ],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.77:43210 at node, postrouting, stateless, by between
             rule nft raw-rewrite/post handle 2
             dropped: NO_SOCKET
             unowned-rule: nft raw-rewrite/post handle 2
             source-rewritten, on the wire 192.168.50.77, reply-lost",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c59_gateway_does_not_forward",
        ground: |net| vpn(net, "0"),
        client: ("client", "192.168.50.20:8080"),
        claims: &[
            "tcp 10.13.0.2:43210 > 192.168.50.20:8080 from external client
             dropped: IP_INADDRERRORS
             source-unknown, on the wire null, dropped",
        ],
        findings: &[(0, "forwarding-disabled")],
        ..FROM_POD
    },
    Story {
        name: "field_c59_pool_is_not_masqueraded",
        ground: |net| vpn(net, "1"),
        rules: &[Rules::Nat("-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE")],
        client: ("client", "192.168.50.20:8080"),
        claims: &[
            "tcp 10.13.0.2:43210 > 192.168.50.20:8080 from external client
             source-preserved, on the wire 10.13.0.2, no-reply",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c59_masqueraded_twice",
        ground: |net| vpn(net, "1"),
        rules: &[
            Rules::NatIn("pod", "-A POSTROUTING -s 10.13.0.0/24 -o p+ -j MASQUERADE"),
            Rules::Nat("-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE"),
        ],
        client: ("client", "192.168.50.20:8080"),
        truth: Truth::Seen("192.168.50.10"),
        claims: &[
            "tcp 10.13.0.2:43210 > 192.168.50.20:8080 from external client
             request src 10.13.0.2:43210 > 10.77.1.10:43210 at gateway, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
];

/// The pod is a VPN server with one client, 10.13.0.2.
fn vpn(net: &mut crate::lab::Topology, forward: &str) {
    net.sysctl("pod", "ipv4/ip_forward", forward)
        .veth(("client", "c0"), ("pod", "tun0"))
        .addr("client", "c0", "10.13.0.2/24")
        .addr("pod", "tun0", "10.13.0.1/24")
        .route("client", "default via 10.13.0.1")
        .route("node", "10.13.0.0/24 via 10.77.1.10");
}
