//! `--pcap`: the packets of each flow that is told go into a pcapng file, with what became of them.

use super::failure::Failure;
use crate::render::escape;
use crate::sink;
use crate::sink::pcapng;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tracer_core::event::{Dir, Event};
use tracer_core::export::{Interface, REMARK, Shelf, direction_bits};
use tracer_core::inventory::Inventory;
use tracer_core::journey::Place;
use tracer_core::point::Point;
use tracer_core::recording::Part;

/// A capture file that is being written.
pub(super) struct Pcap {
    path: PathBuf,
    file: File,
    shelf: Shelf,
    points: Vec<Point>,
    interfaces: Vec<Interface>,
    offset_ns: i64,
    named: bool,
}

impl Pcap {
    /// Makes the file and writes its head. `offset_ns`: what to add to the packets' times to get
    /// nanoseconds since 1970, UTC; `kernel`: the release that saw them.
    pub(super) fn create(
        path: &Path,
        kernel: &str,
        offset_ns: i64,
        points: &[Point],
    ) -> Result<Self, Failure> {
        let file = sink::private(path);
        let mut pcap = Self {
            file: file.map_err(|error| cannot(path, &error))?,
            path: path.to_owned(),
            shelf: Shelf::default(),
            points: points.to_vec(),
            interfaces: Vec::new(),
            offset_ns,
            named: false,
        };
        let application = concat!("srctrace ", env!("CARGO_PKG_VERSION"));
        let head = pcapng::section(&format!("Linux {kernel}"), application, REMARK);
        pcap.write(head)?;
        Ok(pcap)
    }

    /// The points that were named come first, whether or not they see a packet.
    fn name_points(&mut self, inventory: &Inventory) -> Result<(), Failure> {
        if std::mem::replace(&mut self.named, true) {
            return Ok(());
        }
        let points = self.points.clone();
        for point in &points {
            let links = inventory.namespaces.get(&point.netns).map(|ns| &ns.links);
            let mut links = links.into_iter().flatten();
            let Some((ifindex, _)) = links.find(|(_, link)| link.name == point.ifname) else {
                continue;
            };
            let place = Place {
                netns: point.netns,
                ifindex: *ifindex,
                dir: point.dir.unwrap_or(Dir::Ingress),
            };
            self.number(&Interface::at(place, &points, inventory))?;
        }
        Ok(())
    }

    /// A packet was sighted.
    pub(super) fn sighted(&mut self, event: &Event) {
        self.shelf.put(event);
    }

    /// Flows are told: their packets are written.
    pub(super) fn told(&mut self, parts: &[Part], inventory: &Inventory) -> Result<(), Failure> {
        self.name_points(inventory)?;
        for (closed, flow) in parts {
            let packets = self.shelf.take((closed, flow), &self.points, inventory);
            for packet in packets {
                let interface = self.number(&packet.interface)?;
                let unix_ns = i128::from(packet.time_ns) + i128::from(self.offset_ns);
                let block = pcapng::Packet {
                    interface,
                    unix_ns: u64::try_from(unix_ns).unwrap_or(0),
                    direction: direction_bits(packet.dir),
                    data: &packet.bytes,
                    length: packet.length,
                    comment: &escape(&packet.comment),
                };
                self.write(block.block())?;
            }
        }
        Ok(())
    }

    /// What is not in the file, in words.
    pub(super) fn remark(&self) -> Option<String> {
        let left = self.shelf.left();
        (left > 0).then(|| {
            format!(
                "--pcap {}: {left} sightings are not in it: of flows that were not told, or too many of one",
                self.path.display()
            )
        })
    }

    /// The number of an interface; one that is new is written first.
    fn number(&mut self, interface: &Interface) -> Result<u32, Failure> {
        let known = self.interfaces.iter().position(|known| known == interface);
        let at = known.unwrap_or(self.interfaces.len());
        if known.is_none() {
            self.interfaces.push(interface.clone());
            let (name, description) = (escape(&interface.name), escape(&interface.description));
            self.write(pcapng::interface(&name, &description))?;
        }
        Ok(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn write(&mut self, block: io::Result<Vec<u8>>) -> Result<(), Failure> {
        let written = block.and_then(|bytes| self.file.write_all(&bytes));
        written.map_err(|error| cannot(&self.path, &error))
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::Output(format!("--pcap {}: {error}", path.display()))
}
