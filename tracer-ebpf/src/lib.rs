//! The part of the kernel half that needs no kernel: packet headers in, event fields out.
//!
//! It is compiled for the host as well, and tested there.
#![no_std]

pub mod parse;
