//! `--redact`: addresses and names are replaced before anything is written.
//!
//! - Addresses: two that share their first n bits share them afterwards, so networks, routes and rules
//!   still fit (the construction of Crypto-PAn, keyed by a secret of the run that is not kept). Private
//!   networks stay private; loopback, link-local IPv4, multicast and the unspecified address stay.
//! - Names of hosts, namespaces, pods, processes, cgroups, and comments of rules: hashed by that secret.
//! - Addresses in the kernel's memory: hashed too.
//! - Names of devices, tables, chains and sets stay: rules name them.

mod addresses;
mod rules;
mod text;

use super::change::Change;
use super::{Header, Record};
use crate::event::{Conntrack, DropEvent, Event};
use crate::expect::{Expectation, Source};
use crate::inventory::{Facts, Namespace, RouteAnswer};
use crate::observed::RuleHit;
use crate::packet::Tuple;
use crate::proxy::{Opening, SocketEvent};
use crate::report::{Summary, Unavailable};
use addresses::Addresses;

/// Replaces addresses and names in records.
#[derive(Debug)]
pub struct Redactor {
    addresses: Addresses,
}

impl Redactor {
    /// By this secret.
    #[must_use]
    pub fn new(secret: [u8; 16]) -> Self {
        Self {
            addresses: Addresses::new(secret),
        }
    }

    /// Names the secret, without telling it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.addresses.hash(b"the name of this secret")
    }

    /// Replaces what a record tells.
    pub fn redact(&mut self, record: &mut Record) {
        match record {
            Record::Header(header) => self.header(header),
            Record::Inventory(change) => self.change(change),
            Record::Event(event) => self.event(event),
            Record::Entry(entry) => {
                self.event(&mut entry.event);
                self.conntrack(&mut entry.entry);
            }
            Record::Drop(drop) => self.drop(drop),
            Record::Hit(hit) => self.hit(hit),
            Record::Unavailable(what) => self.unavailable(what),
            Record::Socket(socket) => self.socket(socket),
            Record::Opening(opening) => self.opening(opening),
            Record::Judge(settled) => {
                let all = settled.0.iter_mut().flat_map(|one| &mut one.conntracks);
                all.for_each(|(_, entry)| self.conntrack(entry));
            }
            Record::Rules(reading) => {
                reading.given_up.iter_mut().for_each(|why| self.text(why));
                if let Some(rules) = &mut reading.rules {
                    self.rules(rules);
                }
            }
            Record::Recount(asked) | Record::Advance(asked) | Record::Finish(asked) => {
                let counters = asked.counts.iter_mut().map(|count| &mut count.counter);
                counters.for_each(|counter| self.tuple(&mut counter.tuple));
            }
            Record::Summary(summary) => self.summary(summary),
            Record::Clock(_) | Record::Lost(_) => {}
        }
    }

    fn header(&mut self, header: &mut Header) {
        self.name(&mut header.host);
        let dests = header.requested.dests.iter_mut();
        dests.for_each(|net| *net = self.addresses.net(*net));
        let settings = &mut header.settings;
        for one in &mut settings.expectations {
            if let Expectation::Source(Source::Within(net)) = one {
                *net = self.addresses.net(*net);
            }
        }
        // It names people, and who may talk to whom.
        settings.contract = None;
        for point in &mut settings.points {
            self.name(&mut point.name);
            point.netns_name.iter_mut().for_each(|n| self.name(n));
            point.pod.iter_mut().for_each(|pod| self.pod(pod));
        }
        if let Some(saw) = &mut settings.peer_saw {
            *saw = self.addresses.replace(*saw);
        }
    }

    fn summary(&mut self, summary: &mut Summary) {
        self.name(&mut summary.host);
        for what in &mut summary.observed_by.unavailable {
            self.unavailable(what);
        }
        for point in &mut summary.points {
            self.name(&mut point.name);
            self.name(&mut point.host);
            point.netns_name.iter_mut().for_each(|n| self.name(n));
        }
        for group in &mut summary.groups {
            group.source_on_wire = group.source_on_wire.map(|a| self.addresses.replace(a));
            group.violates.iter_mut().for_each(|t| self.text(t));
        }
        summary.expect.retain(|line| !line.is_of_a_contract());
        let expect = summary.expect.iter_mut();
        expect.for_each(|line| {
            self.text(&mut line.expect);
            line.by.iter_mut().for_each(|t| self.text(t));
        });
    }

    fn unavailable(&mut self, what: &mut Unavailable) {
        let Unavailable { what, why, effect } = what;
        [what, why, effect].into_iter().for_each(|t| self.text(t));
    }

    fn change(&mut self, change: &mut Change) {
        self.name(&mut change.host);
        let former = change.replaced.values_mut().flatten();
        let former = former.map(|former| &mut former.namespace);
        let spaces = change.namespaces.values_mut().flatten();
        for namespace in spaces.chain(former) {
            self.namespace(namespace);
        }
        for cgroup in change.cgroups.values_mut().flatten() {
            self.name(&mut cgroup.path);
            cgroup.pod.iter_mut().for_each(|pod| self.pod(pod));
            cgroup.container.iter_mut().for_each(|id| self.name(id));
        }
        let facts = change.facts.values_mut().flatten();
        facts.for_each(|facts| self.facts(facts));
    }

    fn namespace(&mut self, namespace: &mut Namespace) {
        namespace.name.iter_mut().for_each(|name| self.name(name));
        namespace.pod.iter_mut().for_each(|pod| self.pod(pod));
        for net in namespace.links.values_mut().flat_map(|l| &mut l.addrs) {
            *net = self.addresses.interface(*net);
        }
        for route in &mut namespace.routes {
            route.to = self.addresses.net(route.to);
            route.via = route.via.map(|via| self.addresses.replace(via));
        }
    }

    fn facts(&mut self, facts: &mut Facts) {
        let routes = std::mem::take(&mut facts.routes);
        facts.routes = routes
            .into_iter()
            .map(|(mut question, mut answer)| {
                question.dst = self.addresses.replace(question.dst);
                if let Some((src, _)) = &mut question.came {
                    *src = self.addresses.replace(*src);
                }
                if let RouteAnswer::Out { via, .. } = &mut answer {
                    *via = via.map(|via| self.addresses.replace(via));
                }
                (question, answer)
            })
            .collect();
        let neighbours = std::mem::take(&mut facts.neighbours);
        facts.neighbours = neighbours
            .into_iter()
            .map(|((device, addr), state)| ((device, self.addresses.replace(addr)), state))
            .collect();
        for policy in &mut facts.policies {
            policy.from = self.addresses.net(policy.from);
            policy.to = policy.to.map(|to| self.addresses.net(to));
        }
        for tunnel in facts.tunnels.values_mut() {
            let holders = tunnel.processes.iter_mut();
            holders.for_each(|holder| self.name(&mut holder.comm));
            for socket in &mut tunnel.sockets {
                socket
                    .local
                    .set_ip(self.addresses.replace(socket.local.ip()));
                socket.peers.iter_mut().for_each(|peer| self.tuple(peer));
            }
        }
    }

    fn event(&mut self, event: &mut Event) {
        event.skb = self.pointer(event.skb);
        self.tuple(&mut event.tuple);
        event.quoted.iter_mut().for_each(|t| self.tuple(t));
        event.conntrack.iter_mut().for_each(|ct| self.conntrack(ct));
        if let Some(outer) = event.outer.as_deref_mut() {
            self.tuple(&mut outer.tuple);
            outer.conntrack.iter_mut().for_each(|ct| self.conntrack(ct));
        }
        if let Some(comm) = event.process.as_mut().and_then(|p| p.comm.as_mut()) {
            self.name(comm);
        }
    }

    fn drop(&mut self, drop: &mut DropEvent) {
        drop.skb = self.pointer(drop.skb);
        drop.address = self.pointer(drop.address);
        self.tuple(&mut drop.tuple);
        drop.quoted.iter_mut().for_each(|t| self.tuple(t));
        drop.conntrack.iter_mut().for_each(|ct| self.conntrack(ct));
    }

    fn hit(&mut self, hit: &mut RuleHit) {
        hit.skb = hit.skb.map(|skb| self.pointer(skb));
        self.tuple(&mut hit.tuple);
        hit.conntrack.iter_mut().for_each(|ct| self.conntrack(ct));
    }

    fn socket(&mut self, socket: &mut SocketEvent) {
        socket.sk = self.pointer(socket.sk);
        self.tuple(&mut socket.tuple);
        socket.process.comm.iter_mut().for_each(|c| self.name(c));
    }

    fn opening(&mut self, opening: &mut Opening) {
        self.tuple(&mut opening.tuple);
        if let Some(client) = opening.header.as_mut().and_then(|h| h.client.as_mut()) {
            client.set_ip(self.addresses.replace(client.ip()));
        }
    }

    /// An address in the kernel's memory: only whether two are the same counts.
    fn pointer(&self, address: u64) -> u64 {
        match address {
            0 => 0,
            address => self.addresses.hash(&address.to_le_bytes()),
        }
    }

    fn conntrack(&mut self, ct: &mut Conntrack) {
        self.tuple(&mut ct.orig);
        self.tuple(&mut ct.reply);
    }

    fn tuple(&mut self, tuple: &mut Tuple) {
        tuple.src = self.addresses.replace(tuple.src);
        tuple.dst = self.addresses.replace(tuple.dst);
    }
}

#[cfg(test)]
mod tests;
