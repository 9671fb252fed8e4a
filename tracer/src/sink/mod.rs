//! Where results and notes go: results on stdout, everything else on stderr; and files that tell who
//! talks to whom.

mod file;
pub mod pcapng;

pub use file::private;

mod progress;

pub use progress::Progress;

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;

/// Why results cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The reader went away (`| head`): a quiet end, no failure.
    #[error("the reader of the output is gone")]
    Closed,
    /// Anything else: disk full, … The exit status is 6.
    #[error("cannot write the output: {0}")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}

/// Writes results, each piece flushed: a reader behind a pipe sees a flow when it is reported.
#[derive(Debug)]
pub struct Sink<W> {
    out: W,
}

impl Sink<io::Stdout> {
    /// Results on stdout.
    #[must_use]
    pub fn stdout() -> Self {
        Self::new(io::stdout())
    }
}

impl<W: Write> Sink<W> {
    /// Results on any writer.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes one piece, whole lines, and flushes.
    ///
    /// # Errors
    /// [`SinkError::Closed`] when nobody reads any more, [`SinkError::Failed`] on every other error.
    pub fn write(&mut self, text: &str) -> Result<(), SinkError> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        Ok(())
    }
}

/// Whether stdout wants colours: a terminal, and neither `NO_COLOR` nor `TERM=dumb` speaks against
/// it.
#[must_use]
pub fn stdout_colour() -> bool {
    colour(&io::stdout())
}

/// As [`stdout_colour`], for the notes on stderr.
#[must_use]
pub fn stderr_colour() -> bool {
    colour(&io::stderr())
}

fn colour(stream: &(impl anstream::stream::RawStream + IsTerminal)) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// The columns of the terminal that stdout is, if it is one.
#[must_use]
pub fn stdout_width() -> Option<usize> {
    width(io::stdout())
}

/// As [`stdout_width`], for stderr.
#[must_use]
pub fn stderr_width() -> Option<usize> {
    width(io::stderr())
}

/// Below this many columns nothing is gained by breaking lines.
const NARROWEST: usize = 40;

fn width(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= NARROWEST)
}

/// Text with colours, as help has them, without them where they are not wanted.
#[must_use]
pub fn fit(text: &str, colour: bool) -> Cow<'_, str> {
    if colour {
        return Cow::Borrowed(text);
    }
    Cow::Owned(anstream::adapter::strip_str(text).to_string())
}

/// Progress, hints and errors on stderr, whole lines. If nobody listens, nothing is lost.
pub fn note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests;
