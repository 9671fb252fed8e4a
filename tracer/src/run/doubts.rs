//! Changes of address that nothing on the packets explains: before such a flow is judged, the
//! conntrack of that namespace is asked for the tuples, and the devices around for their programs.

use super::inquire::add_tcx;
use crate::system::conntrack::{self, Question};
use crate::system::{self, Survey};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracer_core::attribute::{self, Doubt};
use tracer_core::event::NetnsId;
use tracer_core::inventory::Facts;
use tracer_core::journey::Closed;

/// Most changes that are asked about at one judgement; more than that stay unexplained, which their
/// flows say.
const AT_ONCE: usize = 2048;
/// Programs of a device are listed anew after this time.
const LISTED: Duration = Duration::from_secs(1);

/// What was asked lately.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    listed: BTreeMap<(NetnsId, u32), Instant>,
}

impl Doubts {
    /// Asks about flows that are over, and gives the answers to them and to the inventory.
    pub(super) fn settle(&mut self, closed: &mut [Closed], survey: &mut Survey) {
        let mut open: BTreeMap<NetnsId, Vec<(usize, Doubt)>> = BTreeMap::new();
        let inventory = survey.inventory();
        let all = (0..).zip(closed.iter()).flat_map(|(at, flow)| {
            let doubts = attribute::doubts(&flow.journey, inventory);
            doubts.into_iter().map(move |doubt| (at, doubt))
        });
        for (at, doubt) in all.take(AT_ONCE) {
            open.entry(doubt.netns).or_default().push((at, doubt));
        }
        for (netns, doubts) in open {
            ask(survey, netns, &doubts, closed);
            let devices = doubts.iter().flat_map(|(_, d)| d.devices.iter().copied());
            self.list(survey, netns, &devices.collect());
        }
    }

    /// Lists the programs of devices that were not listed just now.
    fn list(&mut self, survey: &mut Survey, id: NetnsId, devices: &BTreeSet<u32>) {
        let now = Instant::now();
        self.listed.retain(|_, at| now.duration_since(*at) < LISTED);
        let named = devices.iter().filter_map(|index| {
            let link = survey.inventory().link(id, *index)?;
            let known = self.listed.contains_key(&(id, *index));
            (!known).then(|| (*index, link.name.clone()))
        });
        let named: BTreeMap<u32, String> = named.collect();
        let Some(netns) = survey.netns(id).filter(|_| !named.is_empty()) else {
            return;
        };
        let Ok(mut programs) = system::programs(netns, named.keys().copied()) else {
            return; // the namespace is gone
        };
        add_tcx(netns, &named, &mut programs);
        let listed = named.keys().map(|index| ((id, *index), now));
        self.listed.extend(listed);
        let facts = Facts {
            programs,
            ..Facts::default()
        };
        survey.note_facts(id, facts);
    }
}

/// Asks conntrack for the tuples before and after. A namespace that is gone, or a kernel that would
/// have to load a module for it, gives no answer: then it was not asked.
fn ask(survey: &Survey, id: NetnsId, doubts: &[(usize, Doubt)], closed: &mut [Closed]) {
    let questions: Vec<Question> = doubts
        .iter()
        .flat_map(|(_, doubt)| questions(doubt))
        .collect();
    let found = if !conntrack::is_there() {
        Some(vec![None; questions.len()])
    } else if conntrack::askable().is_ok() {
        let netns = survey.netns(id);
        netns.and_then(|netns| conntrack::entries(netns, &questions).ok())
    } else {
        None
    };
    let Some(found) = found else { return };
    for ((at, _), entries) in doubts.iter().zip(found.chunks(2)) {
        if let Some(flow) = closed.get_mut(*at) {
            flow.conntrack(id, entries.iter().flatten().copied());
        }
    }
}

fn questions(doubt: &Doubt) -> [Question; 2] {
    let icmp = doubt.icmp;
    doubt.tuples.map(|tuple| Question { tuple, icmp })
}
