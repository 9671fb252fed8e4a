//! The same flow in the recordings of several hosts: parts that were judged each by itself, joined into
//! one path.
//!
//! A part joins others by what no translator touches ([`Key`]): TCP's initial sequence number, a
//! datagram's IP id, length, payload and ICMP numbers; where those are not known, by a tuple that goes on
//! unbroken from one host to the next. What the hosts' clocks are off by is estimated from the matches
//! themselves ([`Clocks`]). Where two parts of one host fit, none is joined and the report says so.

mod census;
mod clocks;
mod compose;
mod joiner;
mod links;
mod order;
mod shown;
mod witness;

pub use census::Census;
pub use clocks::{Aligned, Clocks, Estimate};
pub use joiner::{Host, Joiner};
pub use shown::Shown;
pub use witness::{Key, Sight, Witness};
