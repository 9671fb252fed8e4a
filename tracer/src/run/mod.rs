//! One page per command: here the rooms are wired together.

mod agreed;
mod bugs;
mod clock;
mod config;
mod datapath;
mod diff;
mod doctor;
mod doubts;
mod entries;
mod explain;
mod failure;
mod gateways;
mod given;
mod gone;
mod handover;
mod inquire;
mod intake;
mod judge;
mod ladder;
mod lately;
mod leftovers;
mod library;
mod live;
mod map;
mod merge;
mod nftrace;
mod node;
mod pcap;
mod plan;
mod policies;
mod probe;
mod record;
mod rules;
mod selfcheck;
mod signals;
mod silence;
mod stores;
mod taps;
mod tell;
mod terrain;
mod trace;
mod tunnels;

use crate::cli::{self, Command};
use crate::render;
use crate::sink::{self, Sink, SinkError};
use crate::system::host;
use failure::Failure;
use std::ffi::OsString;
use tracer_core::expect::ExitStatus;

/// Runs a command line; errors are told on stderr, in one line.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitStatus {
    bugs::tell_in_one_line();
    host::one_heap();
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(status) = leftovers::serve(&args) {
        return status;
    }
    let done = cli::parse(args)
        .map_err(Failure::from)
        .and_then(|command| execute(&command));
    match done {
        Ok(status) => status,
        Err(failure) => {
            if let Some(line) = failure.line() {
                sink::note(&format!("srctrace: {line}\n"));
            }
            failure.status()
        }
    }
}

fn execute(command: &Command) -> Result<ExitStatus, Failure> {
    match command {
        Command::Trace(options) => trace::trace(options),
        Command::Merge(options) => merge::merge(options),
        Command::Diff(options) => diff::diff(options),
        Command::Review(options) => agreed::review(options),
        Command::Handover(file) => handover::handover(file),
        Command::Explain(options) => explain::explain(options),
        Command::Map(options) => map::map(options),
        Command::Ladder(options) => ladder::ladder(options),
        Command::Doctor(output) => doctor::doctor(*output),
        Command::Cleanup => leftovers::cleanup(),
        Command::Schema => print(&render::schema()),
        Command::Completions(shell) => print(&cli::completions(*shell)),
        Command::Man => print(&cli::man()),
        Command::Show(text) => print(&sink::fit(text, sink::stdout_colour())),
    }
}

fn print(text: &str) -> Result<ExitStatus, Failure> {
    match Sink::stdout().write(text) {
        Ok(()) | Err(SinkError::Closed) => Ok(ExitStatus::Done),
        Err(error) => Err(error.into()),
    }
}
