//! Cases of ip-masq-agent and its clones, and of other owners of MASQUERADE rules on a node.

use super::story::{FROM_OUTSIDE, FROM_POD, Rules, Story, Truth};

pub(super) const NODE: Truth = Truth::Seen("192.168.50.10");
pub(super) const POD: Truth = Truth::Seen("10.77.1.10");
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
];
