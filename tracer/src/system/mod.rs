//! The machine around the trace: namespaces, devices, routes, pods, and what this process may do.
//!
//! The only user of netlink, /proc and namespaces. Everything here is a short visit: a namespace
//! is opened, entered by a thread that ends, read and closed again, because any socket or
//! descriptor that stays in a deleted pod's namespace keeps the pod's devices alive.

pub mod agent;
mod attributes;
mod below;
pub mod capabilities;
pub mod conntrack;
mod error;
mod facts;
pub mod host;
pub mod legacy;
mod lifetime;
mod netlink;
pub mod netns;
pub mod nflog;
mod nfnetlink;
pub mod nftrace;
mod peers;
pub mod pins;
pub mod pods;
mod policies;
pub mod prefixes;
pub mod probe;
pub mod resolver;
mod roots;
pub mod route;
pub mod rules;
pub mod scratch;
pub mod steering;
mod survey;
pub mod symbols;
pub mod tc;
mod tunnels;
mod watch;

#[cfg(test)]
mod testing;

pub use error::SystemError;
pub use facts::{facts, programs};
pub use lifetime::{Lifetime, in_container, own_program};
pub use policies::policies;
pub use roots::Roots;
pub use survey::{Delta, Scope, Survey};
pub use watch::{Changed, Watch};
