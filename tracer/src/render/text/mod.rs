//! Text for people.

mod change;
mod choices;
mod explain;
mod flow;
mod frame;
mod groups;
mod hops;
mod last;
mod packet;
mod rewrite;
mod summary;
pub(super) mod words;

pub use change::{change, compared};
pub use explain::explain;
pub use flow::flow;
pub use frame::{Armed, counting, header, waiting};
pub use groups::{Way, groups, way, ways};
pub use packet::packet;
pub use summary::summary;

#[cfg(test)]
mod tests;
