//! Errors that carry their own exit status.

use std::fmt;

/// A reason to stop that the user can act on, with the exit status that goes with it.
#[derive(Debug)]
pub(crate) struct Stop {
    status: u8,
    message: String,
}

impl Stop {
    /// A task ran and did not succeed, or something that is needed is missing (status 1).
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            status: 1,
            message: message.into(),
        }
    }

    /// As [`Self::failed`], when the output has said everything already.
    pub(crate) fn silently() -> Self {
        Self::failed("")
    }

    /// The arguments contradict each other or the environment (status 2).
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            status: 2,
            message: message.into(),
        }
    }

    /// This machine cannot do it; the message names the remedy (status 3).
    pub(crate) fn impossible(message: impl Into<String>) -> Self {
        Self {
            status: 3,
            message: message.into(),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

/// The exit status for `error`: its own where it is a [`Stop`], else 1.
pub(crate) fn status(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<Stop>().map_or(1, |stop| stop.status)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn status_survives_added_context() {
        let error = Err::<(), _>(Stop::impossible("no root"))
            .context("demo")
            .unwrap_err();
        assert_eq!(status(&error), 3);
        assert_eq!(status(&anyhow::anyhow!("other")), 1);
    }
}
