//! The lines before the first flow.

use super::super::look::{Look, Role, name};
use super::words::count;

/// What is known once the trace is armed.
#[derive(Clone, Debug, PartialEq)]
pub struct Armed {
    /// srctrace's version.
    pub version: String,
    /// This machine's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// When it was armed, RFC 3339 UTC.
    pub started: String,
    /// Seconds that arming took.
    pub took_s: f64,
    /// How many interfaces are looked at.
    pub interfaces: u64,
    /// In how many namespaces.
    pub namespaces: u64,
}

/// The first line of a text report.
#[must_use]
pub fn header(armed: &Armed, look: Look) -> String {
    let line = format!(
        "{} · {} · kernel {} · {} · armed in {:.1} s, {} in {}",
        look.paint(Role::Title, &format!("srctrace {}", name(&armed.version))),
        name(&armed.host),
        name(&armed.kernel),
        armed.started.replacen('T', " ", 1),
        armed.took_s,
        count(armed.interfaces, "interface"),
        count(armed.namespaces, "namespace"),
    );
    format!("{}\n", look.wrap(&line))
}

/// The line that says that srctrace waits, and for what: `traffic to 10.20.30.40`.
#[must_use]
pub fn waiting(what: &str, look: Look) -> String {
    let line = format!(
        "waiting for {} (Ctrl-C to stop)",
        super::super::escape(what)
    );
    format!("{}\n", look.paint(Role::Faint, &line))
}

/// The line that says why no more blocks come, though flows do.
#[must_use]
pub fn counting(look: Look) -> String {
    let line = "more flows went ways shown above: from here on they are counted, and summed up at the \
                end (--each shows each)";
    format!("{}\n", look.wrap(&look.paint(Role::Faint, line)))
}
