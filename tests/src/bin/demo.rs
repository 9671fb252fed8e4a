//! The demo: a node, two pods and a far side, ip-masq-agent's rules, real requests, the real program and its report.

use anyhow::{Context as _, Result};
use srctrace_tests::lab::cast::{self, RouteBack};
use srctrace_tests::lab::{Agent, Lab};
use srctrace_tests::trace::Srctrace;
use srctrace_tests::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

const PICTURE: &str = "\
A lab of network namespaces, as on a Kubernetes node:

  pod  10.12.3.4 ── veth-pod ──┐
                               node ── eth0 10.100.0.5 ─── 10.100.0.1 peer: 10.20.30.40
  pod2 10.12.4.4 ── veth-pod2 ─┘                                            10.30.0.10
                 iptables-legacy, chain IP-MASQ-AGENT:
                   1  10.30.0.0/16 keeps its source (RETURN)
                   2  everything else leaves as the node (MASQUERADE)
";

fn main() -> Result<()> {
    let lab = cast::two_pods("demo", RouteBack::Known)
        .up()
        .context("build the demo's lab")?;
    let agent = Agent {
        chain: "IP-MASQ-AGENT",
        exempt: &["10.30.0.0/16"],
    };
    lab.restore("node", "iptables-legacy-restore", &agent.restore_script())?;
    println!("{PICTURE}");
    println!("$ srctrace --dest 10.20.30.40 --dest 10.30.0.10        (on the node)");
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let _exempt = StreamServer::start(&lab, "peer", "10.30.0.10:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", cast::PEER, "--dest", cast::EXEMPT])
        .on_terminal()
        .start()?;
    let seen = requests(&lab)?;
    let report = trace.stop()?;
    println!("\nWhat the far side saw, by its own account:");
    for line in seen {
        println!("  {line}");
    }
    println!(
        "srctrace ended with status {}; the lab is removed.",
        report.status.unwrap_or(-1)
    );
    Ok(())
}

/// Real requests from both pods to both destinations, and whom the servers say they saw.
fn requests(lab: &Lab) -> Result<Vec<String>> {
    let calls = [
        ("pod", cast::PEER, 43_210),
        ("pod", cast::EXEMPT, 43_211),
        ("pod2", cast::PEER, 43_220),
        ("pod2", cast::EXEMPT, 43_221),
    ];
    calls
        .into_iter()
        .map(|(pod, dst, sport)| {
            let outcome = StreamCall::new(pod, &format!("{dst}:443"), sport).run(lab)?;
            Ok(match outcome {
                Outcome::Answered(seen) => format!("{pod:<4} → {dst}:443  seen as {seen}"),
                other => format!("{pod:<4} → {dst}:443  {other:?}"),
            })
        })
        .collect()
}
