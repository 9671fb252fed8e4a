//! A capture as the records of a host with one namespace: see [`crate::recording::Source`].

use super::{Capture, HERE, LinkType, Packet};
use crate::inventory::{Inventory, Link, Namespace};
use crate::journey;
use crate::recording::{Asked, Captured, Change, Clock, Header, Record, Settings};
use crate::verdict;
use ipnet::IpNet;
use std::collections::{BTreeSet, VecDeque};

/// Time goes on in steps of this, nanoseconds, as in a trace.
const TURN_NS: u64 = 50_000_000;

/// Most events held back for reordering: packets stand in a file nearly in order, and far sides see very many flows.
const MOST_HELD: usize = 1 << 12;

/// An interface that a file describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The number that its packets have in this file; 0: the file has but one, and no name for it.
    pub number: u32,
    /// Its name, where the file has it.
    pub name: Option<String>,
    /// Its addresses, where the file has them.
    pub addrs: Vec<IpNet>,
    /// What its packets begin with; `None`: something that is not read.
    pub link: Option<LinkType>,
}

/// Packets in, records out.
#[derive(Debug, Default)]
pub struct Records {
    host: String,
    capture: Capture,
    inventory: Inventory,
    queue: VecDeque<Record>,
    /// Up to when it has come.
    now_ns: u64,
    /// When flows were last looked at.
    turned_ns: u64,
    finished: bool,
}

impl Records {
    /// A capture that begins. `host` is what it is called in reports, `version` that of the reader,
    /// `began_ns` the time of its first packet.
    #[must_use]
    pub fn new(host: &str, version: &str, began_ns: u64, interfaces: &[Interface]) -> Self {
        let mut records = Self {
            host: host.to_owned(),
            now_ns: began_ns,
            turned_ns: began_ns,
            ..Self::default()
        };
        let header = Header {
            version: version.to_owned(),
            host: host.to_owned(),
            started: verdict::utc(began_ns, 0),
            clock: Clock {
                monotonic_ns: began_ns,
                realtime_ns: i64::try_from(began_ns).unwrap_or(i64::MAX),
            },
            captured: Some(captured(interfaces)),
            settings: settings(),
            ..Header::default()
        };
        records.queue.push_back(Record::Header(Box::new(header)));
        records.interfaces(interfaces);
        records
    }

    /// The file describes these interfaces from now on.
    pub fn interfaces(&mut self, interfaces: &[Interface]) {
        let mut new = Inventory {
            host: self.host.clone(),
            node: Some(HERE),
            ..Inventory::default()
        };
        let links = interfaces.iter().filter_map(|one| {
            let known = one.name.is_some() || !one.addrs.is_empty();
            known.then(|| (one.number, link(one)))
        });
        let namespace = Namespace {
            links: links.collect(),
            ..Namespace::default()
        };
        new.namespaces.insert(HERE, namespace);
        if let Some(change) = Change::between(&self.inventory, &new) {
            self.queue.push_back(Record::Inventory(Box::new(change)));
        }
        self.inventory = new;
    }

    /// Takes the next packet in.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.now_ns = self.now_ns.max(packet.time_ns);
        if self.now_ns - self.turned_ns >= TURN_NS {
            self.turned_ns = self.now_ns;
            self.queue.push_back(Record::Advance(self.asked()));
        }
        let event = self.capture.take(packet);
        self.queue
            .extend(event.map(|event| Record::Event(Box::new(event))));
    }

    /// Nothing comes any more.
    pub fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            self.queue.push_back(Record::Finish(self.asked()));
        }
    }

    /// The next record; `None`: it takes more packets, or nothing comes any more.
    pub fn pop(&mut self) -> Option<Record> {
        self.queue.pop_front()
    }

    /// What was read so far, and counted.
    #[must_use]
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    fn asked(&self) -> Asked {
        Asked {
            now_ns: self.now_ns,
            counts: Vec::new(),
        }
    }
}

fn settings() -> Settings {
    let journey = journey::Settings {
        max_held: MOST_HELD,
        ..journey::Settings::default()
    };
    Settings {
        journey,
        ..Settings::default()
    }
}

fn link(interface: &Interface) -> Link {
    Link {
        name: interface.name.clone().unwrap_or_default(),
        addrs: interface.addrs.clone(),
        up: true,
        ..Link::default()
    }
}

fn captured(interfaces: &[Interface]) -> Captured {
    let links: BTreeSet<LinkType> = interfaces.iter().filter_map(|one| one.link).collect();
    Captured {
        interfaces: !links.contains(&LinkType::Cooked),
        sides: links.iter().all(|link| link.tells_side()),
        links: links.iter().map(|link| link.name().to_owned()).collect(),
    }
}
