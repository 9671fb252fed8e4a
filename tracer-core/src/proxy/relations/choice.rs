//! Which connections belong together: chosen only where just one fits.

use super::{Accepted, Begun, Live, Opened, Relations};
use crate::event::{NetnsId, Process};
use crate::journey::Journey;
use crate::packet::Tuple;
use crate::proxy::{Evidence, Joined, Relation, Side};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

impl Relations {
    /// What is known of a flow. `live` finds flows that were not judged yet.
    #[must_use]
    pub fn of(&self, journey: &Journey, live: &Live<'_>) -> Relation {
        let mut relation = Relation {
            header: self.begun(journey).sides[0].header(),
            ..Relation::default()
        };
        if let Some(accepted) = self.ended(journey).map(|at| &self.accepted[at]) {
            self.choose(Side::Ended, &self.after(accepted), &mut relation, live);
        }
        if let Some(opened) = self.opened(journey).map(|at| &self.opened[at]) {
            relation.unasked = !opened.asked;
            // Between two proxies a flow is both; where it goes on says more.
            if relation.joined.is_none() && relation.ambiguous.is_none() {
                self.choose(Side::Opened, &self.before(opened), &mut relation, live);
            }
        }
        relation.around = self.around(journey, &relation);
        relation
    }

    /// Takes the other side where just one connection fits, whichever of the two is looked at from.
    fn choose(
        &self,
        side: Side,
        fits: &[(&Accepted, &Opened)],
        relation: &mut Relation,
        live: &Live<'_>,
    ) {
        let Some((accepted, _)) = fits.first().copied() else {
            return;
        };
        let (chosen, evidence) = match self.only(fits, live) {
            Ok(((accepted, opened), evidence)) => {
                let back = match side {
                    Side::Ended => self.before(opened),
                    Side::Opened => self.after(accepted),
                };
                match self.only(&back, live) {
                    Ok((_, same)) if same == evidence => ((accepted, opened), evidence),
                    _ => return relation.ambiguous = doubt(back.len(), accepted),
                }
            }
            Err(count) => return relation.ambiguous = doubt(count, accepted),
        };
        let (accepted, opened) = chosen;
        let begun = self.begun_of(&opened.begun, opened.netns, opened.tuple, live);
        let known = begun.as_ref();
        relation.joined = Some(Joined {
            side,
            process: accepted.told.process.clone(),
            netns: accepted.told.netns,
            inbound: accepted.told.tuple,
            outbound: opened.tuple,
            new_flow: known.map(|b| b.id.clone()).filter(|id| !id.is_empty()),
            evidence,
            header: known.and_then(|b| b.sides[0].header()),
            unread: known.is_some_and(|b| b.sent && !b.sides[0].was_read()),
        });
    }

    /// The one pair that is proven, or else the one that there is; how many there are, otherwise.
    fn only<'a>(
        &self,
        fits: &[(&'a Accepted, &'a Opened)],
        live: &Live<'_>,
    ) -> Result<((&'a Accepted, &'a Opened), Evidence), usize> {
        let proven = fits.iter().filter(|(a, o)| self.is_proven(a, o, live));
        let proven: Vec<_> = proven.copied().collect();
        // What the kernel half has forgotten of a process might fit as well.
        let more = fits.iter().any(|(a, _)| a.told.more);
        match (proven.as_slice(), fits) {
            ([one], _) => Ok((*one, Evidence::Payload)),
            ([], [one]) if !more => Ok((*one, Evidence::Process)),
            _ => Err(fits.len()),
        }
    }

    /// The connections that the process of this one opened meanwhile.
    fn after<'a>(&'a self, accepted: &'a Accepted) -> Vec<(&'a Accepted, &'a Opened)> {
        let opened = self.opened.iter().filter(|o| fits(accepted, o));
        opened.map(|o| (accepted, o)).collect()
    }

    /// The connections that the process of this one held when it opened it.
    fn before<'a>(&'a self, opened: &'a Opened) -> Vec<(&'a Accepted, &'a Opened)> {
        let accepted = self.accepted.iter().filter(|a| fits(a, opened));
        accepted.map(|a| (a, opened)).collect()
    }

    fn is_proven(&self, accepted: &Accepted, opened: &Opened, live: &Live<'_>) -> bool {
        let told = &accepted.told;
        let Some(begun) = self.begun_of(&opened.begun, opened.netns, opened.tuple, live) else {
            return false;
        };
        let client = SocketAddr::new(told.tuple.src, told.tuple.sport);
        let named = begun.sides[0].header().and_then(|h| h.client);
        named == Some(client)
            || self
                .begun_of(&accepted.begun, told.netns, told.tuple, live)
                .is_some_and(|ended| ended.agrees(&begun))
    }

    /// How one of two connections began: its flow may be judged already, or not yet.
    fn begun_of(
        &self,
        kept: &Option<Begun>,
        netns: NetnsId,
        tuple: Tuple,
        live: &Live<'_>,
    ) -> Option<Begun> {
        let by_flow = || live(netns, tuple).map(|journey| self.begun(journey));
        // What nobody asked for has no flow, only a tuple.
        kept.clone().or_else(by_flow).or_else(|| {
            let side = |tuple| self.openings.get(&(netns, tuple)).cloned();
            let sides = [side(tuple), side(tuple.reversed())];
            sides.iter().any(Option::is_some).then(|| Begun {
                sides: sides.map(Option::unwrap_or_default),
                ..Begun::default()
            })
        })
    }

    /// From where its destination was reached that is not this flow.
    fn around(&self, journey: &Journey, relation: &Relation) -> Vec<IpAddr> {
        if relation.header.is_none() {
            return Vec::new();
        }
        let hops = journey.request.hops().iter();
        let tuples: Vec<Tuple> = hops.flat_map(|h| h.tuples()).collect();
        let own: BTreeSet<IpAddr> = tuples.iter().map(|t| t.src).collect();
        let to: BTreeSet<_> = tuples
            .iter()
            .map(|t| SocketAddr::new(t.dst, t.dport))
            .collect();
        let sources = to.iter().filter_map(|to| self.reached.get(to)).flatten();
        let others: BTreeSet<_> = sources.filter(|s| !own.contains(s)).collect();
        others.into_iter().copied().collect()
    }
}

fn doubt(count: usize, accepted: &Accepted) -> Option<(usize, Process)> {
    Some((count, accepted.told.process.clone()))
}

/// Whether one process used the one, and opened the other meanwhile.
fn fits(accepted: &Accepted, opened: &Opened) -> bool {
    accepted.told.process.pid == opened.process.pid
        && accepted.told.since_ns <= opened.time_ns
        && accepted.over_ns.is_none_or(|over| opened.time_ns <= over)
}
