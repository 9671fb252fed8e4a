//! Cases of what a CNI, or somebody by hand, translates and does not: pools, families, devices, backends.

use super::masq::{NODE, POD};
use super::story::{FROM_POD, Rules, Story, Truth};

/// A pool that is masqueraded, as far as IPv4 goes.
const FOUR_ONLY: &str = "-A POSTROUTING -s 10.77.0.0/16 ! -d 10.77.0.0/16 -o eth0 -j MASQUERADE";

/// The pod asks by IPv6, and nobody outside knows a way to its address.
const FROM_POD_BY_6: Story = Story {
    route_back: false,
    server: ("peer", "[fd50::20]:8080"),
    client: ("pod", "[fd50::20]:8080"),
    args: &["[fd50::20]:8080"],
    claims: &["tcp [fd77:1::10]:43210 > [fd50::20]:8080 from pod pod
         source-preserved, on the wire fd77:1::10, no-reply"],
    ..FROM_POD
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "field_c21_pool_is_not_the_source",
        ground: |net| {
            net.forward("pod")
                .veth(("inner", "i0"), ("pod", "br9"))
                .addr("inner", "i0", "10.99.0.2/24")
                .addr("pod", "br9", "10.99.0.1/24")
                .route("inner", "default via 10.99.0.1")
                .route("node", "10.99.0.0/24 via 10.77.1.10")
                .route("peer", "10.99.0.0/24 via 192.168.50.10");
        },
        rules: &[Rules::Nat("-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE")],
        client: ("inner", "192.168.50.20:8080"),
        truth: Truth::Seen("10.99.0.2"),
        claims: &[
            "tcp 10.99.0.2:43210 > 192.168.50.20:8080 from external inner
             source-preserved, on the wire 10.99.0.2, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c34_destination_in_another_pool",
        rules: &[
            Rules::Ipset(
                "create pools-masq hash:net\nadd pools-masq 10.77.0.0/16\ncreate pools-all hash:net\nadd pools-all 10.77.0.0/16\nadd pools-all 192.168.50.0/24\n",
            ),
            Rules::Nat(
                ":cali-nat-outgoing - [0:0]\n-A POSTROUTING -m comment --comment \"cali:O3lYWMrLQYEMJtB5\" -j cali-nat-outgoing\n\
                 -A cali-nat-outgoing -m comment --comment \"cali:AbCdEfGhIjKlMnOp\" -m set --match-set pools-masq src -m set ! --match-set pools-all dst -j MASQUERADE",
            ),
        ],
        truth: POD,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             exempt-by-set: iptables-legacy nat/cali-nat-outgoing 1
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c35_v6_is_not_masqueraded",
        ground: six,
        rules: &[Rules::Nat(FOUR_ONLY)],
        ..FROM_POD_BY_6
    },
    Story {
        name: "field_c35_v6_masqueraded_too",
        ground: six,
        rules: &[
            Rules::Nat(FOUR_ONLY),
            Rules::Run(
                "node",
                "ip6tables-legacy -w 10 -t nat -A POSTROUTING -s fd77:1::/64 ! -d ff00::/8 -o eth0 -j MASQUERADE",
            ),
        ],
        truth: Truth::Seen("fd50::10"),
        claims: &[
            "tcp [fd77:1::10]:43210 > [fd50::20]:8080 from pod pod
             request src [fd77:1::10]:43210 > [fd50::10]:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire fd50::10, completed",
        ],
        ..FROM_POD_BY_6
    },
    Story {
        name: "field_c38_outside_the_listed_ranges",
        rules: &[Rules::Nat(
            ":AWS-SNAT-CHAIN-0 - [0:0]\n-A POSTROUTING -m comment --comment \"AWS SNAT CHAIN\" -j AWS-SNAT-CHAIN-0\n\
             -A AWS-SNAT-CHAIN-0 -d 10.50.0.0/16 -m comment --comment \"AWS SNAT CHAIN\" -j RETURN\n\
             -A AWS-SNAT-CHAIN-0 ! -o vlan+ -m comment --comment \"AWS, SNAT\" -m addrtype ! --dst-type LOCAL -j SNAT --to-source 192.168.50.10",
        )],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/AWS-SNAT-CHAIN-0 2
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c56_notrack",
        rules: &[Rules::Legacy(
            "*raw\n-A PREROUTING -s 10.77.1.10 -j CT --notrack\nCOMMIT\n*nat\n-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE\nCOMMIT\n",
        )],
        truth: POD,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             exempt-by-rule: iptables-legacy raw/PREROUTING 1
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c57_address_that_is_not_there",
        rules: &[Rules::Nat(
            "-A POSTROUTING -s 10.77.0.0/16 -j SNAT --to-source 192.168.50.200",
        )],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.200:43210 at node, postrouting, netfilter, by conntrack
             rule iptables-legacy nat/POSTROUTING 1
             stale-nat-address: iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 192.168.50.200, no-reply",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c58_other_out_device",
        rules: &[Rules::Nat("-A POSTROUTING -o ens5 -j MASQUERADE")],
        truth: POD,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c58_wildcard_out_device",
        rules: &[Rules::Nat("-A POSTROUTING -o eth+ -j MASQUERADE")],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c60_two_backends",
        rules: &[
            Rules::Nat("-A POSTROUTING -d 192.168.50.0/24 -j ACCEPT"),
            Rules::IptablesNft("*nat\n-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE\nCOMMIT\n"),
        ],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-nft nat/POSTROUTING 1
             unowned-rule: iptables-nft nat/POSTROUTING 1
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c62_local_source_masqueraded",
        rules: &[Rules::Nat(
            "-A POSTROUTING -o eth0 -m addrtype --src-type LOCAL -j MASQUERADE",
        )],
        client: ("node", "192.168.50.20:8080"),
        truth: NODE,
        claims: &[
            "tcp 192.168.50.10:43210 > 192.168.50.20:8080 from node node
             source-preserved, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c62_loopback_masqueraded",
        rules: &[
            Rules::Sysctl("node", "ipv4/conf/veth-pod/route_localnet", "1"),
            Rules::Nat(
                "-A OUTPUT -d 127.0.0.1/32 -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.77.1.10:8080\n\
                 -A POSTROUTING -o veth-pod -m addrtype --src-type LOCAL -j MASQUERADE",
            ),
        ],
        server: ("pod", "10.77.1.10:8080"),
        client: ("node", "127.0.0.1:30080"),
        args: &["10.77.1.10"],
        truth: Truth::Seen("10.77.1.1"),
        claims: &[
            "tcp 127.0.0.1:43210 > 127.0.0.1:30080 from node node
             request dst 127.0.0.1:30080 > 10.77.1.10:8080 at node, output, netfilter, by conntrack, and back
             rule iptables-legacy nat/OUTPUT 1
             request src 127.0.0.1:43210 > 10.77.1.1:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c65_rules_flushed_meanwhile",
        rules: &[
            // Somebody else needs conntrack, as on every node: with the last rule that does, its hooks go, and every binding.
            Rules::Legacy(
                "*filter\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n",
            ),
            Rules::Nat("-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE"),
        ],
        later: &[Rules::Run("node", "iptables-legacy -w 10 -t nat -F")],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        findings: &[(0, "mapping-predates-trace"), (0, "no-rule-explains")],
        ..FROM_POD
    },
    Story {
        name: "field_c66_link_local_exempt",
        ground: |net| {
            net.addr("peer", "lo", "169.254.169.254/32")
                .route("node", "169.254.169.254 via 192.168.50.20");
        },
        rules: &[Rules::Nat(
            ":IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -d 169.254.0.0/16 -m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\" -j RETURN\n\
             -A IP-MASQ-AGENT -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE\n\
             -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT",
        )],
        server: ("peer", "169.254.169.254:80"),
        client: ("pod", "169.254.169.254:80"),
        args: &["169.254.169.254"],
        truth: POD,
        claims: &[
            "tcp 10.77.1.10:43210 > 169.254.169.254:80 from pod pod
             exempt-by-rule: iptables-legacy nat/IP-MASQ-AGENT 1
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..FROM_POD
    },
];

/// The same ground with IPv6 addresses.
fn six(net: &mut crate::lab::Topology) {
    net.addr("pod", "p0", "fd77:1::10/64")
        .addr("node", "veth-pod", "fd77:1::1/64")
        .route("pod", "default via fd77:1::1")
        .addr("node", "eth0", "fd50::10/64")
        .addr("peer", "e0", "fd50::20/64");
}
