//! Cases in which the way itself matters: other devices, bridges, tunnels, small links.

use super::masq::NODE;
use super::story::{FROM_POD, Rules, Story, Truth, two_nics, two_pods};
use crate::lab::Topology;

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "field_c07_exempt_and_out_by_the_wrong_device",
        ground: |net| {
            two_nics(net);
            // Outside, the pod's address belongs to the second network, and what comes by the first is thrown away.
            net.route("peer", "10.77.0.0/16 via 192.168.60.10");
        },
        route_back: false,
        rules: &[
            Rules::Sysctl("peer", "ipv4/conf/all/rp_filter", "1"),
            Rules::Nat(
                ":IP-MASQ-AGENT - [0:0]\n-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
                 -A IP-MASQ-AGENT -d 192.168.0.0/16 -m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\" -j RETURN\n\
                 -A IP-MASQ-AGENT -j MASQUERADE",
            ),
            Rules::Run("node", "ip route add 10.50.0.0/16 via 192.168.60.20 table 42"),
            Rules::Run("node", "ip rule add from 10.77.1.10 to 10.50.0.0/16 lookup 42 priority 111"),
        ],
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             exempt-by-rule: iptables-legacy nat/IP-MASQ-AGENT 1
             source-preserved, on the wire 10.77.1.10, no-reply",
        ],
        findings: &[(0, "policy-route-missed")],
        ..FROM_POD
    },
    Story {
        name: "field_c17_bridged_traffic_masqueraded",
        ground: bridged,
        rules: &[
            Rules::Sysctl("node", "bridge/bridge-nf-call-iptables", "1"),
            Rules::Nat(
                "-A POSTROUTING ! -d 172.16.0.0/12 -m addrtype ! --dst-type LOCAL -j MASQUERADE",
            ),
        ],
        needs: &["br_netfilter"],
        server: ("pod2", "10.77.2.11:8080"),
        client: ("pod", "10.77.2.11:8080"),
        args: &["10.77.2.11:8080"],
        truth: Truth::Seen("10.77.0.1"),
        claims: &[
            "tcp 10.77.1.10:43210 > 10.77.2.11:8080 from pod pod
             request src 10.77.1.10:43210 > 10.77.0.1:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 10.77.0.1, completed",
        ],
        findings: &[(0, "bridged-through-netfilter")],
        ..FROM_POD
    },
    Story {
        name: "field_c28_mark_survives_the_tunnel",
        ground: |net| {
            tunnel(net, "node", "eth0", "192.168.50.10", "192.168.50.20");
            tunnel(net, "peer", "e0", "192.168.50.20", "192.168.50.10");
            net.addr("node", "vx0", "10.244.0.10/16")
                .addr("peer", "vx0", "10.244.0.20/16");
        },
        rules: &[Rules::Nat(
            ":KUBE-SVC-A - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
             -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
             -A PREROUTING -d 10.96.0.50/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
             -A KUBE-SVC-A -j KUBE-MARK-MASQ\n\
             -A KUBE-SVC-A -p tcp -j DNAT --to-destination 10.244.0.20:8080\n\
             -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
             -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -m mark --mark 0x4000/0x4000 -j MASQUERADE",
        )],
        needs: &["vxlan"],
        server: ("peer", "10.244.0.20:8080"),
        client: ("pod", "10.96.0.50:80"),
        args: &["10.96.0.50:80"],
        truth: Truth::Seen("10.244.0.10"),
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
             request dst 10.96.0.50:80 > 10.244.0.20:8080 at service, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-SVC-A 2
             request src 10.77.1.10:43210 > 10.244.0.10:43210 at service, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-POSTROUTING 1, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
             source-rewritten, on the wire 10.244.0.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c53_too_big_said_through_the_translation",
        ground: |net| {
            net.forward("peer")
                .veth(("peer", "e2"), ("peer-beyond", "b0"))
                .ip("peer", "link set e2 mtu 1300")
                .addr("peer", "e2", "192.168.70.1/24")
                .addr("peer-beyond", "b0", "192.168.70.20/24")
                .route("peer-beyond", "default via 192.168.70.1")
                .route("node", "192.168.70.0/24 via 192.168.50.20");
        },
        rules: &[Rules::Nat("-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE")],
        server: ("peer-beyond", "192.168.70.20:8080"),
        client: ("pod", "192.168.70.20:8080"),
        args: &["192.168.70.20:8080"],
        size: 2_800,
        truth: NODE,
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.70.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c54_bridge_bypasses_nat",
        ground: bridged,
        rules: &[
            Rules::Sysctl("node", "bridge/bridge-nf-call-iptables", "0"),
            Rules::Nat(
                "-A PREROUTING -d 10.96.0.50/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.77.2.11:8080",
            ),
        ],
        needs: &["br_netfilter"],
        server: ("pod2", "10.77.2.11:8080"),
        client: ("pod", "10.96.0.50:80"),
        args: &["10.96.0.50:80"],
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
             request dst 10.96.0.50:80 > 10.77.2.11:8080 at node, prerouting, netfilter, by conntrack
             rule iptables-legacy nat/PREROUTING 1
             dropped: NO_SOCKET
             source-preserved, on the wire 10.77.1.10, reply-lost",
        ],
        findings: &[(0, "reply-bypassed-conntrack")],
        ..FROM_POD
    },
];

/// Both pods hang on one bridge of the node, 10.77.0.1/16.
fn bridged(net: &mut Topology) {
    two_pods(net);
    net.ip("node", "link add br0 type bridge")
        .ip("node", "link set veth-pod master br0")
        .ip("node", "link set veth-pod2 master br0")
        .ip("node", "addr add 10.77.0.1/16 dev br0")
        .ip("node", "link set br0 up")
        .ip("node", "addr del 10.77.1.1/24 dev veth-pod")
        .ip("node", "addr del 10.77.2.1/24 dev veth-pod2")
        .ip("pod", "addr del 10.77.1.10/24 dev p0")
        .ip("pod", "addr add 10.77.1.10/16 dev p0")
        .ip("pod", "route add default via 10.77.0.1")
        .ip("pod2", "addr del 10.77.2.11/24 dev p0")
        .ip("pod2", "addr add 10.77.2.11/16 dev p0")
        .ip("pod2", "route add default via 10.77.0.1");
}

/// One end of a VXLAN tunnel, `vx0`.
fn tunnel(net: &mut Topology, ns: &str, dev: &str, local: &str, remote: &str) {
    net.ip(
        ns,
        &format!(
            "link add vx0 type vxlan id 7 dstport 8472 srcport 40000 40001 dev {dev} local {local} remote {remote}"
        ),
    )
    .ip(ns, "link set vx0 up");
}
