//! The pure part of srctrace: bytes and values in, values out.
//!
//! No sockets, files, clocks or threads live here; time is an argument. Data flows one way:
//! [`event`] → [`journey`] → [`attribute`] → [`verdict`] → [`report`].
#![forbid(unsafe_code)]

pub mod btf;
pub mod event;
pub mod inventory;
pub mod packet;
pub mod report;
