//! Stretches as the smallest table in which the longest prefix counts (the ORTC construction: of each
//! prefix the labels that would do, from the longest up; then one of them, from the shortest down).

use crate::space::addr;
use ipnet::IpNet;

/// A label: what a destination gets, by number.
type Label = u32;

/// Of destinations that nobody asks about: any label will do.
pub(super) const ANY: Label = Label::MAX;

/// The table of stretches `(first address, label)` that begin at or behind 0 and hold the whole space; what
/// stands before the first takes its label.
pub(super) fn table(v4: bool, stretches: &[(u128, Label)]) -> Vec<(IpNet, Label)> {
    let Some((_, first)) = stretches.first() else {
        return Vec::new();
    };
    let mut whole = vec![(0, *first)];
    whole.extend(stretches.iter().filter(|(start, _)| *start > 0));
    whole.dedup_by_key(|(_, label)| *label);
    let builder = Builder {
        v4,
        width: if v4 { 32 } else { 128 },
        weights: weights(v4, &whole),
        stretches: whole,
    };
    let tree = builder.tree(0, 0);
    let mut out = Vec::new();
    builder.choose(&tree, 0, 0, None, &mut out);
    out.sort_by_key(|(net, _)| *net);
    out
}

/// How many addresses each label has.
fn weights(v4: bool, stretches: &[(u128, Label)]) -> Vec<f64> {
    let end = if v4 { 2f64.powi(32) } else { 2f64.powi(128) };
    let ends = stretches.iter().skip(1).map(|(start, _)| *start as f64);
    let mut weights = Vec::new();
    for ((start, label), next) in stretches.iter().zip(ends.chain([end])) {
        let at = *label as usize;
        if *label != ANY && weights.len() <= at {
            weights.resize(at + 1, 0.0);
        }
        if let Some(weight) = weights.get_mut(at) {
            *weight += next - *start as f64;
        }
    }
    weights
}

/// A prefix.
struct Tree {
    /// The labels that it may have, in order.
    labels: Vec<Label>,
    halves: Option<Box<[Tree; 2]>>,
}

struct Builder {
    v4: bool,
    width: u8,
    weights: Vec<f64>,
    stretches: Vec<(u128, Label)>,
}

impl Builder {
    /// The last address of a prefix.
    fn last(&self, first: u128, len: u8) -> u128 {
        let host = self.width - len;
        let mask = 1u128
            .checked_shl(host.into())
            .map_or(u128::MAX, |bit| bit - 1);
        first | mask
    }

    fn tree(&self, first: u128, len: u8) -> Tree {
        let last = self.last(first, len);
        let from = self.stretches.partition_point(|(start, _)| *start <= first);
        let from = from.saturating_sub(1);
        let to = self.stretches.partition_point(|(start, _)| *start <= last);
        let label = self.stretches.get(from).map_or(0, |(_, label)| *label);
        if to - from <= 1 || len == self.width {
            return Tree {
                labels: vec![label],
                halves: None,
            };
        }
        let halves = self
            .halves(first, len)
            .map(|first| self.tree(first, len + 1));
        let [low, high] = &halves;
        Tree {
            labels: joined(&low.labels, &high.labels),
            halves: Some(Box::new(halves)),
        }
    }

    /// The first addresses of a prefix's halves.
    fn halves(&self, first: u128, len: u8) -> [u128; 2] {
        [first, first | 1 << (self.width - len - 1)]
    }

    fn choose(
        &self,
        tree: &Tree,
        first: u128,
        len: u8,
        inherited: Option<Label>,
        out: &mut Vec<(IpNet, Label)>,
    ) {
        let any = tree.labels == [ANY];
        let held = inherited.filter(|label| any || tree.labels.binary_search(label).is_ok());
        // Nothing is said of what nobody asks about, where a longer prefix says the rest.
        let halves = tree.halves.iter().flat_map(|halves| halves.iter());
        let half = inherited.is_some() && halves.clone().any(|half| half.labels == [ANY]);
        let chosen = match held {
            None if half => inherited,
            None if !any => self.commonest(&tree.labels),
            held => held,
        };
        if held.is_none()
            && !half
            && let (Some(label), Ok(net)) = (chosen, IpNet::new(addr(first, self.v4), len))
        {
            out.push((net, label));
        }
        if tree.halves.is_some() {
            for (half, first) in halves.zip(self.halves(first, len)) {
                self.choose(half, first, len + 1, chosen, out);
            }
        }
    }

    /// The label that most addresses have.
    fn commonest(&self, labels: &[Label]) -> Option<Label> {
        let weight = |label: &Label| self.weights.get(*label as usize).copied().unwrap_or(0.0);
        let all = labels.iter().copied();
        all.reduce(|a, b| if weight(&b) > weight(&a) { b } else { a })
    }
}

/// What both halves may have, or, where that is nothing, what either may.
fn joined(a: &[Label], b: &[Label]) -> Vec<Label> {
    match (a, b) {
        ([ANY], other) | (other, [ANY]) => return other.to_vec(),
        _ => {}
    }
    let both: Vec<Label> = a
        .iter()
        .copied()
        .filter(|l| b.binary_search(l).is_ok())
        .collect();
    if !both.is_empty() {
        return both;
    }
    let mut either = [a, b].concat();
    either.sort_unstable();
    either
}
