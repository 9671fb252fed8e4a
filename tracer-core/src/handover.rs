//! What the other side's team has to know of flows that left here: gathered flow by flow.

use crate::event::NetnsId;
use crate::inventory::Inventory;
use crate::report::{Code, DeliveryCode, Dir, Flow, ProtoName, Sheet, SourceCode, TupleView};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Most sheets that are kept; a team reads a few.
const MAX_SHEETS: usize = 1024;

/// What left, by what it looked like on the wire.
type Key = (u8, IpAddr, IpAddr, u16);

/// Sheets in the making.
#[derive(Clone, Debug, Default)]
pub struct Handover {
    sheets: BTreeMap<Key, Sheet>,
    silent: u64,
    overflow: u64,
}

impl Handover {
    /// Adds a flow, with the host where that is known.
    pub fn add(&mut self, flow: &Flow, inventory: Option<&Inventory>) {
        let Some((source, wire)) = flow.verdict.source_on_wire.zip(on_the_wire(flow)) else {
            self.silent = self.silent.saturating_add(flow.count);
            return;
        };
        let key = (flow.flow.proto.0.0, source, wire.dst, wire.dport);
        if self.sheets.len() >= MAX_SHEETS && !self.sheets.contains_key(&key) {
            self.overflow = self.overflow.saturating_add(flow.count);
            return;
        }
        let fresh = || sheet(flow, source, wire, inventory);
        let sheet = self.sheets.entry(key).or_insert_with(fresh);
        sheet.flows = sheet.flows.saturating_add(flow.count);
        if flow.first_seen < sheet.first {
            sheet.first.clone_from(&flow.first_seen);
            sheet.sport = wire.sport;
        }
        if flow.first_seen > sheet.last {
            sheet.last.clone_from(&flow.first_seen);
        }
        if !sheet.deliveries.contains(&flow.delivery.code) {
            sheet.deliveries.push(flow.delivery.code);
        }
    }

    /// The sheets: of what was not answered, or of everything where all was.
    #[must_use]
    pub fn sheets(self) -> Vec<Sheet> {
        let (open, answered): (Vec<Sheet>, Vec<Sheet>) =
            self.sheets.into_values().partition(Sheet::is_unanswered);
        if open.is_empty() { answered } else { open }
    }

    /// Flows that were not seen leaving, and those for which there was no room.
    #[must_use]
    pub fn left_out(&self) -> (u64, u64) {
        (self.silent, self.overflow)
    }
}

/// The packet where it was last sighted on its way out.
fn on_the_wire(flow: &Flow) -> Option<&TupleView> {
    let out = flow.hops.iter().rfind(|hop| hop.dir == Dir::Egress);
    out.or(flow.hops.last()).map(|hop| &hop.tuple)
}

fn sheet(flow: &Flow, source: IpAddr, wire: &TupleView, inventory: Option<&Inventory>) -> Sheet {
    let exit = flow.hops.iter().rfind(|hop| hop.dir == Dir::Egress);
    let exit = exit.or(flow.hops.last());
    let (route_back, known_by, or_masquerade) = ways_back(flow, source, inventory);
    Sheet {
        proto: ProtoName(flow.flow.proto.0),
        source,
        sport: wire.sport,
        kept: flow.verdict.source == SourceCode::SourcePreserved,
        dst: wire.dst,
        dport: wire.dport,
        host: exit.map(|hop| hop.host.clone()).unwrap_or_default(),
        ifname: exit.and_then(|hop| hop.ifname.clone()),
        flows: 0,
        first: flow.first_seen.clone(),
        last: flow.first_seen.clone(),
        deliveries: Vec::<DeliveryCode>::new(),
        route_back,
        known_by,
        or_masquerade,
    }
}

/// What has to be routed back, how that is known, and what would be seen instead.
fn ways_back(
    flow: &Flow,
    source: IpAddr,
    inventory: Option<&Inventory>,
) -> (String, String, Vec<String>) {
    let suspected = flow
        .findings
        .iter()
        .find(|f| f.code == Code::PeerRouteSuspected);
    let choices = suspected.and_then(|f| f.data["choices"].as_array());
    let choice = |name: &str| {
        let all = choices.into_iter().flatten();
        all.into_iter().find(|choice| choice["choice"] == name)
    };
    let addresses = |choice: Option<&Value>| -> Vec<String> {
        let all = choice.and_then(|choice| choice["addresses"].as_array());
        let all = all.into_iter().flatten().filter_map(Value::as_str);
        all.map(str::to_owned).collect()
    };
    let masquerade = addresses(choice("masquerade"));
    if let Some(back) = choice("route-back") {
        let known = back["known_by"].as_str().unwrap_or_default();
        return (
            addresses(Some(back)).join(", "),
            known.to_owned(),
            masquerade,
        );
    }
    if flow.verdict.source != SourceCode::SourcePreserved {
        let known = "the address that left: it was translated on this side";
        return (source.to_string(), known.to_owned(), masquerade);
    }
    match inventory {
        Some(host) if host.node_owns(source) => (
            source.to_string(),
            "it is the node's own address".to_owned(),
            masquerade,
        ),
        Some(host) => {
            let range = host.pod_range(source, flow.origin.netns.map(NetnsId));
            (range.net.to_string(), range.known.to_string(), masquerade)
        }
        None => {
            let known = "the address alone: the report does not tell the range around it";
            (source.to_string(), known.to_owned(), masquerade)
        }
    }
}
