//! How far a long command has come: a line on stderr, where that is a terminal, and nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line that moves while files are read. Gone when dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

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
        Self(bar)
    }

    /// So many bytes were read.
    pub fn at(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// Does something that prints, with the line out of its way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
