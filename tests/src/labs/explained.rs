//! `explain`: what would be, without traffic, by whole outputs.

use anyhow::{Context as _, Result};

use super::steps::{masquerade, masqueraded_pod, same, same_text, watch};
use super::{Case, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, EXEMPT, PEER, PEER6, RouteBack};
use crate::trace::expect::compare;
use crate::trace::{Files, Names, Srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "explain_masquerade_and_exemption",
        &["A2"],
        masquerade_and_exemption,
    )
    .on(NATIVE),
    Case::new("explain_no_rule", &["A3"], no_rule).on(NATIVE),
    Case::new("explain_depends_on_the_port", &[], depends_on_the_port).on(NATIVE),
    Case::new("explain_service_and_its_marker", &["C3"], service).on(NATIVE),
    Case::new("explain_what_stops_it", &[], stopped).on(NATIVE),
    Case::new("explain_from_a_recording", &[], from_a_recording).on(NATIVE),
    Case::new("explain_wrong_usage", &[], wrong_usage).on(NATIVE),
];

/// The whole output of one `explain` run.
fn held(lab: &Lab, name: &str, args: &[&str]) -> Result<()> {
    let args: Vec<&str> = [&["explain"], args].concat();
    let report = Srctrace::new(lab, &args).run_to_end()?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    compare(name, &report, &Names::of(&[(lab, "")]))
}

/// As people read it, with the lab's names in place of the namespaces'.
fn text(lab: &Lab, args: &[&str]) -> Result<String> {
    let args: Vec<&str> = [&["explain"], args].concat();
    let report = Srctrace::new(lab, &args).text().run_to_end()?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    let mut spaces = lab.spaces().to_vec();
    spaces.sort_by_key(|ns| std::cmp::Reverse(ns.len()));
    let whole = report.lines.join("\n");
    Ok(spaces
        .iter()
        .fold(whole, |text, ns| text.replace(&lab.netns(ns), ns)))
}

fn masquerade_and_exemption() -> Result<()> {
    let lab = cast::two_pods("expmasq", RouteBack::Known).up()?;
    masquerade(&lab, &["10.30.0.0/16"])?;
    held(&lab, "explain_masquerade", &["10.20.30.40:443"])?;
    held(
        &lab,
        "explain_exemption",
        &["--dest", EXEMPT, "--proto", "tcp", "--port", "443"],
    )?;
    let told = text(&lab, &["10.20.30.40:443", "--proto", "tcp"])?;
    same_text("explain as text", &told, MASQUERADED)
}

const MASQUERADED: &str = "\
tcp to 10.20.30.40:443, by the rules as they are (nothing was sent)

pod pod 10.12.3.4 and 1 more: pod2
  ▶  source 10.12.3.4 would become 10.100.0.5 on the node, netfilter POSTROUTING, iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent); it would leave by eth0
     iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent), replayed:  -A IP-MASQ -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE   [POSTROUTING 1 → IP-MASQ 2]
     pod   out by eth0 via 10.12.3.1
     node  in by veth-pod, out by eth0 via 10.100.0.1

the node 10.100.0.5
  ▶  source 10.100.0.5 would be kept: iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent) gives it the address that it has; it would leave by eth0
     iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent), replayed:  -A IP-MASQ -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE   [POSTROUTING 1 → IP-MASQ 2]
     node  out by eth0 via 10.100.0.1

configuration of ip-masq-agent: none is known
  ▶  iptables-legacy nat/IP-MASQ is there, and no agent runs and no configuration was given
     kernel  iptables-legacy nat/IP-MASQ:  10.30.0.0/16
     iptables-legacy nat/IP-MASQ is there, and no agent that writes it runs on this node: the rules are left over, nobody heals them or reads an edit
     → kubectl -n kube-system get ds ip-masq-agent: does it tolerate this node's taints, does its node selector fit?";

/// No store holds a rule: nothing is guessed.
fn no_rule() -> Result<()> {
    let lab = cast::one_pod("expnone", RouteBack::Known).up()?;
    held(&lab, "explain_no_rule", &[PEER])
}

/// Only one port is exempt, and none was named.
fn depends_on_the_port() -> Result<()> {
    let lab = masqueraded_pod("expport", RouteBack::Known)?;
    lab.run(
        "node",
        "iptables-legacy -t nat -I IP-MASQ 1 -p tcp --dport 53 -j RETURN",
    )?;
    held(&lab, "explain_depends_on_the_port", &[PEER])
}

/// A Service's marking rule and the one that asks for the mark, in kube-proxy's chains.
fn service() -> Result<()> {
    let lab = cast::two_pods("expsvc", RouteBack::Known).up()?;
    lab.restore("node", "iptables-legacy-restore", SERVICE)?;
    held(
        &lab,
        "explain_service",
        &["10.96.0.10:80", "--proto", "tcp"],
    )
}

const SERVICE: &str = "*nat\n\
    :KUBE-SERVICES - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
    :KUBE-SVC-A - [0:0]\n:KUBE-SEP-A - [0:0]\n:KUBE-SEP-B - [0:0]\n\
    -A PREROUTING -j KUBE-SERVICES\n-A OUTPUT -j KUBE-SERVICES\n-A POSTROUTING -j KUBE-POSTROUTING\n\
    -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
    -A KUBE-SVC-A ! -s 10.12.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
    -A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n\
    -A KUBE-SVC-A -j KUBE-SEP-B\n\
    -A KUBE-SEP-A -s 10.12.3.4/32 -j KUBE-MARK-MASQ\n\
    -A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.12.3.4:8080\n\
    -A KUBE-SEP-B -s 10.12.4.4/32 -j KUBE-MARK-MASQ\n\
    -A KUBE-SEP-B -p tcp -m tcp -j DNAT --to-destination 10.12.4.4:8080\n\
    -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
    -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
    -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
    -A KUBE-POSTROUTING -j MASQUERADE --random-fully\nCOMMIT\n";

/// A policy that drops, and a destination without a way.
fn stopped() -> Result<()> {
    let lab = masqueraded_pod("expstop", RouteBack::Known)?;
    lab.run(
        "node",
        "iptables-legacy -A FORWARD -d 10.20.0.0/16 -p udp -j DROP",
    )?;
    lab.run("node", "ip route add unreachable 10.66.0.0/16")?;
    held(
        &lab,
        "explain_dropped",
        &["10.20.30.40:53", "--proto", "udp"],
    )?;
    held(&lab, "explain_no_way", &["10.66.0.1", "--proto", "tcp"])?;
    // Asked for a way, the kernel would give one.
    lab.run("node", "sysctl -qw net.ipv6.conf.all.forwarding=0")?;
    held(
        &lab,
        "explain_ipv6_not_forwarded",
        &[PEER6, "--proto", "tcp"],
    )
}

/// The machine is gone: its recording has the rules.
fn from_a_recording() -> Result<()> {
    let lab = masqueraded_pod("exprec", RouteBack::Known)?;
    let files = Files::new(&lab)?;
    let file = files.path("a.srct");
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    watch(&lab, &["--dest", PEER, "--record", &file], 1, || {
        StreamCall::new("pod", "10.20.30.40:443", 43_210)
            .run(&lab)
            .map(drop)
    })?;
    lab.run("node", "iptables-legacy -t nat -F")?;
    let told = crate::trace::srctrace(&[
        "explain",
        "10.20.30.40:443",
        "--from-report",
        &file,
        "-o",
        "json",
    ])?;
    same("exit status", told.status, Some(0)).context(told.stderr.clone())?;
    compare("explain_from_a_recording", &told, &Names::of(&[(&lab, "")]))
}

fn wrong_usage() -> Result<()> {
    let lab = cast::one_pod("expusage", RouteBack::Known).up()?;
    for (args, said) in [
        (
            &["explain"][..],
            "explain needs a destination, such as 10.20.30.40:443, as DEST or --dest, or a configuration: --config FILE",
        ),
        (
            &["explain", "10.20.0.0/16"],
            "explain takes one destination, not a prefix; `srctrace map` tells every prefix",
        ),
        (
            &["explain", "10.20.30.40:1-2"],
            "explain takes one port, not a range of ports",
        ),
        (
            &["explain", "10.20.30.40:53", "--proto", "icmp"],
            "--proto icmp: ICMP has no ports; leave the port out, or give another --proto",
        ),
        (
            &["explain", PEER, "--src", "fd00::1"],
            "--src and DEST are of different address families; give both as IPv4 or both as IPv6",
        ),
    ] {
        let report = Srctrace::new(&lab, args).run_to_end()?;
        same("exit status", report.status, Some(2)).context(report.stderr.clone())?;
        same(
            "what it says",
            report.stderr.as_str(),
            format!("srctrace: {said}").as_str(),
        )?;
    }
    Ok(())
}
