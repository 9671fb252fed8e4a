//! Deaths by a BPF program or a filter of traffic control. Which of several programs at one place it was,
//! the kernel does not tell.

use super::{Explanation, Hook, Scene};
use crate::event::Dir;
use crate::inventory::Attached;
use crate::report::{Code, Tc};
use serde_json::json;

pub(super) fn program(scene: &Scene<'_>, hook: Hook) -> Explanation {
    let found = attached(scene, hook);
    let names: Vec<String> = found.iter().map(|one| name(one)).collect();
    let by = match (names.as_slice(), hook) {
        ([], _) => String::new(),
        ([one], Hook::Socket) => format!("; the cgroup has {one}"),
        ([one], _) => format!(": {one}"),
        (many, _) => format!(": one of {}", many.join(", ")),
    };
    let (place, look) = words(scene, hook);
    let programs: Vec<_> = found
        .iter()
        .map(|one| json!({"kind": one.kind, "id": one.id, "name": one.name}))
        .collect();
    let mut explanation = Explanation::new(format!("{place} dropped it{by}"))
        .fix(look)
        .data(json!({ "programs": programs }))
        .code(Code::DroppedByProgram);
    if let ([one], true) = (found.as_slice(), hook != Hook::Socket)
        && let Some(id) = one.id
    {
        let name = one.name.clone().unwrap_or_default();
        explanation.program = Some(Tc { id, name });
    }
    explanation
}

/// The place in words, and where to look for whose program it is.
fn words(scene: &Scene<'_>, hook: Hook) -> (String, String) {
    let space = scene.space();
    let device = scene.device_word(scene.loss.first.ifindex);
    let at_device = format!(
        "`bpftool net show` and `tc filter show dev {device} ingress` (and `egress`) in {space}: whose \
         program is it?"
    );
    let at_cgroup = match scene.cgroup() {
        Some(path) => {
            format!("`bpftool cgroup show` of {path} and those above: whose program is it?")
        }
        None => "`bpftool cgroup tree`: whose program is it?".to_owned(),
    };
    match hook {
        Hook::TcIngress => (
            format!("traffic control at the ingress of {device} in {space}"),
            at_device,
        ),
        Hook::TcEgress => (
            format!("traffic control at the egress of {device} in {space}"),
            at_device,
        ),
        Hook::Xdp => (format!("XDP at {device} in {space}"), at_device),
        Hook::Netkit => (
            format!(
                "the program or policy of the netkit pair (or its other end, if that is down) at \
                 {device} in {space}"
            ),
            at_device,
        ),
        Hook::Cgroup => (
            format!("an egress program of the sender's cgroup in {space}"),
            at_cgroup,
        ),
        Hook::Socket => (
            format!(
                "the receiving socket's own filter, or an ingress program of its cgroup, in {space}"
            ),
            at_cgroup,
        ),
    }
}

/// What is attached at that hook.
fn attached<'a>(scene: &Scene<'a>, hook: Hook) -> Vec<&'a Attached> {
    let Some(facts) = scene.facts else {
        return Vec::new();
    };
    let drop = &scene.loss.first;
    let at_device = |dir| drop.ifindex.and_then(|dev| facts.programs.get(&(dev, dir)));
    let of_cgroup = |dir| drop.cgroup.and_then(|id| facts.cgroups.get(&(id, dir)));
    let all = match hook {
        Hook::TcIngress | Hook::Xdp => at_device(Dir::Ingress),
        Hook::TcEgress => at_device(Dir::Egress),
        Hook::Netkit => None,
        Hook::Cgroup => of_cgroup(Dir::Egress),
        Hook::Socket => of_cgroup(Dir::Ingress),
    };
    let fits = |one: &&Attached| one.is_xdp() == (hook == Hook::Xdp);
    all.into_iter().flatten().filter(fits).collect()
}

fn name(one: &Attached) -> String {
    match (&one.name, one.id) {
        (Some(name), Some(id)) => format!("{} program {name} (id {id})", one.kind),
        (None, Some(id)) => format!("{} program {id}", one.kind),
        _ => format!("a {} filter", one.kind),
    }
}
