//! The signals that end a trace in order.

use super::failure::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From its making on, Ctrl-C, SIGTERM and SIGHUP are heard and no longer kill.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Ready once any of them came. Nothing is lost when it is dropped before.
    pub(super) async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|e| Failure::CannotTrace(format!("cannot listen to signals: {e}")))
}
