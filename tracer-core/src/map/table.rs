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
    let mut builder = Builder {
        v4,
        width: if v4 { 32 } else { 128 },
        weights: weights(v4, &whole),
        nodes: Vec::new(),
        sets: Vec::new(),
    };
    let root = builder.tree((0, 0), *first, whole.get(1..).unwrap_or_default());
    let mut out = Vec::new();
    builder.choose(&root, (0, 0), None, &mut out);
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

/// A prefix: its first address and length.
type Prefix = (u128, u8);

/// A prefix of the tree.
#[derive(Clone, Copy)]
struct Node {
    labels: Labels,
    /// Where its halves stand, one behind the other.
    halves: Option<usize>,
}

/// The labels that a prefix may have.
#[derive(Clone, Copy)]
enum Labels {
    One(Label),
    /// Where they stand, in order: from, to.
    Several(usize, usize),
}

/// Keeps the tree's nodes and sets of labels each in one piece: there are very many small ones.
struct Builder {
    v4: bool,
    width: u8,
    weights: Vec<f64>,
    nodes: Vec<Node>,
    sets: Vec<Label>,
}

impl Builder {
    /// The tree of a prefix whose first address has this label, and of the stretches that begin behind that address.
    fn tree(&mut self, (first, len): Prefix, label: Label, rest: &[(u128, Label)]) -> Node {
        if rest.is_empty() || len == self.width {
            return Node {
                labels: Labels::One(label),
                halves: None,
            };
        }
        let [low, high] = self.halves((first, len));
        let (before, behind) = rest.split_at(rest.partition_point(|(start, _)| *start < high.0));
        let at_half = match behind.split_first() {
            Some(((start, label), behind)) if *start == high.0 => (*label, behind),
            _ => (before.last().map_or(label, |(_, label)| *label), behind),
        };
        let low = self.tree(low, label, before);
        let high = self.tree(high, at_half.0, at_half.1);
        let labels = self.joined(low.labels, high.labels);
        let halves = Some(self.nodes.len());
        self.nodes.extend([low, high]);
        Node { labels, halves }
    }

    /// The halves of a prefix.
    fn halves(&self, (first, len): Prefix) -> [Prefix; 2] {
        let len = len + 1;
        [(first, len), (first | 1 << (self.width - len), len)]
    }

    fn labels<'l>(&'l self, labels: &'l Labels) -> &'l [Label] {
        match labels {
            Labels::One(label) => std::slice::from_ref(label),
            Labels::Several(from, to) => self.sets.get(*from..*to).unwrap_or_default(),
        }
    }

    /// What both halves may have, or, where that is nothing, what either may.
    fn joined(&mut self, a: Labels, b: Labels) -> Labels {
        match (a, b) {
            (Labels::One(ANY), other) | (other, Labels::One(ANY)) => return other,
            (Labels::One(a), Labels::One(b)) if a == b => return Labels::One(a),
            _ => {}
        }
        let (of_a, of_b) = (self.labels(&a), self.labels(&b));
        let both = of_a.iter().filter(|l| of_b.binary_search(l).is_ok());
        let mut found: Vec<Label> = both.copied().collect();
        if found.is_empty() {
            found = [of_a, of_b].concat();
            found.sort_unstable();
        }
        if let [one] = found.as_slice() {
            return Labels::One(*one);
        }
        let from = self.sets.len();
        self.sets.append(&mut found);
        Labels::Several(from, self.sets.len())
    }

    fn choose(
        &self,
        node: &Node,
        (first, len): Prefix,
        inherited: Option<Label>,
        out: &mut Vec<(IpNet, Label)>,
    ) {
        let labels = self.labels(&node.labels);
        let any = labels == [ANY];
        let held = inherited.filter(|label| any || labels.binary_search(label).is_ok());
        // Nothing is said of what nobody asks about, where a longer prefix says the rest.
        let halves = node.halves.and_then(|at| self.nodes.get(at..at + 2));
        let halves = halves.unwrap_or_default();
        let is_any = |half: &Node| matches!(half.labels, Labels::One(ANY));
        let half = inherited.is_some() && halves.iter().any(is_any);
        let chosen = match held {
            None if half => inherited,
            None if !any => self.commonest(labels),
            held => held,
        };
        if held.is_none()
            && !half
            && let (Some(label), Ok(net)) = (chosen, IpNet::new(addr(first, self.v4), len))
        {
            out.push((net, label));
        }
        if !halves.is_empty() {
            for (half, prefix) in halves.iter().zip(self.halves((first, len))) {
                self.choose(half, prefix, chosen, out);
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
