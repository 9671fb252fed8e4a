//! Explicit capture points: devices to which the user gave names, and what each of them saw of a flow.

mod told;

pub(crate) use told::untold;
pub use told::{sums, tell};

use crate::event::{Dir, NetnsId};
use crate::inventory::Inventory;
use crate::journey::{Hop, Journey, Place};
use crate::report::{PointSeen, PointView};
use serde::{Deserialize, Serialize};

/// A device with a name of the user's. Whatever has the device's name in the same namespace, or later in
/// one of the same name or pod (that was replaced), is the same point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// What the user calls it.
    pub name: String,
    /// The device's name.
    pub ifname: String,
    /// Its namespace when the trace began.
    pub netns: NetnsId,
    /// That namespace's name.
    pub netns_name: Option<String>,
    /// Its pod.
    #[serde(default)]
    pub pod: Option<String>,
    /// One direction only; `None`: both.
    pub dir: Option<Dir>,
}

impl Point {
    /// Whether a place is at this point.
    #[must_use]
    pub fn is_at(&self, place: Place, inventory: &Inventory) -> bool {
        let link = inventory.link(place.netns, place.ifindex);
        self.dir.is_none_or(|dir| dir == place.dir)
            && link.is_some_and(|link| link.name == self.ifname)
            && self.is_in(place.netns, inventory)
    }

    fn is_in(&self, netns: NetnsId, inventory: &Inventory) -> bool {
        let there = inventory.namespaces.get(&netns);
        let same = |own: &Option<String>, there: Option<&Option<String>>| {
            own.is_some() && Some(own) == there
        };
        let named = there.is_some_and(|ns| ns.name.is_some()) && self.netns_name.is_some();
        same(&self.netns_name, there.map(|ns| &ns.name))
            || same(&self.pod, there.map(|ns| &ns.pod))
            || !named && netns == self.netns
    }

    /// Whether a packet can be at both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let side = match (self.dir, other.dir) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        side && self.netns == other.netns && self.ifname == other.ifname
    }

    /// What it saw of a flow.
    fn view(&self, journey: &Journey, inventory: &Inventory) -> PointView {
        let here = |hop: &Hop| self.is_at(hop.place, inventory);
        let request = journey.request.hops().iter().position(here);
        let mut back = journey.reply.hops().iter().chain(journey.error.hops());
        let hop = request.and_then(|at| journey.request.hops().get(at));
        PointView {
            seen: PointSeen::of(request.is_some(), back.any(here)),
            hop: request.and_then(|at| u32::try_from(at + 1).ok()),
            source: hop.and_then(Hop::tuple).map(|tuple| tuple.src),
            ..self.unseen(&inventory.host)
        }
    }

    /// As it is told where it saw nothing.
    #[must_use]
    pub fn unseen(&self, host: &str) -> PointView {
        PointView {
            name: self.name.clone(),
            host: host.to_owned(),
            netns_name: self.netns_name.clone(),
            ifname: self.ifname.clone(),
            dir: self.dir,
            seen: PointSeen::Never,
            hop: None,
            source: None,
        }
    }
}

/// What each point saw of a flow, in the order in which they were given.
#[must_use]
pub fn views(points: &[Point], journey: &Journey, inventory: &Inventory) -> Vec<PointView> {
    let views = points.iter().map(|point| point.view(journey, inventory));
    views.collect()
}

/// The name of the point at a place.
#[must_use]
pub fn name_at<'a>(points: &'a [Point], place: Place, inventory: &Inventory) -> Option<&'a str> {
    let mut there = points.iter().filter(|point| point.is_at(place, inventory));
    there.next().map(|point| point.name.as_str())
}
