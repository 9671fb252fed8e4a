//! `srctrace merge`: recordings in, one path per flow out. Needs no root and nothing of the kernel.

mod player;
mod sums;

use super::failure::Failure;
use super::tell::Teller;
use crate::cli::MergeOptions;
use crate::render::escape;
use crate::sink;
pub(super) use player::Player;
use std::path::{Path, PathBuf};
use tracer_core::expect::{ExitStatus, Expectations};
use tracer_core::group::Groups;
use tracer_core::join::{Aligned, Clocks, Estimate, Host, Joiner, Witness};
use tracer_core::recording::Header;

/// Joins what the files hold.
pub(super) fn merge(options: &MergeOptions) -> Result<ExitStatus, Failure> {
    match options.files.as_slice() {
        [one] => alone(options, one),
        files => together(options, files),
    }
}

/// One recording is told again as it was.
fn alone(options: &MergeOptions, file: &Path) -> Result<ExitStatus, Failure> {
    let mut player = Player::open(file)?;
    let mut teller = Teller::new(&options.output, &player.replay.header().host);
    while let Some(parts) = player.step()? {
        for (_, flow) in parts {
            teller.flow(&flow)?;
        }
    }
    player.remark();
    let summary = sums::alone(&player.replay);
    teller.end(&summary, player.replay.trace().groups())?;
    let expectations = player.replay.trace().expectations();
    Ok(ExitStatus::of_trace(summary.flows.reported, expectations))
}

/// Twice through the files: once for what the clocks are off by, once side by side, in one time.
fn together(options: &MergeOptions, files: &[PathBuf]) -> Result<ExitStatus, Failure> {
    let (clocks, headers) = clocks(files)?;
    tell_clocks(&clocks, &headers);
    let mut players = files
        .iter()
        .map(|file| Player::open(file))
        .collect::<Result<Vec<_>, _>>()?;
    let mut teller = Teller::new(&options.output, "");
    let mut groups = Groups::default();
    let mut joiner = Joiner::new(clocks.clone());
    while let Some(source) = furthest_behind(&players, &clocks) {
        let player = &mut players[source];
        let parts = player.step()?.unwrap_or_default();
        let host = player.host();
        for part in parts {
            joiner.push(source, part, &host);
        }
        let hosts: Vec<Host<'_>> = players.iter().map(Player::host).collect();
        for flow in joiner.ready(&hosts) {
            groups.add(&flow);
            teller.flow(&flow)?;
        }
    }
    if joiner.hurried() > 0 {
        note(&format!(
            "{} flows were told before all recordings had come that far, to keep within memory: they may lack hops",
            joiner.hurried()
        ));
    }
    let replays = players.iter().map(|player| &player.replay);
    let summary = sums::together(replays, &groups, teller.told());
    teller.end(&summary, &groups)?;
    let none = Expectations::default();
    Ok(ExitStatus::of_trace(summary.flows.reported, &none))
}

/// The source that is to be read next: memory holds what is between the first and the last one.
fn furthest_behind(players: &[Player], clocks: &Clocks) -> Option<usize> {
    let time = |(source, player): (usize, &Player)| {
        let host = player.host();
        let now = host.header.clock.offset_ns();
        let now = i128::from(host.now_ns) + i128::from(now);
        let now = clocks.align(source, i64::try_from(now).unwrap_or(i64::MAX));
        (!host.over).then_some((now, source))
    };
    let open = players.iter().enumerate().filter_map(time);
    open.min().map(|(_, source)| source)
}

fn clocks(files: &[PathBuf]) -> Result<(Clocks, Vec<Header>), Failure> {
    let mut estimate = Estimate::new(files.len());
    let mut headers: Vec<Header> = Vec::new();
    for (source, file) in files.iter().enumerate() {
        let mut player = Player::open(file)?;
        let header = player.replay.header().clone();
        if let Some(twin) = headers.iter().position(|other| *other == header) {
            return Err(Failure::Usage(
                escape(&format!(
                    "{} and {} are the same recording; give each once",
                    files[twin].display(),
                    file.display()
                ))
                .into_owned(),
            ));
        }
        let offset = header.clock.offset_ns();
        headers.push(header);
        while let Some(parts) = player.step()? {
            for (closed, _) in parts {
                estimate.note(source, &Witness::of(&closed, offset));
            }
        }
        player.remark();
    }
    Ok((estimate.clocks(), headers))
}

/// Says on stderr how the clocks differ, and what cannot be compared.
fn tell_clocks(clocks: &Clocks, headers: &[Header]) {
    let Some((first, others)) = headers.split_first() else {
        return;
    };
    for (header, aligned) in others.iter().zip(clocks.0.iter().skip(1)) {
        note(&clock_line(&first.host, &header.host, aligned));
        if header.redacted != first.redacted {
            note(&format!(
                "{} and {} had their addresses replaced differently: flows are joined by their numbers, and changes between these hosts cannot be told",
                first.host, header.host
            ));
        }
    }
}

fn clock_line(first: &str, host: &str, aligned: &Aligned) -> String {
    let offset = aligned.offset_ns as f64 / 1e6;
    let word = if offset < 0.0 { "ahead of" } else { "behind" };
    let offset = offset.abs();
    match (aligned.flows, aligned.error_ns) {
        (0, _) => format!("{host} has no flow in common with the others: its clock is believed"),
        (flows, Some(error)) => format!(
            "{host}: clock {offset:.3} ms {word} {first}'s, give or take {:.3} ms, by {} that both saw",
            error as f64 / 1e6,
            count(flows, "flow")
        ),
        (flows, None) => format!(
            "{host}: clock {offset:.3} ms {word} {first}'s, by {} that both saw (no replies: not exact)",
            count(flows, "request")
        ),
    }
}

fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

fn note(line: &str) {
    sink::note(&format!("srctrace: {}\n", escape(line)));
}
