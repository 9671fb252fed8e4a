//! What can go wrong when asking the machine.

use std::fmt::Display;
use std::io;

/// An error of the system room: what was tried, on what, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The kernel refused something that tracing needs.
    #[error("cannot {what} {object}: {source}{}", remedy(source))]
    Os {
        /// The operation, as a verb.
        what: &'static str,
        /// What it was tried on.
        object: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The answer came in a form that cannot be read.
    #[error("cannot read the kernel's answer about {object}: {detail}")]
    Answer {
        /// What was asked for.
        object: String,
        /// What is wrong with it.
        detail: String,
    },
    /// An argument that names nothing here.
    #[error("{kind} {:?} {why}", short(given))]
    Unknown {
        /// What kind of thing was named.
        kind: &'static str,
        /// What the user wrote.
        given: String,
        /// Why it does not do, and what is accepted or near.
        why: String,
    },
    /// There is no process tree to look at.
    #[error(
        "cannot read /proc/self/ns/net: {0}; srctrace needs /proc mounted (mount -t proc proc /proc)"
    )]
    Proc(#[source] io::Error),
    /// The namespace went away between finding and entering it.
    #[error("the network namespace {0} is gone")]
    Vanished(String),
}

impl SystemError {
    /// Wraps the kernel's answer to an operation.
    pub fn os(what: &'static str, object: impl Display, source: impl Into<io::Error>) -> Self {
        Self::Os {
            what,
            object: object.to_string(),
            source: source.into(),
        }
    }

    /// Whether the kernel did not allow it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Os { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Whether the user's argument is at fault (status 2), not the machine (status 3).
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Vanished(_))
    }
}

/// Longest argument that an error repeats in full, in characters.
const LONGEST_GIVEN: usize = 64;

/// What was given, cut where it would bury what is said about it.
fn short(given: &str) -> String {
    let mut short: String = given.chars().take(LONGEST_GIVEN).collect();
    if short.len() < given.len() {
        short.push('…');
    }
    short
}

/// What to do about a refusal; empty where the error says it all.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run as root, in a container with CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_SYS_PTRACE"
        }
        _ if error.raw_os_error() == Some(libc::EMFILE) => {
            "; raise the limit of open files (ulimit -n)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlong_argument_is_cut() {
        let error = SystemError::Unknown {
            kind: "pod",
            given: "ö".repeat(500),
            why: "is not here".into(),
        };
        let told = error.to_string();
        assert_eq!(told, format!("pod \"{}…\" is not here", "ö".repeat(64)));
    }
}
