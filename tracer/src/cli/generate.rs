//! The manual page and completion scripts, made from the options themselves.

use super::args::Args;
use clap::CommandFactory;

/// A completion script for `shell`.
#[must_use]
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "srctrace", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The manual page, as roff.
#[must_use]
pub fn man() -> String {
    let mut page = Vec::new();
    let page_done = clap_mangen::Man::new(Args::command()).render(&mut page);
    // Writing to memory cannot fail.
    debug_assert!(page_done.is_ok());
    String::from_utf8_lossy(&page).into_owned()
}
