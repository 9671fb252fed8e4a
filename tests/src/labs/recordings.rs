//! Recordings: told again, cut off, and damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use super::Case;
use super::steps::{answered, masquerade, same, same_text};
use crate::lab::Lab;
use crate::lab::cast::{self, EXEMPT, PEER, RouteBack};
use crate::trace::{Files, Srctrace, merge};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("recording_tells_the_same_again", &[], told_again),
    Case::new("recording_of_a_killed_run", &["E7"], killed),
];

/// Two pods, two destinations, one of them exempt.
fn demo(name: &str) -> Result<(Lab, [StreamServer; 2])> {
    let lab = cast::two_pods(name, RouteBack::Known).up()?;
    masquerade(&lab, &["10.30.0.0/16"])?;
    let servers = [
        StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?,
        StreamServer::start(&lab, "peer", "10.30.0.10:443", Behaviour::Answer)?,
    ];
    Ok((lab, servers))
}

fn requests(lab: &Lab) -> Result<()> {
    let call = |pod, to, port, sees| -> Result<()> {
        let outcome = StreamCall::new(pod, &format!("{to}:443"), port).run(lab)?;
        same("what the far side saw", outcome, answered(sees)?)
    };
    call("pod", PEER, 43_210, "10.100.0.5:43210")?;
    call("pod", EXEMPT, 43_211, "10.12.3.4:43211")?;
    call("pod2", PEER, 43_220, "10.100.0.5:43220")?;
    call("pod2", EXEMPT, 43_221, "10.12.4.4:43221")
}

fn told_again() -> Result<()> {
    let (lab, _servers) = demo("again")?;
    let files = Files::new(&lab)?;
    let file = files.path("a.srct");
    let args = [PEER, EXEMPT, "--expect-reply", "--record", &file];
    let trace = Srctrace::new(&lab, &args).start()?;
    requests(&lab)?;
    trace.wait_flows(4)?;
    let live = trace.stop()?;
    same("the live run's status", live.status, Some(0))?;
    let mode = fs::metadata(&file)
        .context("the recording")?
        .permissions()
        .mode();
    same("the recording's mode", mode & 0o777, 0o600)?;
    let again = merge(&[&file])?;
    same_text(
        "the report",
        &again.lines.join("\n"),
        &live.lines.join("\n"),
    )?;
    same("the status", again.status, live.status)?;
    same_text("standard error", &again.stderr, "")?;
    same("flows", again.flows()?.len(), 4)
}

/// What a killed run had recorded is there; a file that was cut is read up to the cut, one that is damaged is refused.
fn killed() -> Result<()> {
    let (lab, _servers) = demo("killed")?;
    let files = Files::new(&lab)?;
    let file = files.path("a.srct");
    let trace = Srctrace::new(&lab, &[PEER, EXEMPT, "--record", &file]).start()?;
    requests(&lab)?;
    trace.wait_flows(4)?;
    let live = trace.signal(Signal::SIGKILL)?;
    let again = merge(&[&file])?;
    same_text(
        "the flows",
        &again.lines[..4].join("\n"),
        &live.lines.join("\n"),
    )?;
    same("the status", again.status, Some(0))?;
    let said = &again.stderr;
    ensure!(
        said.contains("the run was killed; what it had recorded is used"),
        "{said}"
    );

    let whole = fs::read(&file).context("read the recording")?;
    let cut = files.write("cut.srct", &whole[..whole.len() - 3])?;
    let report = merge(&[&cut])?;
    same("the status of the cut one", report.status, Some(0))?;
    let said = &report.stderr;
    ensure!(said.contains("ends in the middle of a frame"), "{said}");

    let mut damaged = whole;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x10;
    let damaged = files.write("damaged.srct", &damaged)?;
    let report = merge(&[&damaged])?;
    same("the status of the damaged one", report.status, Some(2))?;
    let said = &report.stderr;
    ensure!(
        said.contains("it is damaged at byte") && said.lines().count() == 1,
        "{said}"
    );
    let stranger = files.write("stranger", b"no recording at all")?;
    let report = merge(&[&stranger])?;
    same("the status of something else", report.status, Some(2))?;
    ensure!(
        report
            .stderr
            .contains("neither a recording of srctrace (.srct) nor a packet capture"),
        "{}",
        report.stderr
    );
    Ok(())
}
