//! Cases of kube-proxy's Service chains, in iptables and in nftables form.

use super::masq::NODE_PORT;
use super::story::{FROM_OUTSIDE, FROM_POD, Rules, Story, Truth, two_pods};

const CLIENT: Truth = Truth::Seen("192.168.50.20");
const GATEWAY: Truth = Truth::Seen("10.77.1.1");

/// A Service with a NodePort; `KUBE-EXT-A` marks what comes from outside, as policy Cluster has it.
const CLUSTER: Rules = Rules::Nat(
    ":KUBE-MARK-MASQ - [0:0]\n:KUBE-EXT-A - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-NODEPORTS - [0:0]\n\
     -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
     -A PREROUTING -m comment --comment \"kubernetes service nodeports\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n\
     -A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/cart\" -m tcp --dport 30080 -j KUBE-EXT-A\n\
     -A KUBE-EXT-A -m comment --comment \"masquerade traffic for shop/cart external destinations\" -j KUBE-MARK-MASQ\n\
     -A KUBE-EXT-A -p tcp -m comment --comment \"shop/cart\" -j DNAT --to-destination 10.77.1.10:8080\n\
     -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
     -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
     -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
     -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE",
);

/// The same with policy Local: nothing marks.
const LOCAL: Rules = Rules::Nat(
    ":KUBE-EXT-A - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-NODEPORTS - [0:0]\n\
     -A PREROUTING -m comment --comment \"kubernetes service nodeports\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n\
     -A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/cart\" -m tcp --dport 30080 -j KUBE-EXT-A\n\
     -A KUBE-EXT-A -p tcp -m comment --comment \"shop/cart\" -j DNAT --to-destination 10.77.1.10:8080\n\
     -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
     -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
     -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
     -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE",
);

/// A Service address with one backend, which the pod calls itself.
const HAIRPIN: &str = ":KUBE-SVC-A - [0:0]\n:KUBE-SEP-A - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
     -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
     -A PREROUTING -d 10.96.0.50/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
     -A KUBE-SVC-A -j KUBE-SEP-A\n\
     -A KUBE-SEP-A -s 10.77.1.10/32 -j KUBE-MARK-MASQ\n\
     -A KUBE-SEP-A -p tcp -j DNAT --to-destination 10.77.1.10:8080\n\
     -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
     -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
     -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
     -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE";

/// kube-proxy's nftables form of the Service: the map sends to a chain that marks, and `masquerading` does it.
const NFTABLES: &str = "table ip kube-proxy {
  map service-nodeports {
    type inet_proto . inet_service : verdict
    elements = { tcp . 30080 : goto external-AAAAAAAA-shop/cart/tcp/http }
  }
  set nodeport-ips {
    type ipv4_addr
    elements = { 192.168.50.10 }
  }
  chain nat-prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }
  chain nat-postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    jump masquerading
  }
  chain services {
    ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
  }
  chain masquerading {
    meta mark & 0x00004000 == 0x00000000 return
    meta mark set meta mark ^ 0x00004000
    masquerade
  }
  chain mark-for-masquerade {
    meta mark set meta mark | 0x00004000
  }
  chain external-AAAAAAAA-shop/cart/tcp/http {
    jump mark-for-masquerade
    goto service-AAAAAAAA-shop/cart/tcp/http
  }
  chain service-AAAAAAAA-shop/cart/tcp/http {
    goto endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080
  }
  chain endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 {
    meta l4proto tcp dnat to 10.77.1.10:8080
  }
}
";

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "field_c22_policy_cluster",
        rules: &[CLUSTER],
        truth: GATEWAY,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at service, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-EXT-A 2
             request src 192.168.50.20:43210 > 10.77.1.1:43210 at service, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-POSTROUTING 3, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c22_policy_local",
        rules: &[LOCAL],
        truth: CLIENT,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at service, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-EXT-A 1
             source-preserved, on the wire 192.168.50.20, completed",
        ],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c23_masquerade_all",
        ground: two_pods,
        rules: &[Rules::Nat(
            ":KUBE-SVC-A - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
             -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
             -A PREROUTING -d 10.96.0.44/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
             -A KUBE-SVC-A -d 10.96.0.44/32 -p tcp -m comment --comment \"shop/cart cluster IP\" -j KUBE-MARK-MASQ\n\
             -A KUBE-SVC-A -p tcp -j DNAT --to-destination 10.77.2.11:8080\n\
             -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
             -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
             -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE",
        )],
        server: ("pod2", "10.77.2.11:8080"),
        client: ("pod", "10.96.0.44:80"),
        args: &["10.96.0.44:80"],
        truth: Truth::Seen("10.77.2.1"),
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.44:80 from pod pod
             request dst 10.96.0.44:80 > 10.77.2.11:8080 at service, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-SVC-A 2
             request src 10.77.1.10:43210 > 10.77.2.1:43210 at service, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-POSTROUTING 2, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
             source-rewritten, on the wire 10.77.2.1, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c26_hairpin_masqueraded",
        rules: &[Rules::Nat(HAIRPIN)],
        server: ("pod", "10.77.1.10:8080"),
        client: ("pod", "10.96.0.50:80"),
        args: &["10.96.0.50:80"],
        truth: GATEWAY,
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
             request dst 10.96.0.50:80 > 10.77.1.10:8080 at service, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-SEP-A 2
             request src 10.77.1.10:43210 > 10.77.1.1:43210 at service, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-POSTROUTING 3, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c26_hairpin_not_masqueraded",
        rules: &[
            Rules::Nat(HAIRPIN),
            Rules::Run("node", "iptables-legacy -w 10 -t nat -D KUBE-SEP-A 1"),
        ],
        server: ("pod", "10.77.1.10:8080"),
        client: ("pod", "10.96.0.50:80"),
        args: &["10.96.0.50:80"],
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
             request dst 10.96.0.50:80 > 10.77.1.10:8080 at service, prerouting, netfilter, by conntrack
             rule iptables-legacy nat/KUBE-SEP-A 1
             dropped: IP_LOCAL_SOURCE
             source-preserved, on the wire 10.77.1.10, dropped",
        ],
        findings: &[(0, "hairpin-unmasked")],
        ..FROM_POD
    },
    Story {
        name: "field_c30_nftables_mode",
        rules: &[Rules::Nft(NFTABLES)],
        truth: GATEWAY,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at service, prerouting, netfilter, by conntrack, and back
             rule nft kube-proxy/endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 handle 21
             request src 192.168.50.20:43210 > 10.77.1.1:43210 at service, postrouting, netfilter, by conntrack, and back
             rule nft kube-proxy/masquerading handle 16, marked by nft kube-proxy/mark-for-masquerade handle 17
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c31_half_random",
        rules: &[Rules::Nat(
            "-A POSTROUTING -m statistic --mode nth --every 2 --packet 1 -j RETURN\n-A POSTROUTING -j MASQUERADE",
        )],
        truth: Truth::Seen("192.168.50.10"),
        claims: &[
            "tcp 10.77.1.10:43210 > 192.168.50.20:8080 from pod pod
             request src 10.77.1.10:43210 > 192.168.50.10:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 2
             unowned-rule: iptables-legacy nat/POSTROUTING 2
             source-rewritten, on the wire 192.168.50.10, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c32_load_balancer_short_circuited",
        rules: &[Rules::Nat(
            ":KUBE-EXT-A - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
             -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
             -A PREROUTING -d 203.0.113.5/32 -p tcp -m tcp --dport 80 -j KUBE-EXT-A\n\
             -A KUBE-EXT-A -m comment --comment \"masquerade traffic for shop/cart external destinations\" -j KUBE-MARK-MASQ\n\
             -A KUBE-EXT-A -p tcp -j DNAT --to-destination 10.77.1.10:8080\n\
             -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
             -A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE",
        )],
        server: ("pod", "10.77.1.10:8080"),
        client: ("pod", "203.0.113.5:80"),
        args: &["203.0.113.5"],
        truth: GATEWAY,
        claims: &[
            "tcp 10.77.1.10:43210 > 203.0.113.5:80 from pod pod
             request dst 203.0.113.5:80 > 10.77.1.10:8080 at service, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-EXT-A 2
             request src 10.77.1.10:43210 > 10.77.1.1:43210 at service, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-POSTROUTING 1, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_POD
    },
    Story {
        name: "field_c33_two_namespaces_masquerade",
        ground: |net| {
            net.forward("pod")
                .veth(("client", "c0"), ("pod", "tun0"))
                .addr("client", "c0", "10.13.0.2/24")
                .addr("pod", "tun0", "10.13.0.1/24")
                .route("client", "default via 10.13.0.1");
        },
        rules: &[
            Rules::NatIn("pod", "-A POSTROUTING -o p+ -j MASQUERADE"),
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
    Story {
        name: "field_client_keeps_its_address",
        rules: &[NODE_PORT],
        truth: CLIENT,
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at node, prerouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/PREROUTING 1
             source-preserved, on the wire 192.168.50.20, completed",
        ],
        ..FROM_OUTSIDE
    },
];
