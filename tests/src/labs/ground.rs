//! The ground that other labs stand on: without srctrace, does the lab itself do what its rules say?

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Case;
use super::steps::{answered, same, same_text};
use crate::lab::cast::{self, RouteBack};
use crate::lab::{Agent, Lab, netns};
use crate::trace::state;
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer, UdpCall, UdpServer, ping};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "ground_rules_rewrite_and_exempt",
        &[],
        rules_rewrite_and_exempt,
    ),
    Case::new("ground_servers_have_manners", &[], servers_have_manners),
    Case::new("ground_every_protocol_answers", &[], every_protocol_answers),
    Case::new("ground_state_is_stable", &[], state_is_stable),
    Case::new("ground_lab_leaves_nothing", &[], lab_leaves_nothing),
];

fn rules_rewrite_and_exempt() -> Result<()> {
    let began = Instant::now();
    let lab = cast::two_pods("ground", RouteBack::Known).up()?;
    let built = began.elapsed();
    let agent = Agent {
        chain: "IP-MASQ",
        exempt: &["10.30.0.0/16"],
    };
    lab.restore("node", "iptables-legacy-restore", &agent.restore_script())?;
    println!(
        "lab built in {built:?}, with rules in {:?}",
        began.elapsed()
    );
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let _exempt = StreamServer::start(&lab, "peer", "10.30.0.10:443", Behaviour::Answer)?;
    let masqueraded = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same(
        "the masqueraded request",
        masqueraded,
        answered("10.100.0.5:43210")?,
    )?;
    let preserved = StreamCall::new("pod2", "10.30.0.10:443", 43_211).run(&lab)?;
    same(
        "the exempt request",
        preserved,
        answered("10.12.4.4:43211")?,
    )
}

fn servers_have_manners() -> Result<()> {
    let lab = cast::one_pod("manners", RouteBack::Known).up()?;
    let _silent = StreamServer::start(&lab, "peer", "10.20.30.40:1", Behaviour::Silent)?;
    let _close = StreamServer::start(
        &lab,
        "peer",
        "10.20.30.40:2",
        Behaviour::CloseAfterFirstData,
    )?;
    let _end = StreamServer::start(&lab, "peer", "10.20.30.40:3", Behaviour::AnswerAtEnd)?;
    let call = |port: u16| StreamCall::new("pod", &format!("10.20.30.40:{port}"), 40_000 + port);
    same(
        "silent",
        call(1).patience(Duration::from_millis(200)).run(&lab)?,
        Outcome::Silence,
    )?;
    same("closing", call(2).run(&lab)?, Outcome::Closed)?;
    same("nobody listening", call(9).run(&lab)?, Outcome::Refused)?;
    let stream = call(3).open(&lab)?.ok().context("no connection")?;
    same("bulk", stream.bulk(3 << 20)?, answered("10.12.3.4:40003")?)?;
    lab.nft(
        "peer",
        "table ip t { chain c { type filter hook input priority 0; tcp dport 4 drop; }; }",
    )?;
    same(
        "dropping",
        call(4).patience(Duration::from_millis(200)).run(&lab)?,
        Outcome::Silence,
    )
}

fn every_protocol_answers() -> Result<()> {
    let lab = cast::one_pod("protocols", RouteBack::Known).up()?;
    let _four = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let _six = UdpServer::start(&lab, "peer", "[fd50::20]:53")?;
    let _tcp_six = StreamServer::start(&lab, "peer", "[fd50::20]:443", Behaviour::Answer)?;
    same(
        "udp",
        UdpCall::new("pod", 5000, "10.20.30.40:53").run(&lab)?,
        answered("10.12.3.4:5000")?,
    )?;
    same(
        "udp6",
        UdpCall::new("pod", 5000, "[fd50::20]:53").run(&lab)?,
        answered("[fd12:3::4]:5000")?,
    )?;
    let six = StreamCall::new("pod", "[fd50::20]:443", 5000).run(&lab)?;
    same("tcp6", six, answered("[fd12:3::4]:5000")?)?;
    let large = UdpCall::new("pod", 5001, "10.20.30.40:53")
        .payload(vec![7; 4000])
        .run(&lab)?;
    same("udp in fragments", large, answered("10.12.3.4:5001")?)?;
    let patience = Duration::from_secs(5);
    ensure!(
        ping(&lab, "pod", cast::PEER, 77, patience)?,
        "ping was not answered"
    );
    ensure!(
        ping(&lab, "pod", cast::PEER6, 77, patience)?,
        "ping6 was not answered"
    );
    ensure!(
        !ping(&lab, "peer", "10.100.0.77", 77, Duration::from_millis(100))?,
        "a ping to nobody was answered"
    );
    Ok(())
}

/// What E7 compares must not move by itself, and must show a filter.
fn state_is_stable() -> Result<()> {
    let lab = cast::one_pod("state", RouteBack::Known).up()?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let before = state(&lab, "node")?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same("the request", outcome, answered("10.12.3.4:43210")?)?;
    same_text("the state after traffic", &state(&lab, "node")?, &before)?;
    lab.run("node", "tc qdisc add dev eth0 clsact")?;
    ensure!(state(&lab, "node")? != before, "a new qdisc does not show");
    Ok(())
}

fn lab_leaves_nothing() -> Result<()> {
    let names = |lab: &Lab| -> Vec<_> {
        lab.spaces()
            .iter()
            .map(|ns| netns::path(&lab.netns(ns)))
            .collect()
    };
    let mut lab = cast::one_pod("nothing", RouteBack::Known).up()?;
    lab.add_ns("late")?;
    let paths = names(&lab);
    ensure!(
        paths.iter().all(|path| path.exists()),
        "a namespace of the lab is missing: {paths:?}"
    );
    drop(lab);
    ensure!(
        paths.iter().all(|path| !path.exists()),
        "a namespace of the lab is left: {paths:?}"
    );
    let panicked = std::panic::catch_unwind(|| {
        let lab = cast::one_pod("panics", RouteBack::Known)
            .up()
            .map_err(|error| format!("{error:#}"));
        let paths = lab.as_ref().map(names).unwrap_or_default();
        // Unwinds as a panic does, without its message on the screen.
        std::panic::resume_unwind(Box::new(paths));
    });
    let paths = panicked
        .err()
        .and_then(|paths| paths.downcast::<Vec<std::path::PathBuf>>().ok());
    let paths = paths.context("the panic did not carry the paths")?;
    same("namespaces that the second lab had", paths.len(), 3)?;
    ensure!(
        paths.iter().all(|path| !path.exists()),
        "a panic leaves namespaces: {paths:?}"
    );
    Ok(())
}
