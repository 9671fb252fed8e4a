//! The command line: text in, checked plain values out. Nothing here touches the machine; a host
//! name is resolved by a function that the caller hands in.

mod agreed;
mod args;
mod config;
mod describe;
mod dest;
mod error;
mod explain;
mod generate;
mod ladder;
mod options;
mod parse;
mod point;
mod probe;
mod resolve;

pub use agreed::{AgreedOptions, ReviewOptions};
pub use args::{DoctorOutput, OutputFormat, ProbeKind, RuleMode, TapMode};
pub use config::ConfigOptions;
pub use dest::{DestSpec, DestTarget};
pub use error::UsageError;
pub use explain::{ExplainOptions, MapOptions, SenderOptions};
pub use generate::{completions, man};
pub use ladder::{DNS, LadderOptions, RungSpec, RungTarget};
pub use options::{
    CheckOptions, DiffOptions, FilterOptions, Grouping, MergeOptions, OutputOptions, RecordOptions,
    StopOptions, TraceOptions,
};
pub use parse::{FromRef, NetnsRef, PodRef, PortRange};
pub use point::PointSpec;
pub use probe::ProbeOptions;
pub use resolve::{Dest, ProbeTarget, Resolved};

use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Trace, the default.
    Trace(Box<TraceOptions>),
    /// Join recordings.
    Merge(MergeOptions),
    /// Compare two recordings or reports.
    Diff(DiffOptions),
    /// Check a contract against a recording or report.
    Review(ReviewOptions),
    /// Print the text for the other side's team.
    Handover(PathBuf),
    /// Say which rule would decide.
    Explain(Box<ExplainOptions>),
    /// Tell every destination's source.
    Map(Box<MapOptions>),
    /// Try one rung after the other.
    Ladder(Box<LadderOptions>),
    /// Say what can be observed on this machine.
    Doctor(DoctorOutput),
    /// Print the JSON Schema of the NDJSON lines.
    Schema,
    /// Remove what a killed `--tap clsact` run left.
    Cleanup,
    /// Print a completion script.
    Completions(clap_complete::Shell),
    /// Print the manual page.
    Man,
    /// Print this text (help or version) on stdout and end with status 0. It has colours.
    Show(String),
}

/// Reads and checks a whole command line, the program's name first.
///
/// # Errors
/// [`UsageError`]: one line that says what is wrong with which argument and what is accepted.
pub fn parse<I, T>(args: I) -> Result<Command, UsageError>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args = match args::Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            return Ok(Command::Show(error.render().ansi().to_string()));
        }
        Err(error) => return Err(UsageError::from_clap(&error)),
    };
    Ok(match args.command {
        None if args.trace.from_report.is_some() => {
            Command::Review(ReviewOptions::from_args(args.trace)?)
        }
        None => Command::Trace(Box::new(TraceOptions::from_args(args.trace)?)),
        Some(args::Sub::Doctor { output }) => Command::Doctor(output),
        Some(args::Sub::Merge {
            files,
            pcap,
            output,
        }) => Command::Merge(MergeOptions::check(files, pcap, &output)?),
        Some(args::Sub::Diff {
            before,
            after,
            output,
        }) => Command::Diff(DiffOptions {
            before,
            after,
            output,
        }),
        Some(args::Sub::Handover { file }) => Command::Handover(file),
        Some(args::Sub::Explain(args)) => {
            Command::Explain(Box::new(ExplainOptions::from_args(*args)?))
        }
        Some(args::Sub::Map {
            diff,
            senders,
            output,
        }) => Command::Map(Box::new(MapOptions {
            diff,
            senders: SenderOptions::from_args(senders)?,
            output: OutputOptions::without_page(&output)?,
        })),
        Some(args::Sub::Ladder(args)) => {
            Command::Ladder(Box::new(LadderOptions::from_args(*args)?))
        }
        Some(args::Sub::Schema) => Command::Schema,
        Some(args::Sub::Cleanup) => Command::Cleanup,
        Some(args::Sub::Completions { shell }) => Command::Completions(shell),
        Some(args::Sub::Man) => Command::Man,
    })
}

#[cfg(test)]
mod tests;
