//! Parts in, joined flows out.

use super::census::Census;
use super::clocks::Clocks;
use super::compose::{self, Member};
use super::links::Link;
use super::order::{apart, sorted};
use super::shown::Shown;
use super::witness::{Key, Witness, unix};
use crate::inventory::Inventory;
use crate::journey::Closed;
use crate::recording::{Header, Part};
use crate::report::{End, Flow};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A part waits this long for others, nanoseconds: hosts tell the same flow at different times, the
/// latest when its application is silent for ten seconds.
const HOLD_NS: i64 = 15_000_000_000;
/// One that was closed waits less: the others saw that too.
const HOLD_CLOSED_NS: i64 = 3_000_000_000;
/// One of which other parts are known to come waits longer: a busy host tells a flow late.
const HOLD_KNOWN_NS: i64 = 60_000_000_000;
/// Two sightings of one flow are not further apart than this, by clocks that agree.
const NEAR_NS: i64 = 5_000_000_000;
/// Most parts that wait. The oldest goes before memory does.
const MOST: usize = 1 << 14;
/// Most parts with one key that are looked at, the oldest first.
const MOST_LIKE: usize = 256;
/// Most parts of one flow.
const MOST_PARTS: usize = 32;

/// A source, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Who recorded, how and what.
    pub header: &'a Header,
    /// The host.
    pub inventory: &'a Inventory,
    /// Up to when it has come, CLOCK_MONOTONIC nanoseconds of that host.
    pub now_ns: u64,
    /// Whether nothing comes of it any more.
    pub over: bool,
    /// Of a capture: what it shows.
    pub shown: Option<&'a Shown>,
}

/// A part that waits.
#[derive(Debug)]
struct Waiting {
    source: usize,
    flow: Flow,
    witness: Witness,
    due_ns: i64,
}

/// Joins parts of several sources.
#[derive(Debug)]
pub struct Joiner {
    clocks: Clocks,
    census: Census,
    parts: HashMap<u64, Waiting, RandomState>,
    /// By until when they wait.
    order: BTreeSet<(i64, u64)>,
    index: HashMap<Key, Vec<u64>, RandomState>,
    next: u64,
    hurried: u64,
    passed_over: u64,
}

impl Joiner {
    /// For sources whose clocks are off by this.
    #[must_use]
    pub fn new(clocks: Clocks) -> Self {
        Self {
            clocks,
            census: Census::default(),
            parts: HashMap::default(),
            order: BTreeSet::new(),
            index: HashMap::default(),
            next: 0,
            hurried: 0,
            passed_over: 0,
        }
    }

    /// With the count of what there is in all sources: parts wait only for what will come.
    #[must_use]
    pub fn knowing(self, census: Census) -> Self {
        Self { census, ..self }
    }

    /// Where there are recordings too: whether a captured flow can belong to nothing else, by the count of what there is.
    /// Then it is counted as passed over, and need not be judged.
    pub fn pass_over(&mut self, closed: &Closed, host: &Host<'_>) -> bool {
        if host.header.captured.is_none() {
            return false;
        }
        let witness = Witness::of(closed, host.header);
        let alone = witness.keys().all(|key| self.census.count(&key) == Some(1));
        self.passed_over += u64::from(alone);
        alone
    }

    /// Takes in a part of a source.
    pub fn push(&mut self, source: usize, (closed, flow): Part, host: &Host<'_>) {
        let offset = host.header.clock.offset_ns();
        let witness = Witness::of(&closed, host.header);
        let hold = match flow.end {
            End::Closed => HOLD_CLOSED_NS,
            _ => HOLD_NS,
        };
        let told_ns = self.clocks.align(source, unix(host.now_ns, offset));
        let id = self.next;
        self.next += 1;
        for key in witness.keys() {
            self.index.entry(key).or_default().push(id);
        }
        // Other keys occur again and again.
        let begun = witness.key.filter(|key| matches!(key, Key::Syn(_)));
        let due_ns = told_ns.saturating_add(if witness.keys().all(|key| self.is_whole(&key)) {
            0
        } else if begun.is_some_and(|key| self.is_awaited(&key)) {
            HOLD_KNOWN_NS
        } else {
            hold
        });
        self.order.insert((due_ns, id));
        let part = Waiting {
            source,
            flow,
            witness,
            due_ns,
        };
        self.parts.insert(id, part);
    }

    /// Whether all parts with a key wait here already.
    fn is_whole(&self, key: &Key) -> bool {
        let all = self.census.count(key);
        all.is_some_and(|all| all <= self.with(key))
    }

    /// Whether a part with a key is still to come.
    fn is_awaited(&self, key: &Key) -> bool {
        let all = self.census.count(key);
        all.is_some_and(|all| all > self.with(key))
    }

    /// Parts with a key that wait here.
    fn with(&self, key: &Key) -> usize {
        self.index.get(key).map_or(0, Vec::len)
    }

    /// Flows for whose parts nothing is to be waited any more.
    pub fn ready(&mut self, hosts: &[Host<'_>]) -> Vec<Flow> {
        let reached = |(source, host): (usize, &Host<'_>)| {
            let now = unix(host.now_ns, host.header.clock.offset_ns());
            (!host.over).then(|| self.clocks.align(source, now))
        };
        let reached = hosts.iter().enumerate().filter_map(reached).min();
        let reached = reached.unwrap_or(i64::MAX);
        let mut flows = Vec::new();
        while let Some(&(due_ns, id)) = self.order.first() {
            let due = due_ns <= reached || reached == i64::MAX;
            if !due && self.parts.len() <= MOST {
                break;
            }
            self.hurried += u64::from(!due);
            flows.extend(self.join(id, hosts));
        }
        flows
    }

    /// Parts that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.parts.len()
    }

    /// Parts that could not wait as long as they should.
    #[must_use]
    pub fn hurried(&self) -> u64 {
        self.hurried
    }

    /// Flows that were seen by captures only, where there are recordings too: whatever else the captured hosts
    /// did is not told.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// The flow of a part, with all that belongs to it. More than one where it is not clear what does.
    fn join(&mut self, id: u64, hosts: &[Host<'_>]) -> Vec<Flow> {
        let ids = self.family(id);
        let (ids, ambiguous) = match self.chosen(id, &ids) {
            Some(chosen) => (chosen, false),
            None => (ids, true),
        };
        let members: Vec<Member> = ids.iter().filter_map(|id| self.take(*id)).collect();
        let recorded = |host: &Host<'_>| host.header.captured.is_none();
        let by_recording = |m: &Member| hosts.get(m.source).is_some_and(recorded);
        if hosts.iter().any(recorded) && !members.iter().any(by_recording) {
            self.passed_over += members.len() as u64;
            return Vec::new();
        }
        let clocks = &self.clocks;
        if ambiguous {
            let alone = |member: Member| {
                let mut flow = compose::flow(vec![member], clocks, hosts);
                compose::doubt(&mut flow);
                flow
            };
            return members.into_iter().map(alone).collect();
        }
        vec![compose::flow(sorted(members, clocks), clocks, hosts)]
    }

    /// The part, and all that share a key with one of them at the same time.
    fn family(&self, id: u64) -> Vec<u64> {
        let mut ids = vec![id];
        let mut at = 0;
        while let Some(part) = ids.get(at).and_then(|id| self.parts.get(id)) {
            let others = part.witness.keys().filter_map(|key| self.index.get(&key));
            for other in others.flat_map(|ids| ids.iter().take(MOST_LIKE)) {
                let fits = self
                    .parts
                    .get(other)
                    .is_some_and(|o| self.link(part, o).is_some());
                if fits && !ids.contains(other) && ids.len() < MOST_PARTS {
                    ids.push(*other);
                }
            }
            at += 1;
        }
        ids
    }

    fn link(&self, a: &Waiting, b: &Waiting) -> Option<Link> {
        let lasted = |part: &Waiting| {
            let (from, to) = part.witness.lasted;
            let align = |at| self.clocks.align(part.source, at);
            (align(from), align(to))
        };
        let ((a0, a1), (b0, b1)) = (lasted(a), lasted(b));
        let near = a0 <= b1.saturating_add(NEAR_NS) && b0 <= a1.saturating_add(NEAR_NS);
        let separate = a.source != b.source || apart(&a.witness, &b.witness);
        Link::between(&a.witness, &b.witness).filter(|_| near && separate)
    }

    /// Which of a family are parts of one flow: of each source one, or several that the request met one
    /// after the other. `None`: it is not clear which.
    fn chosen(&self, id: u64, ids: &[u64]) -> Option<Vec<u64>> {
        let mut chosen = Vec::new();
        let mut sources: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for id in ids {
            if let Some(part) = self.parts.get(id) {
                sources.entry(part.source).or_default().push(*id);
            }
        }
        for (_, own) in sources {
            let parts: Vec<&Waiting> = own.iter().filter_map(|id| self.parts.get(id)).collect();
            let clear = parts
                .iter()
                .enumerate()
                .all(|(i, a)| parts[i + 1..].iter().all(|b| apart(&a.witness, &b.witness)));
            let best = if clear {
                own
            } else {
                vec![self.best(&own, ids)?]
            };
            chosen.extend(best);
        }
        // Another one may go on where the one that was asked about does not.
        Some(if chosen.contains(&id) {
            chosen
        } else {
            vec![id]
        })
    }

    /// The one of several parts of a source whose tuple goes on at another source, if it is one.
    fn best(&self, own: &[u64], ids: &[u64]) -> Option<u64> {
        let goes_on = |id: &&u64| {
            let part = self.parts.get(id);
            ids.iter()
                .filter_map(|other| self.parts.get(other))
                .any(|other| {
                    part.is_some_and(|part| {
                        part.source != other.source
                            && self
                                .link(part, other)
                                .is_some_and(|link| link.tuple && link.key)
                    })
                })
        };
        let mut those = own.iter().filter(goes_on);
        let first = those.next()?;
        those.next().is_none().then_some(*first)
    }

    fn take(&mut self, id: u64) -> Option<Member> {
        let part = self.parts.remove(&id)?;
        self.order.remove(&(part.due_ns, id));
        for key in part.witness.keys() {
            if let Some(ids) = self.index.get_mut(&key) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.index.remove(&key);
                }
            }
        }
        Some(Member {
            source: part.source,
            flow: part.flow,
            witness: part.witness,
        })
    }
}
