//! Text for people.

mod agreement;
mod change;
mod choices;
mod config;
mod explain;
mod flow;
mod frame;
mod groups;
mod handover;
mod hops;
mod ladder;
mod last;
mod map;
mod packet;
mod points;
mod rewrite;
mod summary;
pub(super) mod words;

pub use agreement::agreements;
pub use change::{change, compared};
pub use config::{config, edit, plans};
pub use explain::explain;
pub use flow::{Kind, Piece, flow, pieces};
pub use frame::{Armed, counting, header, waiting};
pub use groups::{Way, groups, many, way, ways};
pub use handover::handover;
pub use ladder::{ladder, rung};
pub use map::{changes, map};
pub use packet::packet;
pub use summary::summary;

#[cfg(test)]
mod tests;
