//! `--pod [NS/]NAME`.

use super::PodNames;
use crate::system::netns::{Netns, near, pids, resolve};
use crate::system::{Roots, Survey, SystemError};
use tracer_core::event::NetnsId;

/// The namespace of a pod, by `namespace/name` or by its name alone where that is unambiguous.
///
/// # Errors
/// One line: no such pod here (with names that come near), several of that name, or a pod on the
/// host's network.
pub fn resolve_pod(roots: &Roots, survey: &Survey, given: &str) -> Result<Netns, SystemError> {
    let pods: Vec<(NetnsId, &str)> = survey
        .inventory()
        .namespaces
        .iter()
        .filter_map(|(id, ns)| Some((*id, ns.pod.as_deref()?)))
        .collect();
    let hits: Vec<_> = pods.iter().filter(|(_, pod)| means(given, pod)).collect();
    match hits.as_slice() {
        [(id, _)] => survey
            .netns(*id)
            .cloned()
            .ok_or_else(|| SystemError::Vanished(given.into())),
        [] => Err(unknown(given, missing(roots, &pods, given))),
        several => {
            let names: Vec<&str> = several.iter().map(|(_, pod)| *pod).collect();
            let why = format!("is ambiguous; which of {}?", names.join(", "));
            Err(unknown(given, why))
        }
    }
}

/// `--from NETNS|POD`: a namespace as `--netns` takes it, or a pod as `--pod` does.
///
/// # Errors
/// One line, about both readings where neither leads anywhere.
pub fn resolve_origin(roots: &Roots, survey: &Survey, given: &str) -> Result<Netns, SystemError> {
    let as_netns = match resolve(roots, survey.discovery(), given) {
        Ok(netns) => return Ok(netns),
        Err(e) => e,
    };
    match resolve_pod(roots, survey, given) {
        Err(SystemError::Unknown { .. }) if as_netns.is_usage() => Err(SystemError::Unknown {
            kind: "network namespace or pod",
            given: given.into(),
            why: format!(
                "is not on this node{}; accepted: NAME, PID or PATH of a namespace, \
                 [NAMESPACE/]NAME of a pod",
                near(given, names(survey))
            ),
        }),
        found => found,
    }
}

/// What a probe could be sent from here.
fn names(survey: &Survey) -> impl Iterator<Item = &str> {
    let mounted = survey.discovery().found.values();
    let pods = survey.inventory().namespaces.values();
    mounted
        .filter_map(|found| found.name.as_deref())
        .chain(pods.filter_map(|ns| ns.pod.as_deref()))
}

/// Whether `given` names this pod: in full, or without its namespace.
fn means(given: &str, pod: &str) -> bool {
    pod == given || pod.rsplit_once('/').is_some_and(|(_, name)| name == given)
}

fn unknown(given: &str, why: String) -> SystemError {
    SystemError::Unknown {
        kind: "pod",
        given: given.into(),
        why,
    }
}

fn missing(roots: &Roots, pods: &[(NetnsId, &str)], given: &str) -> String {
    let mut names = PodNames::default();
    let on_host_network = pids(roots)
        .filter_map(|pid| names.of_process(roots, pid))
        .any(|pod| means(given, &pod));
    if on_host_network {
        return "is on the host's network and has no network namespace of its own; \
                leave --pod out and filter by --src"
            .into();
    }
    let all = pods.iter().map(|(_, pod)| *pod);
    format!(
        "does not run on this node{}; accepted: [NAMESPACE/]NAME",
        near(given, all)
    )
}
