//! The kernel half from outside: finding offsets, loading, attaching, reading the ring and the
//! maps. The only user of aya.

mod attached;
mod bpf;
pub mod btf;
mod doors;
mod drops;
mod error;
pub mod features;
mod filter;
mod load;
mod maps;
pub mod offsets;
mod pinned;
mod ring;
mod rules;
mod sockets;
mod taps;
mod targets;

pub use attached::{cgroup_programs, name_programs, netkit_programs, tcx_programs};
pub use drops::DropWords;
pub use error::KernelError;
pub use filter::Filter;
pub use load::{Programs, RING_BYTES, Reader, Sizes};
pub use maps::Counters;
pub use offsets::{KernelTypes, OffsetsError, read as read_types};
pub use pinned::{ipmasq, ipmasq_v6};
pub use ring::Ring;
pub use sockets::socket_rewriters;
pub use taps::{Attached, Side};
pub use targets::{NAT_CHAINS, RuleStores, XT_IN_NFT, target_functions};
