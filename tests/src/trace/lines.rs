//! A child's output, line by line as it comes, for others to wait on.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// The lines so far, and the thread that collects them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    shared: Arc<Shared>,
    reading: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Lines {
    /// Collects from a pipe until it closes. No pipe, no lines.
    pub(super) fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let shared = Arc::new(Shared::default());
        let reading = pipe.map(|pipe| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut reader = BufReader::new(pipe);
                let mut line = Vec::new();
                while reader
                    .read_until(b'\n', &mut line)
                    .is_ok_and(|read| read > 0)
                {
                    let text = String::from_utf8_lossy(&line)
                        .trim_end_matches('\n')
                        .to_owned();
                    shared
                        .lines
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(text);
                    shared.more.notify_all();
                    line.clear();
                }
            })
        });
        Self { shared, reading }
    }

    /// Waits until the lines are such that `enough` holds.
    pub(super) fn wait(
        &self,
        patience: Duration,
        enough: impl Fn(&[String]) -> bool,
    ) -> Result<()> {
        let lines = self
            .shared
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (lines, timeout) = self
            .shared
            .more
            .wait_timeout_while(lines, patience, |lines| !enough(lines))
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            bail!("after {patience:?} only this was printed: {lines:#?}");
        }
        Ok(())
    }

    /// All lines, once the pipe is closed.
    pub(super) fn finish(&mut self) -> Result<Vec<String>> {
        if let Some(reading) = self.reading.take() {
            reading
                .join()
                .ok()
                .context("the thread that reads the output panicked")?;
        }
        Ok(std::mem::take(
            &mut self
                .shared
                .lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        ))
    }
}
