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
/// order, without ours. Empty where the kernel has no tcx.
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
    });
    attached.filter(|a| !is_ours(a)).collect()
}

/// Takes our own out of a list, and names programs that are known by their ids only.
pub fn name_programs(list: &mut Vec<Attached>) {
    if list.iter().any(|a| a.id.is_some()) {
        for program in loaded_programs().flatten() {
            let of = list.iter_mut().filter(|a| a.id == Some(program.id()));
            of.for_each(|a| a.name = name(&program).or(a.name.take()));
        }
    }
    list.retain(|a| !is_ours(a));
}

/// Programs that see the packets from (egress) or to (ingress) sockets of a cgroup, by its folder: its
/// own and its parents', in their order. Empty where the kernel does not tell.
#[must_use]
pub fn cgroup_programs(folder: BorrowedFd<'_>, dir: Dir) -> Vec<Attached> {
    let programs = bpf::cgroup_programs(folder, dir == Dir::Egress).unwrap_or_default();
    let attached = programs.into_iter().map(|id| Attached {
        kind: "cgroup".to_owned(),
        id: Some(id),
        name: None,
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
