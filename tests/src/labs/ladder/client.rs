//! The client sends, and srctrace watches: what a gateway pod sends itself would be output and not forwarding.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::steps::same;
use super::super::{Case, NATIVE, gateways};
use super::{RESOLVER, hold, kube_proxy, resolver};
use crate::lab::Lab;
use crate::lab::cast;
use crate::trace::{Srctrace, Trace};
use crate::traffic::{Behaviour, StreamCall, StreamServer, UdpCall, ping};

pub(in crate::labs) const CASES: &[Case] = &[
    Case::new("d4_ladder_client_forwarding", &["D4"], client_forwarding).on(NATIVE),
    Case::new("d4_ladder_client_answered", &["D4"], client_answered).on(NATIVE),
    Case::new("d4_ladder_client_silent", &["D4"], client_silent).on(NATIVE),
    Case::new("d4_ladder_client_ended", &["D4"], client_ended).on(NATIVE),
];

/// How long the client of a lab waits for one answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a rung of the client's is waited for.
pub(super) fn asked(trace: &Trace, n: usize, command: &str) -> Result<()> {
    trace.wait_says(&format!("srctrace: rung {n}, "))?;
    trace.wait_says(&format!("on 10.8.0.2, run:  {command}"))
}

/// The client of a rung that is an address sends its echo request. `id`: its identifier.
pub(super) fn pings(
    lab: &Lab,
    trace: &Trace,
    n: usize,
    to: &str,
    id: u16,
    answered: bool,
) -> Result<()> {
    asked(trace, n, &format!("ping -c 1 {to}"))?;
    let answer = ping(lab, "peer-client", to, id, PATIENCE)?;
    same(&format!("whether {to} answers"), answer, answered)
}

fn watch<'lab>(lab: &'lab Lab, args: &[&str]) -> Srctrace<'lab> {
    let vpn = lab.netns("vpn");
    let args = [&["ladder", "--client", "10.8.0.2", "--from", &vpn], args].concat();
    Srctrace::new(lab, &args)
}

fn client_forwarding() -> Result<()> {
    let lab = gateways::vpn("d4cfw").up()?;
    lab.sysctl("vpn", "ipv4/ip_forward", "0")?;
    let trace = watch(&lab, &["10.8.0.1", "10.12.3.4", "10.20.30.40:443"]).start()?;
    pings(&lab, &trace, 1, "10.8.0.1", 7, true)?;
    pings(&lab, &trace, 2, "10.12.3.4", 8, false)?;
    let report = trace.finish()?;
    let all = ["10.8.0.1 answered -", "10.12.3.4 dropped forwarding"];
    hold(&lab, report, "d4_ladder_client_forwarding", (1, &all))
}

/// The client's way through a gateway that forwards: pods, the resolver, and the far side.
fn client_answered() -> Result<()> {
    let mut net = gateways::vpn("d4call");
    net.forward("vpn")
        .route("node", "10.8.0.0/24 via 10.12.9.4");
    cast::pod(&mut net, "pod2", 4);
    let lab = net.up()?;
    kube_proxy(&lab)?;
    let _resolver = resolver(&lab)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let args = [
        "10.8.0.1",
        "10.12.3.4",
        "db.example",
        "10.20.30.40:443",
        "--dns",
        RESOLVER,
    ];
    let trace = watch(&lab, &args).start()?;
    pings(&lab, &trace, 1, "10.8.0.1", 7, true)?;
    pings(&lab, &trace, 2, "10.12.3.4", 8, true)?;
    asked(&trace, 3, "nslookup db.example 10.96.0.53")?;
    nslookup(&lab)?;
    asked(&trace, 4, "nc -z -v -w 5 10.20.30.40 443")?;
    let outcome = StreamCall::new("peer-client", "10.20.30.40:443", 43_210).run(&lab)?;
    ensure!(outcome.seen().is_some(), "the far side: {outcome:?}");
    let report = trace.finish()?;
    let all = [
        "10.8.0.1 answered -",
        "10.12.3.4 answered -",
        "db.example answered -",
        "10.20.30.40:443 answered -",
    ];
    hold(&lab, report, "d4_ladder_client_answered", (0, &all))
}

/// The query that nslookup sends for `db.example`.
fn nslookup(lab: &Lab) -> Result<()> {
    let query =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02db\x07example\x00\x00\x01\x00\x01";
    let to = format!("{RESOLVER}:53");
    let answer = UdpCall::new("peer-client", 43_053, &to)
        .payload(query)
        .run(lab);
    // An answer comes, and no lab server gives such a one.
    let said = answer.err().map(|error| error.to_string());
    same(
        "the resolver's answer",
        said.as_deref(),
        Some("an answer that no lab server gives"),
    )
}

/// The client sends something else: the rung says that nothing of it came, and where it should have.
fn client_silent() -> Result<()> {
    let lab = gateways::vpn("d4csil").up()?;
    let trace = watch(&lab, &["10.8.0.1", "10.12.3.4", "--wait", "3s"]).start()?;
    asked(&trace, 1, "ping -c 1 10.8.0.1")?;
    let report = trace.finish()?;
    let all = ["10.8.0.1 nothing-arrived client"];
    hold(&lab, report, "d4_ladder_client_silent", (1, &all))
}

/// Ctrl-C between two rungs: what was told stays told, and the rest is not certain.
fn client_ended() -> Result<()> {
    let lab = gateways::vpn("d4cend").up()?;
    // Neither the pod that forwards nor the resolver is named: both are found.
    let args = ["ladder", "--client", "10.8.0.2", "10.8.0.1", "db.example"];
    let trace = Srctrace::new(&lab, &args).start()?;
    pings(&lab, &trace, 1, "10.8.0.1", 7, true)?;
    asked(&trace, 2, "nslookup db.example")?;
    let report = trace.stop()?;
    let all = ["10.8.0.1 answered -"];
    hold(&lab, report, "d4_ladder_client_ended", (5, &all))
}
