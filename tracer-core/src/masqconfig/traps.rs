//! What an agent silently does otherwise than its configuration looks.

/// Something that no error tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// What kind.
    pub kind: TrapKind,
    /// Line of the file.
    pub line: Option<usize>,
    /// What it means.
    pub text: String,
    /// What to write instead.
    pub fix: Option<String>,
}

impl Trap {
    pub(super) fn new(kind: TrapKind, line: Option<usize>, text: impl Into<String>) -> Self {
        Self {
            kind,
            line,
            text: text.into(),
            fix: None,
        }
    }

    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// Kinds of trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// A key that the agent does not know: it is ignored.
    UnknownKey,
    /// A key that another agent knows, or that was only ever proposed.
    ForeignKey,
    /// The ConfigMap was put into its own value.
    NestedConfig,
    /// A second document follows: nobody reads it.
    SecondDocument,
    /// A key is given twice: the last one counts.
    DuplicateKey,
    /// Link-local destinations are masqueraded by one key and exempt by another.
    LinkLocal,
    /// The agent never rests.
    BusyLoop,
    /// Edits are read hardly ever.
    NeverReread,
    /// An entry that an earlier one covers.
    Covered,
    /// The agent takes another prefix than is written.
    Realigned,
    /// The key is there, and its list is empty; or it is absent where that means the same.
    EmptyList,
    /// The ConfigMap does not have the key that the agent's volume names.
    WrongKey,
    /// It is not the ConfigMap that the agent's volume names.
    WrongPlace,
}

impl TrapKind {
    /// Its word in `data`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::UnknownKey => "unknown-key",
            Self::ForeignKey => "foreign-key",
            Self::NestedConfig => "nested-config",
            Self::SecondDocument => "second-document",
            Self::DuplicateKey => "duplicate-key",
            Self::LinkLocal => "link-local",
            Self::BusyLoop => "busy-loop",
            Self::NeverReread => "never-reread",
            Self::Covered => "covered-entry",
            Self::Realigned => "realigned",
            Self::EmptyList => "empty-list",
            Self::WrongKey => "wrong-key",
            Self::WrongPlace => "wrong-place",
        }
    }

    /// Whether what was written has no effect, or another one than it seems.
    #[must_use]
    pub fn misleads(self) -> bool {
        !matches!(self, Self::Covered | Self::EmptyList)
    }
}
