//! Field case C39: a peered network sees the node's address, and that is what the configuration asks for.

use std::path::Path;

use anyhow::Result;

use super::super::steps::{watch, without_ports};
use super::{config, config_map, folder, held, masqueraded};
use crate::lab::AgentLoop;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::expect::compare;
use crate::trace::{Files, Names};
use crate::traffic::{Behaviour, StreamServer};

const POD_RANGE: &str = "10.12.0.0/16";
const SERVER: &str = "10.20.30.40:443";

/// Installed, told and on the wire are the same; what would keep the source is told before the edit.
pub(super) fn as_configured() -> Result<()> {
    let lab = cast::one_pod("cfgpeered", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let _agent = AgentLoop::start(&lab, Path::new(&folder(&files)), &config(&[POD_RANGE]))?;
    let now = files.write("now.yaml", config_map(&[POD_RANGE]).as_bytes())?;
    held(
        &lab,
        "field_c39_explained",
        0,
        &[SERVER, "--proto", "tcp", "--config", &now, "--strict"],
    )?;

    let file = files.path("a.srct");
    let _peer = StreamServer::start(&lab, "peer", SERVER, Behaviour::Answer)?;
    let mut report = watch(&lab, &["--dest", PEER, "--record", &file], 1, || {
        masqueraded(&lab, SERVER)
    })?;
    // The agent's rule says --random-fully.
    without_ports(&mut report)?;
    compare(
        "field_c39_peered_network_as_configured",
        &report,
        &Names::of(&[(&lab, "")]),
    )?;

    let everything = files.write("new.yaml", config_map(&["0.0.0.0/0"]).as_bytes())?;
    held(
        &lab,
        "field_c39_everything_exempt",
        0,
        &["--config", &everything, "--flows", &file],
    )
}
