//! Labs for srctrace: network namespaces with real rules and real traffic, and the live tests that run in them.
//!
//! A lab is built by [`lab::Topology`], filled with rules through [`lab::Lab`], given traffic from [`traffic`] and
//! watched by the real program through [`trace`]. [`labs`] is the table of all labs; [`runner`] runs them, natively under
//! `cargo test` and in a virtual machine with the same binary.

pub mod lab;
pub mod labs;
pub mod replay;
pub mod runner;
pub mod trace;
pub mod traffic;
