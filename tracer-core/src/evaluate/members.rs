//! Which elements of a large set can hold an address at all.

use super::guards::LONG;
use super::ranges::{Ranges, range};
use super::read::Reading;
use crate::ruleset::{Element, Set};
use std::net::IpAddr;
use std::sync::OnceLock;

/// The elements of a set by the addresses in their keys, made when they are first asked for.
#[derive(Debug)]
pub(super) struct Members<'r> {
    set: &'r Set,
    /// For each part of the key; `None` for one that is no address.
    parts: OnceLock<Vec<Option<Part>>>,
}

#[derive(Debug)]
struct Part {
    of: Ranges,
    /// Elements that this part does not tell apart.
    rest: Vec<usize>,
}

impl<'r> Members<'r> {
    pub(super) fn of(set: &'r Set) -> Self {
        Self {
            set,
            parts: OnceLock::new(),
        }
    }

    pub(super) fn set(&self) -> &'r Set {
        self.set
    }

    /// The elements that a key may be in, in their order.
    pub(super) fn candidates(&self, key: &[Reading<'_>]) -> Vec<&'r Element> {
        let all = &self.set.elements;
        if all.len() < LONG {
            return all.iter().collect();
        }
        let parts = self.parts.get_or_init(|| parts(all));
        if parts.len() != key.len() {
            return all.iter().collect();
        }
        let mut asked = parts.iter().zip(key).filter_map(|(part, read)| match read {
            Reading::Addr(addr) => Some((part.as_ref()?, *addr)),
            _ => None,
        });
        let Some((part, addr)) = asked.next() else {
            return all.iter().collect();
        };
        let held = part.of.holding(addr).flatten().chain(&part.rest);
        let mut numbers: Vec<usize> = held.copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|n| all.get(n)).collect()
    }
}

fn parts(elements: &[Element]) -> Vec<Option<Part>> {
    let width = elements.iter().map(|element| element.key.len()).max();
    let width = width.unwrap_or(0);
    (0..width).map(|at| part(elements, at, width)).collect()
}

/// Elements by one part of their keys, which have so many.
fn part(elements: &[Element], at: usize, width: usize) -> Option<Part> {
    let mut ranges: Vec<((IpAddr, IpAddr), usize)> = Vec::new();
    let mut rest = Vec::new();
    for (n, element) in elements.iter().enumerate() {
        let value = element.key.get(at).filter(|_| element.key.len() == width);
        match value.and_then(range) {
            Some(range) => ranges.push((range, n)),
            None => rest.push(n),
        }
    }
    (!ranges.is_empty()).then(|| Part {
        of: Ranges::of(&ranges),
        rest,
    })
}
