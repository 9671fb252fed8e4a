//! Two machines, each with a srctrace of its own, and their recordings joined.
//!
//! ```text
//! node-a: pod 10.12.3.4 -- node 10.100.0.5 -- 10.100.0.1 peerway 10.20.0.1 -- 10.20.30.40 peer :peer-b
//! ```
//! Nobody looks at `peerway`, a router that masquerades too. The second machine's clock is an hour behind.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Case;
use super::NATIVE;
use super::steps::{A_MOMENT, answered, hold, masquerade, same};
use crate::lab::cast;
use crate::lab::{Lab, Topology};
use crate::trace::{Files, Report, Srctrace, Trace, merge, merge_as};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer, UdpCall, UdpServer, ping};

pub(super) const CASES: &[Case] = &[
    Case::new("merged_two_machines", &["E4"], two_machines),
    // An emulated machine takes too long to read the rules of so many namespaces twice.
    Case::new("merged_where_it_was_lost", &["B1"], where_it_was_lost).on(NATIVE),
    Case::new("merged_points_of_two_machines", &["C1", "E4"], points),
    Case::new("merged_redacted_recordings", &["E4"], redacted),
];

const SHIFT_MS: f64 = -3_600_000.0;

/// Machines and router; what comes from the node leaves the router as the router.
pub(super) fn machines(name: &str) -> Result<Lab> {
    let mut net = Topology::new(name);
    cast::pod(&mut net, "pod", 3);
    net.forward("node")
        .forward("peerway")
        .veth(("peerway", "eth0"), ("node", "eth0"))
        .veth(("peer", "eth0"), ("peerway", "eth1"))
        .addr("node", "eth0", "10.100.0.5/24")
        .addr("peerway", "eth0", "10.100.0.1/24")
        .addr("peerway", "eth1", "10.20.0.1/16")
        .addr("peer", "eth0", "10.20.30.40/16")
        .route("node", "default via 10.100.0.1")
        .route("peer", "default via 10.20.0.1");
    let lab = net.up()?;
    masquerade(&lab, &[])?;
    lab.nft(
        "peerway",
        "table ip way {
            chain out { type nat hook postrouting priority 100; oifname eth1 masquerade; }
            chain through {
                type filter hook forward priority 0
                tcp dport 444 drop
                tcp sport 445 drop
            }
        }",
    )?;
    Ok(lab)
}

/// Both machines' traces, each with a recording.
struct Both<'lab> {
    near: Trace,
    far: Trace,
    files: Files,
    lab: &'lab Lab,
}

impl<'lab> Both<'lab> {
    fn start(lab: &'lab Lab, more: &[&str]) -> Result<Self> {
        let files = Files::new(lab)?;
        let (near, far) = (files.path("node-a.srct"), files.path("peer-b.srct"));
        let args = |host, file| [&["10.20.30.40", "--host", host, "--record", file], more].concat();
        Ok(Self {
            near: Srctrace::new(lab, &args("node-a", &near))
                .within(&["node", "pod"])
                .start()?,
            far: Srctrace::new(lab, &args("peer-b", &far))
                .within(&["peer"])
                .started_in("peer")
                .env("SRCTRACE_CLOCK_SHIFT_MS", &SHIFT_MS.to_string())
                .start()?,
            files,
            lab,
        })
    }

    /// Stops both, and merges, first as given and then the other way round: that may only change who is told about
    /// whose clock. The report, and the text for people.
    fn merge(self) -> Result<(Report, String)> {
        for trace in [self.near, self.far] {
            let report = trace.stop()?;
            same("a live run's status", report.status, Some(0))?;
        }
        let (near, far) = (
            self.files.path("node-a.srct"),
            self.files.path("peer-b.srct"),
        );
        let turned = merge(&[&far, &near])?;
        let report = merge(&[&near, &far])?;
        let claims = |report: &Report| -> Result<Vec<Value>> {
            let flows = report.flows()?.into_iter();
            Ok(flows.map(|flow| flow["verdict"].clone()).collect())
        };
        same(
            "the verdicts turned round",
            claims(&turned)?,
            claims(&report)?,
        )?;
        let text = merge_as("text", &[&near, &far])?.lines.join("\n");
        Ok((report, text.replace(self.lab.prefix(), "")))
    }
}

/// What a person reads of the TCP flow.
fn told_to_people(text: &str) -> Result<()> {
    let lines = [
        "▶  source rewritten on the node (node-a): netfilter POSTROUTING",
        "▶  source rewritten between node-a and peer-b: by what is not known",
        "Reached peer by eth0 as 10.20.0.1. Replies came back to the pod.",
    ];
    for line in lines {
        ensure!(text.contains(line), "lacks {line:?}:\n{text}");
    }
    Ok(())
}

fn hosts(flow: &Value) -> Vec<&str> {
    let hops = flow["hops"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    hops.iter().filter_map(|hop| hop["host"].as_str()).collect()
}

/// Every flow goes from one machine to the other, in one time, though their clocks differ.
fn in_one_time(report: &Report) -> Result<()> {
    for flow in report.flows()? {
        same(
            "hosts",
            hosts(&flow),
            vec!["node-a", "node-a", "node-a", "peer-b"],
        )?;
        let clock = &flow["findings"][0]["data"]["clocks"][1];
        let offset = clock["offset_us"]
            .as_f64()
            .context("no offset of the clock")?
            / 1000.0;
        ensure!(
            (offset + SHIFT_MS).abs() < 100.0,
            "peer-b is {offset} ms behind"
        );
        let times = flow["hops"].as_array().into_iter().flatten();
        let times: Vec<i64> = times.filter_map(|hop| hop["t_us"].as_i64()).collect();
        ensure!(
            times.is_sorted() && times.last() < Some(&1_000_000),
            "{times:?}"
        );
    }
    Ok(())
}

/// Points of the same name on both machines: between which of them each change lies.
fn points() -> Result<()> {
    let lab = machines("mergept")?;
    let _tcp = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let both = Both::start(&lab, &["--point", "uplink=eth0", "--point", "lo=lo"])?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same("tcp", outcome, answered("10.20.0.1:43210")?)?;
    both.near.wait_flows(1)?;
    let (report, text) = both.merge()?;
    for line in [
        "the source changed from 10.12.3.4 to 10.100.0.5 before the point uplink of node-a, the first that saw it: the node translates",
        "the source changed from 10.100.0.5 to 10.20.0.1 between the points uplink of node-a and uplink of peer-b: downstream of node, by whom was not seen",
        "point lo (lo of peer) never saw this flow",
    ] {
        ensure!(text.contains(line), "lacks {line:?}:\n{text}");
    }
    hold(
        &lab,
        &report,
        "merged_points_of_two_machines",
        &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
             request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             request src 10.100.0.5:43210 > 10.20.0.1:43210 at downstream, null, unknown, by between, and back
             source-rewritten, on the wire 10.20.0.1, completed"],
        &[(0, "changed-between-points")],
    )
}

fn two_machines() -> Result<()> {
    let lab = machines("merged")?;
    let _tcp = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let udp = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let both = Both::start(&lab, &[])?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same("tcp", outcome, answered("10.20.0.1:43210")?)?;
    let outcome = UdpCall::new("pod", 43_211, "10.20.30.40:53").run(&lab)?;
    same("udp", outcome, answered("10.20.0.1:43211")?)?;
    ensure!(
        ping(&lab, "pod", "10.20.30.40", 77, A_MOMENT)?,
        "no answer to the ping"
    );
    drop(udp);
    both.near.wait_flows(3)?;
    let (report, text) = both.merge()?;
    told_to_people(&text)?;
    in_one_time(&report)?;
    hold(
        &lab,
        &report,
        "merged_two_machines",
        &[
            "icmp 10.12.3.4:77 > 10.20.30.40:0 from pod pod
             request src 10.12.3.4:77 > 10.100.0.5:77 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             request src 10.100.0.5:77 > 10.20.0.1:77 at downstream, null, unknown, by between, and back
             source-rewritten, on the wire 10.20.0.1, completed",
            "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
             request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             request src 10.100.0.5:43210 > 10.20.0.1:43210 at downstream, null, unknown, by between, and back
             source-rewritten, on the wire 10.20.0.1, completed",
            "udp 10.12.3.4:43211 > 10.20.30.40:53 from pod pod
             request src 10.12.3.4:43211 > 10.100.0.5:43211 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             request src 10.100.0.5:43211 > 10.20.0.1:43211 at downstream, null, unknown, by between, and back
             source-rewritten, on the wire 10.20.0.1, completed",
        ],
        &[(0, "joined-across-hosts"), (1, "double-rewrite")],
    )
}

fn claims_of_the_lost() -> [String; 4] {
    let masqueraded = |port: u16, to: &str, twice: bool, back: &str, end: &str| {
        let twice_line = format!(
            "\nrequest src 10.100.0.5:43{port} > 10.20.0.1:43{port} at downstream, null, unknown, by between{back}"
        );
        format!(
            "tcp 10.12.3.4:43{port} > 10.20.30.40:{port} from pod pod
             request src 10.12.3.4:43{port} > 10.100.0.5:43{port} at node, postrouting, netfilter, by conntrack{back}
             rule iptables-legacy nat/IP-MASQ 1{}
             {end}source-rewritten, on the wire {to}",
            if twice { &twice_line } else { "" },
        )
    };
    [
        masqueraded(443, "10.20.0.1, completed", true, ", and back", ""),
        masqueraded(444, "10.100.0.5, no-reply", false, "", ""),
        masqueraded(445, "10.20.0.1, reply-lost", true, "", ""),
        masqueraded(
            446,
            "10.20.0.1, dropped",
            true,
            "",
            "dropped: NETFILTER_DROP\npolicy-drop: nft own/in handle 2\n",
        ),
    ]
}

/// With the far side's recording, "no reply" has a place.
fn where_it_was_lost() -> Result<()> {
    let lab = machines("lost")?;
    let servers = [443, 444, 445, 446].map(|port| {
        let addr = format!("10.20.30.40:{port}");
        StreamServer::start(&lab, "peer", &addr, Behaviour::Answer)
    });
    lab.nft(
        "peer",
        "table ip own { chain in { type filter hook input priority 0; tcp dport 446 drop; }; }",
    )?;
    let both = Both::start(&lab, &[])?;
    let call = |port: u16| {
        StreamCall::new("pod", &format!("10.20.30.40:{port}"), 43_000 + port).patience(A_MOMENT)
    };
    same(
        "the answered one",
        call(443).run(&lab)?,
        answered("10.20.0.1:43443")?,
    )?;
    for port in [444, 445, 446] {
        same(
            "the unanswered one",
            call(port).run(&lab)?,
            Outcome::Silence,
        )?;
    }
    drop(servers);
    both.near.wait_flows(4)?;
    let (report, _) = both.merge()?;
    let claims = claims_of_the_lost();
    let claims = claims.each_ref().map(String::as_str);
    hold(
        &lab,
        &report,
        "merged_where_it_was_lost",
        &claims,
        &[
            (1, "not-seen-at-peer"),
            (2, "lost-on-the-way-back"),
            (3, "policy-drop"),
        ],
    )
}

/// Addresses and names are replaced on each machine by a secret of its own: flows are joined all the same, and what
/// cannot be compared is not.
fn redacted() -> Result<()> {
    let lab = machines("redacted")?;
    let _tcp = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let both = Both::start(&lab, &["--redact"])?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same("tcp", outcome, answered("10.20.0.1:43210")?)?;
    both.near.wait_flows(1)?;
    both.far.wait_flows(1)?;
    let (report, _) = both.merge()?;
    let said = format!("{}\n{}", report.lines.join("\n"), report.stderr);
    for secret in [
        "10.12.3.4",
        "10.100.0.5",
        "10.20.30.40",
        "10.20.0.1",
        lab.prefix(),
        "node-a",
        "peer-b",
    ] {
        ensure!(!said.contains(secret), "{secret} is still in: {said}");
    }
    let flow = report.only_flow()?;
    let spread: std::collections::BTreeSet<&str> = hosts(&flow).into_iter().collect();
    same("hosts of the flow", spread.len(), 2)?;
    same(
        "the verdict",
        &flow["verdict"]["source"],
        &"source-rewritten".into(),
    )?;
    let rewrites = flow["rewrites"].as_array().context("no rewrites")?;
    same("changes that can be told", rewrites.len(), 2)?;
    same("the rule", &rewrites[0]["rule"]["chain"], &"IP-MASQ".into())
}
