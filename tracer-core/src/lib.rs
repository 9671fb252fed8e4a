//! The pure part of srctrace: bytes and values in, values out.
//!
//! No sockets, files, clocks or threads live here; time is an argument. Data flows one way:
//! [`event`] → [`journey`] → [`attribute`] → [`verdict`] → [`report`]; [`trace`] drives it.
#![forbid(unsafe_code)]

pub mod attribute;
pub mod btf;
pub mod capture;
pub mod compare;
pub mod contract;
pub mod dns;
pub mod evaluate;
pub mod event;
pub mod expect;
pub mod explain;
pub mod export;
pub mod foresee;
pub mod group;
pub mod handover;
pub mod inventory;
pub mod join;
pub mod journey;
pub mod ladder;
pub mod map;
pub mod masqconfig;
pub mod observed;
pub mod packet;
pub mod point;
pub mod proxy;
pub mod recent;
pub mod recording;
pub mod report;
pub mod rulebook;
pub mod ruleset;
mod space;
pub mod synth;
pub mod trace;
pub mod verdict;
