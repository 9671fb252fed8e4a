//! From what a user writes to a namespace: NAME, PID or PATH.

use super::{Discovery, Found, Netns};
use crate::system::{Roots, SystemError};
use std::collections::BTreeSet;
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
pub fn resolve(roots: &Roots, known: &Discovery, given: &str) -> Result<Netns, SystemError> {
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

/// Finds several namespaces, written with commas between.
///
/// # Errors
/// As [`resolve`], for the first that is not found.
pub fn resolve_all(
    roots: &Roots,
    known: &Discovery,
    given: &str,
) -> Result<BTreeSet<NetnsId>, SystemError> {
    given
        .split(',')
        .map(|one| resolve(roots, known, one.trim()).map(|netns| netns.id))
        .collect()
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
pub fn near<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> String {
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
    use super::*;
    use crate::system::netns::discover;
    use crate::system::testing::{Folder, TestNetns};

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

    #[test]
    fn names_paths_pids_and_inodes_lead_to_the_same() {
        let roots = Roots::default();
        let made = TestNetns::new("resolve");
        let id = made.id();
        let known = discover(&roots);
        for given in [
            made.0.clone(),
            format!("/run/netns/{}", made.0),
            format!("/var/run/netns/{}", made.0),
            format!("net:[{}]", id.0),
            id.0.to_string(),
        ] {
            let netns = resolve(&roots, &known, &given).expect(&given);
            assert_eq!(netns.id, id, "{given}");
            netns.open().unwrap();
        }
        let own = Netns::own(&roots).unwrap().id;
        let pid = std::process::id().to_string();
        assert_eq!(resolve(&roots, &known, &pid).unwrap().id, own);
        let both = resolve_all(&roots, &known, &format!("{}, {pid}", made.0)).unwrap();
        assert_eq!(both, BTreeSet::from([id, own]));
    }

    #[test]
    fn what_is_no_namespace_is_told_in_one_line() {
        let roots = Roots::default();
        let made = TestNetns::new("blue");
        let folder = Folder::new("resolve");
        folder.write("file", "");
        let mut known = discover(&roots);
        known.found.retain(|id, _| *id == made.id());
        let file = folder.path().join("file").display().to_string();
        let cases = [
            ("nowhere", format!("network namespace \"nowhere\" does not exist; there are: {}; accepted: NAME, PID or PATH", made.0)),
            ("", format!("network namespace \"\" does not exist; there are: {}; accepted: NAME, PID or PATH", made.0)),
            ("4194303", "network namespace \"4194303\" is neither a name nor a running process".into()),
            ("net:[7]", "network namespace \"net:[7]\" is not here (any more)".into()),
            ("/proc/self/ns/mnt", "network namespace \"/proc/self/ns/mnt\" is not a network namespace; accepted: NAME, PID or the path of one, such as /run/netns/NAME or /proc/PID/ns/net".into()),
            (file.as_str(), format!("network namespace \"{file}\" is not a network namespace; accepted: NAME, PID or the path of one, such as /run/netns/NAME or /proc/PID/ns/net")),
            ("/nope", "network namespace \"/nope\" cannot be opened: No such file or directory (os error 2)".into()),
        ];
        for (given, expected) in cases {
            let error = resolve(&roots, &known, given).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(error.is_usage(), "{given}");
        }
    }

    #[test]
    fn a_namespace_that_went_away_is_not_taken_for_another() {
        let roots = Roots::default();
        let made = TestNetns::new("gone");
        let netns = resolve(&roots, &discover(&roots), &made.0).unwrap();
        drop(made);
        let error = netns.open().unwrap_err();
        assert!(matches!(error, SystemError::Vanished(_)), "{error}");
    }
}
