//! What `--tap clsact` adds to devices, and its removal however the run ends.
//!
//! A filter outlives the process that added it. So each carries its run's identity in its name, is
//! recorded in a file before it is added, and is removed by the run itself, or by a watcher when
//! the run died, or by `srctrace cleanup` when that died too. Only names decide what is removed,
//! never places: what others have put there meanwhile stays.

mod add;
mod cleanup;
mod record;
mod remove;
mod tag;
mod watcher;

pub(super) use add::Clsact;
pub(super) use cleanup::cleanup;
pub(super) use watcher::{Watcher, serve};

use crate::system::tc::Filter;

/// Whether a filter was added by srctrace: by this run or another.
pub(super) fn is_ours(filter: &Filter) -> bool {
    filter.name.as_deref().and_then(tag::Tag::read).is_some()
}
