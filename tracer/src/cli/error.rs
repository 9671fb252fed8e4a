//! Usage errors, one line each.

use crate::render::escape;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;

/// What is wrong with the command line: one line, safe to print. The exit status is 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// `argument` is the option as it is written, `--netns`; `value` is what was given; `why` says
    /// what is wrong and what is accepted. For what only the machine can tell, too: a namespace
    /// that does not exist, an unknown pod.
    #[must_use]
    pub fn value(argument: &str, value: &str, why: &str) -> Self {
        Self::new(&format!("{argument} '{value}': {why}"))
    }

    pub(super) fn new(text: &str) -> Self {
        Self(escape(text).into_owned())
    }

    pub(super) fn from_clap(error: &clap::Error) -> Self {
        let argument = argument_name(&context(error, ContextKind::InvalidArg));
        let value = context(error, ContextKind::InvalidValue);
        match error.kind() {
            ErrorKind::ValueValidation => {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                Self::value(&argument, &value, &why)
            }
            ErrorKind::InvalidValue if value.is_empty() => {
                Self::new(&format!("{argument} needs a value{}", accepted(error)))
            }
            ErrorKind::InvalidValue => Self::new(&format!(
                "{argument} '{value}': not accepted here{}{}",
                accepted(error),
                order(&argument)
            )),
            ErrorKind::UnknownArgument => Self::new(&format!(
                "unknown argument {argument}{}; srctrace --help lists what is accepted",
                suggestion(error)
            )),
            ErrorKind::ArgumentConflict => {
                let other = argument_name(&context(error, ContextKind::PriorArg));
                Self::new(&conflict(&argument, &other))
            }
            ErrorKind::MissingRequiredArgument => Self::new(&missing(&argument, error)),
            _ => Self::new(&first_line(error)),
        }
    }
}

fn conflict(argument: &str, other: &str) -> String {
    if other.is_empty() {
        format!("{argument} cannot be used with a subcommand")
    } else if argument == other {
        format!("{argument} can be given only once")
    } else {
        format!("{argument} and {other} exclude each other; give one of them")
    }
}

/// `--probe DEST` takes DEST for the kind.
fn order(argument: &str) -> &'static str {
    if argument == "--probe" {
        "; write DEST before a bare --probe"
    } else {
        ""
    }
}

/// What is missing, and for `--from` why.
fn missing(argument: &str, error: &clap::Error) -> String {
    if argument == "--probe" {
        return "--from says where a probe is sent from: give --probe [tcp|udp|icmp] with it"
            .to_owned();
    }
    if argument == "--record" {
        return "--redact and --snaplen are about a recording: give --record FILE.srct with them"
            .to_owned();
    }
    format!("{argument} is missing{}", accepted(error))
}

/// `--port <N[,N-M]>` as `--port`, `[DEST]...` as `DEST`, `<SHELL>` as `SHELL`.
fn argument_name(usage: &str) -> String {
    let name = usage.split([' ', '=']).next().unwrap_or_default();
    if name.starts_with('-') {
        return name.split(['[', '<']).next().unwrap_or(name).to_owned();
    }
    name.trim_matches(['[', ']', '<', '>', '.']).to_owned()
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(all)) => all.join(", "),
        _ => String::new(),
    }
}

fn accepted(error: &clap::Error) -> String {
    let values = context(error, ContextKind::ValidValue);
    if values.is_empty() {
        String::new()
    } else {
        format!("; accepted are {values}")
    }
}

fn suggestion(error: &clap::Error) -> String {
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(name)) => format!(", did you mean {name}?"),
        _ => String::new(),
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
