//! Programs of others on a device.

use super::bpf;
use aya::programs::tc::TcAttachType;
use aya::programs::{ProgramInfo, SchedClassifier, loaded_programs};
use std::os::fd::BorrowedFd;
use tracer_core::event::Dir;
use tracer_core::inventory::Attached;

/// What our own programs' names begin with.
const OURS: &str = "srctrace_";

/// Programs on tcx links at one side of a device of the calling thread's namespace, in their
/// order, ours among them. Empty where the kernel has no tcx.
#[must_use]
pub fn tcx_programs(device: &str, dir: Dir) -> Vec<Attached> {
    let side = match dir {
        Dir::Ingress => TcAttachType::Ingress,
        Dir::Egress => TcAttachType::Egress,
    };
    let programs = SchedClassifier::query_tcx(device, side).map(|(_, programs)| programs);
    let programs = programs.unwrap_or_default();
    let attached = programs.iter().map(|program| Attached {
        kind: "tcx".to_owned(),
        id: Some(program.id()),
        name: name(program),
        ..Attached::default()
    });
    attached.collect()
}

/// Programs on a netkit pair, by its first end's index in the calling thread's namespace: with what comes in there they meet
/// what the other end sends. Empty where the device is no such end.
#[must_use]
pub fn netkit_programs(ifindex: u32, dir: Dir) -> Vec<Attached> {
    let programs = bpf::netkit_programs(ifindex, dir == Dir::Ingress).unwrap_or_default();
    by_id("netkit", programs)
}

/// Finishes lists, each of one side of a device in the order in which packets meet it: names programs
/// that are known by their ids only, says which come before ours, and takes ours out.
pub fn name_programs<'a>(lists: impl IntoIterator<Item = &'a mut Vec<Attached>>) {
    let mut lists: Vec<_> = lists.into_iter().collect();
    if lists.iter().any(|list| list.iter().any(|a| a.id.is_some())) {
        for program in loaded_programs().flatten() {
            let all = lists.iter_mut().flat_map(|list| list.iter_mut());
            let of = all.filter(|a| a.id == Some(program.id()));
            of.for_each(|a| a.name = name(&program).or(a.name.take()));
        }
    }
    for list in lists {
        note_order(list);
        list.retain(|a| !is_ours(a));
    }
}

/// XDP has its own place. Where there are several of ours, what lies between them is left open.
fn note_order(list: &mut [Attached]) {
    let first = list.iter().position(is_ours);
    let last = list.iter().rposition(is_ours);
    let Some((first, last)) = first.zip(last) else {
        return;
    };
    for (at, one) in list.iter_mut().enumerate().filter(|(_, a)| !a.is_xdp()) {
        one.before_ours = match at {
            _ if at < first => Some(true),
            _ if at > last => Some(false),
            _ => None,
        };
    }
}

/// Programs that see the packets from (egress) or to (ingress) sockets of a cgroup, by its folder: its
/// own and its parents', in their order. Empty where the kernel does not tell.
#[must_use]
pub fn cgroup_programs(folder: BorrowedFd<'_>, dir: Dir) -> Vec<Attached> {
    let programs = bpf::cgroup_programs(folder, dir == Dir::Egress).unwrap_or_default();
    by_id("cgroup", programs)
}

fn by_id(kind: &str, ids: Vec<u32>) -> Vec<Attached> {
    let attached = ids.into_iter().map(|id| Attached {
        kind: kind.to_owned(),
        id: Some(id),
        ..Attached::default()
    });
    attached.collect()
}

fn is_ours(attached: &Attached) -> bool {
    attached
        .name
        .as_deref()
        .is_some_and(|n| n.starts_with(OURS))
}

fn name(program: &ProgramInfo) -> Option<String> {
    let name = program.name_as_str().filter(|name| !name.is_empty());
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_from_ours_and_by_their_order() {
        let one = |kind: &str, name: &str| Attached {
            kind: kind.to_owned(),
            name: Some(name.to_owned()),
            ..Attached::default()
        };
        let mut list = vec![
            one("tcx", "early"),
            one("tcx", "srctrace_ingress"),
            one("bpf", "late"),
            one("xdp", "driver"),
        ];
        name_programs([&mut list]);
        let told: Vec<_> = list
            .iter()
            .map(|a| (a.name.as_deref().unwrap_or_default(), a.before_ours))
            .collect();
        assert_eq!(
            told,
            [
                ("early", Some(true)),
                ("late", Some(false)),
                ("driver", None)
            ]
        );
    }
}
