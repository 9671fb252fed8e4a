//! Of the parts of a flow one flow.

mod delivery;
mod findings;
mod hops;
mod points;
mod rewrites;
mod unseen;
mod verdict;

use super::clocks::Clocks;
use super::joiner::Host;
use super::links::Link;
use super::witness::Witness;
use crate::journey::Direction;
use crate::point;
use crate::recording::Captured;
use crate::report::{Code, Flow, Packets, Rewrite, Severity};
use crate::verdict::finding;
use hops::Numbers;

/// A part of a flow.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) source: usize,
    pub(super) flow: Flow,
    pub(super) witness: Witness,
}

/// What the joined parts are seen by.
#[derive(Clone, Copy)]
struct Scene<'a> {
    members: &'a [Member],
    clocks: &'a Clocks,
    hosts: &'a [Host<'a>],
}

impl<'a> Scene<'a> {
    /// The name of a member's host.
    fn host(&self, at: usize) -> &'a str {
        let source = self.members.get(at).map_or(0, |member| member.source);
        self.hosts
            .get(source)
            .map_or("", |host| host.header.host.as_str())
    }

    /// Of each member that is a capture: what kind of one.
    fn captures(&self) -> impl Iterator<Item = Option<&'a Captured>> {
        let hosts = self.hosts;
        let members = self.members.iter();
        members.map(move |member| hosts.get(member.source)?.header.captured.as_ref())
    }

    /// By which secret the addresses of a source were replaced.
    fn secret(&self, source: usize) -> Option<u64> {
        self.hosts.get(source)?.header.redacted
    }

    /// Whether addresses of two members can be compared: not where they were replaced differently.
    fn comparable(&self, a: usize, b: usize) -> bool {
        let secret = |at: usize| Some(self.secret(self.members.get(at)?.source));
        secret(a) == secret(b)
    }

    /// What all neighbours have in common.
    fn link(&self) -> Link {
        let pairs = self.members.windows(2);
        let links = pairs.filter_map(|two| Link::between(&two[0].witness, &two[1].witness));
        links.reduce(Link::and).unwrap_or_default()
    }
}

/// Joins parts, in the order of the way. One alone stays as it is, but for what others did not see.
pub(super) fn flow(members: Vec<Member>, clocks: &Clocks, hosts: &[Host<'_>]) -> Flow {
    let scene = Scene {
        members: &members,
        clocks,
        hosts,
    };
    let unseen = unseen::unseen(&scene);
    let mut flow = match members.as_slice() {
        [one] => one.flow.clone(),
        _ => joined(&scene),
    };
    flow.points.extend(points::of_others(&scene));
    unseen::instead_of_route(&mut flow, &unseen);
    flow.findings.extend(unseen);
    flow
}

fn joined(scene: &Scene<'_>) -> Flow {
    let members = scene.members;
    let first = &members[0].flow;
    let (hops, numbers) = hops::hops(scene);
    let rewrites = rewrites::rewrites(scene, &numbers);
    let (delivery, said) = delivery::delivery(scene, &numbers, hops.len());
    let mut findings = findings::findings(scene, &numbers, &rewrites);
    findings.extend(said);
    let mut verdict = verdict::verdict(scene, &hops, &rewrites, &findings);
    // Only one host has the process.
    let ended = members.iter().find(|m| m.flow.proxy.is_some());
    if let Some(ended) = ended {
        verdict.source = ended.flow.verdict.source;
        verdict.text = beside_proxy(&ended.flow, &rewrites, &verdict.text);
    }
    let points = points::points(members, &numbers);
    let mut flow = Flow {
        origin: first.origin.clone(),
        drops: drops(members, &numbers),
        packets: packets(members),
        hops,
        points,
        rewrites,
        delivery,
        findings,
        verdict,
        proxy: ended.and_then(|m| m.flow.proxy.clone()),
        ..first.clone()
    };
    point::tell(&mut flow);
    flow
}

/// What the host of a proxy says, and the whole way where the source changed elsewhere too. What that host's points
/// said is left out: it is told anew, with those of all hosts.
fn beside_proxy(ended: &Flow, rewrites: &[Rewrite], whole: &str) -> String {
    let text = point::untold(ended);
    let changes = |rewrites| findings::source_changes(rewrites).count();
    match changes(rewrites) > changes(&ended.rewrites) {
        true => format!("{text}; on the whole way, {whole}"),
        false => text.to_owned(),
    }
}

fn drops(members: &[Member], numbers: &Numbers) -> Vec<crate::report::Drop> {
    let all = members.iter().enumerate();
    all.flat_map(|(at, member)| {
        member
            .flow
            .drops
            .iter()
            .map(move |drop| crate::report::Drop {
                after: numbers.of(at, drop.after),
                ..drop.clone()
            })
    })
    .collect()
}

/// Each direction is counted where it is first seen.
fn packets(members: &[Member]) -> Packets {
    let sees = |dir: Direction| move |m: &&Member| !m.witness.way(dir).is_empty();
    let request = members.iter().find(sees(Direction::Request));
    let reply = members.iter().rev().find(sees(Direction::Reply));
    let request = request.map(|m| m.flow.packets).unwrap_or_default();
    let reply = reply.map(|m| m.flow.packets).unwrap_or_default();
    Packets {
        request: request.request,
        request_bytes: request.request_bytes,
        reply: reply.reply,
        reply_bytes: reply.reply_bytes,
    }
}

/// Marks a part that could not be joined because more than one fits.
pub(super) fn doubt(flow: &mut Flow) {
    flow.verdict.complete = false;
    flow.findings.push(crate::report::Finding {
        text: "several flows of another recording fit this one: none of them was joined".to_owned(),
        ..finding(Code::AmbiguousMatch, Severity::Warning)
    });
}
