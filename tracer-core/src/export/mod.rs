//! Sightings as the packets of a capture file: each with its headers, its interface, and what is known
//! of it once its flow is judged.

mod headers;
mod shelf;
mod words;

pub use headers::headers;
pub use shelf::Shelf;
pub use words::direction_bits;

use crate::event::{Dir, NetnsId};
use crate::inventory::Inventory;
use crate::journey::Place;
use crate::point::{Point, name_at};

/// What is to be known of every packet: stands at the head of the file.
pub const REMARK: &str = "Headers only, put together by srctrace from what it noted of each packet. Not noted, and 0 here: type of \
service, traffic class, flow label, the flag DF, TCP's window and urgent pointer, checksums of transport headers. Cut off: \
options, payload, what an ICMP error quotes. There is no link layer: addresses of devices are not noted, VLAN tags stand in \
comments. A packet is here if it told something new of its flow (the first at each device, each change of TCP's state, the first \
data each way, retransmissions, a sign of life now and then); what was only counted, the bulk of a transfer, is not. Packets of a flow \
stand together, in the order in which flows were told: sort by time to see flows side by side.";

/// A device that packets crossed, by the name of its point where it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    /// Its namespace.
    pub netns: NetnsId,
    /// Its index there.
    pub ifindex: u32,
    /// The point's name, else the device's name and its namespace's: `eth0@vpn`.
    pub name: String,
    /// The same in words.
    pub description: String,
}

impl Interface {
    /// The one at a place.
    #[must_use]
    pub fn at(place: Place, points: &[Point], inventory: &Inventory) -> Self {
        let link = inventory.link(place.netns, place.ifindex);
        let device = link.map_or_else(|| format!("if{}", place.ifindex), |l| l.name.clone());
        let space = inventory.name(place.netns).map(str::to_owned);
        let space = space.unwrap_or_else(|| format!("netns {}", place.netns.0));
        let point = name_at(points, place, inventory);
        let where_ = format!(
            "{device} in network namespace {space} ({}) on {}",
            place.netns.0, inventory.host
        );
        Self {
            netns: place.netns,
            ifindex: place.ifindex,
            name: point.map_or_else(|| format!("{device}@{space}"), str::to_owned),
            description: match point {
                Some(point) => format!("point {point}: {where_}"),
                None => where_,
            },
        }
    }
}

/// One packet of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When, CLOCK_MONOTONIC nanoseconds of its host.
    pub time_ns: u64,
    /// Where.
    pub interface: Interface,
    /// Which way it crossed it.
    pub dir: Dir,
    /// Its bytes from the network header on, as far as they are known.
    pub bytes: Vec<u8>,
    /// How many there were.
    pub length: u32,
    /// What is known of it.
    pub comment: String,
}
