//! `srctrace merge`: recordings and captures in, one path per flow out. Needs no root and nothing of the kernel.

mod player;
mod sums;

use super::failure::Failure;
use super::tell::Teller;
use crate::cli::MergeOptions;
use crate::render::escape;
use crate::sink::{self, Progress};
pub(super) use player::Player;
use std::path::{Path, PathBuf};
use tracer_core::expect::{ExitStatus, Expectations};
use tracer_core::group::Groups;
use tracer_core::join::{Aligned, Census, Clocks, Estimate, Host, Joiner, Shown, Witness};
use tracer_core::point;
use tracer_core::recording::Header;
use tracer_core::report::PointSum;

/// Joins what the files hold.
pub(super) fn merge(options: &MergeOptions) -> Result<ExitStatus, Failure> {
    match options.files.as_slice() {
        [one] => alone(options, one),
        files => together(options, files),
    }
}

/// One recording is told again as it was.
fn alone(options: &MergeOptions, file: &Path) -> Result<ExitStatus, Failure> {
    let mut player = Player::open(file, 1)?;
    if let Some(path) = &options.pcap {
        player.write_packets(path)?;
    }
    let mut teller = Teller::new(&options.output, &player.replay.header().host);
    let progress = Progress::new(size(file));
    while let Some(parts) = player.step()? {
        progress.at(player.read());
        for (_, flow) in parts {
            progress.result(|| teller.flow(&flow))?;
        }
    }
    drop(progress);
    player.remark();
    let summary = sums::alone(&player.replay);
    let trace = player.replay.trace();
    teller.end(&summary, trace.groups(), &trace.checks().agreements())?;
    Ok(trace.checks().status(summary.flows.reported))
}

/// Twice through the files: once for what the clocks are off by, once side by side, in one time.
fn together(options: &MergeOptions, files: &[PathBuf]) -> Result<ExitStatus, Failure> {
    let size: u64 = files.iter().map(|file| size(file)).sum();
    let progress = Progress::new(2 * size);
    let Known {
        clocks,
        headers,
        shown,
        census,
    } = look_through(files, &progress)?;
    progress.aside(|| tell_clocks(&clocks, &headers));
    let mut players = Vec::new();
    for (file, shown) in files.iter().zip(shown) {
        players.push(Player::open(file, files.len())?.showing(shown));
    }
    let mut teller = Teller::new(&options.output, "");
    let mut groups = Groups::default();
    let mut points = points_of(&headers);
    let with_recordings = headers.iter().any(|header| header.captured.is_none());
    let mut joiner = Joiner::new(clocks.clone()).knowing(census);
    while let Some(source) = furthest_behind(&players, &clocks) {
        let player = &mut players[source];
        let mut over = player.sighted()?.unwrap_or_default();
        if with_recordings {
            over.retain(|closed| !joiner.pass_over(closed, &player.host()));
        }
        let parts = player.replay.judge(over);
        let host = player.host();
        for part in parts {
            joiner.push(source, part, &host);
        }
        let hosts: Vec<Host<'_>> = players.iter().map(Player::host).collect();
        for flow in joiner.ready(&hosts) {
            groups.add(&flow);
            point::sums(&mut points, &flow);
            progress.result(|| teller.flow(&flow))?;
        }
        progress.at(size + players.iter().map(Player::read).sum::<u64>());
    }
    drop(progress);
    if joiner.hurried() > 0 {
        note(&format!(
            "{} flows were told before all recordings had come that far, to keep within memory: they may lack hops",
            joiner.hurried()
        ));
    }
    let passed = joiner.passed_over();
    if passed > 0 {
        note(&format!(
            "{passed} flows that only captures saw are not told; merge the captures without the recordings to see them"
        ));
    }
    let replays = players.iter().map(|player| &player.replay);
    let summary = sums::together(replays, &groups, points, (teller.told(), passed));
    teller.end(&summary, &groups, &[])?;
    let none = Expectations::default();
    Ok(ExitStatus::of_trace(summary.flows.reported, &none))
}

/// The points of all hosts, which have seen nothing yet.
fn points_of(headers: &[Header]) -> Vec<PointSum> {
    let named = |header: &Header| -> Vec<PointSum> {
        let points = header.settings.points.iter();
        let unseen = points.map(|point| PointSum::of(&point.unseen(&header.host)));
        unseen.collect()
    };
    headers.iter().flat_map(named).collect()
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

/// What is to be known of all files before they are told.
struct Known {
    clocks: Clocks,
    headers: Vec<Header>,
    shown: Vec<Shown>,
    census: Census,
}

/// A file's size, bytes; 0 where that is not known: it only tells how far the command has come.
fn size(file: &Path) -> u64 {
    file.metadata().map_or(0, |about| about.len())
}

/// Reads all files once, one after the other.
fn look_through(files: &[PathBuf], progress: &Progress) -> Result<Known, Failure> {
    let mut all_shown = Vec::new();
    let mut census = Census::new();
    let mut before = 0;
    let mut estimate = Estimate::new(files.len());
    let mut headers: Vec<Header> = Vec::new();
    for (source, file) in files.iter().enumerate() {
        // With the memory that it will have beside the others: so both looks tell the same flows.
        let mut player = Player::open(file, files.len())?;
        let header = player.replay.header().clone();
        if let Some(twin) = headers.iter().position(|other| *other == header) {
            return Err(Failure::Usage(
                escape(&format!(
                    "{} and {} are the same; give each once",
                    files[twin].display(),
                    file.display()
                ))
                .into_owned(),
            ));
        }
        let mut shown = Shown::default();
        while let Some(over) = player.sighted()? {
            progress.at(before + player.read());
            for closed in over {
                let witness = Witness::of(&closed, &header);
                census.note(&witness);
                estimate.note(source, &witness);
                if header.captured.is_some() {
                    shown.note(&witness);
                }
            }
        }
        progress.aside(|| player.remark());
        before += player.read();
        shown.span = player.span();
        all_shown.push(shown);
        headers.push(header);
    }
    Ok(Known {
        clocks: estimate.clocks(),
        headers,
        shown: all_shown,
        census,
    })
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
