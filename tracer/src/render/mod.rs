//! Reports as text and JSON. Values in, text out: no I/O, no clock, nothing but the report.

mod escape;

pub use escape::escape;
