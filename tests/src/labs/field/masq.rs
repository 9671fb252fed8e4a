//! Cases of ip-masq-agent and its clones, and of other owners of MASQUERADE rules on a node.

use super::story::{FROM_OUTSIDE, FROM_POD, Rules, Story, Truth};

const NODE: Truth = Truth::Seen("192.168.50.10");
const POD: Truth = Truth::Seen("10.77.1.10");
/// The node's address toward the pod.
const GATEWAY: Truth = Truth::Seen("10.77.1.1");

/// The pod behind the node's port 30080.
pub(super) const NODE_PORT: Rules = Rules::Nat(
    "-A PREROUTING -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.77.1.10:8080",
);

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "field_c01_two_masq_chains",
        rules: &[Rules::Nat(
            ":IP-MASQ - [0:0]\n:IP-MASQ-AGENT - [0:0]\n\
             -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ\n\
             -A POSTROUTING -m comment --comment \"ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom IP-MASQ-AGENT chain\" -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
             -A IP-MASQ -d 10.0.0.0/8 -j RETURN\n\
             -A IP-MASQ -j MASQUERADE\n\
             -A IP-MASQ-AGENT -d 192.168.50.0/24 -m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\" -j RETURN\n\
             -A IP-MASQ-AGENT -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE",
        )],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 2
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c03_null_list_hides_inbound_clients",
        route_back: false,
        rules: &[
            NODE_PORT,
            Rules::Nat(
                ":IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE\n\
                 -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT",
            ),
        ],
        truth: GATEWAY,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at node, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/PREROUTING 1
             request src 192.168.50.20:43210 > 10.77.1.1:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ-AGENT 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c04_no_chain_on_this_node",
        truth: POD,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c04_chain_nobody_jumps_to",
        rules: &[Rules::Nat(
            ":IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE",
        )],
        truth: POD,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c05_a_conntrack_entry_is_no_proof",
        rules: &[Rules::Nat(
            ":IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -d 10.0.0.0/8 -j RETURN\n-A IP-MASQ-AGENT -d 192.168.50.0/24 -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE\n\
             -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT",
        )],
        truth: POD,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             exempt-by-rule: iptables-legacy nat/IP-MASQ-AGENT 2
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c06_random_port",
        rules: &[Rules::Nat(
            ":IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -p tcp -j MASQUERADE --to-ports 14034 --random-fully\n\
             -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT",
        )],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:14034 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ-AGENT 1
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c10_forgotten_glue_rule",
        rules: &[Rules::Nat(
            ":IP-MASQ-AGENT - [0:0]\n-A POSTROUTING -s 10.77.0.0/16 -m comment --comment OLD-GLUE -j MASQUERADE\n\
             -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
             -A IP-MASQ-AGENT -d 192.168.50.0/24 -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE",
        )],
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
        name: "field_c11_bare_masquerade",
        rules: &[NODE_PORT, Rules::Nat("-A POSTROUTING -j MASQUERADE")],
        truth: GATEWAY,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at node, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/PREROUTING 1
             request src 192.168.50.20:43210 > 10.77.1.1:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c13_docker_before_firewalld",
        rules: &[
            Rules::Run("node", "ip addr add 192.168.50.60/24 dev eth0"),
            Rules::Nat(
                ":POSTROUTING_direct - [0:0]\n-A POSTROUTING -s 10.77.1.0/24 ! -o veth-pod -j MASQUERADE\n-A POSTROUTING -j POSTROUTING_direct\n\
                 -A POSTROUTING_direct -s 10.77.1.0/24 -j SNAT --to-source 192.168.50.60",
            ),
        ],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             rule-shadowed: iptables-legacy nat/POSTROUTING_direct 1
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c14_flannel_into_the_pod_network",
        rules: &[Rules::Nat(
            "-A POSTROUTING ! -s 10.77.0.0/16 -d 10.77.0.0/16 -j MASQUERADE",
        )],
        server: ("pod", "10.77.1.10:8080"),
        client: ("peer", "10.77.1.10:8080"),
        args: &["10.77.1.10:8080"],
        truth: GATEWAY,
        claims: &[
            "tcp 192.168.50.20:43210 > 10.77.1.10:8080 from external null
             request src 192.168.50.20:43210 > 10.77.1.1:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c15_host_port_behind_flannel",
        rules: &[
            NODE_PORT,
            Rules::Nat(
                ":FLANNEL-POSTRTG - [0:0]\n-A POSTROUTING -m comment --comment \"flanneld masq\" -j FLANNEL-POSTRTG\n\
                 -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment \"flanneld masq\" -j RETURN\n\
                 -A FLANNEL-POSTRTG -s 10.77.1.0/24 -d 10.77.0.0/16 -m comment --comment \"flanneld masq\" -j RETURN\n\
                 -A FLANNEL-POSTRTG -s 10.77.0.0/16 -d 10.77.1.0/24 -m comment --comment \"flanneld masq\" -j RETURN\n\
                 -A FLANNEL-POSTRTG -s 10.77.0.0/16 ! -d 224.0.0.0/4 -m comment --comment \"flanneld masq\" -j MASQUERADE\n\
                 -A FLANNEL-POSTRTG ! -s 10.77.0.0/16 -d 10.77.0.0/16 -m comment --comment \"flanneld masq\" -j MASQUERADE",
            ),
        ],
        truth: GATEWAY,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at node, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/PREROUTING 1
             request src 192.168.50.20:43210 > 10.77.1.1:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/FLANNEL-POSTRTG 5
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c19_accept_elsewhere_protects_nothing",
        rules: &[Rules::Nft(
            "table ip early {\n chain post {\n type nat hook postrouting priority 90; policy accept;\n ip daddr 192.168.50.20 accept\n }\n}\n\
             table inet ovn-kubernetes {\n chain ovn-kube-pod-subnet-masq {\n ip saddr 10.77.0.0/16 masquerade\n }\n chain ovn-kube-local-gw-masq {\n type nat hook postrouting priority 110; policy accept;\n jump ovn-kube-pod-subnet-masq\n }\n}\n",
        )],
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule nft ovn-kubernetes/ovn-kube-pod-subnet-masq handle 3
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
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
];
