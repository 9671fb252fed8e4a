//! Cases of kube-proxy's IPVS mode: IPVS translates the destination, rules with sets mark for masquerading.

use super::story::{FROM_OUTSIDE, FROM_POD, Rules, Story, Truth, VIRTUAL, two_pods};
use crate::lab::Topology;

/// What kube-proxy keeps beside IPVS: which set marks is the case's own.
macro_rules! rules {
    ($marks:literal) => {
        Rules::Nat(concat!(
            ":KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
             -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
             -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n",
            $marks,
            "\n-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
             -A KUBE-POSTROUTING -m comment --comment \"Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose\" -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE\n\
             -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
             -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
             -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE"
        ))
    };
}

const SETS: &str = "create KUBE-LOOP-BACK hash:ip,port,ip\ncreate KUBE-CLUSTER-IP hash:ip,port\n\
    create KUBE-EXTERNAL-IP hash:ip,port\ncreate KUBE-NODE-PORT-TCP bitmap:port range 0-65535\n";
const CONNTRACK: Rules = Rules::Sysctl("node", "ipv4/vs/conntrack", "1");
/// With `--masquerade-all`: every request to a Service address is marked.
const MASQUERADE_ALL: Rules = rules!(
    "-A KUBE-SERVICES -m comment --comment \"Kubernetes service cluster ip + port for masquerade purpose\" -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ"
);

const IPVS: Story = Story {
    ground,
    server: ("pod2", "10.77.2.11:8080"),
    client: ("pod", "10.96.0.50:80"),
    args: &["10.96.0.50:80"],
    needs: NEEDS,
    kernels: VIRTUAL,
    ..FROM_POD
};
const NEEDS: &[&str] = &["ip_vs", "ip_vs_rr", "dummy"];

const SERVICE: Rules = Rules::Run("node", "ipvsadm -A -t 10.96.0.50:80 -s rr");
const BACKEND: Rules = Rules::Run("node", "ipvsadm -a -t 10.96.0.50:80 -r 10.77.2.11:8080 -m");

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "field_c23_ipvs_masquerade_all",
        rules: &[
            CONNTRACK,
            SERVICE,
            BACKEND,
            Rules::Ipset(SETS),
            Rules::Run("node", "ipset add KUBE-CLUSTER-IP 10.96.0.50,tcp:80"),
            MASQUERADE_ALL,
        ],
        truth: Truth::Seen("10.77.2.1"),
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
             request dst 10.96.0.50:80 > 10.77.2.11:8080 at node, input, ipvs, by conntrack, and back
             request src 10.77.1.10:43210 > 10.77.2.1:43210 at service, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-POSTROUTING 4, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
             source-rewritten, on the wire 10.77.2.1, completed",
        ],
        ..IPVS
    },
    Story {
        name: "field_c22_ipvs_external_ip",
        rules: &[
            CONNTRACK,
            Rules::Run("node", "ipvsadm -A -t 192.168.50.10:30080 -s rr"),
            Rules::Run(
                "node",
                "ipvsadm -a -t 192.168.50.10:30080 -r 10.77.1.10:8080 -m",
            ),
            Rules::Ipset(SETS),
            Rules::Run("node", "ipset add KUBE-EXTERNAL-IP 192.168.50.10,tcp:30080"),
            rules!(
                "-A KUBE-SERVICES -m comment --comment \"Kubernetes service external ip + port for masquerade and filter purpose\" -m set --match-set KUBE-EXTERNAL-IP dst,dst -j KUBE-MARK-MASQ"
            ),
        ],
        kernels: VIRTUAL,
        needs: NEEDS,
        truth: Truth::Seen("10.77.1.1"),
        claims: &[
            "tcp 192.168.50.20:43210 > 192.168.50.10:30080 from external null
             request dst 192.168.50.10:30080 > 10.77.1.10:8080 at node, input, ipvs, by conntrack, and back
             request src 192.168.50.20:43210 > 10.77.1.1:43210 at service, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/KUBE-POSTROUTING 4, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
             source-rewritten, on the wire 10.77.1.1, completed",
        ],
        ..FROM_OUTSIDE
    },
    Story {
        name: "field_c26_ipvs_without_loop_back_entry",
        rules: &[
            CONNTRACK,
            SERVICE,
            Rules::Run("node", "ipvsadm -a -t 10.96.0.50:80 -r 10.77.1.10:8080 -m"),
            Rules::Ipset(SETS),
            MASQUERADE_ALL,
        ],
        server: ("pod", "10.77.1.10:8080"),
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
             request dst 10.96.0.50:80 > 10.77.1.10:8080 at node, input, ipvs, by conntrack
             dropped: IP_LOCAL_SOURCE
             source-preserved, on the wire 10.77.1.10, dropped",
        ],
        findings: &[(0, "hairpin-unmasked")],
        ..IPVS
    },
    Story {
        name: "field_ipvs_without_conntrack",
        rules: &[
            Rules::Sysctl("node", "ipv4/vs/conntrack", "0"),
            SERVICE,
            BACKEND,
            Rules::Ipset(SETS),
            Rules::Run("node", "ipset add KUBE-CLUSTER-IP 10.96.0.50,tcp:80"),
            MASQUERADE_ALL,
        ],
        truth: Truth::Seen("10.77.1.10"),
        claims: &[
            "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
             request dst 10.96.0.50:80 > 10.77.2.11:8080 at node, null, unknown, by between, and back
             source-preserved, on the wire 10.77.1.10, completed",
        ],
        ..IPVS
    },
];

/// Service addresses are the node's own, on a device of their own.
fn ground(net: &mut Topology) {
    two_pods(net);
    net.ip("node", "link add kube-ipvs0 type dummy")
        .ip("node", "addr add 10.96.0.50/32 dev kube-ipvs0");
}
