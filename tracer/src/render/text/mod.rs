//! Text for people.

mod change;
mod choices;
mod config;
mod explain;
mod flow;
mod frame;
mod groups;
mod hops;
mod last;
mod map;
mod packet;
mod points;
mod rewrite;
mod summary;
pub(super) mod words;

pub use change::{change, compared};
pub use config::{config, edit, plans};
pub use explain::explain;
pub use flow::flow;
pub use frame::{Armed, counting, header, waiting};
pub use groups::{Way, groups, way, ways};
pub use map::{changes, map};
pub use packet::packet;
pub use summary::summary;

#[cfg(test)]
mod tests;
