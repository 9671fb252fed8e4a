//! The machine around the trace: namespaces, devices, routes, pods, and what this process may do.
//!
//! The only user of netlink, /proc and namespaces. Everything here is a short visit: a namespace
//! is opened, entered by a thread that ends, read and closed again, because any socket or
//! descriptor that stays in a deleted pod's namespace keeps the pod's devices alive.

mod error;
pub(crate) mod host;
mod netlink;
pub(crate) mod netns;
pub(crate) mod pods;
pub(crate) mod probe;
mod roots;
pub(crate) mod route;
mod survey;
mod watch;

#[cfg(test)]
mod testing;

pub(crate) use error::SystemError;
pub(crate) use roots::Roots;
pub(crate) use survey::{Delta, Scope, Survey};
pub(crate) use watch::{Changed, Watch};
