//! Overlays: a pod's packets go to another node inside others. Both nodes are looked at.
//!
//! ```text
//! pod 10.77.1.10 -- node   ov0 10.244.0.10 == eth0 192.168.50.10 -- eth0 192.168.50.20 == ov0 10.244.0.20  node2 -- pod2 10.77.2.11
//! ```

use anyhow::Result;

use super::steps::{A_MOMENT, answered, hold, same, watch};
use super::{Case, Kernel};
use crate::lab::{Lab, Topology};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("overlay_vxlan_kept", &["C1"], || {
        play("overlay_vxlan_kept", &VXLAN, &KEPT)
    })
    .needs(&["vxlan"]),
    Case::new("overlay_vxlan_masqueraded_inside", &[], || {
        play("overlay_vxlan_masqueraded_inside", &VXLAN, &INSIDE)
    })
    .needs(&["vxlan"]),
    Case::new("overlay_vxlan_mark_survives", &[], || {
        play("overlay_vxlan_mark_survives", &VXLAN, &BOTH)
    })
    .needs(&["vxlan"]),
    Case::new("overlay_vxlan_mark_cleared", &[], || {
        play("overlay_vxlan_mark_cleared", &VXLAN, &CLEARED)
    })
    .needs(&["vxlan"]),
    Case::new("overlay_service_on_another_node", &["C3", "C4"], || {
        service("10.96.0.50:80", "overlay_service_on_another_node")
    })
    .needs(&["vxlan"]),
    Case::new(
        "overlay_service_by_backend_on_another_node",
        &["C3", "C4"],
        || {
            service(
                "10.77.2.11:8080",
                "overlay_service_by_backend_on_another_node",
            )
        },
    )
    .needs(&["vxlan"]),
    Case::new("overlay_asked_for_by_its_own_address", &["C1"], outer_asked).needs(&["vxlan"]),
];

/// Those that the machine's own kernel has no devices for; at the end of the table.
pub(super) const VIRTUAL_CASES: &[Case] = &[
    Case::new("overlay_geneve_masqueraded_inside", &[], || {
        play("overlay_geneve_masqueraded_inside", &GENEVE, &INSIDE)
    })
    .on(VIRTUAL)
    .needs(&["geneve"]),
    Case::new("overlay_ipip_masqueraded_inside", &[], || {
        play("overlay_ipip_masqueraded_inside", &IPIP, &INSIDE)
    })
    .on(VIRTUAL)
    .needs(&["ipip"]),
    Case::new("overlay_gre_masqueraded_inside", &[], || {
        play("overlay_gre_masqueraded_inside", &GRE, &INSIDE)
    })
    .on(VIRTUAL)
    .needs(&["ip_gre"]),
    Case::new("overlay_ipip_mark_survives", &[], || {
        lost(
            "overlay_ipip_mark_survives",
            &IPIP,
            ", and back",
            "reply-lost",
        )
    })
    .on(LATE)
    .needs(&["ipip"]),
    Case::new("overlay_gre_mark_survives", &[], || {
        lost("overlay_gre_mark_survives", &GRE, "", "no-reply")
    })
    .on(LATE)
    .needs(&["ip_gre"]),
];

const LATE: &[Kernel] = &[Kernel::V6_12];
const VIRTUAL: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

/// A kind of tunnel: what `ip link add ov0` is told on a node, by its own and the other's underlay address.
struct Kind {
    link: fn(&str, &str) -> String,
    /// Whether it carries Ethernet frames.
    frames: bool,
    /// The last digit of its underlay addresses, 192.168.50.1x and .2x: the device's first (0) or second (1).
    end: u8,
}

const VXLAN: Kind = Kind {
    link: |local, remote| {
        format!("vxlan id 7 dstport 8472 local {local} remote {remote} srcport 40000 40001")
    },
    frames: true,
    end: 1,
};
/// It has no address of its own, and takes packets from its `remote` only.
const GENEVE: Kind = Kind {
    link: |_, remote| format!("geneve id 7 remote {remote}"),
    frames: true,
    end: 0,
};
/// As Calico and flannel have it: no `remote`, routes name it. (Where a mark survives on the packet around, as in
/// [`BOTH`], such a tunnel has no way back: without ports conntrack cannot tell its answers from another flow's.)
const IPIP: Kind = Kind {
    link: |local, _| format!("ipip local {local}"),
    frames: false,
    end: 1,
};
const GRE: Kind = Kind {
    link: |local, remote| format!("gre local {local} remote {remote} key 7"),
    frames: false,
    end: 1,
};

/// What the first node's rules do, and what must be said.
struct Story {
    /// `iptables-restore` lines of table nat.
    rules: &'static str,
    truth: &'static str,
    claims: &'static str,
    findings: &'static [(usize, &'static str)],
}

const KEPT: Story = Story {
    rules: "",
    truth: "10.77.1.10:43210",
    claims: "source-preserved, on the wire 10.77.1.10, completed",
    findings: &[(0, "carried-inside")],
};

const INSIDE: Story = Story {
    rules: "-A POSTROUTING -o ov0 -j MASQUERADE",
    truth: "10.244.0.10:43210",
    claims: "request src 10.77.1.10:43210 > 10.244.0.10:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.244.0.10, completed",
    findings: &[(0, "carried-inside")],
};

/// The rules act on both packets, because the mark of the one inside stays on the one around it. (The tunnel's own end
/// is the device's second address.)
const BOTH: Story = Story {
    rules: ":KUBE-POSTROUTING - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
         -A PREROUTING -s 10.77.1.10/32 -j KUBE-MARK-MASQ\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A POSTROUTING -j KUBE-POSTROUTING\n\
         -A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE",
    truth: "10.244.0.10:43210",
    claims: "request src 10.77.1.10:43210 > 10.244.0.10:43210 at service, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/KUBE-POSTROUTING 1, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
         outer-rewritten: iptables-legacy nat/KUBE-POSTROUTING 1
         source-rewritten, on the wire 10.244.0.10, completed",
    findings: &[(0, "carried-inside"), (0, "outer-rewritten")],
};

/// As kube-proxy has it today: the mark is taken off before the packet is wrapped.
const CLEARED: Story = Story {
    rules: ":KUBE-POSTROUTING - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
         -A PREROUTING -s 10.77.1.10/32 -j KUBE-MARK-MASQ\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A POSTROUTING -j KUBE-POSTROUTING\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
         -A KUBE-POSTROUTING -j MASQUERADE",
    truth: "10.244.0.10:43210",
    claims: "request src 10.77.1.10:43210 > 10.244.0.10:43210 at service, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/KUBE-POSTROUTING 3, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
         source-rewritten, on the wire 10.244.0.10, completed",
    findings: &[(0, "carried-inside")],
};

fn ground(kind: &Kind) -> Topology {
    let mut net = Topology::new("overlay");
    for (node, pod, n, other) in [("node", "pod", 1, 2), ("node2", "pod2", 2, 1)] {
        let end = |n: i32| format!("192.168.50.{n}{}", kind.end);
        let (own, far) = (end(n), end(other));
        let host = if n == 1 { 10 } else { 11 };
        net.forward(node)
            .veth((pod, "p0"), (node, "veth-pod"))
            .addr(pod, "p0", &format!("10.77.{n}.{host}/24"))
            .addr(node, "veth-pod", &format!("10.77.{n}.1/24"))
            .route(pod, &format!("default via 10.77.{n}.1"));
        if n == 1 {
            net.veth(("node", "eth0"), ("node2", "eth0"));
        }
        let mac = if kind.frames {
            format!("address 02:00:00:00:00:0{n} ")
        } else {
            String::new()
        };
        let link = (kind.link)(&own, &far);
        let hop = match kind.frames {
            true => format!("via 10.244.0.{other}0"),
            false => format!("via {far} dev ov0 onlink"),
        };
        net.addr(node, "eth0", &format!("192.168.50.{n}0/24"))
            .addr(node, "eth0", &format!("192.168.50.{n}1/24"))
            .ip(node, &format!("link add ov0 {mac}type {link}"))
            .ip(node, "link set ov0 up")
            .ip(node, &format!("addr add 10.244.0.{n}0/24 dev ov0"))
            .route(node, &format!("10.77.{other}.0/24 {hop}"));
        if !kind.frames {
            net.route(node, &format!("10.244.0.{other}0/32 {hop}"));
        }
        if kind.frames {
            let known = format!("10.244.0.{other}0 lladdr 02:00:00:00:00:0{other}");
            net.ip(node, &format!("neigh add {known} dev ov0 nud permanent"));
        }
    }
    net
}

/// Nothing but the labs' packets goes through: the first of them opens the outer flow.
fn up(kind: &Kind) -> Result<Lab> {
    let lab = ground(kind).up()?;
    for node in ["node", "node2"] {
        lab.sysctl(node, "ipv6/conf/ov0/disable_ipv6", "1")?;
    }
    Ok(lab)
}

fn play(name: &str, kind: &Kind, story: &Story) -> Result<()> {
    let lab = up(kind)?;
    nat(&lab, story.rules)?;
    let _far = StreamServer::start(&lab, "pod2", "10.77.2.11:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["10.77.2.11:8080"], 1, || {
        call(&lab, "10.77.2.11:8080", story.truth)
    })?;
    let claims = format!(
        "tcp 10.77.1.10:43210 > 10.77.2.11:8080 from pod pod\n{}",
        story.claims
    );
    hold(&lab, &report, name, &[&claims], story.findings)
}

/// As [`BOTH`], where the packet around has no ports: nothing comes back. A tunnel with a `remote` does not even take what comes
/// from another address.
fn lost(name: &str, kind: &Kind, back: &str, delivery: &str) -> Result<()> {
    let lab = up(kind)?;
    nat(&lab, BOTH.rules)?;
    let _far = StreamServer::start(&lab, "pod2", "10.77.2.11:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["10.77.2.11:8080"], 1, || {
        let call = StreamCall::new("pod", "10.77.2.11:8080", 43_210).patience(A_MOMENT);
        same("the answer", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = format!(
        "tcp 10.77.1.10:43210 > 10.77.2.11:8080 from pod pod
         request src 10.77.1.10:43210 > 10.244.0.10:43210 at service, postrouting, netfilter, by conntrack{back}
         rule iptables-legacy nat/KUBE-POSTROUTING 1, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
         outer-rewritten: iptables-legacy nat/KUBE-POSTROUTING 1
         source-rewritten, on the wire 10.244.0.10, {delivery}"
    );
    hold(&lab, &report, name, &[&claims], BOTH.findings)
}

fn nat(lab: &Lab, rules: &str) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let script = format!("*nat\n{rules}\nCOMMIT\n");
    lab.restore("node", "iptables-legacy-restore", &script)
}

fn call(lab: &Lab, to: &str, seen: &str) -> Result<()> {
    let outcome = StreamCall::new("pod", to, 43_210).run(lab)?;
    same("whom the far side saw", outcome, answered(seen)?)
}

/// A Service whose backend is on the other node; all of its clients are masqueraded. Named by either address it is the same
/// flow.
fn service(dest: &str, name: &str) -> Result<()> {
    let lab = up(&VXLAN)?;
    nat(
        &lab,
        ":KUBE-SVC-A - [0:0]\n:KUBE-SEP-A - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A PREROUTING -d 10.96.0.50/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
         -A KUBE-SVC-A -j KUBE-MARK-MASQ\n\
         -A KUBE-SVC-A -j KUBE-SEP-A\n\
         -A KUBE-SEP-A -p tcp -j DNAT --to-destination 10.77.2.11:8080\n\
         -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
         -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE",
    )?;
    let _far = StreamServer::start(&lab, "pod2", "10.77.2.11:8080", Behaviour::Answer)?;
    let report = watch(&lab, &[dest], 1, || {
        call(&lab, "10.96.0.50:80", "10.244.0.10:43210")
    })?;
    let claims = "tcp 10.77.1.10:43210 > 10.96.0.50:80 from pod pod
        request dst 10.96.0.50:80 > 10.77.2.11:8080 at service, prerouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/KUBE-SEP-A 1
        request src 10.77.1.10:43210 > 10.244.0.10:43210 at service, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/KUBE-POSTROUTING 3, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
        source-rewritten, on the wire 10.244.0.10, completed";
    hold(&lab, &report, name, &[claims], &[(0, "carried-inside")])
}

/// Whoever asks for the tunnel's own address gets the tunnel's own flow.
fn outer_asked() -> Result<()> {
    let lab = up(&VXLAN)?;
    let _far = StreamServer::start(&lab, "pod2", "10.77.2.11:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["192.168.50.21:8472"], 1, || {
        call(&lab, "10.77.2.11:8080", "10.77.1.10:43210")
    })?;
    let claims = "udp 192.168.50.11:40000 > 192.168.50.21:8472 from node node
        source-preserved, on the wire 192.168.50.11, no-reply";
    hold(
        &lab,
        &report,
        "overlay_asked_for_by_its_own_address",
        &[claims],
        &[(0, "carries-flows")],
    )
}
