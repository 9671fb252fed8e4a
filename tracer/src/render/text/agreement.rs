//! Contracts: one line for each entry, to be pasted into a ticket.

use super::super::escape;
use super::super::look::{Look, Role};
use tracer_core::report::Agreement;

/// The lines of all entries. They are not broken: a ticket takes them whole.
#[must_use]
pub fn agreements(all: &[Agreement], look: Look) -> String {
    let line = |one: &Agreement| {
        let role = match one.held {
            Some(true) => Role::Good,
            Some(false) => Role::Bad,
            None => Role::Odd,
        };
        format!("{}\n", look.paint(role, &escape(&one.line)))
    };
    all.iter().map(line).collect()
}
