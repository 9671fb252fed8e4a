//! `--record`: what the trace is told goes into a file, as it is told. What was written is there, even
//! if the run is killed a moment later.

use super::clock;
use super::failure::Failure;
use super::plan::Plan;
use crate::cli::{RecordOptions, TraceOptions};
use crate::sink;
use crate::system::host;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use tracer_core::journey;
use tracer_core::point::Point;
use tracer_core::recording::{Clock, Encoder, Header, Record, Redactor, Requested, Settings};
use tracer_core::report::Summary;
use tracer_core::trace::Wanted;

/// Both clocks are noted this often, nanoseconds.
const CLOCK_EVERY_NS: u64 = 10_000_000_000;

/// A recording that is being written.
pub(super) struct Recorder {
    path: PathBuf,
    file: File,
    encoder: Encoder,
    redactor: Option<Redactor>,
    clock_ns: u64,
}

impl Recorder {
    /// Makes the file, readable for its owner only: it tells who talks to whom.
    pub(super) fn create(options: &RecordOptions) -> Result<Self, Failure> {
        let path = options.file.clone();
        let cannot =
            |error: io::Error| Failure::Output(format!("--record {}: {error}", path.display()));
        let file = sink::private(&path).map_err(cannot)?;
        let redactor = match options.redact {
            true => Some(Redactor::new(secret().map_err(cannot)?)),
            false => None,
        };
        Ok(Self {
            path,
            file,
            encoder: Encoder::new(),
            redactor,
            clock_ns: 0,
        })
    }

    /// Writes who records, how and what.
    pub(super) fn begin(
        &mut self,
        options: &TraceOptions,
        plan: &Plan,
        (wanted, points): (Wanted, Vec<Point>),
        (host, started): (&str, &str),
        clock: Clock,
    ) -> Result<(), Failure> {
        let header = Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: host::kernel_release(),
            host: host.to_owned(),
            started: started.to_owned(),
            clock,
            requested: requested(options, plan),
            settings: Settings {
                journey: journey::Settings::default(),
                wanted,
                points,
                expectations: options.check.expectations(),
                contract: options.check.contract.clone(),
                peer_saw: options.check.peer_saw,
            },
            redacted: self.redactor.as_ref().map(Redactor::id),
            captured: None,
        };
        self.clock_ns = clock.monotonic_ns;
        self.write([Record::Header(Box::new(header))])
    }

    /// Writes what the trace was told.
    pub(super) fn write(
        &mut self,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<(), Failure> {
        for mut record in records {
            if let Some(redactor) = &mut self.redactor {
                redactor.redact(&mut record);
            }
            self.encoder.put(&record);
        }
        let now = clock::now();
        if now.monotonic_ns.saturating_sub(self.clock_ns) >= CLOCK_EVERY_NS {
            self.clock_ns = now.monotonic_ns;
            self.encoder.put(&Record::Clock(now));
        }
        let bytes = self.encoder.take();
        self.file
            .write_all(&bytes)
            .map_err(|error| Failure::Output(format!("--record {}: {error}", self.path.display())))
    }

    /// Writes the run's summary: the recording is complete.
    pub(super) fn end(&mut self, summary: &Summary) -> Result<(), Failure> {
        self.write([
            Record::Clock(clock::now()),
            Record::Summary(Box::new(summary.clone())),
        ])
    }

    /// What could not be recorded, in words.
    pub(super) fn remark(&self) -> Option<String> {
        let lacking = self.encoder.too_large();
        (lacking > 0).then(|| {
            format!(
                "--record {}: {lacking} records were too large and are missing: rules of that namespace",
                self.path.display()
            )
        })
    }
}

fn requested(options: &TraceOptions, plan: &Plan) -> Requested {
    let filter = &options.filter;
    let dests = &plan.resolved.dests;
    let narrowed = [
        !filter.ports.is_empty(),
        !filter.protos.is_empty(),
        !filter.sources.is_empty(),
        !filter.netns.is_empty(),
        !filter.pods.is_empty(),
        !filter.interfaces.is_empty(),
        dests.iter().any(|dest| !dest.ports.is_empty()),
    ];
    Requested {
        dests: dests.iter().map(|dest| dest.net).collect(),
        narrowed: narrowed.contains(&true),
    }
}

/// A secret that nobody knows, not even we a moment later.
fn secret() -> io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    let got = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())?;
    match got == secret.len() {
        true => Ok(secret),
        false => Err(io::Error::other("the kernel gave too few random bytes")),
    }
}
