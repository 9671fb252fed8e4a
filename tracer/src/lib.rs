//! The rooms of the `srctrace` program. The binary is a thin wrapper around them.

pub mod cli;
pub mod kernel;
pub mod render;
pub mod run;
pub mod sink;
pub mod source;
pub mod system;
