//! Rules that ran for a flow and are not among those that were read: the store was changed in between.

use super::ruling::Ruling;
use super::seen_rule::locate;
use crate::observed::{RuleHit, RulePlace};

/// The places of such rules in a ruling's namespace, each once. Where rules could not be read, that is
/// why they are not there, and said elsewhere.
pub(crate) fn vanished<'h>(ruling: &Ruling<'_, '_>, hits: &[&'h RuleHit]) -> Vec<&'h RulePlace> {
    let mut gone: Vec<&RulePlace> = Vec::new();
    if !ruling.rules.unread.is_empty() {
        return gone;
    }
    let here = hits.iter().filter(|hit| hit.netns == ruling.passage.netns);
    let places = here.flat_map(|hit| hit.path.iter().map(|(p, _)| p).chain([&hit.place]));
    for place in places {
        let is_rule = !matches!(place, RulePlace::Policy { .. } | RulePlace::NotFound);
        if is_rule && locate(ruling.rules, place).is_none() && !gone.contains(&place) {
            gone.push(place);
        }
    }
    gone
}
