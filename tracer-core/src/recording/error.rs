//! Why a recording cannot be read.

use super::VERSION;

/// What is wrong with a file. Each names the byte, counted from the file's beginning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Something else.
    #[error("it is no recording of srctrace (the first bytes are not those of a .srct file)")]
    Magic,
    /// Another format.
    #[error(
        "it is written in format {0}, and this srctrace reads format {VERSION}: use the srctrace that wrote it, or a newer one"
    )]
    Version(u16),
    /// A frame that cannot be right.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the frame begins.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Records whose order makes no sense.
    #[error("it is damaged at byte {at}: it does not begin with a header")]
    Headless {
        /// Where the header should have been.
        at: u64,
    },
}
