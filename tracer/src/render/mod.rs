//! Reports as text, JSON and HTML. Values in, text out: no I/O, no clock, nothing but the report.

mod doctor;
mod escape;
mod hint;
pub mod html;
mod json;
mod look;
mod schema;
pub mod text;

pub use doctor::doctor;
pub use escape::escape;
pub use hint::{Hint, Nearby, Nearest, hint};
pub use json::json_line;
pub use look::Look;
pub use schema::schema;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
