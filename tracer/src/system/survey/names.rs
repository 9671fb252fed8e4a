//! What a namespace is called.

use crate::system::Roots;
use crate::system::netns::{Found, process};
use crate::system::pods::PodNames;

/// The names of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Its own.
    pub(super) name: Option<String>,
    /// `namespace/name` of its pod.
    pub(super) pod: Option<String>,
}

/// A namespace's name and its pod's: by its mount, else `comm[pid]` of the first process in it;
/// the node's is "node" unless it has a name.
pub(super) fn name(roots: &Roots, pods: &mut PodNames, found: &Found, is_node: bool) -> Names {
    if is_node {
        return Names {
            name: Some(found.name.clone().unwrap_or_else(|| "node".into())),
            pod: None,
        };
    }
    let pod = found
        .pids
        .iter()
        .find_map(|pid| pods.of_process(roots, *pid));
    let by_process = || {
        let first = process(roots, *found.pids.first()?)?;
        Some(format!("{}[{}]", first.comm, first.pid))
    };
    Names {
        name: found.name.clone().or_else(by_process),
        pod,
    }
}
