//! How text looks: colours, names, how much.

use super::escape;
use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use tracer_core::report::Severity;
use unicode_width::UnicodeWidthStr;

/// What the reader's terminal and options ask of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Use colours.
    pub colour: bool,
    /// Show names of namespaces, pods and processes, and not only numbers.
    pub names: bool,
    /// How often `-v` was given.
    pub verbose: u8,
    /// Columns of the terminal, where one reads: sentences are broken to fit.
    pub width: Option<usize>,
}

/// What a piece of text is, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// What the eye should find first.
    Title,
    /// The answer.
    Answer,
    /// All is well.
    Good,
    /// Worth a look.
    Odd,
    /// Broken.
    Bad,
    /// Proof and detail.
    Faint,
}

impl Role {
    fn style(self) -> Style {
        match self {
            Self::Title => Style::new().bold(),
            Self::Answer => AnsiColor::Cyan.on_default().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Odd => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Faint => Style::new().dimmed(),
        }
    }
}

impl From<Severity> for Role {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Faint,
            Severity::Warning => Self::Odd,
            Severity::Error => Self::Bad,
        }
    }
}

impl Look {
    /// Colours a piece of text that is already safe.
    pub(super) fn paint(self, role: Role, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let style = role.style();
        format!("{style}{text}{style:#}")
    }
}

/// Further lines of a sentence begin with so many spaces.
const INDENT: usize = 5;

impl Look {
    /// Breaks a line of prose at spaces where the terminal is too narrow for it. Tables stay whole.
    pub(super) fn wrap(self, line: &str) -> String {
        let Some(width) = self.width else {
            return line.to_owned();
        };
        let mut out = String::with_capacity(line.len());
        let mut column = 0;
        for word in line.split_inclusive(' ') {
            let shown = strip_str(word.trim_end_matches(' ')).to_string().width();
            if column > INDENT && column + shown > width {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out.push_str(&" ".repeat(INDENT));
                column = INDENT;
            }
            out.push_str(word);
            column += shown + usize::from(word.ends_with(' '));
        }
        out
    }
}

/// Longest name that gets a column of its own, in characters.
const LONGEST_NAME: usize = 40;

/// A name from outside: safe, and short enough for a column.
pub(super) fn name(text: &str) -> String {
    let safe = escape(text);
    if safe.chars().count() <= LONGEST_NAME {
        return safe.into_owned();
    }
    let mut short: String = safe.chars().take(LONGEST_NAME - 1).collect();
    short.push('…');
    short
}

/// Fills up with spaces on the right to `width` terminal columns.
pub(super) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    format!("{text}{:missing$}", "")
}

/// How many terminal columns the widest of `texts` takes.
pub(super) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts
        .into_iter()
        .map(UnicodeWidthStr::width)
        .max()
        .unwrap_or(0)
}
