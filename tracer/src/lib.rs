//! The rooms of the `srctrace` program. The binary is a thin wrapper around them.

pub mod kernel;
