//! `cargo xtask bench`: what srctrace costs those whom it does not watch, what it costs those whom it watches, and how
//! much it can carry. Everything is measured with the real program on labs of network namespaces; nothing is asserted.

mod bpf;
mod captured;
mod connections;
mod core;
mod goals;
mod iperf;
mod lab;
mod load;
mod map;
mod merge;
mod observers;
mod pods;
mod process;
mod programs;
mod report;
mod stats;
mod synth;
mod throughput;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};

use report::Performance;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Nanoseconds per packet of each eBPF program
    Programs,
    /// TCP throughput untraced, traced, and with tcpdump
    Throughput,
    /// Events per second through decode, correlate and judge
    Core,
    /// Time to armed and memory with 110 pods
    Pods,
    /// 5,000 new connections a second
    Connections,
    /// How often the programs of each rule observer run
    Observers,
    /// Bytes per second and memory of a recording joined with a large capture
    Merge,
    /// Seconds and memory of a map from 20,000 rules
    Map,
}

/// Command line.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    about = "Measures what srctrace costs and what it can carry"
)]
struct Args {
    /// Few and short rounds, for development; the numbers mean little
    #[arg(long)]
    quick: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Interleaved rounds of the throughput comparison (default: 21)
    #[arg(long)]
    rounds: Option<usize>,
    /// New connections a second (default: 5000)
    #[arg(long, default_value_t = 5000)]
    rate: u32,
    /// Show the rule observers of another run too: the file that it wrote as JSON
    #[arg(long)]
    observers_from: Option<PathBuf>,
    /// Write the table here as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Write the numbers here as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Interleaved rounds of the throughput comparison.
    rounds: usize,
    /// Seconds of one transfer of the comparison.
    seconds: u32,
    /// Seconds of one transfer while programs are accounted for.
    account_seconds: u32,
    /// New connections a second.
    rate: u32,
    /// Seconds of new connections.
    connection_seconds: u32,
    /// Starts of the program with many pods.
    starts: usize,
    /// Pods on the node.
    pods: u8,
    /// Rounds of the rule observers.
    observer_rounds: usize,
    /// New connections beside a rule observer, in each round.
    observer_flows: u64,
}

impl Effort {
    fn of(args: &Args) -> Self {
        let mut effort = if args.quick {
            Self {
                rounds: 3,
                seconds: 1,
                account_seconds: 1,
                rate: args.rate,
                connection_seconds: 2,
                starts: 2,
                pods: 20,
                observer_rounds: 1,
                observer_flows: 500,
            }
        } else {
            Self {
                // Many short rounds: what else the machine does changes less within each.
                rounds: 21,
                seconds: 1,
                account_seconds: 3,
                rate: args.rate,
                connection_seconds: 20,
                starts: 7,
                pods: 110,
                observer_rounds: 7,
                observer_flows: 5000,
            }
        };
        effort.rounds = args.rounds.unwrap_or(effort.rounds);
        effort
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let performance = measure(&args)?;
    let markdown = performance.markdown();
    let json = serde_json::to_string_pretty(&performance)?;
    println!("{markdown}\n{json}");
    for (path, text) in [(&args.markdown, &markdown), (&args.json, &json)] {
        if let Some(path) = path {
            fs::write(path, format!("{text}\n"))
                .with_context(|| format!("write {}", path.display()))?;
        }
    }
    Ok(())
}

fn measure(args: &Args) -> Result<Performance> {
    let effort = Effort::of(args);
    let wants = |part| args.only.is_empty() || args.only.contains(&part);
    let mut performance = Performance::of_this_machine(args.quick)?;
    if wants(Part::Core) {
        eprintln!("events through decode, correlate and judge …");
        performance.core = Some(core::measure(args.quick)?);
    }
    if wants(Part::Merge) {
        eprintln!("a recording joined with a capture …");
        performance.merge = Some(merge::measure(args.quick)?);
    }
    if wants(Part::Map) {
        eprintln!("a map from many rules …");
        performance.map = Some(map::measure(args.quick)?);
    }
    if wants(Part::Programs) {
        eprintln!("nanoseconds per packet of each program …");
        performance.programs = Some(programs::measure(effort)?);
    }
    if wants(Part::Throughput) {
        eprintln!("throughput in {} interleaved rounds …", effort.rounds);
        performance.throughput = Some(throughput::measure(effort)?);
    }
    if wants(Part::Connections) {
        eprintln!("new connections …");
        performance.connections = Some(connections::measure(effort)?);
    }
    if wants(Part::Pods) {
        eprintln!("{} pods …", effort.pods);
        performance.pods = Some(pods::measure(effort)?);
    }
    if wants(Part::Observers) {
        eprintln!("rule observers …");
        let here = observers::measure(effort, &performance.kernel)?;
        performance.observers.push(here);
    }
    if let Some(path) = &args.observers_from {
        performance.observers.extend(observers::read(path)?);
    }
    Ok(performance)
}
