//! What an edit would change, and the edit that is wanted.

use std::path::Path;

use anyhow::Result;

use super::super::steps::{answered, same, same_text, watch};
use super::{config, config_map, folder, held, text, written};
use crate::lab::AgentLoop;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::Files;
use crate::traffic::{Behaviour, StreamCall, StreamServer};

/// Before an edit: whose source would change, of the flows that were seen and of the pods here.
pub(super) fn plan() -> Result<()> {
    let lab = cast::two_pods("cfgplan", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    written(&lab, "iptables-legacy-restore", &["10.0.0.0/8"])?;
    let file = files.path("seen.srct");
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    watch(&lab, &["--dest", PEER, "--record", &file], 3, || {
        for (ns, port, source) in [
            ("pod", 43_210, "10.12.3.4:43210"),
            ("pod", 43_211, "10.12.3.4:43211"),
            ("pod2", 43_212, "10.12.4.4:43212"),
        ] {
            let outcome = StreamCall::new(ns, "10.20.30.40:443", port).run(&lab)?;
            same("what the far side saw", outcome, answered(source)?)?;
        }
        Ok(())
    })?;
    let narrow = files.write(
        "narrow.yaml",
        config_map(&["10.12.0.0/16", "10.100.0.0/24"]).as_bytes(),
    )?;
    held(
        &lab,
        "config_plan_of_flows",
        0,
        &["--config", &narrow, "--flows", &file],
    )?;
    same_text(
        "the plan as text",
        &text(&lab, &["--config", &narrow, "--flows", &file])?,
        PLAN.trim_end(),
    )?;
    held(
        &lab,
        "config_plan_of_a_destination",
        0,
        &["10.20.30.40:443", "--proto", "tcp", "--config", &narrow],
    )?;
    // What the plan foretold is what happens once the agent has written it.
    lab.run("node", "iptables-legacy -w 10 -t nat -D IP-MASQ-AGENT 2")?;
    lab.run(
        "node",
        "iptables-legacy -w 10 -t nat -I IP-MASQ-AGENT 2 -d 10.12.0.0/16 -j RETURN",
    )?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_213).run(&lab)?;
    same(
        "what the far side sees after it",
        outcome,
        answered("10.100.0.5:43213")?,
    )
}

const PLAN: &str = include_str!("plan.txt");

/// What is wanted, and the smallest edit that gives it: it does, on the wire.
pub(super) fn smallest_edit() -> Result<()> {
    let lab = cast::one_pod("cfgwant", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let folder = folder(&files);
    let mut agent = AgentLoop::start(&lab, Path::new(&folder), &config(&["10.30.0.0/16"]))?;
    let want = ["--want", "pod", "--dest", "10.20.0.0/16"];
    held(&lab, "config_want_pod", 0, &want)?;
    same_text("the edit as text", &text(&lab, &want)?, WANT.trim_end())?;
    agent.edit(&config(&["10.30.0.0/16", "10.20.0.0/16"]))?;
    agent.synced()?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same(
        "what the far side sees after the edit",
        outcome,
        answered("10.12.3.4:43210")?,
    )?;
    held(
        &lab,
        "config_want_it_already",
        0,
        &["--want", "pod", "10.20.30.40"],
    )?;
    held(
        &lab,
        "config_want_node",
        0,
        &["--want", "node", "10.20.30.40"],
    )
}

const WANT: &str = include_str!("want.txt");
