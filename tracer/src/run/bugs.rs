//! When srctrace itself is wrong: a panic ends it in one line, and nothing of it stays.

use crate::{render, sink};
use std::panic::{PanicHookInfo, set_hook};

/// Panics when the first flow is told, to see what is left then.
const REHEARSAL: &str = "SRCTRACE_REHEARSE_PANIC";

/// From now on a panic is told in one line; its status is Rust's own, 101. The run unwinds, so what it attached goes as at
/// any other end.
pub(super) fn tell_in_one_line() {
    set_hook(Box::new(|panic| sink::note(&line(panic))));
}

fn line(panic: &PanicHookInfo<'_>) -> String {
    let said = panic.payload_as_str().unwrap_or("no words");
    let place = panic
        .location()
        .map_or_else(String::new, |at| format!("{}:{}: ", at.file(), at.line()));
    format!(
        "srctrace: a bug in srctrace {}: {}; please report this line. What it attached is removed; should that fail, \
         `srctrace cleanup` does it\n",
        env!("CARGO_PKG_VERSION"),
        render::escape(&format!("{place}{said}"))
    )
}

/// Panics where `SRCTRACE_REHEARSE_PANIC=1` asks for it.
pub(super) fn rehearse() {
    assert!(
        std::env::var_os(REHEARSAL).is_none_or(|value| value != "1"),
        "asked for by {REHEARSAL}"
    );
}
