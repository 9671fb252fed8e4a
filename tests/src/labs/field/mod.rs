//! Field cases: public bug reports, each as a lab that gives the fault and holds the whole report against what it must say.
//!
//! `docs/field-cases.md` says for each case what is shown.

mod ipvs;
mod masq;
mod pools;
mod replies;
mod services;
mod story;
mod vpn;
mod wires;

use std::sync::LazyLock;

use super::Case;
pub(super) use story::Story;

/// A lab for each story.
pub(super) fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
        let stories = [
            masq::STORIES,
            services::STORIES,
            pools::STORIES,
            replies::STORIES,
            wires::STORIES,
            ipvs::STORIES,
            vpn::STORIES,
        ]
        .into_iter()
        .flatten();
        stories.map(Case::of_story).collect()
    });
    &CASES
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    const TABLE: &str = include_str!("../../../../docs/field-cases.md");

    /// The third column's names.
    fn named() -> BTreeSet<&'static str> {
        let rows = TABLE.lines().filter(|line| line.starts_with("| "));
        let cells = rows.filter_map(|row| row.split(" | ").nth(2));
        cells
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect()
    }

    #[test]
    fn every_lab_of_the_table_exists() {
        let all: BTreeSet<&str> = super::super::all().map(|case| case.name).collect();
        let missing: Vec<_> = named().difference(&all).copied().collect();
        assert!(missing.is_empty(), "no such labs: {missing:?}");
    }

    #[test]
    fn every_story_is_in_the_table() {
        let stories: BTreeSet<&str> = super::cases().iter().map(|case| case.name).collect();
        let missing: Vec<_> = stories.difference(&named()).copied().collect();
        assert!(
            missing.is_empty(),
            "not in docs/field-cases.md: {missing:?}"
        );
    }
}
