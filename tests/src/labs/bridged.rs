//! Pods on one bridge of the node: what the rules of IP see of what it sends from port to port, and that `explain` and `map`
//! know it.

use anyhow::{Result, bail};

use super::steps::{MASQUERADED, answered, hold, masquerade, same, watch};
use super::{Case, NATIVE};
use crate::lab::cast::PEER;
use crate::lab::{Lab, Topology};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

const NEEDS: &[&str] = &["br_netfilter"];

pub(super) const CASES: &[Case] = &[
    Case::new("bridge_with_netfilter", &[], || {
        bridge("1", "bridge_with_netfilter")
    })
    .needs(NEEDS),
    Case::new("bridge_without_netfilter", &[], || {
        bridge("0", "bridge_without_netfilter")
    })
    .needs(NEEDS),
    native("bridge_that_asks_for_netfilter", by_its_own_switch),
    native("bridged_is_exempt_by_physdev", exempt),
    native("bridged_is_dropped_by_physdev", dropped),
    native("bridged_by_nft", by_nft),
    native("bridged_ipv6", ipv6),
    native("bridged_to_another_by_dnat", sent_elsewhere),
];

/// A lab that is held against what `explain` and `map` say, which is done on the machine's own kernel.
const fn native(name: &'static str, run: fn() -> Result<()>) -> Case {
    Case::new(name, &[], run).on(NATIVE).needs(NEEDS)
}

/// Two pods on one bridge of the node, and whether rules see what it passes on.
fn bridged_pods(call: &str) -> Topology {
    let mut net = Topology::new("bridge");
    net.forward("node")
        .veth(("pod", "eth0"), ("node", "veth-pod"))
        .veth(("pod2", "eth0"), ("node", "veth-pod2"))
        .ip("node", "link add cni0 type bridge")
        .ip("node", "link set cni0 up")
        .ip("node", "link set veth-pod master cni0")
        .ip("node", "link set veth-pod2 master cni0")
        .addr("node", "cni0", "10.12.3.1/24")
        .addr("pod", "eth0", "10.12.3.4/24")
        .addr("pod2", "eth0", "10.12.3.5/24")
        .addr("node", "cni0", "fd12:3::1/64")
        .addr("pod", "eth0", "fd12:3::4/64")
        .addr("pod2", "eth0", "fd12:3::5/64")
        .route("pod", "default via 10.12.3.1")
        .route("pod2", "default via 10.12.3.1")
        .veth(("node", "eth0"), ("peer", "eth0"))
        .addr("node", "eth0", "10.100.0.5/24")
        .addr("peer", "eth0", "10.100.0.1/24")
        .addr("peer", "lo", "10.20.30.40/32")
        .route("node", "default via 10.100.0.1")
        .sysctl("node", "bridge/bridge-nf-call-iptables", call)
        .sysctl("node", "bridge/bridge-nf-call-ip6tables", call);
    net
}

const KEPT: &str = "tcp 10.12.3.4:43211 > 10.12.3.5:443 from pod pod
     source-preserved, on the wire 10.12.3.4, completed";

/// Masquerade of a bridged packet takes the bridge's own address.
fn as_the_bridge(rule: &str) -> String {
    format!(
        "tcp 10.12.3.4:43211 > 10.12.3.5:443 from pod pod
         request src 10.12.3.4:43211 > 10.12.3.1:43211 at node, postrouting, netfilter, by conntrack, and back
         rule {rule}
         source-rewritten, on the wire 10.12.3.1, completed"
    )
}

/// The pod hangs on a bridge of the node, as with the CNI's bridge plugin; with `call` 1 bridged packets pass iptables.
fn bridge(call: &str, name: &str) -> Result<()> {
    let lab = bridged_pods(call).up()?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let _neighbour = StreamServer::start(&lab, "pod2", "10.12.3.5:443", Behaviour::Answer)?;
    let shown = call == "1";
    let (seen, claims) = match shown {
        true => (
            "10.12.3.1:43211",
            as_the_bridge("iptables-legacy nat/IP-MASQ 1"),
        ),
        false => ("10.12.3.4:43211", KEPT.to_owned()),
    };
    let call = |to: &str, sport: u16| StreamCall::new("pod", to, sport).run(&lab);
    let report = watch(&lab, &["--dest", PEER, "--dest", "10.12.3.5"], 2, || {
        same(
            "what the far side saw",
            call("10.20.30.40:443", 43_210)?,
            answered("10.100.0.5:43210")?,
        )?;
        same(
            "whom the neighbour saw",
            call("10.12.3.5:443", 43_211)?,
            answered(seen)?,
        )
    })?;
    let bridged = [(1, "bridged-through-netfilter")];
    let findings: &[(usize, &str)] = if shown { &bridged } else { &[] };
    hold(&lab, &report, name, &[MASQUERADED, &claims], findings)
}

/// One request from pod to pod, whom the neighbour sees (nobody where it is dropped), and what is said of it.
fn between(
    lab: &Lab,
    name: &str,
    seen: Option<&str>,
    claims: &str,
    findings: &[(usize, &str)],
) -> Result<()> {
    let ipv6 = claims.contains("[fd12");
    let to = if ipv6 {
        "[fd12:3::5]:443"
    } else {
        "10.12.3.5:443"
    };
    let _neighbour = StreamServer::start(lab, "pod2", to, Behaviour::Answer)?;
    let dest = if ipv6 { "fd12:3::5" } else { "10.12.3.5" };
    let flows = usize::from(seen.is_some());
    let report = watch(lab, &["--dest", dest], flows, || {
        let outcome = StreamCall::new("pod", to, 43_211).run(lab)?;
        match seen {
            Some(seen) => same("whom the neighbour saw", outcome, answered(seen)?),
            None if matches!(outcome, Outcome::Silence) => Ok(()),
            None => bail!("the request came to {outcome:?}"),
        }
    })?;
    hold(lab, &report, name, &[claims], findings)
}

const SHOWN: &[(usize, &str)] = &[(0, "bridged-through-netfilter")];

/// The namespace's switch is off, and the bridge's own is on.
fn by_its_own_switch() -> Result<()> {
    let lab = bridged_pods("0").up()?;
    lab.run("node", "ip link set cni0 type bridge nf_call_iptables 1")?;
    masquerade(&lab, &[])?;
    let claims = as_the_bridge("iptables-legacy nat/IP-MASQ 1");
    let name = "bridge_that_asks_for_netfilter";
    between(&lab, name, Some("10.12.3.1:43211"), &claims, SHOWN)
}

/// As libvirt and others leave out what is only bridged; rules for other ports do not concern it.
fn exempt() -> Result<()> {
    let lab = bridged_pods("1").up()?;
    for rule in [
        "-m physdev --physdev-in veth-pod2 -j MASQUERADE",
        "-m physdev ! --physdev-out veth-pod2 -j MASQUERADE",
        "-m physdev --physdev-in veth-pod --physdev-is-bridged -j RETURN",
        "-j MASQUERADE",
    ] {
        lab.iptables_legacy("node", &format!("-t nat -A POSTROUTING {rule}"))?;
    }
    let name = "bridged_is_exempt_by_physdev";
    let claims = "tcp 10.12.3.4:43211 > 10.12.3.5:443 from pod pod
        exempt-by-rule: iptables-legacy nat/POSTROUTING 3
        source-preserved, on the wire 10.12.3.4, completed";
    let findings = [(0, "exempt-by-rule")];
    between(&lab, name, Some("10.12.3.4:43211"), claims, &findings)
}

fn dropped() -> Result<()> {
    let lab = bridged_pods("1").up()?;
    for rule in [
        "! -o cni0 -j DROP",
        "-m physdev --physdev-in veth-pod+ --physdev-out veth-pod2 -j DROP",
    ] {
        lab.iptables_legacy("node", &format!("-A FORWARD {rule}"))?;
    }
    let claims = "tcp 10.12.3.4:43211 > 10.12.3.5:443 from pod pod
        dropped: NETFILTER_DROP
        policy-drop: iptables-legacy filter/FORWARD 2
        source-unknown, on the wire null, dropped";
    let findings = [(0, "policy-drop")];
    between(
        &lab,
        "bridged_is_dropped_by_physdev",
        None,
        claims,
        &findings,
    )
}

/// nftables' chains are asked as iptables' are; the bridge is both devices.
fn by_nft() -> Result<()> {
    let lab = bridged_pods("1").up()?;
    lab.nft(
        "node",
        "table ip nat {
            chain forward {
                type filter hook forward priority 0
                iifname \"cni0\" oifname \"cni0\" meta mark set 7
            }
            chain post {
                type nat hook postrouting priority 100
                iifname \"cni0\" snat to 10.12.3.77
                meta mark 7 oifname \"cni0\" masquerade
            }
        }",
    )?;
    let claims = as_the_bridge(
        "nft nat/post handle 5, marked by nft nat/forward handle 3
         unowned-rule: nft nat/post handle 5",
    );
    between(
        &lab,
        "bridged_by_nft",
        Some("10.12.3.1:43211"),
        &claims,
        SHOWN,
    )
}

fn ipv6() -> Result<()> {
    let lab = bridged_pods("1").up()?;
    lab.run(
        "node",
        "ip6tables-legacy -t nat -A POSTROUTING -s fd12:3::/64 -j MASQUERADE",
    )?;
    let claims = "tcp [fd12:3::4]:43211 > [fd12:3::5]:443 from pod pod
        request src [fd12:3::4]:43211 > [fd12:3::1]:43211 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/POSTROUTING 1
        unowned-rule: iptables-legacy nat/POSTROUTING 1
        source-rewritten, on the wire fd12:3::1, completed";
    between(
        &lab,
        "bridged_ipv6",
        Some("[fd12:3::1]:43211"),
        claims,
        SHOWN,
    )
}

/// A rule turns what the bridge shows it to the far side: it leaves the bridge.
fn sent_elsewhere() -> Result<()> {
    let lab = bridged_pods("1").up()?;
    lab.iptables_legacy(
        "node",
        "-t nat -A PREROUTING -d 10.12.3.5 -p tcp -j DNAT --to-destination 10.20.30.40:443",
    )?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", "10.12.3.5"], 1, || {
        let outcome = StreamCall::new("pod", "10.12.3.5:443", 43_211).run(&lab)?;
        same(
            "what the far side saw",
            outcome,
            answered("10.100.0.5:43211")?,
        )
    })?;
    let claims = "tcp 10.12.3.4:43211 > 10.12.3.5:443 from pod pod
        request dst 10.12.3.5:443 > 10.20.30.40:443 at node, prerouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/PREROUTING 1
        request src 10.12.3.4:43211 > 10.100.0.5:43211 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/IP-MASQ 1
        source-rewritten, on the wire 10.100.0.5, completed";
    hold(&lab, &report, "bridged_to_another_by_dnat", &[claims], &[])
}
