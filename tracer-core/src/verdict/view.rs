//! The journey's hops as the report shows them.

use super::Context;
use super::carried;
use crate::event::{Conntrack, Event, NetnsId};
use crate::inventory::Inventory;
use crate::journey::{Hop, Journey};
use crate::point;
use crate::report::{self, ConntrackView, ProtoTuple};
use std::hash::{Hash, Hasher};

pub(super) fn hops(journey: &Journey, context: &Context<'_>) -> Vec<report::Hop> {
    let hops = journey.request.hops();
    let start = hops
        .iter()
        .find(|h| !h.is_filled())
        .map_or(0, |h| h.time_ns);
    let mut latest = 0;
    (1..)
        .zip(hops)
        .map(|(n, hop)| {
            if !hop.is_filled() {
                latest = micros(hop.time_ns, start);
            }
            view(n, hop, latest, journey, context)
        })
        .collect()
}

fn view(n: u32, hop: &Hop, t_us: i64, journey: &Journey, context: &Context<'_>) -> report::Hop {
    let inventory = context.inventory;
    let netns = hop.place.netns;
    let link = inventory.link(netns, hop.place.ifindex);
    report::Hop {
        n,
        host: inventory.host.clone(),
        netns: known(netns),
        netns_name: inventory.name(netns).map(str::to_owned),
        ifname: link.map(|l| l.name.clone()),
        ifindex: hop.place.ifindex,
        dir: hop.place.dir,
        point: point::name_at(context.points, hop.place, inventory).map(str::to_owned),
        t_us,
        tuple: hop.tuple().unwrap_or(journey.opened).into(),
        outer: carried::outer(hop, inventory).map(Into::into),
        mark: hop.mark,
        ct: hop.conntrack().map(conntrack),
    }
}

/// One sighting as the report shows it, with its protocol: for `--each-packet`.
#[must_use]
pub fn sighting(event: &Event, inventory: &Inventory) -> (ProtoTuple, report::Hop) {
    let link = event
        .netns
        .and_then(|netns| inventory.link(netns, event.ifindex));
    let hop = report::Hop {
        n: 1,
        host: inventory.host.clone(),
        netns: event.netns.map(|netns| netns.0),
        netns_name: event
            .netns
            .and_then(|netns| inventory.name(netns))
            .map(str::to_owned),
        ifname: link.map(|l| l.name.clone()),
        ifindex: event.ifindex,
        dir: event.tap.dir(),
        point: None,
        t_us: i64::try_from(event.time_ns / 1000).unwrap_or(i64::MAX),
        tuple: event.tuple.into(),
        outer: event.outer.as_ref().map(|outer| outer.tuple.into()),
        mark: event.mark,
        ct: event.conntrack.as_ref().map(conntrack),
    };
    (event.tuple.into(), hop)
}

/// A namespace's number, if it was readable.
pub(super) fn known(netns: NetnsId) -> Option<u32> {
    (netns.0 != 0).then_some(netns.0)
}

fn micros(time: u64, start: u64) -> i64 {
    let delta = i128::from(time) - i128::from(start);
    i64::try_from(delta / 1000).unwrap_or(i64::MAX)
}

/// Names of `enum ip_conntrack_status` bits, in the order of a connection's life.
const STATUS: [(u32, &str); 8] = [
    (Conntrack::SRC_NAT, "src-nat"),
    (Conntrack::DST_NAT, "dst-nat"),
    (Conntrack::CONFIRMED, "confirmed"),
    (Conntrack::SEEN_REPLY, "seen-reply"),
    (Conntrack::ASSURED, "assured"),
    (Conntrack::OFFLOAD, "offload"),
    (Conntrack::HW_OFFLOAD, "hw-offload"),
    (Conntrack::DYING, "dying"),
];

pub(super) fn conntrack(ct: &Conntrack) -> ConntrackView {
    ConntrackView {
        orig: ct.orig.into(),
        reply: ct.reply.into(),
        zone: ct.zone,
        mark: ct.mark,
        status: STATUS
            .iter()
            .filter(|(bit, _)| ct.status & bit != 0)
            .map(|(_, name)| (*name).to_owned())
            .collect(),
    }
}

/// RFC 3339, UTC, milliseconds.
pub(crate) fn time(monotonic_ns: u64, realtime_offset_ns: i64) -> String {
    let unix_ns = i128::from(monotonic_ns) + i128::from(realtime_offset_ns);
    // Up to the year 9999, where RFC 3339 ends.
    let millis = i64::try_from(unix_ns / 1_000_000).unwrap_or(0);
    let millis = millis.clamp(0, 253_402_300_799_999);
    let (day, rest) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = date(day);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Year, month and day of a number of days since 1970-01-01. Years are counted from March, so that
/// a leap day is the last of its year; an era is 400 of them.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let january = i64::from(month >= 10);
    (era * 400 + year + january, month + 3 - 12 * january, day)
}

/// The flow's name: the same in every run over the same events.
pub(crate) fn id(journey: &Journey) -> String {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    journey.opened.hash(&mut hash);
    journey.first_ns.hash(&mut hash);
    journey.exchange.syn.hash(&mut hash);
    let first = journey.request.hops().first();
    first.map(|h| h.place).hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// FNV-1a: fixed, unlike the standard library's hashers.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let day = |days: i64| time(0, days * 86_400 * 1_000_000_000);
        assert_eq!(day(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(day(11_016), "2000-02-29T00:00:00.000Z");
        assert_eq!(day(11_017), "2000-03-01T00:00:00.000Z");
        assert_eq!(day(19_722), "2023-12-31T00:00:00.000Z");
        assert_eq!(day(47_540), "2100-02-28T00:00:00.000Z");
        assert_eq!(day(47_541), "2100-03-01T00:00:00.000Z");
        assert_eq!(
            time(62_003_000_000, 1_796_125_140_000_000_000),
            "2026-12-01T11:40:02.003Z"
        );
    }

    #[test]
    fn no_time_is_out_of_range() {
        assert_eq!(time(0, i64::MIN), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(u64::MAX, i64::MAX), "2846-10-30T23:21:50.564Z");
    }
}
