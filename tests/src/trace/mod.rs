//! Running the real `srctrace` in a lab's node and holding what it reports against what a lab expects.

pub mod digest;
pub mod expect;
mod footprint;
mod lines;
pub mod normal;
mod process;
mod report;

pub use expect::Expected;
pub use footprint::{Footprint, state};
pub use normal::Names;
pub use process::{DEADLINE, Srctrace, Trace, binary};
pub use report::Report;
