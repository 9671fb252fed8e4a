//! Rules are read beside the trace, by a thread of their own: of every namespace that a followed
//! flow goes through, when the first does and again while others do.

use crate::run::clock;
use crate::system::netns::Netns;
use crate::system::rules::{self, Programs, Stores};
use crate::system::{Roots, SystemError, host};
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
/// How long flows wait for a reading to end, from when it was asked for or, where others came before
/// it, from the end of the last of these. Where arming took longer, so long: a processor that is
/// throttled or emulated is as slow at reading.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many times as long they wait for one namespace's rules at most.
const LONGEST: u32 = 3;

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
    /// When a reading ended last.
    progress: Option<Instant>,
    patience: Duration,
}

impl RuleReader {
    /// Starts the thread of a trace that took so long to arm; it ends when this is dropped.
    pub(super) fn start(roots: Roots, arming: Duration) -> std::io::Result<Self> {
        let (asked, questions) = channel::<Netns>();
        let (answers, read) = channel();
        thread::Builder::new()
            .name("srctrace-rules".into())
            .stack_size(512 << 10)
            .spawn(move || {
                let mut library = Library::new(roots);
                let mut is_first = true;
                while let Ok(netns) = questions.recv() {
                    if answers.send(library.read(&netns)).is_err() {
                        return;
                    }
                    // Reading takes more than the trace, for a moment. Later on much is in use, and looking through
                    // it takes the trace's time.
                    if std::mem::take(&mut is_first) {
                        host::return_memory();
                    }
                }
            })?;
        Ok(Self {
            asked,
            read,
            states: BTreeMap::new(),
            progress: None,
            patience: arming.max(PATIENCE),
        })
    }

    /// A followed packet went through a namespace at `time_ns` (CLOCK_MONOTONIC): asks for its rules,
    /// unless they were read since, or lately enough.
    pub(super) fn met(&mut self, netns: &Netns, time_ns: u64, book: &mut Rulebook) {
        let state = self.states.entry(netns.id).or_default();
        let fresh = book
            .read_ns(netns.id)
            .is_some_and(|at| at.saturating_add(FRESH_NS) > time_ns);
        if state.pending.is_some() || fresh || time_ns < state.not_before_ns {
            return;
        }
        match self.asked.send(netns.clone()) {
            Ok(()) => state.pending = Some(Instant::now()),
            Err(_) => book.give_up(netns.id, "the thread that reads them has ended"),
        }
    }

    /// Takes in what was read by now. Whether rules are being read for the first time: flows wait for
    /// them, for a while; those that are told without say so.
    pub(super) fn is_waiting(&mut self, book: &mut Rulebook) -> bool {
        while let Ok(reading) = self.read.try_recv() {
            self.add(reading, book);
        }
        let now = Instant::now();
        let mut waiting = false;
        for (id, since) in self.pending() {
            let late = now >= self.until(since);
            if late {
                book.give_up(id, LATE);
            }
            waiting |= !late && book.read_ns(id).is_none();
        }
        waiting
    }

    /// Flows are told now, whatever is being read.
    pub(super) fn hurry(&self, book: &mut Rulebook) {
        for (id, _) in self.pending() {
            book.give_up(
                id,
                "there was no time to wait for them: too many flows at once",
            );
        }
    }

    /// Waits until nothing is being read, but not for ever.
    pub(super) fn wait(&mut self, book: &mut Rulebook) {
        let begin = Instant::now();
        let mut end = begin + self.patience;
        while self.pending().next().is_some() {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(reading) = self.read.recv_timeout(left) else {
                break;
            };
            self.add(reading, book);
            end = (Instant::now() + self.patience).min(begin + self.patience * LONGEST);
        }
        self.pending().for_each(|(id, _)| book.give_up(id, LATE));
    }

    /// Namespaces that are being read or stand in line, and since when.
    fn pending(&self) -> impl Iterator<Item = (NetnsId, Instant)> {
        let pending = |(id, state): (&NetnsId, &State)| Some((*id, state.pending?));
        self.states.iter().filter_map(pending)
    }

    /// How long flows wait for what was asked at `since`.
    fn until(&self, since: Instant) -> Instant {
        let progress = self.progress.map_or(since, |at| at.max(since));
        (progress + self.patience).min(since + self.patience * LONGEST)
    }

    fn add(&mut self, reading: Reading, book: &mut Rulebook) {
        let pause = u64::try_from((reading.took * SHARE).as_nanos()).unwrap_or(u64::MAX);
        let state = State {
            pending: None,
            not_before_ns: reading.began_ns.saturating_add(pause),
        };
        self.states.insert(reading.netns, state);
        self.progress = Some(Instant::now());
        book.add(reading.netns, reading.began_ns, reading.rules);
    }
}

const LATE: &str =
    "they were not read in time: reading them takes seconds on this machine, or is stuck";

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
        unread: vec![Unread::new("the rules", error.to_string())],
        ..Ruleset::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NetnsId = NetnsId(1);
    const POD: NetnsId = NetnsId(2);

    /// A reader whose thread never answers, or answers with what the other end says.
    fn reader() -> (RuleReader, Receiver<Netns>, Sender<Reading>) {
        let ((asked, questions), (answers, read)) = (channel(), channel());
        let reader = RuleReader {
            asked,
            read,
            states: BTreeMap::new(),
            progress: None,
            patience: PATIENCE,
        };
        (reader, questions, answers)
    }

    fn met(reader: &mut RuleReader, id: NetnsId, book: &mut Rulebook) {
        reader.met(&Netns::new(id, Vec::new()), 5, book);
    }

    fn asked_before(reader: &mut RuleReader, id: NetnsId, ago: Duration) {
        let state = reader.states.entry(id).or_default();
        state.pending = Instant::now().checked_sub(ago);
    }

    fn why(book: &Rulebook, id: NetnsId) -> Option<&str> {
        Some(&book.at(id, 5)?.rules.unread.first()?.why)
    }

    fn reading(netns: NetnsId) -> Reading {
        Reading {
            netns,
            began_ns: 5,
            took: Duration::ZERO,
            rules: Ruleset::default(),
        }
    }

    #[test]
    fn rules_that_are_not_read_in_time_are_told_as_unread() {
        let (mut reader, _questions, answers) = reader();
        let mut book = Rulebook::default();
        met(&mut reader, NODE, &mut book);
        assert!(reader.is_waiting(&mut book));
        assert_eq!(why(&book, NODE), None);
        asked_before(&mut reader, NODE, PATIENCE);
        assert!(!reader.is_waiting(&mut book));
        assert_eq!(why(&book, NODE), Some(LATE));
        answers.send(reading(NODE)).unwrap();
        assert!(!reader.is_waiting(&mut book));
        assert_eq!(why(&book, NODE), None);
        assert!(book.at(NODE, 5).is_some());
    }

    /// One that stands in line behind others is waited for while these are read.
    #[test]
    fn patience_begins_anew_with_each_reading_but_has_an_end() {
        let (mut reader, _questions, answers) = reader();
        let mut book = Rulebook::default();
        met(&mut reader, POD, &mut book);
        asked_before(&mut reader, POD, PATIENCE);
        answers.send(reading(NODE)).unwrap();
        assert!(reader.is_waiting(&mut book));
        asked_before(&mut reader, POD, PATIENCE * LONGEST);
        assert!(!reader.is_waiting(&mut book));
        assert_eq!(why(&book, POD), Some(LATE));
    }

    #[test]
    fn what_cannot_be_waited_for_or_asked_is_told() {
        let (mut reader, questions, _answers) = reader();
        let mut book = Rulebook::default();
        met(&mut reader, NODE, &mut book);
        reader.hurry(&mut book);
        assert!(why(&book, NODE).is_some_and(|why| why.contains("no time")));
        drop(questions);
        met(&mut reader, POD, &mut book);
        assert!(why(&book, POD).is_some_and(|why| why.contains("has ended")));
    }
}
