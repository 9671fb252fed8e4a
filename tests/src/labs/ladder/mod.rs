//! Rows D3 and D4: rungs from near to far, until one is not answered. Every rung is sent and answered for real.

use anyhow::{Context as _, Result, ensure};

use super::steps::{masquerade, same, without_ports};
use super::{Case, NATIVE, gateways};
use crate::lab::cast::{self, RouteBack};
use crate::lab::{Lab, Resident, Service};
use crate::trace::expect::compare;
use crate::trace::{Files, Names, Report, Srctrace};
use crate::traffic::{Behaviour, StreamServer};
use std::net::UdpSocket;

pub(super) mod client;
pub(super) mod far;

pub(super) const CASES: &[Case] = &[
    Case::new("d4_ladder_answered", &["D4"], answered).on(NATIVE),
    Case::new("d4_ladder_policy", &["D4"], policy).on(NATIVE),
    Case::new("d4_ladder_route", &["D4"], route).on(NATIVE),
    Case::new("d4_ladder_not_sent", &["D4"], not_sent).on(NATIVE),
    Case::new("d4_ladder_service", &["D4"], service).on(NATIVE),
    Case::new("d4_ladder_far_side", &["D4"], far_side).on(NATIVE),
    Case::new("d3_ladder_no_such_name", &["D3"], no_such_name).on(NATIVE),
    Case::new("d3_ladder_resolver_silent", &["D3"], resolver_silent).on(NATIVE),
    Case::new("d3_ladder_query_dropped", &["D3"], query_dropped).on(NATIVE),
    Case::new("d4_ladder_from_a_gateway", &["D4"], from_a_gateway).on(NATIVE),
    Case::new("ladder_wrong_usage", &["D4"], wrong_usage).on(NATIVE),
];

/// Where the cluster's resolver is, and what is behind it.
const RESOLVER: &str = "10.96.0.53";
const WEB: &str = "10.96.0.10:80";

/// kube-proxy's rules for the resolver and a Service behind `pod2`, and for one that has no endpoints.
fn kube_proxy(lab: &Lab) -> Result<()> {
    let nat = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SEP-WEB - [0:0]\n:KUBE-SEP-DNS - [0:0]\n\
        -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SEP-WEB\n\
        -A KUBE-SERVICES -d 10.96.0.53/32 -p udp -m comment --comment \"kube-system/kube-dns:dns cluster IP\" -m udp --dport 53 -j KUBE-SEP-DNS\n\
        -A KUBE-SEP-WEB -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination 10.12.4.4:8080\n\
        -A KUBE-SEP-DNS -p udp -m comment --comment \"kube-system/kube-dns:dns\" -m udp -j DNAT --to-destination 10.12.4.4:53\nCOMMIT\n";
    lab.restore("node", "iptables-legacy-restore", nat)?;
    let filter = "*filter\n:KUBE-SERVICES - [0:0]\n\
        -A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A KUBE-SERVICES -d 10.96.0.99/32 -p tcp -m comment --comment \"shop/none:http has no endpoints\" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable\nCOMMIT\n";
    lab.restore("node", "iptables-legacy-restore", filter)
}

/// A cluster's resolver: it knows `db.example` and nothing else.
fn resolver(lab: &Lab) -> Result<Service> {
    let line = "dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --no-resolv --no-hosts --user=root \
        --bind-interfaces --except-interface=lo --listen-address=10.12.4.4 --local=/#/ \
        --address=/db.example/10.20.30.40";
    Service::start(lab, "pod2", line, "10.12.4.4:53")
}

/// A lab whose pod resolves names as a cluster's pods do.
struct Ground {
    lab: Lab,
    _resident: Resident,
    _files: Files,
}

fn ground(name: &str, back: RouteBack) -> Result<Ground> {
    let lab = cast::two_pods(name, back).up()?;
    kube_proxy(&lab)?;
    let files = Files::new(&lab)?;
    let text = format!(
        "search shop.svc.cluster.local cluster.local\nnameserver {RESOLVER}\noptions ndots:5\n"
    );
    let file = files.write("resolv.conf", text.as_bytes())?;
    let resident = Resident::start(&lab, "pod", &file)?;
    Ok(Ground {
        lab,
        _resident: resident,
        _files: files,
    })
}

/// Climbs from the pod; gives the report.
fn climb(lab: &Lab, rungs: &[&str]) -> Result<Report> {
    let pod = lab.netns("pod");
    let args = [&["ladder", "--from", &pod], rungs].concat();
    Srctrace::new(lab, &args).run_to_end()
}

/// The rungs that were tried: `target code layer`.
fn rungs(report: &Report) -> Result<Vec<String>> {
    let objects = report.objects()?;
    let rungs = objects.iter().filter(|line| line["type"] == "rung");
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    let short = rungs.map(|rung| {
        format!(
            "{} {} {}",
            word(&rung["target"]),
            word(&rung["code"]),
            word(&rung["layer"])
        )
    });
    Ok(short.collect())
}

/// Status, rungs, and the whole report.
fn hold(lab: &Lab, mut report: Report, name: &str, (status, should): (i32, &[&str])) -> Result<()> {
    let is = rungs(&report)?;
    let should: Vec<String> = should.iter().map(|&rung| rung.to_owned()).collect();
    same("the rungs", is, should).with_context(|| report.stderr.clone())?;
    same("the status", report.status, Some(status)).with_context(|| report.stderr.clone())?;
    without_ports(&mut report)?;
    compare(name, &report, &Names::of(&[(lab, "")]))
}

fn answered() -> Result<()> {
    let ground = ground("d4all", RouteBack::Missing)?;
    let lab = &ground.lab;
    masquerade(lab, &["10.12.0.0/16"])?;
    let _resolver = resolver(lab)?;
    let _web = StreamServer::start(lab, "pod2", "10.12.4.4:8080", Behaviour::Answer)?;
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let dns = format!("{RESOLVER}:53/udp");
    let report = climb(
        lab,
        &[
            "10.12.4.4",
            WEB,
            &dns,
            "db.example",
            "db.example:443",
            "10.20.30.40",
        ],
    )?;
    let all = [
        "10.12.4.4 answered -",
        "10.96.0.10:80 answered -",
        "10.96.0.53:53/udp answered -",
        "db.example answered -",
        "db.example:443 answered -",
        "10.20.30.40 answered -",
    ];
    hold(lab, report, "d4_ladder_answered", (0, &all))
}

fn policy() -> Result<()> {
    let ground = ground("d4pol", RouteBack::Known)?;
    let lab = &ground.lab;
    lab.iptables_legacy(
        "node",
        "-A FORWARD -s 10.12.3.0/24 -d 10.20.0.0/16 -p tcp -j DROP",
    )?;
    let report = climb(lab, &["10.12.4.4", "10.20.30.40:443", "10.30.0.10"])?;
    let all = ["10.12.4.4 answered -", "10.20.30.40:443 dropped policy"];
    hold(lab, report, "d4_ladder_policy", (1, &all))
}

fn route() -> Result<()> {
    let ground = ground("d4rt", RouteBack::Known)?;
    let lab = &ground.lab;
    lab.ip("node", "route del default via 10.100.0.1")?;
    let report = climb(lab, &["10.12.4.4", "10.20.30.40", "10.30.0.10"])?;
    let all = ["10.12.4.4 answered -", "10.20.30.40 dropped route"];
    hold(lab, report, "d4_ladder_route", (1, &all))
}

/// The pod itself has no way: no packet is made.
fn not_sent() -> Result<()> {
    let ground = ground("d4none", RouteBack::Known)?;
    let lab = &ground.lab;
    lab.ip("pod", "route del default")?;
    let report = climb(lab, &["10.12.3.1", "10.20.30.40"])?;
    let all = ["10.12.3.1 answered -", "10.20.30.40 not-sent route"];
    hold(lab, report, "d4_ladder_not_sent", (1, &all))
}

fn service() -> Result<()> {
    let ground = ground("d4svc", RouteBack::Known)?;
    let lab = &ground.lab;
    let report = climb(lab, &["10.12.4.4", "10.96.0.99:80", "10.20.30.40"])?;
    let all = ["10.12.4.4 answered -", "10.96.0.99:80 refused service"];
    hold(lab, report, "d4_ladder_service", (1, &all))
}

fn far_side() -> Result<()> {
    let ground = ground("d4far", RouteBack::Missing)?;
    let lab = &ground.lab;
    let report = climb(lab, &["10.12.4.4", "10.20.30.40"])?;
    let all = ["10.12.4.4 answered -", "10.20.30.40 no-reply far-side"];
    hold(lab, report, "d4_ladder_far_side", (1, &all))
}

const LOOK_AT_DNS: &str = "10.20.30.40 answered and other.example:443 did not come past DNS: forwarding is fine, look at DNS";

fn no_such_name() -> Result<()> {
    let ground = ground("d3nx", RouteBack::Known)?;
    let lab = &ground.lab;
    let _resolver = resolver(lab)?;
    // The name first: the address behind it is tried all the same, to tell DNS and forwarding apart. That the node itself
    // answers does not.
    let asked = [
        "10.12.3.1",
        "10.96.0.53:53/udp",
        "other.example:443",
        "10.20.30.40",
        "10.30.0.10",
    ];
    let report = climb(lab, &asked)?;
    let all = [
        "10.12.3.1 answered -",
        "10.96.0.53:53/udp answered -",
        "other.example:443 no-such-name dns",
        "10.20.30.40 answered -",
    ];
    hold(lab, report, "d3_ladder_no_such_name", (1, &all))?;
    let pod = lab.netns("pod");
    let args = [&["ladder", "--from", &pod], &asked[..]].concat();
    let text = Srctrace::new(lab, &args).text().run_to_end()?;
    same("the status of text", text.status, Some(1)).with_context(|| text.stderr.clone())?;
    let said = text.lines.join("\n");
    ensure!(said.contains(LOOK_AT_DNS), "{said}");
    let last = text.lines.last().cloned().unwrap_or_default();
    let end = "The ladder ends at rung 3 of 5, other.example:443: DNS.";
    same("the last line", last.as_str(), end)
}

/// The resolver gets the query and says nothing.
fn resolver_silent() -> Result<()> {
    let ground = ground("d3sil", RouteBack::Known)?;
    let lab = &ground.lab;
    let listens = lab.in_ns("pod2", || UdpSocket::bind("10.12.4.4:53"))?;
    let _silent = listens.context("a resolver that hears and does not speak")?;
    let report = climb(lab, &["10.20.30.40", "db.example:443"])?;
    let all = ["10.20.30.40 answered -", "db.example:443 no-reply dns"];
    hold(lab, report, "d3_ladder_resolver_silent", (1, &all))
}

/// The query dies on its way: that is the layer, and not DNS.
fn query_dropped() -> Result<()> {
    let ground = ground("d3pol", RouteBack::Known)?;
    let lab = &ground.lab;
    lab.iptables_legacy("node", "-A FORWARD -p udp -m udp --dport 53 -j DROP")?;
    let report = climb(lab, &["10.12.4.4", "db.example"])?;
    let all = ["10.12.4.4 answered -", "db.example dropped policy"];
    hold(lab, report, "d3_ladder_query_dropped", (1, &all))
}

/// It is done, and what it does not test is said.
fn from_a_gateway() -> Result<()> {
    let lab = gateways::vpn("d4gw").up()?;
    lab.sysctl("vpn", "ipv4/ip_forward", "0")?;
    let vpn = lab.netns("vpn");
    let report = Srctrace::new(&lab, &["ladder", "--from", &vpn, "10.12.3.4"]).run_to_end()?;
    let warning = format!(
        "srctrace: warning: {vpn} has others behind tun0: what it sends itself is output, and says nothing of what it forwards \
         for them; for that, `srctrace ladder --client ADDR --from {vpn} …` watches while a client sends"
    );
    ensure!(report.stderr.contains(&warning), "{}", report.stderr);
    same(
        "the rungs",
        rungs(&report)?,
        vec!["10.12.3.4 answered -".to_owned()],
    )?;
    same("the status", report.status, Some(0))
}

/// One clear line, and nothing is sent.
fn wrong_usage() -> Result<()> {
    let ground = ground("d4use", RouteBack::Known)?;
    let lab = &ground.lab;
    let (pod, pod2) = (lab.netns("pod"), lab.netns("pod2"));
    // The same by kube-proxy's nftables mode.
    lab.nft(
        "node",
        "add table ip kube-proxy
         add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
         add chain ip kube-proxy services
         add chain ip kube-proxy web
         add element ip kube-proxy service-ips { 10.97.0.10 . tcp . 80 : goto web }
         add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips
",
    )?;
    for (args, should) in [
        (
            vec!["--from", &pod, "10.96.0.10"],
            "srctrace: ladder: 10.96.0.10 is a Service's address, which no echo request tells anything about: give it a port \
             (TCP), or 10.96.0.10:53/udp (a DNS query)",
        ),
        (
            vec!["--from", &pod, "10.12.4.4", "10.97.0.10"],
            "srctrace: ladder: 10.97.0.10 is a Service's address, which no echo request tells anything about: give it a port \
             (TCP), or 10.97.0.10:53/udp (a DNS query)",
        ),
        (
            vec!["--from", &pod2, "db.example"],
            "srctrace: ladder: which resolver to ask for names is not known: no process is in that namespace; --dns ADDR names one",
        ),
    ] {
        let args = [vec!["ladder"], args].concat();
        let report = Srctrace::new(lab, &args).run_to_end()?;
        same(
            "what it says",
            (report.stderr.trim_end(), report.status),
            (should, Some(2)),
        )?;
    }
    Ok(())
}
