//! How far a long command has come: a line on stderr, where that is a terminal, and nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

/// A line that moves while files are read. Gone when dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Whether results go to a terminal too, so that the line is in their way.
    shared: bool,
}

impl Progress {
    /// So many bytes are to be read.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(
            "{bar:30} {percent:>3} %  {binary_bytes_per_sec}, {eta} left",
        );
        // The words are ours and right; without them the line has the usual ones.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar,
            shared: std::io::stdout().is_terminal(),
        }
    }

    /// So many bytes were read.
    pub fn at(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Does something that prints to stderr, with the line out of its way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// As [`Progress::aside`], of results: most often they go elsewhere, and the line stays.
    pub fn result<T>(&self, print: impl FnOnce() -> T) -> T {
        match self.shared {
            true => self.bar.suspend(print),
            false => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
