//! Steps that many labs take.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::foretold;
use crate::lab::cast::{self, RouteBack};
use crate::lab::{Agent, Lab};
use crate::trace::expect::difference;
use crate::trace::{Expected, Names, Report, Srctrace};
use crate::traffic::{Outcome, StreamCall};

/// How long a client waits where no answer is expected: long enough for the request to be sent a second time, a second after
/// the first, so that its silence counts.
pub(super) const A_MOMENT: Duration = Duration::from_millis(1500);

/// The claims of the request that most labs make, where the node masquerades it.
pub(super) const MASQUERADED: &str = "
    tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
    request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
    rule iptables-legacy nat/IP-MASQ 1
    source-rewritten, on the wire 10.100.0.5, completed";

/// [`MASQUERADED`] by another rule: the lines that say by which, none where that cannot be told.
pub(super) fn masqueraded_by(rules: &[&str]) -> String {
    let is_rule = |line: &&str| line.trim_start().starts_with("rule ");
    let mut lines: Vec<&str> = MASQUERADED.lines().filter(|line| !is_rule(line)).collect();
    let before_verdict = lines.len() - 1;
    lines.splice(before_verdict..before_verdict, rules.iter().copied());
    lines.join("\n")
}

/// The outcome in which the far side saw this address and port.
pub(super) fn answered(addr: &str) -> Result<Outcome> {
    let addr: SocketAddr = addr.parse().with_context(|| format!("{addr} in a lab"))?;
    Ok(Outcome::Answered(addr))
}

/// Two values must be equal.
pub(super) fn same<T: PartialEq + Debug>(what: &str, is: T, should: T) -> Result<()> {
    ensure!(is == should, "{what}: {is:?}, should be {should:?}");
    Ok(())
}

/// Two long texts must be equal; the error shows where they are not.
pub(super) fn same_text(what: &str, is: &str, should: &str) -> Result<()> {
    ensure!(is == should, "{what} differs:\n{}", difference(should, is));
    Ok(())
}

/// The node's ip-masq-agent rules by iptables-legacy, with these exemptions.
pub(super) fn masquerade(lab: &Lab, exempt: &[&str]) -> Result<()> {
    let agent = Agent {
        chain: "IP-MASQ",
        exempt,
    };
    lab.restore("node", "iptables-legacy-restore", &agent.restore_script())
}

/// Adds to an agent's rules, before and after them and where nobody jumps to, decoys that masquerade as well.
pub(super) fn decoys(lab: &Lab, program: &str) -> Result<()> {
    const DECOYS: &str = "*nat\n:IP-MASQ-OLD - [0:0]\n\
        -I POSTROUTING 1 -d 10.99.0.0/16 -j MASQUERADE\n\
        -I IP-MASQ 1 -d 10.98.0.0/16 -j MASQUERADE\n\
        -A IP-MASQ -j SNAT --to-source 10.100.0.5\n\
        -A IP-MASQ-OLD -j MASQUERADE\nCOMMIT\n";
    lab.restore("node", program, DECOYS)
}

/// The pod's connection is reset once the node's conntrack has forgotten it: the reset finds no entry.
pub(super) fn reset_without_entry(lab: &Lab) -> Result<()> {
    let call = StreamCall::new("pod", "10.20.30.40:443", 43_210);
    let Ok(stream) = call.open(lab)? else {
        bail!("no connection");
    };
    same(
        "the request",
        stream.ask(b"hello")?,
        answered("10.100.0.5:43210")?,
    )?;
    lab.run("node", "conntrack -D -p tcp --orig-src 10.12.3.4")?;
    stream.reset()
}

/// One pod whose node masquerades everything.
pub(super) fn masqueraded_pod(name: &str, back: RouteBack) -> Result<Lab> {
    let lab = cast::one_pod(name, back).up()?;
    masquerade(&lab, &[])?;
    Ok(lab)
}

/// Traces with these arguments while `traffic` runs, waits until `flows` are reported, stops, and returns the report. A flow
/// that is closed is reported at once; one that is not, only at the end, so `flows` counts those that close.
pub(super) fn watch(
    lab: &Lab,
    args: &[&str],
    flows: usize,
    traffic: impl FnOnce() -> Result<()>,
) -> Result<Report> {
    watch_with(&Srctrace::new(lab, args), flows, traffic)
}

/// [`watch`] with more than arguments.
pub(super) fn watch_with(
    srctrace: &Srctrace<'_>,
    flows: usize,
    traffic: impl FnOnce() -> Result<()>,
) -> Result<Report> {
    let trace = srctrace.start()?;
    traffic()?;
    trace.wait_flows(flows)?;
    trace.stop()
}

/// The report of a run that ended with status 0, held against these claims, findings and the file `expect/NAME.json`.
pub(super) fn hold(
    lab: &Lab,
    report: &Report,
    name: &str,
    flows: &[&str],
    findings: &[(usize, &str)],
) -> Result<()> {
    let expected = Expected {
        name,
        status: 0,
        flows,
        findings,
    };
    expected.hold(&with_one_port(report), &Names::of(&[(lab, "")]))?;
    foretold::agrees(lab, report)
}

/// Tunnels of labs that are told to send from ports 40000 to 40001 take the first; Linux 7 takes either, by a hash. (A range of
/// one port is none to Linux.) So the second counts as the first.
fn with_one_port(report: &Report) -> Report {
    let mut report = report.clone();
    for line in &mut report.lines {
        *line = line.replace("40001", "40000");
    }
    report
}

/// Takes the ports of the kernel's choice out of a report, so that whole reports compare: a probe has such.
pub(super) fn without_ports(report: &mut Report) -> Result<()> {
    let mut ports = Vec::new();
    for flow in report.flows()? {
        let hops = flow["hops"].as_array().into_iter().flatten();
        let translated = hops.map(|hop| hop["tuple"]["sport"].to_string());
        ports.extend(translated);
        ports.push(flow["flow"]["sport"].to_string());
    }
    for line in &mut report.lines {
        for port in &ports {
            for key in ["sport", "port", "dport"] {
                let (from, to) = (format!("\"{key}\":{port}"), format!("\"{key}\":0"));
                *line = line.replace(&format!("{from},"), &format!("{to},"));
                *line = line.replace(&format!("{from}}}"), &format!("{to}}}"));
            }
        }
    }
    Ok(())
}

/// Waits for a condition that nobody signals, looking every few milliseconds.
pub(super) fn wait_for(
    what: &str,
    patience: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<Duration> {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > patience {
            bail!("not within {patience:?}: {what}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(began.elapsed())
}
