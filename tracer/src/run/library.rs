//! Rules are read beside the trace, by a thread of their own: of every namespace that a followed
//! flow goes through, when the first does and again while others do.

use crate::run::clock;
use crate::system::netns::Netns;
use crate::system::rules::{self, Programs, Stores};
use crate::system::{Roots, SystemError};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tracer_core::event::NetnsId;
use tracer_core::rulebook::Rulebook;
use tracer_core::ruleset::{Ruleset, Unread};

/// Rules that were read longer ago than this are read again when a new flow goes through.
const FRESH_NS: u64 = 1_000_000_000;
/// Reading takes at most one part in so many of the time.
const SHARE: u32 = 20;
/// How long flows wait for rules that are being read.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A reading, with the moments at which it began and ended.
struct Reading {
    netns: NetnsId,
    began_ns: u64,
    took: Duration,
    rules: Ruleset,
}

/// What is known of reading one namespace.
#[derive(Clone, Copy, Default)]
struct State {
    /// Since when a reading is under way.
    pending: Option<Instant>,
    /// No other begins before this moment, CLOCK_MONOTONIC nanoseconds.
    not_before_ns: u64,
}

/// The thread that reads, and what it was asked.
pub(super) struct RuleReader {
    asked: Sender<Netns>,
    read: Receiver<Reading>,
    states: BTreeMap<NetnsId, State>,
}

impl RuleReader {
    /// Starts the thread; it ends when this is dropped.
    pub(super) fn start(roots: Roots) -> std::io::Result<Self> {
        let (asked, questions) = channel::<Netns>();
        let (answers, read) = channel();
        thread::Builder::new()
            .name("srctrace-rules".into())
            .stack_size(512 << 10)
            .spawn(move || {
                let mut library = Library::new(roots);
                while let Ok(netns) = questions.recv() {
                    if answers.send(library.read(&netns)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            asked,
            read,
            states: BTreeMap::new(),
        })
    }

    /// A followed packet went through a namespace at `time_ns` (CLOCK_MONOTONIC): asks for its rules,
    /// unless they were read since, or lately enough.
    pub(super) fn met(&mut self, netns: &Netns, time_ns: u64, book: &Rulebook) {
        let state = self.states.entry(netns.id).or_default();
        let fresh = book
            .read_ns(netns.id)
            .is_some_and(|at| at.saturating_add(FRESH_NS) > time_ns);
        if state.pending.is_some() || fresh || time_ns < state.not_before_ns {
            return;
        }
        let asked = self.asked.send(netns.clone()).is_ok();
        state.pending = asked.then(Instant::now);
    }

    /// Takes in what was read by now.
    pub(super) fn collect(&mut self, book: &mut Rulebook) {
        while let Ok(reading) = self.read.try_recv() {
            self.add(reading, book);
        }
    }

    /// Whether rules are being read for the first time: flows wait for them, for a while.
    pub(super) fn is_waiting(&self, book: &Rulebook) -> bool {
        self.states.iter().any(|(id, state)| {
            let young = state
                .pending
                .is_some_and(|since| since.elapsed() < PATIENCE);
            young && book.read_ns(*id).is_none()
        })
    }

    /// Waits until nothing is being read, but not for ever.
    pub(super) fn wait(&mut self, book: &mut Rulebook) {
        let end = Instant::now() + PATIENCE;
        while self.states.values().any(|s| s.pending.is_some()) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(reading) = self.read.recv_timeout(left) else {
                return;
            };
            self.add(reading, book);
        }
    }

    fn add(&mut self, reading: Reading, book: &mut Rulebook) {
        let pause = u64::try_from((reading.took * SHARE).as_nanos()).unwrap_or(u64::MAX);
        let state = State {
            pending: None,
            not_before_ns: reading.began_ns.saturating_add(pause),
        };
        self.states.insert(reading.netns, state);
        book.add(reading.netns, reading.began_ns, reading.rules);
    }
}

/// What the thread knows of the machine.
struct Library {
    roots: Roots,
    programs: Programs,
    stores: Option<(Instant, Stores)>,
}

/// Modules may be loaded while a trace runs.
const STORES_HOLD: Duration = Duration::from_secs(10);

impl Library {
    fn new(roots: Roots) -> Self {
        Self {
            programs: Programs::find(),
            roots,
            stores: None,
        }
    }

    fn stores(&mut self) -> Result<Stores, SystemError> {
        match self.stores {
            Some((at, stores)) if at.elapsed() < STORES_HOLD => Ok(stores),
            _ => {
                let stores = Stores::of_kernel(&self.roots)?;
                self.stores = Some((Instant::now(), stores));
                Ok(stores)
            }
        }
    }

    fn read(&mut self, netns: &Netns) -> Reading {
        let (began_ns, began) = (clock::monotonic_ns(), Instant::now());
        let stores = self.stores();
        let rules = stores.and_then(|s| rules::read(netns, &self.roots, s, &self.programs));
        Reading {
            netns: netns.id,
            began_ns,
            took: began.elapsed(),
            rules: rules.unwrap_or_else(|error| unread(&error)),
        }
    }
}

fn unread(error: &SystemError) -> Ruleset {
    Ruleset {
        unread: vec![Unread {
            what: "the rules".into(),
            why: error.to_string(),
        }],
        ..Ruleset::default()
    }
}
