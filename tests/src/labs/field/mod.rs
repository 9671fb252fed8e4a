//! Field cases: public bug reports, each as a lab that gives the fault and holds the whole report against what it must say.
//!
//! `docs/field-cases.md` says for each case what is shown.

mod masq;
mod replies;
mod services;
mod story;

use std::sync::LazyLock;

use super::Case;
pub(super) use story::Story;

/// A lab for each story.
pub(super) fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
        let stories = [masq::STORIES, services::STORIES, replies::STORIES]
            .into_iter()
            .flatten();
        stories.map(Case::of_story).collect()
    });
    &CASES
}
