//! Ladders beyond IPv4 and kube-proxy's iptables: IPv6, IPVS (in machines), and a client behind a real OpenVPN.

use anyhow::{Result, ensure};

use super::super::{Case, Kernel, vpn};
use super::client::{asked, pings};
use super::{climb, hold};
use crate::lab::cast::{self, RouteBack};
use crate::lab::{Lab, Resident, Service};
use crate::trace::{Files, Srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(in crate::labs) const CASES: &[Case] = &[
    Case::new("d4_ladder_ipv6_answered", &["D4"], ipv6_answered).on(super::NATIVE),
    Case::new("d4_ladder_ipv6_silent", &["D4"], ipv6_silent).on(super::NATIVE),
    Case::new("d4_ladder_openvpn_client", &["D4"], openvpn_client)
        .on(super::NATIVE)
        .needs(vpn::NEEDS),
    Case::new("d4_ladder_ipvs", &["D4"], ipvs)
        .on(VIRTUAL)
        .needs(&["ip_vs", "ip_vs_rr", "dummy"]),
];

const VIRTUAL: &[Kernel] = &[Kernel::V6_12];

/// Two pods; a resolver of IPv6 in the second, which the first has in its file.
fn ipv6_ground(name: &str, back: RouteBack) -> Result<(Lab, Service, Resident, Files)> {
    let lab = cast::two_pods(name, back).up()?;
    let line = "dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --no-resolv --no-hosts --user=root \
        --bind-interfaces --except-interface=lo --listen-address=fd12:4::4 --local=/#/ \
        --address=/db.example/fd50::20";
    let resolver = Service::start(&lab, "pod2", line, "[fd12:4::4]:53")?;
    let files = Files::new(&lab)?;
    let file = files.write("resolv.conf", b"nameserver fd12:4::4\n")?;
    let resident = Resident::start(&lab, "pod", &file)?;
    Ok((lab, resolver, resident, files))
}

/// The name has an address of that family only.
fn ipv6_answered() -> Result<()> {
    let (lab, _resolver, _resident, _files) = ipv6_ground("d4six", RouteBack::Missing)?;
    let nat = "*nat\n-A POSTROUTING -o eth0 -j MASQUERADE\nCOMMIT\n";
    lab.restore("node", "ip6tables-legacy-restore", nat)?;
    let _peer = StreamServer::start(&lab, "peer", "[fd50::20]:443", Behaviour::Answer)?;
    let asked = [
        "fd12:4::4",
        "[fd12:4::4]:53/udp",
        "db.example:443",
        "fd50::20",
    ];
    let report = climb(&lab, &asked)?;
    let all = asked.map(|rung| format!("{rung} answered -"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    hold(&lab, report, "d4_ladder_ipv6_answered", (0, &all))
}

/// A policy of the other family says nothing; the far side knows no way back to pods.
fn ipv6_silent() -> Result<()> {
    let (lab, _resolver, _resident, _files) = ipv6_ground("d4sixno", RouteBack::Missing)?;
    let filter = "*filter\n-A FORWARD -s 10.12.3.0/24 -j DROP\nCOMMIT\n";
    lab.restore("node", "iptables-legacy-restore", filter)?;
    let report = climb(&lab, &["fd12:4::4", "[fd50::20]:443"])?;
    let all = ["fd12:4::4 answered -", "[fd50::20]:443 no-reply far-side"];
    hold(&lab, report, "d4_ladder_ipv6_silent", (1, &all))?;
    let filter = "*filter\n-A FORWARD -s fd12:3::/64 -d fd50::/64 -p tcp -j DROP\nCOMMIT\n";
    lab.restore("node", "ip6tables-legacy-restore", filter)?;
    let report = climb(&lab, &["fd12:4::4", "[fd50::20]:443"])?;
    let all = ["fd12:4::4 answered -", "[fd50::20]:443 dropped policy"];
    hold(&lab, report, "d4_ladder_ipv6_policy", (1, &all))
}

/// The client's packets come out of a tunnel that a process ends.
fn openvpn_client() -> Result<()> {
    let (lab, _vpn) = vpn::kept()?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let gateway = lab.netns("vpn");
    let args = [
        "ladder",
        "--client",
        "10.8.0.2",
        "--from",
        &gateway,
        "10.8.0.1",
        "10.20.30.40:443",
    ];
    let trace = Srctrace::new(&lab, &args).start()?;
    pings(&lab, &trace, 1, "10.8.0.1", 7, true)?;
    asked(&trace, 2, "nc -z -v -w 5 10.20.30.40 443")?;
    let outcome = StreamCall::new("peer-client", "10.20.30.40:443", 43_210).run(&lab)?;
    ensure!(outcome.seen().is_some(), "the far side: {outcome:?}");
    let report = trace.finish()?;
    let all = ["10.8.0.1 answered -", "10.20.30.40:443 answered -"];
    hold(&lab, report, "d4_ladder_openvpn_client", (0, &all))
}

/// A Service of IPVS with a server, and one that has none.
fn ipvs() -> Result<()> {
    let lab = &cast::two_pods("d4ipvs", RouteBack::Known).up()?;
    lab.ip("node", "link add kube-ipvs0 type dummy")?;
    lab.sysctl("node", "ipv4/vs/conntrack", "1")?;
    for (addr, server) in [("10.96.1.10", Some("10.12.4.4:8080")), ("10.96.1.99", None)] {
        lab.ip("node", &format!("addr add {addr}/32 dev kube-ipvs0"))?;
        lab.run("node", &format!("ipvsadm -A -t {addr}:80 -s rr"))?;
        if let Some(server) = server {
            lab.run("node", &format!("ipvsadm -a -t {addr}:80 -r {server} -m"))?;
        }
    }
    let _web = StreamServer::start(lab, "pod2", "10.12.4.4:8080", Behaviour::Answer)?;
    let report = climb(
        lab,
        &["10.12.4.4", "10.96.1.10:80", "10.96.1.99:80", "10.20.30.40"],
    )?;
    let all = [
        "10.12.4.4 answered -",
        "10.96.1.10:80 answered -",
        "10.96.1.99:80 refused service",
    ];
    hold(lab, report, "d4_ladder_ipvs", (1, &all))
}
