//! The numbers as a table for people.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::connections::Counts;
use crate::core::Run;
use crate::goals;
use crate::map::Mapped;
use crate::merge::Joined;
use crate::observers::{self, Observers};
use crate::pods::Start;
use crate::programs::Cost;
use crate::throughput::Comparison;

/// Everything that was measured, and where.
#[derive(Debug, Serialize)]
pub(crate) struct Performance {
    pub(crate) date: String,
    pub(crate) kernel: String,
    pub(crate) processors: usize,
    pub(crate) processor: String,
    /// Whether the rounds were too few and short to mean much.
    pub(crate) quick: bool,
    pub(crate) programs: Option<Vec<Cost>>,
    pub(crate) throughput: Option<Comparison>,
    pub(crate) core: Option<Vec<Run>>,
    pub(crate) merge: Option<Vec<Joined>>,
    pub(crate) map: Option<Vec<Mapped>>,
    pub(crate) pods: Option<Start>,
    pub(crate) connections: Option<Counts>,
    /// On this kernel, and on others that it was measured on.
    pub(crate) observers: Vec<Observers>,
}

impl Performance {
    /// Nothing measured yet.
    pub(crate) fn of_this_machine(quick: bool) -> Result<Self> {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("kernel release")?;
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").context("processor")?;
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Ok(Self {
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            kernel: kernel.trim().to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            quick,
            programs: None,
            throughput: None,
            core: None,
            merge: None,
            map: None,
            pods: None,
            connections: None,
            observers: Vec::new(),
        })
    }

    /// The document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "# Performance\n\n`cargo xtask bench` measured this on {}: kernel {}, {} × {}. Labs, traffic and srctrace share \
             these processors.\n",
            self.date, self.kernel, self.processors, self.processor
        );
        if self.quick {
            text.push_str("\n**A `--quick` run: too short to mean much.**\n");
        }
        goals::write(&mut text, self);
        self.programs
            .iter()
            .for_each(|part| programs(&mut text, part));
        observers::write(&mut text, &self.observers);
        self.throughput
            .iter()
            .for_each(|part| throughput(&mut text, part));
        self.connections
            .iter()
            .for_each(|part| connections(&mut text, part));
        self.pods.iter().for_each(|part| pods(&mut text, part));
        self.core.iter().for_each(|part| core(&mut text, part));
        self.merge.iter().for_each(|part| merge(&mut text, part));
        self.map.iter().for_each(|part| map(&mut text, part));
        text
    }
}

/// One line of a document: writing to a string does not fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {
        let _ = writeln!($text, $($format)*);
    };
}

fn programs(text: &mut String, costs: &[Cost]) {
    text.push_str(
        "\n## Nanoseconds per packet\n\nBy the kernel's accounts (`kernel.bpf_stats_enabled`), per packet that the node \
         forwards from pod to peer or back. In this lab a packet also crosses the pod's and the peer's interfaces, and the \
         tracepoints run there too. A buffer of many segments counts as one packet. \"empty programs\": two that do \
         nothing, at the same tracepoints; less is not to be had, and most of it is the accounting itself.\n\n\
         | traffic | `--dest` matches | program | runs per packet | ns per run | ns per packet |\n\
         |---|---|---|---:|---:|---:|\n",
    );
    for cost in costs {
        let matches = cost.matching;
        for program in &cost.programs {
            line!(
                text,
                "| {} | {matches} | `{}` | {} | {:.0} | {:.1} |",
                cost.traffic,
                program.name,
                runs(program.runs_per_packet),
                program.ns_per_run,
                program.ns_per_packet
            );
        }
        line!(
            text,
            "| {} | {matches} | **all**: × {:.0} packets/s untraced = {:.1} % of a processor | | | **{:.0}** |",
            cost.traffic,
            cost.untraced_packets_per_s,
            100.0 * cost.share_of_a_core,
            cost.ns_per_packet
        );
    }
}

/// Few runs are not none.
fn runs(per_packet: f64) -> String {
    let digits = if per_packet < 0.1 { 5 } else { 2 };
    format!("{per_packet:.digits$}")
}

fn throughput(text: &mut String, comparison: &Comparison) {
    let untraced = &comparison.untraced_gbits;
    line!(
        text,
        "\n## TCP throughput\n\niperf3, one connection from pod to peer through the masquerading node, {} s each \
         after a first second, which is not counted; untraced {:.2} Gbit/s ({:.2} to {:.2}). Each row is the median of what was \
         left of the untraced transfers just before and after; the interval has the true median with at least 95 % \
         certainty. \"First second\": the same of that; a connection starts slowly there, and srctrace attaches at the \
         pod and reads the rules, once.\n\n\
         | beside | left of untraced | interval | rounds | certainty | first second | interval |\n\
         |---|---:|---:|---:|---:|---:|---:|",
        comparison.seconds,
        untraced.median,
        untraced.low,
        untraced.high,
    );
    for row in &comparison.ratios {
        let (ratio, first) = (&row.ratio, &row.first_second);
        line!(
            text,
            "| {} | {:.1} % | {:.1} to {:.1} % | {} | {:.1} % | {:.1} % | {:.1} to {:.1} % |",
            row.beside,
            100.0 * ratio.median,
            100.0 * ratio.low,
            100.0 * ratio.high,
            ratio.samples,
            100.0 * ratio.certainty,
            100.0 * first.median,
            100.0 * first.low,
            100.0 * first.high,
        );
    }
}

fn connections(text: &mut String, counts: &Counts) {
    line!(
        text,
        "\n## New connections\n\n{} new TCP connections a second asked for, all matching `--dest`, with `--group`.\n\n\
         | | |\n|---|---:|\n\
         | reached a second | {:.0} |\n\
         | connections by the clients' count (failed) | {} ({}) |\n\
         | connections by the server's count | {} |\n\
         | flows seen by srctrace | {} |\n\
         | flows reported | {} |\n\
         | events received | {} |\n\
         | events lost | {} |\n\
         | srctrace's part of a processor | {:.0} % |\n\n\
         | connections so far | resident, MiB |\n|---:|---:|",
        counts.asked_per_s,
        counts.reached_per_s,
        counts.client,
        counts.client_failed,
        counts.server,
        counts.flows_seen,
        counts.flows_reported,
        counts.events_received,
        counts.events_lost,
        100.0 * counts.share_of_a_core
    );
    for memory in thinned(&counts.memory) {
        line!(
            text,
            "| {} | {:.1} |",
            memory.connections,
            mib(crate::programs::as_f64(memory.resident_kib))
        );
    }
}

/// The first, the last and about eight between.
fn thinned<T>(all: &[T]) -> Vec<&T> {
    let step = all.len().div_ceil(9).max(1);
    let mut some: Vec<&T> = all.iter().step_by(step).collect();
    if !all.is_empty() && !(all.len() - 1).is_multiple_of(step) {
        some.extend(all.last());
    }
    some
}

fn pods(text: &mut String, start: &Start) {
    line!(
        text,
        "\n## Starting with {} pods\n\n| | median | interval |\n|---|---:|---:|\n\
         | armed after, ms | {:.0} | {:.0} to {:.0} |\n\
         | resident when armed, MiB | {:.1} | {:.1} to {:.1} |\n\
         | resident after {} flows, MiB | {:.1} | |\n\n{} starts.",
        start.pods,
        start.armed_ms.median,
        start.armed_ms.low,
        start.armed_ms.high,
        mib(start.resident_kib.median),
        mib(start.resident_kib.low),
        mib(start.resident_kib.high),
        start.flows,
        mib(crate::programs::as_f64(start.resident_with_flows_kib)),
        start.armed_ms.samples
    );
}

fn core(text: &mut String, runs: &[Run]) {
    text.push_str(
        "\n## Decode, correlate, judge\n\nOn one processor, from bytes of the ring to reports.\n\n\
         | events | seconds | events per second |\n|---:|---:|---:|\n",
    );
    for run in runs {
        line!(
            text,
            "| {} | {:.3} | {:.0} |",
            run.events,
            run.seconds,
            run.events_per_s
        );
    }
}

fn merge(text: &mut String, sizes: &[Joined]) {
    text.push_str(
        "\n## Merging a capture\n\n`srctrace merge node-a.srct peer.pcap`: a recording of masqueraded connections and a capture of the \
         far side, of these connections and twenty times as much other traffic: a few transfers (many bytes), or short connections \
         that nobody recorded, forty for each that was (many flows). Both files are read twice, once for what the \
         clocks are off by; \"reading\" is that and nothing else, from memory; \"disk\" is reading them once, from the disk \
         (`cargo xtask bench --only merge`).\n\n\
         | other traffic | capture, MiB | recording, MiB | packets | flows joined | seconds | reading, s | MiB per second | disk, MiB per second | resident at most, MB |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mebi = |bytes: u64| mib(crate::programs::as_f64(bytes)) / 1024.0;
    for size in sizes {
        line!(
            text,
            "| {} | {:.0} | {:.1} | {} | {} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} |",
            size.others.word(),
            mebi(size.capture_bytes),
            mebi(size.recording_bytes),
            size.packets,
            size.flows,
            size.seconds,
            size.reading_s,
            size.bytes_per_s / 1_048_576.0,
            size.disk_bytes_per_s / 1_048_576.0,
            crate::programs::as_f64(size.resident_kib) * 1024.0 / 1e6
        );
    }
}

fn map(text: &mut String, measured: &[Mapped]) {
    text.push_str(
        "\n## A map from many rules\n\n`srctrace map --output json` on a node with two pods: every destination of both families, for \
         pods and node, from reading the rules to the last line.\n\n\
         | rules | lines | seconds | resident at most, MB |\n|---|---:|---:|---:|\n",
    );
    for one in measured {
        line!(
            text,
            "| {} | {} | {:.1} | {:.0} |",
            one.rules,
            one.lines,
            one.seconds,
            crate::programs::as_f64(one.resident_kib) * 1024.0 / 1e6
        );
    }
}

fn mib(kib: f64) -> f64 {
    kib / 1024.0
}
