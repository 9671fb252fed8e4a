//! Running the real `srctrace` in a lab's node and holding what it reports against what a lab expects.

mod command;
pub mod digest;
pub mod expect;
mod footprint;
mod lines;
mod merge;
pub mod normal;
mod process;
mod report;
mod schema;

pub use command::{Output, Srctrace, binary};
pub use expect::Expected;
pub use footprint::{Footprint, state};
pub use merge::{Files, merge, merge_as, merge_as_nobody, srctrace};
pub use normal::Names;
pub use process::{DEADLINE, Trace};
pub use report::Report;
