//! Who else rewrites: programs and filters on the devices around a change. They come into question
//! where netfilter cannot have been, or where conntrack of that namespace was asked for both tuples
//! and knows nothing of it.

use super::changes;
use super::step::{Point, Seat, Step};
use crate::event::{Dir, Icmp, NetnsId};
use crate::inventory::{Attached, Inventory};
use crate::journey::Journey;
use crate::packet::Tuple;
use crate::report::{Rewrite, RewriteAgent, RewriteHook, Tc};

/// A change of address, and what is known of how it came about.
#[derive(Clone, Debug)]
pub struct Change {
    /// As the report shows it.
    pub rewrite: Rewrite,
    /// Programs that come into question.
    pub suspects: Vec<Suspect>,
    /// A rule may have written the address, and which is not known.
    pub by_rule: bool,
    /// Conntrack of that namespace could have done it, and was not asked.
    pub unasked: bool,
    pub(super) netns: Option<NetnsId>,
    before: Tuple,
    after: Tuple,
    icmp: Option<Icmp>,
    points: Vec<Point>,
    beyond_netfilter: bool,
}

/// A program or filter on a device between two sightings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The device's name.
    pub device: String,
    /// At which hook.
    pub hook: RewriteHook,
    /// What is attached there.
    pub attached: Attached,
}

/// What to ask of a namespace because an address changed there, and neither the packets' own entries
/// nor the rules say by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Where.
    pub netns: NetnsId,
    /// The packet's tuple before and after.
    pub tuples: [Tuple; 2],
    /// Type and code of an ICMP packet.
    pub icmp: Option<Icmp>,
    /// Devices whose programs come into question.
    pub devices: Vec<u32>,
}

impl Change {
    pub(super) fn new(rewrite: Rewrite, step: &Step<'_>, inventory: &Inventory) -> Self {
        let points = step.points(inventory);
        let printed = step.to.or(step.from);
        Self {
            suspects: Vec::new(),
            by_rule: false,
            unasked: false,
            netns: points.first().map(|point| point.place.netns),
            before: step.before,
            after: step.after,
            icmp: printed.and_then(|hop| hop.print().icmp),
            points,
            beyond_netfilter: step.is_beyond_netfilter(),
            rewrite,
        }
    }

    /// Whether nobody is named.
    fn is_open(&self) -> bool {
        matches!(
            self.rewrite.agent,
            RewriteAgent::Unknown | RewriteAgent::TcBpf
        )
    }

    /// Names the program, where it is the only one that comes into question.
    fn accuse(&mut self, journey: &Journey, inventory: &Inventory) {
        let points = self.points.iter();
        self.suspects = points.flat_map(|p| suspects(*p, inventory)).collect();
        let asked = self
            .netns
            .is_some_and(|ns| journey.conntrack_asked.contains(&ns));
        self.unasked = !self.beyond_netfilter && !asked;
        if self.suspects.is_empty() || self.unasked || self.by_rule {
            return;
        }
        let hook = self.suspects[0].hook;
        let same_hook = self.suspects.iter().all(|s| s.hook == hook);
        let programs = self.suspects.iter().all(|s| s.attached.is_program());
        self.rewrite.agent = match programs {
            true => RewriteAgent::TcBpf,
            false => RewriteAgent::Unknown,
        };
        self.rewrite.hook = same_hook.then_some(hook);
        self.rewrite.netns = self.netns.map(|ns| ns.0);
        if let [one] = self.suspects.as_slice() {
            self.rewrite.program = one.attached.id.map(|id| Tc {
                id,
                name: one.attached.name.clone().unwrap_or_default(),
            });
        }
    }
}

/// What is to be asked before a flow is judged.
#[must_use]
pub fn doubts(journey: &Journey, inventory: &Inventory) -> Vec<Doubt> {
    let open = changes(journey, inventory)
        .into_iter()
        .filter(Change::is_open);
    open.filter_map(|change| {
        Some(Doubt {
            netns: change.netns?,
            tuples: [change.before, change.after],
            icmp: change.icmp,
            devices: change.points.iter().map(|p| p.place.ifindex).collect(),
        })
    })
    .collect()
}

/// Names programs that rewrote, where it is known which.
pub fn name_programs(changes: &mut [Change], journey: &Journey, inventory: &Inventory) {
    for change in changes.iter_mut().filter(|c| c.is_open()) {
        change.accuse(journey, inventory);
    }
}

/// What sits at a point.
fn suspects(point: Point, inventory: &Inventory) -> impl Iterator<Item = Suspect> + '_ {
    let place = point.place;
    let facts = inventory.facts.get(&place.netns);
    let all = facts.and_then(|facts| facts.programs.get(&(place.ifindex, place.dir)));
    let link = inventory.link(place.netns, place.ifindex);
    let device = link.map_or_else(|| format!("device {}", place.ifindex), |l| l.name.clone());
    let there = all.into_iter().flatten();
    there
        .filter(move |attached| is_at(attached, point.seat))
        .map(move |attached| Suspect {
            device: device.clone(),
            hook: match place.dir {
                _ if attached.is_xdp() => RewriteHook::Xdp,
                Dir::Ingress => RewriteHook::TcIngress,
                Dir::Egress => RewriteHook::TcEgress,
            },
            attached: attached.clone(),
        })
}

/// Whether packets meet it there. A driver's XDP program runs before a packet is sighted at all, a
/// generic one between the tracepoint and traffic control.
fn is_at(attached: &Attached, seat: Seat) -> bool {
    let generic = attached.is_xdp() && !attached.is_driver_xdp();
    match seat {
        Seat::Wire => attached.is_driver_xdp(),
        Seat::BeforeOurs => generic || !attached.is_xdp() && attached.before_ours != Some(false),
        Seat::AfterOurs => !attached.is_xdp() && attached.before_ours != Some(true),
        Seat::Anywhere => !attached.is_driver_xdp(),
    }
}
