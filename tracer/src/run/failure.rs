//! Every way in which a command ends early, with its exit status.

use crate::cli::UsageError;
use crate::kernel::{KernelError, OffsetsError};
use crate::sink::SinkError;
use crate::source::SourceError;
use crate::system::SystemError;
use tracer_core::expect::ExitStatus;

/// Why a command ended early.
#[derive(Debug)]
pub(super) enum Failure {
    /// Wrong usage.
    Usage(String),
    /// It cannot be traced here.
    CannotTrace(String),
    /// The results could not be written.
    Output(String),
    /// Nobody reads the results any more: a quiet end.
    Closed,
}

impl Failure {
    /// What to tell, if anything.
    pub(super) fn line(&self) -> Option<&str> {
        match self {
            Self::Usage(line) | Self::CannotTrace(line) | Self::Output(line) => Some(line),
            Self::Closed => None,
        }
    }

    /// Where it cannot be traced, with a cause that outweighs what the kernel said.
    pub(super) fn because(self, cause: Option<String>) -> Self {
        match (self, cause) {
            (Self::CannotTrace(line), Some(cause)) => {
                Self::CannotTrace(format!("{cause} ({line})"))
            }
            (failure, _) => failure,
        }
    }

    pub(super) fn status(&self) -> ExitStatus {
        match self {
            Self::Usage(_) => ExitStatus::Usage,
            Self::CannotTrace(_) => ExitStatus::CannotTrace,
            Self::Output(_) => ExitStatus::OutputFailed,
            Self::Closed => ExitStatus::Done,
        }
    }
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<SystemError> for Failure {
    fn from(error: SystemError) -> Self {
        if error.is_usage() {
            Self::Usage(error.to_string())
        } else {
            Self::CannotTrace(error.to_string())
        }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::Usage(crate::render::escape(&error.to_string()).into_owned())
    }
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        Self::CannotTrace(error.to_string())
    }
}

impl From<OffsetsError> for Failure {
    fn from(error: OffsetsError) -> Self {
        Self::CannotTrace(error.to_string())
    }
}

impl From<SinkError> for Failure {
    fn from(error: SinkError) -> Self {
        match error {
            SinkError::Closed => Self::Closed,
            failed => Self::Output(failed.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_goes_before_what_the_kernel_said() {
        let refused = || Failure::CannotTrace("map create failed".into());
        let old = refused().because(Some("too old".into()));
        assert_eq!(old.line(), Some("too old (map create failed)"));
        assert_eq!(refused().because(None).line(), Some("map create failed"));
        let usage = Failure::Usage("wrong".into()).because(Some("too old".into()));
        assert_eq!(usage.line(), Some("wrong"));
    }
}
