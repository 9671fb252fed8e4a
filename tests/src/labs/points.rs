//! Rows C1: points with names, and between which of them the source changed.
//!
//! ```text
//! peer-client 10.8.0.2 -- tun0 vpn 10.12.9.4 eth0 -- node -- eth0 10.12.5.4 backend
//!                         ^tun            ^pod               ^backend
//! ```

use anyhow::{Context as _, Result, ensure};

use super::gateways::vpn;
use super::steps::{answered, hold, same, same_text};
use super::{Case, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER};
use crate::trace::{Files, Report, Srctrace, merge, merge_as};
use crate::traffic::{Behaviour, StreamCall, StreamServer, tun};

pub(super) const CASES: &[Case] = &[
    Case::new("c1_changed_by_the_pod_itself", &["C1"], by_the_pod),
    Case::new("c1_changed_downstream", &["C1"], downstream),
    Case::new("c1_not_changed", &["C1"], not_changed),
    Case::new("c1_a_point_never_sees_it", &["C1"], never_seen),
    Case::new("c1_from_a_real_tun_device", &["C1"], from_tun).needs(&["tun"]),
    Case::new("points_are_recorded_and_grouped", &[], recorded),
    Case::new("wrong_points_are_one_line", &[], wrong).on(NATIVE),
];

const BACKEND: &str = "10.12.5.4";
pub(super) const BY_POD: &str = "-t nat -A POSTROUTING -o eth0 -j MASQUERADE";
const BY_NODE: &str = "-t nat -A POSTROUTING -s 10.8.0.0/24 -j MASQUERADE";

/// The gateway pod forwards, and a backend is another pod of the node.
pub(super) fn lab(name: &str) -> Result<Lab> {
    let mut net = vpn(name);
    net.forward("vpn");
    cast::pod(&mut net, "backend", 5);
    net.route("node", "10.8.0.0/24 via 10.12.9.4");
    net.up()
}

/// The three points of the lab.
pub(super) fn points(lab: &Lab) -> Vec<String> {
    let at = |name: &str, ifname: &str, ns: &str| format!("{name}={ifname}@{}", lab.netns(ns));
    vec![
        at("tun", "tun0", "vpn"),
        at("pod", "eth0", "vpn") + ":out",
        at("backend", "eth0", "backend"),
    ]
}

/// Traces to these destinations, with the three points.
fn start<'a>(lab: &'a Lab, args: &[&str]) -> Srctrace<'a> {
    let points = points(lab);
    let mut all = args.to_vec();
    for point in &points {
        all.extend(["--point", point]);
    }
    Srctrace::new(lab, &all)
}

/// The client asks the backend, which sees it as `seen`.
fn ask(lab: &Lab, to: &str, sport: u16, seen: &str) -> Result<()> {
    let outcome = StreamCall::new("peer-client", to, sport).run(lab)?;
    same("what the far side saw", outcome, answered(seen)?)
}

fn ask_backend(lab: &Lab, seen: &str) -> Result<Report> {
    let _backend = StreamServer::start(lab, "backend", "10.12.5.4:443", Behaviour::Answer)?;
    let trace = start(lab, &["--dest", BACKEND]).start()?;
    ask(lab, "10.12.5.4:443", 43_210, seen)?;
    trace.wait_flows(1)?;
    trace.stop()
}

fn by_the_pod() -> Result<()> {
    let lab = lab("c1pod")?;
    lab.iptables_legacy("vpn", BY_POD)?;
    let report = ask_backend(&lab, "10.12.9.4:43210")?;
    let claims = "tcp 10.8.0.2:43210 > 10.12.5.4:443 from gateway vpn
         request src 10.8.0.2:43210 > 10.12.9.4:43210 at gateway, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.9.4, completed";
    hold(
        &lab,
        &report,
        "c1_changed_by_the_pod_itself",
        &[claims],
        &[(0, "changed-between-points")],
    )
}

fn downstream() -> Result<()> {
    let lab = lab("c1down")?;
    lab.iptables_legacy("node", BY_NODE)?;
    let report = ask_backend(&lab, "10.12.5.1:43210")?;
    let claims = "tcp 10.8.0.2:43210 > 10.12.5.4:443 from gateway vpn
         request src 10.8.0.2:43210 > 10.12.5.1:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.5.1, completed";
    hold(
        &lab,
        &report,
        "c1_changed_downstream",
        &[claims],
        &[(0, "changed-between-points")],
    )
}

fn not_changed() -> Result<()> {
    let lab = lab("c1kept")?;
    let report = ask_backend(&lab, "10.8.0.2:43210")?;
    let claims = "tcp 10.8.0.2:43210 > 10.12.5.4:443 from gateway vpn
         source-preserved, on the wire 10.8.0.2, completed";
    hold(&lab, &report, "c1_not_changed", &[claims], &[])
}

/// The client talks to another host than the one whose device is watched.
fn never_seen() -> Result<()> {
    let lab = lab("c1never")?;
    lab.iptables_legacy("vpn", BY_POD)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = start(&lab, &["--dest", PEER]).start()?;
    ask(&lab, "10.20.30.40:443", 43_210, "10.12.9.4:43210")?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    let claims = "tcp 10.8.0.2:43210 > 10.20.30.40:443 from gateway vpn
         request src 10.8.0.2:43210 > 10.12.9.4:43210 at gateway, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.9.4, completed";
    hold(&lab, &report, "c1_a_point_never_sees_it", &[claims], &[])
}

/// As a VPN server does it: packets come out of a program by a tun device.
fn from_tun() -> Result<()> {
    let mut net = cast::one_pod("c1tun", cast::RouteBack::Known);
    cast::pod(&mut net, "vpn", 9);
    net.forward("vpn");
    let lab = net.up()?;
    let device = tun::Tun::open(&lab, "vpn", "tun0")?;
    lab.ip("vpn", "addr add 10.8.0.1/24 dev tun0\nlink set tun0 up")?;
    lab.iptables_legacy("vpn", BY_POD)?;
    let at = |name: &str, ifname: &str| format!("{name}={ifname}@{}", lab.netns("vpn"));
    let (tun, pod) = (at("tun", "tun0"), at("pod", "eth0"));
    let args = ["--dest", PEER, "--point", &tun, "--point", &pod];
    let trace = Srctrace::new(&lab, &args).start()?;
    let answer = device.echo("10.8.0.2", PEER, 4711)?;
    same(
        "the answer's addresses",
        answer,
        (PEER.into(), "10.8.0.2".into()),
    )?;
    let report = trace.stop()?;
    let claims = "icmp 10.8.0.2:4711 > 10.20.30.40:0 from gateway vpn
         request src 10.8.0.2:4711 > 10.12.9.4:4711 at gateway, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.9.4, completed";
    hold(
        &lab,
        &report,
        "c1_from_a_real_tun_device",
        &[claims],
        &[(0, "changed-between-points")],
    )
}

/// The points are in the recording; flows that some point did not see are a group of their own.
fn recorded() -> Result<()> {
    let lab = lab("ptrec")?;
    lab.iptables_legacy("vpn", BY_POD)?;
    let _servers = [
        StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?,
        StreamServer::start(&lab, "backend", "10.12.5.4:443", Behaviour::Answer)?,
    ];
    let files = Files::new(&lab)?;
    let file = files.path("a.srct");
    let args = ["--dest", PEER, "--dest", BACKEND, "--record", &file];
    let trace = start(&lab, &args).start()?;
    for sport in [43_210, 43_211] {
        ask(
            &lab,
            "10.20.30.40:443",
            sport,
            &format!("10.12.9.4:{sport}"),
        )?;
    }
    ask(&lab, "10.12.5.4:443", 43_212, "10.12.9.4:43212")?;
    trace.wait_flows(3)?;
    let live = trace.stop()?;
    let again = merge(&[&file])?;
    same_text(
        "the report",
        &again.lines.join("\n"),
        &live.lines.join("\n"),
    )?;
    let counts = |report: &Report| -> Result<Vec<(String, u64, u64)>> {
        let summary = report.summary()?;
        let points = summary["points"].as_array().context("points")?.clone();
        let count = |point: &serde_json::Value, key: &str| point[key].as_u64().unwrap_or(99);
        let one = |point: &serde_json::Value| {
            let name = point["name"].as_str().unwrap_or("-").to_owned();
            (name, count(point, "saw"), count(point, "never"))
        };
        Ok(points.iter().map(one).collect())
    };
    let should = [("tun", 3, 0), ("pod", 3, 0), ("backend", 1, 2)];
    let should: Vec<_> = should
        .map(|(name, saw, never)| (name.to_owned(), saw, never))
        .into();
    same("what the points saw", counts(&again)?, should)?;
    let groups = merge(&[&file, "--group"])?.flows()?;
    let groups: Vec<_> = groups
        .iter()
        .map(|flow| (flow["count"].as_u64(), flow["points"][2]["seen"].clone()))
        .collect();
    let should = vec![(Some(2), "never".into()), (Some(1), "both".into())];
    same("the groups", groups, should)?;
    let text = merge_as("text", &[&file, "--group"])?.lines;
    let backend = lab.netns("backend");
    for line in [
        format!("  point backend (eth0 of {backend}) never saw this flow"),
        format!("point backend (eth0 of {backend}): saw 1 of 3 flows"),
    ] {
        ensure!(text.contains(&line), "no line {line:?} in {text:#?}");
    }
    Ok(())
}

/// Each wrong point is one line and status 2, before anything is attached.
fn wrong() -> Result<()> {
    let lab = lab("ptwrong")?;
    let vpn = lab.netns("vpn");
    let cases: [(&[&str], &str); 7] = [
        (&["a=nothing"], "there is no such interface"),
        (
            &[&format!("a=tunn0@{vpn}")],
            "there is no such interface; there are: tun0, eth0, lo",
        ),
        (&["a=eth0@no-such-netns"], "no-such-netns"),
        (&["a=eth0@999999999"], "999999999"),
        (
            &[&format!("a=eth0@{}", lab.netns("peer"))],
            "add it to --scope",
        ),
        (&["a=eth0", "a=lo"], "there is a point of that name already"),
        (&["a=eth0", "b=eth0:out"], "the point a is there already"),
    ];
    for (given, said) in cases {
        let mut args = vec!["--dest", PEER];
        given
            .iter()
            .for_each(|point| args.extend(["--point", point]));
        let report = Srctrace::new(&lab, &args).run_to_end()?;
        let stderr = &report.stderr;
        ensure!(
            report.status == Some(2)
                && report.lines.is_empty()
                && stderr.lines().count() == 1
                && stderr.contains(said)
                && stderr.contains("--point"),
            "{given:?}: status {:?}, said {stderr:?}",
            report.status
        );
    }
    Ok(())
}
