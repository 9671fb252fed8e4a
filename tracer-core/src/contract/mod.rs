//! Contracts: which source is agreed to leave toward which destination, read from a file and checked
//! against flows. `docs/contract.md` has the format.

mod check;
mod line;
mod read;
mod terms;

pub use check::Checker;
pub use read::BadContract;
pub use terms::{Agreed, Contract, Dest, Identity, Sender, Senders, Terms};

/// Largest contract, bytes.
pub const MAX_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
