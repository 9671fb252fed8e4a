//! From what a user writes to a namespace: NAME, PID or PATH.

use super::{Discovery, Found, Netns};
use crate::system::{Roots, SystemError};
use std::path::Path;
use tracer_core::event::NetnsId;

/// Names told when one is not known.
const NEAR: usize = 5;

/// Process ids end below this, so a greater number can only be an inode number.
const PID_LIMIT: u32 = 1 << 22;

/// Finds the namespace a user means: a name as `ip netns` lists it, a process id, the path of a
/// namespace, or `net:[INODE]` as reports and /proc write it.
///
/// # Errors
/// One line that says what was wrong, with names that come near.
pub(crate) fn resolve(roots: &Roots, known: &Discovery, given: &str) -> Result<Netns, SystemError> {
    if given.contains('/') && !known.found.values().any(|f| is_named(f, given)) {
        return Netns::at(Path::new(given));
    }
    if let Some(found) = known.found.values().find(|f| is_named(f, given)) {
        return Ok(found.netns.clone());
    }
    if let Some(id) = inode(given) {
        return match known.found.get(&id) {
            Some(found) => Ok(found.netns.clone()),
            None => Err(unknown(given, "is not here (any more)".into())),
        };
    }
    match given.parse::<u32>() {
        Ok(pid) => of_process(roots, pid, given),
        Err(_) => Err(unknown(given, no_such(known, given))),
    }
}

fn is_named(found: &Found, given: &str) -> bool {
    found.name.as_deref() == Some(given)
}

fn inode(given: &str) -> Option<NetnsId> {
    super::parse_link(given).or_else(|| {
        let number = given.parse().ok()?;
        (number >= PID_LIMIT).then_some(NetnsId(number))
    })
}

fn of_process(roots: &Roots, pid: u32, given: &str) -> Result<Netns, SystemError> {
    if !roots.of(pid, "").exists() {
        return Err(unknown(
            given,
            "is neither a name nor a running process".into(),
        ));
    }
    Netns::at(&roots.of(pid, "ns/net"))
}

fn unknown(given: &str, why: String) -> SystemError {
    SystemError::Unknown {
        kind: "network namespace",
        given: given.into(),
        why,
    }
}

fn no_such(known: &Discovery, given: &str) -> String {
    let names = known.found.values().filter_map(|f| f.name.as_deref());
    format!(
        "does not exist{}; accepted: NAME, PID or PATH",
        near(given, names)
    )
}

/// `; there are: a, b` - the names that come nearest to the one given, if any.
pub(crate) fn near<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_by_cached_key(|name| (distance(given, name), *name));
    names.dedup();
    let more = names.len().saturating_sub(NEAR);
    names.truncate(NEAR);
    let listed: Vec<String> = names.iter().map(|n| n.escape_debug().to_string()).collect();
    match (listed.is_empty(), more) {
        (true, _) => String::new(),
        (_, 0) => format!("; there are: {}", listed.join(", ")),
        _ => format!("; there are: {} and {more} more", listed.join(", ")),
    }
}

/// How far two names are apart, roughly: containing beats sharing a beginning.
fn distance(given: &str, name: &str) -> usize {
    if name.contains(given) {
        return 0;
    }
    let shared = given.chars().zip(name.chars()).take_while(|(a, b)| a == b);
    usize::MAX - shared.count()
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn near_names_are_few_and_the_nearest_first() {
        let names = ["zeta", "web-7d9f", "wet", "a", "b", "c", "d"];
        assert_eq!(
            near("web", names.into_iter()),
            "; there are: web-7d9f, wet, a, b, c and 2 more"
        );
        assert_eq!(near("x", std::iter::empty()), "");
        assert_eq!(
            near("x", ["\u{1b}[2J"].into_iter()),
            "; there are: \\u{1b}[2J"
        );
    }
}
