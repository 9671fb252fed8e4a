//! The ABI between srctrace's eBPF programs and its user space.
//!
//! Both halves are compiled by different compilers, so only fixed-width integers and byte arrays
//! cross the border: no `bool`, no `enum`, no `Option`. What may be unknown has a bit in a
//! `present` word, or the value [`ABSENT`]; zero never means "unknown".
//!
//! Byte order: addresses and ports are in network order (byte arrays); every other integer is in
//! the machine's own order, which is the same for both halves.
#![no_std]

mod codes;
mod config;
mod drop;
mod event;
mod flow;
mod offsets;
mod rules;
mod socket;
mod tuple;

pub use codes::{event_kind, matched, present, reason, tap, wrap};
pub use config::{
    Config, InlineDest, MAX_INLINE_DESTS, MAX_PORT_RANGES, PrefixKey, config_flags, prefix_key,
    proto_bit,
};
pub use drop::{DropKey, MAX_IGNORED_REASONS, NO_REASON, RawDrop};
pub use event::{RawConntrack, RawEvent, RawFingerprint, RawProcess};
pub use flow::{BULK_SLOTS, BulkSlot, FlowKey, FlowState, FollowKey, SkbNote, counter};
pub use offsets::{ABSENT, DirectSkb, Offsets, SKB_WINDOW};
pub use rules::{RawRuleHit, RuleOffsets, rule_store, rule_target};
pub use socket::{
    Accepted, GroupKey, MAX_OPENINGS, MAX_RECENT, OPENING, RawOpening, RawSocket, RecentSockets,
    socket_event, socket_follow,
};
pub use tuple::{RawTuple, family, ip_proto};

/// Version of this ABI. It is compiled into both halves and compared when the programs are
/// loaded, so that an object of another build is refused and not misread.
pub const ABI_VERSION: u32 = 9;
