//! Running the real `srctrace` in a lab's node and reading what it reports.

mod process;
mod report;

pub use process::{Srctrace, Trace, binary};
pub use report::Report;
