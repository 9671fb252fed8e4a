//! The resolver of a pod: what the /etc/resolv.conf of its processes says.

use super::netns::{self, Netns, pids};
use super::{Roots, below};
use tracer_core::dns::Resolving;

const FILE: &str = "etc/resolv.conf";
const LARGEST: u64 = 1 << 16;

/// How the first process of a namespace that has such a file resolves names.
///
/// # Errors
/// In words, why nobody there tells a resolver.
pub fn resolving(roots: &Roots, netns: &Netns) -> Result<Resolving, String> {
    let here = pids(roots).filter(|pid| netns::id_of(roots, *pid) == Some(netns.id));
    let mut here: Vec<u32> = here.collect();
    here.sort_unstable();
    let mut why = "no process is in that namespace".to_owned();
    for pid in here {
        let read = below::root_of(roots, pid).and_then(|root| below::read(&root, FILE, LARGEST));
        match read {
            Ok(Some(file)) => {
                let found = Resolving::of_file(&file.bytes);
                if !found.resolvers.is_empty() {
                    return Ok(found);
                }
                why = format!("the /{FILE} of process {pid} there names no resolver");
            }
            Ok(None) => why = format!("process {pid} there has no /{FILE}"),
            Err(error) => {
                why = format!("the /{FILE} of process {pid} there cannot be read: {error}")
            }
        }
    }
    Err(why)
}
