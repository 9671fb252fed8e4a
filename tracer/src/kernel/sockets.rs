//! Programs that rewrite a destination at the socket, before there is a packet.

use aya::programs::loaded_programs;

/// `BPF_PROG_TYPE_CGROUP_SOCK_ADDR` (uapi linux/bpf.h).
const SOCK_ADDR: u32 = 18;
/// The most that are looked for: the answer is for a person.
const MOST: usize = 8;

/// The cgroup programs of type `sock_addr` that are loaded: what a socket load balancer is made
/// of (`cil_sock4_connect` and the like). A name each, or the program's id where it has none.
/// Empty also where this kernel does not tell.
#[must_use]
pub fn socket_rewriters() -> Vec<String> {
    loaded_programs()
        .flatten()
        .filter(|program| program.program_type() as u32 == SOCK_ADDR)
        .map(|program| match program.name_as_str() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("program {}", program.id()),
        })
        .take(MOST)
        .collect()
}
