//! The tap on packets that are thrown away: which of its two programs fits this kernel, and the
//! words for what it tells.

use super::KernelTypes;
use super::taps::Tracepoint;
use std::collections::{BTreeMap, HashMap};
use tracer_common::{MAX_IGNORED_REASONS, NO_REASON};
use tracer_core::event::DropEvent;
use tracer_core::report::Unavailable;

/// Reasons that are none: the packet was used up, or went with its socket. (A raw socket's copy
/// that finds no room is not the packet either.)
const IGNORED: [&str; MAX_IGNORED_REASONS] = [
    "NOT_DROPPED_YET",
    "CONSUMED",
    "QUEUE_PURGE",
    "PACKET_SOCK_ERROR",
];

/// A tracepoint passes its own data before what its prototype lists: with the buffer and the
/// location that makes three, and a fourth is the reason.
const WITH_REASON: usize = 4;

const EFFECT: &str = "packets that die on this host are not seen, nor why";

/// The tap that fits this kernel's tracepoint; `None` where the kernel does not describe it.
pub(super) fn tap(types: &KernelTypes) -> Option<Tracepoint> {
    Some(Tracepoint {
        program: match types.drop_arguments? {
            WITH_REASON.. => "srctrace_drops",
            _ => "srctrace_drops_plain",
        },
        tracepoint: "kfree_skb",
        needed: false,
        effect: EFFECT,
    })
}

/// What to say where there is no such tap.
pub(super) fn missing() -> Unavailable {
    Unavailable {
        what: "tracepoint kfree_skb".to_owned(),
        why: "this kernel's BTF does not describe it".to_owned(),
        effect: EFFECT.to_owned(),
    }
}

/// The numbers of [`IGNORED`] on this kernel.
pub(super) fn ignored(reasons: &BTreeMap<u32, String>) -> [u32; MAX_IGNORED_REASONS] {
    IGNORED.map(|name| {
        let number = reasons.iter().find(|(_, known)| *known == name);
        number.map_or(NO_REASON, |(number, _)| *number)
    })
}

/// Words for the numbers and addresses of drops.
pub struct DropWords {
    reasons: BTreeMap<u32, String>,
    /// Functions by an address in them; `None` where the kernel does not say.
    functions: HashMap<u64, Option<String>>,
    function_at: Box<dyn FnMut(u64) -> Option<String>>,
}

/// Most addresses that are remembered.
const MAX_FUNCTIONS: usize = 1024;

impl DropWords {
    /// `reasons`: as this kernel's BTF names them. `function_at`: names the function that an address
    /// lies in.
    #[must_use]
    pub fn new(
        reasons: BTreeMap<u32, String>,
        function_at: impl FnMut(u64) -> Option<String> + 'static,
    ) -> Self {
        Self {
            reasons,
            functions: HashMap::new(),
            function_at: Box::new(function_at),
        }
    }

    /// Fills in what the kernel half could not know.
    pub fn name(&mut self, drop: &mut DropEvent) {
        drop.reason = drop.reason_number.map(|number| {
            let known = self.reasons.get(&number).cloned();
            known.unwrap_or_else(|| format!("reason {number}"))
        });
        if self.functions.len() >= MAX_FUNCTIONS {
            self.functions.clear();
        }
        let function = self.functions.entry(drop.address);
        drop.location = function
            .or_insert_with(|| (self.function_at)(drop.address))
            .clone();
    }
}
