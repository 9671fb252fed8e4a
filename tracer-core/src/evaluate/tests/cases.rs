//! The field's cases that are about rules: rules as reports show them, and the answer.

use super::Store::Legacy;
use super::{EXT, POD, nat, outward, tcp, told};
use crate::evaluate::{Packet, Way};

/// A client outside, through the node to the pod.
fn inward(dst: &str, dport: u16) -> Packet {
    tcp(EXT, dst, dport, "eth0", "veth-pod")
}

fn forwarded(lines: &str, packet: &Packet) -> String {
    told(&[Legacy(&nat(lines))], packet, Way::Forwarded)
}

/// A case: its number, the nat table's lines, the packet, and the answer.
type Case = (&'static str, &'static str, fn() -> Packet, &'static str);

const CASES: &[Case] = &[
    (
        "C01: two agents' chains; RETURN in one does not protect from the other",
        ":IP-MASQ - [0:0]\n:IP-MASQ-AGENT - [0:0]\n\
         -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ\n\
         -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
         -A IP-MASQ -d 10.0.0.0/8 -j RETURN\n-A IP-MASQ -j MASQUERADE\n\
         -A IP-MASQ-AGENT -d 192.168.50.0/24 -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE",
        outward,
        "src 192.168.50.10 by [POSTROUTING 1, IP-MASQ 2] of iptables-legacy",
    ),
    (
        "C03: an empty list masquerades inbound clients too",
        ":IP-MASQ-AGENT - [0:0]\n\
         -A PREROUTING -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.77.1.10:8080\n\
         -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
         -A IP-MASQ-AGENT -j MASQUERADE",
        || inward("192.168.50.10", 30080),
        "dst 10.77.1.10:8080 by [PREROUTING 1] of iptables-legacy\n\
         src 10.77.1.1 by [POSTROUTING 1, IP-MASQ-AGENT 1] of iptables-legacy",
    ),
    ("C04: no agent here", "", outward, "passes\nno rule matches"),
    (
        "C04: a chain without a jump",
        ":IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -j MASQUERADE",
        outward,
        "passes\nno rule matches",
    ),
    (
        "C05: tracked and exempt",
        ":IP-MASQ-AGENT - [0:0]\n-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
         -A IP-MASQ-AGENT -d 169.254.0.0/16 -j RETURN\n\
         -A IP-MASQ-AGENT -d 192.168.50.0/24 -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE",
        outward,
        "kept from IP-MASQ-AGENT 3 by [POSTROUTING 1, IP-MASQ-AGENT 2]",
    ),
    (
        "C06: the port is chosen anew",
        "-A POSTROUTING -j MASQUERADE --random-fully",
        outward,
        "src 192.168.50.10:any by [POSTROUTING 1] of iptables-legacy",
    ),
    (
        "C10: a forgotten rule before the agent's",
        ":IP-MASQ-AGENT - [0:0]\n-A POSTROUTING -s 10.77.0.0/16 -m comment --comment OLD-GLUE -j MASQUERADE\n\
         -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
         -A IP-MASQ-AGENT -d 192.168.50.0/24 -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE",
        outward,
        "src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy",
    ),
    (
        "C11: everything is masqueraded",
        "-A PREROUTING -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.77.1.10:8080\n\
         -A POSTROUTING -j MASQUERADE",
        || inward("192.168.50.10", 30080),
        "dst 10.77.1.10:8080 by [PREROUTING 1] of iptables-legacy\n\
         src 10.77.1.1 by [POSTROUTING 1] of iptables-legacy",
    ),
    (
        "C13: docker's rule shadows a custom SNAT",
        ":POSTROUTING_direct - [0:0]\n-A POSTROUTING -s 10.77.1.0/24 ! -o veth-pod -j MASQUERADE\n\
         -A POSTROUTING -j POSTROUTING_direct\n\
         -A POSTROUTING_direct -s 10.77.1.10/32 -j SNAT --to-source 192.168.50.60",
        outward,
        "src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy\n\
         POSTROUTING 1 shadows POSTROUTING_direct 1",
    ),
    (
        "C14: flannel masquerades into the pod network",
        "-A POSTROUTING ! -s 10.77.0.0/16 -d 10.77.0.0/16 -j MASQUERADE",
        || inward(POD, 8080),
        "src 10.77.1.1 by [POSTROUTING 1] of iptables-legacy",
    ),
    (
        "C15: portmap did not mark, flannel masquerades all the same",
        ":CNI-HOSTPORT-MASQ - [0:0]\n:FLANNEL-POSTRTG - [0:0]\n\
         -A PREROUTING -p tcp -m tcp --dport 25 -j DNAT --to-destination 10.77.1.10:25\n\
         -A POSTROUTING -j CNI-HOSTPORT-MASQ\n\
         -A POSTROUTING -m comment --comment \"flanneld masq\" -j FLANNEL-POSTRTG\n\
         -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE\n\
         -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN\n\
         -A FLANNEL-POSTRTG -s 10.77.1.0/24 -d 10.77.0.0/16 -j RETURN\n\
         -A FLANNEL-POSTRTG -s 10.77.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully\n\
         -A FLANNEL-POSTRTG ! -s 10.77.0.0/16 -d 10.77.2.0/24 -j RETURN\n\
         -A FLANNEL-POSTRTG ! -s 10.77.0.0/16 -d 10.77.0.0/16 -j MASQUERADE --random-fully",
        || inward("192.168.50.10", 25),
        "dst 10.77.1.10:25 by [PREROUTING 1] of iptables-legacy\n\
         src 10.77.1.1:any by [POSTROUTING 2, FLANNEL-POSTRTG 5] of iptables-legacy\n\
         near miss CNI-HOSTPORT-MASQ 1: mark & 0x2000 is 0x2000\n\
         near miss FLANNEL-POSTRTG 3: source address is 10.77.0.0/16",
    ),
    (
        "C21: a source in no masquerade set",
        "-A POSTROUTING -s 10.77.0.0/16 -o eth0 -j MASQUERADE",
        || tcp("10.99.0.2", EXT, 8080, "veth-pod", "eth0"),
        "passes\nnear miss POSTROUTING 1: source address is 10.77.0.0/16\nno rule matches",
    ),
    (
        "C22: policy Cluster marks, and the mark masquerades",
        ":KUBE-EXT-A - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
         -A PREROUTING -p tcp -m addrtype --dst-type LOCAL -j KUBE-EXT-A\n\
         -A POSTROUTING -j KUBE-POSTROUTING\n\
         -A KUBE-EXT-A -j KUBE-MARK-MASQ\n\
         -A KUBE-EXT-A -p tcp -j DNAT --to-destination 10.77.1.10:8080\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
         -A KUBE-POSTROUTING -j MASQUERADE --random-fully",
        || inward("192.168.50.10", 30080),
        "dst 10.77.1.10:8080 by [PREROUTING 1, KUBE-EXT-A 2] of iptables-legacy\n\
         src 10.77.1.1:any by [POSTROUTING 1, KUBE-POSTROUTING 3] of iptables-legacy marked by [PREROUTING 1, KUBE-EXT-A 1, KUBE-MARK-MASQ 1]",
    ),
    (
        "C23: masquerade-all",
        ":KUBE-MARK-MASQ - [0:0]\n:KUBE-SVC-A - [0:0]\n\
         -A PREROUTING -d 10.96.0.44/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
         -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-SVC-A -d 10.96.0.44/32 -j KUBE-MARK-MASQ\n\
         -A KUBE-SVC-A -p tcp -j DNAT --to-destination 192.168.50.20:8080",
        || tcp(POD, "10.96.0.44", 80, "veth-pod", "eth0"),
        "dst 192.168.50.20:8080 by [PREROUTING 1, KUBE-SVC-A 2] of iptables-legacy\n\
         src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy marked by [PREROUTING 1, KUBE-SVC-A 1, KUBE-MARK-MASQ 1]",
    ),
    (
        "C26: hairpin without its mark",
        ":KUBE-SEP-A - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
         -A PREROUTING -d 10.96.0.50/32 -p tcp -m tcp --dport 80 -j KUBE-SEP-A\n\
         -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\n\
         -A KUBE-SEP-A -s 10.77.1.11/32 -j KUBE-MARK-MASQ\n\
         -A KUBE-SEP-A -p tcp -j DNAT --to-destination 10.77.1.10:8080\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
        || tcp(POD, "10.96.0.50", 80, "veth-pod", "veth-pod"),
        "dst 10.77.1.10:8080 by [PREROUTING 1, KUBE-SEP-A 2] of iptables-legacy\n\
         near miss POSTROUTING 1: mark & 0x4000 is 0x4000\n\
         no rule matches",
    ),
    (
        "C28: the mark that encapsulation kept",
        ":KUBE-POSTROUTING - [0:0]\n-A POSTROUTING -j KUBE-POSTROUTING\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MASQUERADE --random-fully",
        || Packet {
            mark: crate::evaluate::Bits::all(0x4000),
            ..outward()
        },
        "src 192.168.50.10:any by [POSTROUTING 1, KUBE-POSTROUTING 2] of iptables-legacy",
    ),
    (
        "C32: a load balancer's address is short-circuited",
        ":KUBE-EXT-A - [0:0]\n-A PREROUTING -d 203.0.113.5/32 -p tcp -m tcp --dport 443 -j KUBE-EXT-A\n\
         -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\n\
         -A KUBE-EXT-A -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-EXT-A -p tcp -j DNAT --to-destination 10.77.1.10:8443",
        || tcp(POD, "203.0.113.5", 443, "veth-pod", "veth-pod"),
        "dst 10.77.1.10:8443 by [PREROUTING 1, KUBE-EXT-A 2] of iptables-legacy\n\
         src 10.77.1.1 by [POSTROUTING 1] of iptables-legacy marked by [PREROUTING 1, KUBE-EXT-A 1]",
    ),
    (
        "C38: outside the VPC's list",
        ":AWS-SNAT-CHAIN-0 - [0:0]\n-A POSTROUTING -m comment --comment \"AWS SNAT CHAIN\" -j AWS-SNAT-CHAIN-0\n\
         -A AWS-SNAT-CHAIN-0 -d 10.50.0.0/16 -m comment --comment \"AWS SNAT CHAIN\" -j RETURN\n\
         -A AWS-SNAT-CHAIN-0 ! -o vlan+ -m comment --comment \"AWS, SNAT\" -m addrtype ! --dst-type LOCAL \
         -j SNAT --to-source 192.168.50.10 --random-fully",
        || tcp(POD, "172.29.0.9", 443, "veth-pod", "eth0"),
        "src 192.168.50.10:any by [POSTROUTING 1, AWS-SNAT-CHAIN-0 2] of iptables-legacy",
    ),
    (
        "C39: a list of 0.0.0.0/0 stops everything",
        ":IP-MASQ-AGENT - [0:0]\n-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
         -A IP-MASQ-AGENT -m comment --comment \"ip-masq-agent: keep\" -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE",
        outward,
        "kept from IP-MASQ-AGENT 2 by [POSTROUTING 1, IP-MASQ-AGENT 1]",
    ),
    (
        "C57: to an address that is not there",
        "-A POSTROUTING -s 10.77.0.0/16 -j SNAT --to-source 192.168.50.200",
        outward,
        "src 192.168.50.200 by [POSTROUTING 1] of iptables-legacy",
    ),
    (
        "C58: the out-device's name",
        "-A POSTROUTING -o ens5 -j MASQUERADE",
        outward,
        "passes\nnear miss POSTROUTING 1: out-device is \"ens5\"\nno rule matches",
    ),
    (
        "C62: docker's loopback rule",
        "-A POSTROUTING -o eth0 -m addrtype --src-type LOCAL -j MASQUERADE",
        outward,
        "passes\nnear miss POSTROUTING 1: source address type is local\nno rule matches",
    ),
    (
        "C66: link-local is exempt",
        ":IP-MASQ-AGENT - [0:0]\n-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
         -A IP-MASQ-AGENT -d 169.254.0.0/16 -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE",
        || tcp(POD, "169.254.169.254", 80, "veth-pod", "eth0"),
        "kept from IP-MASQ-AGENT 2 by [POSTROUTING 1, IP-MASQ-AGENT 1]",
    ),
];

#[test]
fn every_case_of_one_nat_table() {
    for (case, rules, packet, answer) in CASES {
        assert_eq!(forwarded(rules, &packet()), *answer, "{case}");
    }
}
