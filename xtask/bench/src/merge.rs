//! A recording of many connections and a large capture of the far side, joined: how fast, and in how much memory.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde::Serialize;
use srctrace_tests::trace::binary;
use tracer_common::RawEvent;
use tracer_core::event::decode;
use tracer_core::journey::Settings;
use tracer_core::recording::{Clock, Encoder, Header, Record};
use tracer_core::trace::Trace;

use crate::captured::Capture;
use crate::process::peak_kib;
use crate::programs::as_f64;
use crate::synth;

const MIB: u64 = 1 << 20;
/// Other traffic of the far side, for each turn of the connections: so many full frames of transfers that go on.
pub(crate) const OTHERS: u64 = 20;
pub(crate) const FRAME: usize = 1514;
/// Bytes of the capture for each connection, about.
const PER_CONNECTION: u64 = OTHERS * (FRAME as u64 + 16) + 1700;
/// UTC of the recording's time zero, nanoseconds.
pub(crate) const UTC_NS: i64 = 1_700_000_000_000_000_000;
/// How often the program that makes the recording lets time go on, in turns.
const TURNS_BETWEEN: u64 = 250;
/// Where the files are; deleted after each size.
const FOLDER: &str = "target/bench/merge";

/// What else the far side captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Others {
    /// A few transfers of full frames: many bytes.
    Transfers,
    /// Short connections that nobody recorded: many flows.
    Connections,
}

impl Others {
    /// In a table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::Connections => "connections",
        }
    }
}

/// One size.
#[derive(Debug, Serialize)]
pub(crate) struct Joined {
    pub(crate) others: Others,
    pub(crate) capture_bytes: u64,
    pub(crate) recording_bytes: u64,
    pub(crate) packets: u64,
    pub(crate) flows: u64,
    pub(crate) seconds: f64,
    pub(crate) bytes_per_s: f64,
    /// Reading both files twice, as the program does, and nothing else; from memory.
    pub(crate) reading_s: f64,
    /// Reading them once from the disk.
    pub(crate) disk_bytes_per_s: f64,
    pub(crate) resident_kib: u64,
}

/// Measures captures of a few sizes.
///
/// # Errors
/// When what comes out is not what went in.
pub(crate) fn measure(quick: bool) -> Result<Vec<Joined>> {
    let sizes: &[u64] = if quick { &[16, 64] } else { &[64, 256, 1024] };
    let kinds = [Others::Transfers, Others::Connections];
    let all = kinds
        .iter()
        .flat_map(|others| sizes.iter().map(|mib| (*others, *mib)));
    all.map(|(others, mib)| size(others, mib * MIB)).collect()
}

fn size(others: Others, bytes: u64) -> Result<Joined> {
    let folder = PathBuf::from(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let joined = in_folder(&folder, others, bytes);
    let removed = fs::remove_dir_all(&folder).context("remove the files");
    let joined = joined?;
    removed?;
    Ok(joined)
}

fn in_folder(folder: &Path, others: Others, bytes: u64) -> Result<Joined> {
    let (recording, capture) = (folder.join("node-a.srct"), folder.join("peer.pcap"));
    let connections = (bytes / PER_CONNECTION).max(1);
    let packets = write(&recording, &capture, others, connections)?;
    let length = |path: &Path| Ok::<u64, anyhow::Error>(fs::metadata(path)?.len());
    let (recording_bytes, capture_bytes) = (length(&recording)?, length(&capture)?);
    let files = [recording.as_path(), capture.as_path()];
    let disk_s = read_from_disk(&files)?;
    let reading_s = read(&files)? + read(&files)?;
    let began = Instant::now();
    let mut merging = Command::new(binary()?)
        .arg("merge")
        .args([&recording, &capture])
        .args(["--group", "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("start srctrace merge")?;
    let resident_kib = watch(&mut merging)?;
    let seconds = began.elapsed().as_secs_f64();
    let output = merging.wait_with_output().context("srctrace merge")?;
    check(&String::from_utf8_lossy(&output.stdout), connections)?;
    Ok(Joined {
        others,
        capture_bytes,
        recording_bytes,
        packets,
        flows: connections,
        seconds,
        bytes_per_s: as_f64(capture_bytes + recording_bytes) / seconds,
        reading_s,
        disk_bytes_per_s: as_f64(capture_bytes + recording_bytes) / disk_s,
        resident_kib,
    })
}

/// The most memory that it had, until it ended.
pub(crate) fn watch(merging: &mut Child) -> Result<u64> {
    let pid = i32::try_from(merging.id())?;
    let mut most = 0;
    while merging.try_wait()?.is_none() {
        most = peak_kib(pid).unwrap_or(0).max(most);
        thread::sleep(Duration::from_millis(5));
    }
    Ok(most)
}

/// Every connection is one joined flow, and all of them went the same way.
fn check(report: &str, connections: u64) -> Result<()> {
    let lines: Vec<serde_json::Value> = report
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let summary = lines.last().context("no summary")?;
    let reported = &summary["flows"]["reported"];
    ensure!(
        reported.as_u64() == Some(connections),
        "{reported} flows instead of {connections}"
    );
    let hops = lines[0]["hops"].as_array().map_or(0, Vec::len);
    ensure!(hops == 4 && lines.len() == 2, "{report}");
    Ok(())
}

/// How long it takes to read files, seconds.
fn read(paths: &[&Path]) -> Result<f64> {
    let began = Instant::now();
    let mut piece = vec![0; MIB as usize];
    for path in paths {
        let mut file = File::open(path)?;
        while file.read(&mut piece)? > 0 {}
    }
    Ok(began.elapsed().as_secs_f64())
}

/// As [`read`], of files that the kernel does not have in memory any more.
fn read_from_disk(paths: &[&Path]) -> Result<f64> {
    for path in paths {
        let file = File::open(path)?;
        // Only what is on the disk is let go.
        file.sync_all()?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .with_context(|| format!("let go of {}", path.display()))?;
    }
    read(paths)
}

/// Writes both files; gives the packets of the capture.
fn write(recording: &Path, capture: &Path, others: Others, connections: u64) -> Result<u64> {
    let mut recorder = Recorder::new(recording)?;
    let mut capture = Capture::new(capture)?;
    let turns = synth::turns(connections);
    for turn in 0..turns {
        let events = synth::turn(turn, connections);
        for raw in &events {
            capture.sight(raw)?;
        }
        let now_ns = events.last().map_or(0, |event| event.time_ns);
        match others {
            Others::Transfers => capture.transfers(turn, now_ns)?,
            Others::Connections => capture.strangers(turn, now_ns)?,
        }
        recorder.take(&events, turn % TURNS_BETWEEN == TURNS_BETWEEN - 1)?;
    }
    recorder.finish()?;
    capture.file.flush()?;
    Ok(capture.packets)
}

/// A trace that is told the events, and its recording.
struct Recorder {
    trace: Trace,
    encoder: Encoder,
    file: BufWriter<File>,
    now_ns: u64,
}

impl Recorder {
    fn new(path: &Path) -> Result<Self> {
        let mut trace = Trace::new(Settings::default(), UTC_NS);
        trace.keep_journal();
        let mut encoder = Encoder::new();
        encoder.put(&Record::Header(Box::new(Header {
            host: "node-a".to_owned(),
            clock: Clock {
                monotonic_ns: 0,
                realtime_ns: UTC_NS,
            },
            ..Header::default()
        })));
        Ok(Self {
            trace,
            encoder,
            file: BufWriter::new(File::create(path)?),
            now_ns: 0,
        })
    }

    fn take(&mut self, events: &[RawEvent], advance: bool) -> Result<()> {
        let inventory = synth::inventory();
        for raw in events {
            self.now_ns = self.now_ns.max(raw.time_ns);
            let full = self.trace.push(decode(raw.record())?);
            if full {
                self.trace.advance(self.now_ns, &inventory);
            }
        }
        if advance {
            self.trace.advance(self.now_ns, &inventory);
            self.keep()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.trace.finish(self.now_ns, &synth::inventory());
        self.keep()?;
        Ok(self.file.flush()?)
    }

    fn keep(&mut self) -> Result<()> {
        for record in self.trace.take_journal() {
            self.encoder.put(&record);
        }
        Ok(self.file.write_all(&self.encoder.take())?)
    }
}
