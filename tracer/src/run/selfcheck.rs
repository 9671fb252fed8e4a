//! The built-in layout of nftables is used only where it finds a rule that is known.

use crate::kernel::{
    Filter, KernelTypes, NAT_CHAINS, Programs, Reader, RuleStores, Sizes, XT_IN_NFT,
};
use crate::system::scratch::{self, Way};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use tracer_core::btf::RuleLayout;
use tracer_core::observed::{self, RulePlace};

type Functions = BTreeSet<&'static str>;

/// Has each way of translating that this kernel has at hand find a known rule.
///
/// # Errors
/// Why the layout must not be used, in words.
pub(super) fn check(
    types: &KernelTypes,
    candidate: RuleLayout,
    functions: &Functions,
) -> Result<(), String> {
    let ways = ways(functions);
    if ways.is_empty() {
        return Err("there is no NAT of nftables yet that it could be checked with".to_owned());
    }
    ways.into_iter()
        .try_for_each(|way| finds(types, candidate, functions, way))
}

/// Ways that need no module which is not there: one of nftables' own, and x_tables'.
fn ways(functions: &Functions) -> Vec<Way> {
    let has = |all: &[&str]| all.iter().all(|f| functions.contains(f));
    if !has(&[NAT_CHAINS]) {
        return Vec::new();
    }
    let own = [
        ("nft_masq_ipv4_eval", Way::Masquerade),
        ("nft_masq_eval", Way::Masquerade),
        ("nft_nat_eval", Way::Snat),
        ("nft_redir_ipv4_eval", Way::Redirect),
        ("nft_redir_eval", Way::Redirect),
    ];
    let own = own.into_iter().find(|(function, _)| has(&[function]));
    let target = has(&[XT_IN_NFT, "masquerade_tg"]).then_some(Way::Target);
    own.map(|(_, way)| way).into_iter().chain(target).collect()
}

fn finds(
    types: &KernelTypes,
    candidate: RuleLayout,
    functions: &Functions,
    way: Way,
) -> Result<(), String> {
    let stores = RuleStores {
        layout: candidate,
        functions: Ok(functions.clone()),
        refused: None,
    };
    let places = scratch::with_rule(way, |inode, send| {
        let filter = Filter {
            dests: vec![(IpNet::from(IpAddr::from(scratch::DESTINATION)), Vec::new())],
            scope: Some(vec![inode]),
            ..Filter::default()
        };
        let bare = Programs::bare(&filter, Reader::Memory(types), Sizes::GLANCE);
        let (mut programs, mut ring) = bare.map_err(|e| e.to_string())?;
        programs.observe_rules(&stores, false);
        if let Some((what, why, _)) = programs.attached().unavailable.first() {
            return Err(format!("{what}: {why}"));
        }
        send().map_err(|e| format!("no packet could be sent to check it: {e}"))?;
        let mut places = Vec::new();
        ring.drain(MOST, |record| {
            places.extend(observed::decode(record).map(|hit| hit.place));
        });
        Ok(places)
    });
    let places = places.map_err(|e| e.to_string()).flatten()?;
    judge(&places, &scratch::place(way))
}

/// One packet makes one hit, or one for each of two functions.
const MOST: usize = 16;

fn judge(places: &[RulePlace], known: &RulePlace) -> Result<(), String> {
    if places.is_empty() {
        return Err(format!("{known} ran unseen"));
    }
    match places.iter().find(|place| *place != known) {
        None => Ok(()),
        Some(other) => Err(format!("{known} was taken for {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_believed_if_it_finds_that_rule_and_no_other() {
        let known = scratch::place(Way::Masquerade);
        assert_eq!(judge(std::slice::from_ref(&known), &known), Ok(()));
        assert_eq!(judge(&[known.clone(), known.clone()], &known), Ok(()));
        let not_found =
            "nft ip srctrace-check/known handle 3 (rule 2) was taken for a rule that was not found";
        let wrong = [known.clone(), RulePlace::NotFound];
        assert_eq!(judge(&wrong, &known), Err(not_found.to_owned()));
        assert!(judge(&[], &known).is_err());
        let other = scratch::place(Way::Target);
        assert!(judge(&[other], &known).is_err());
    }

    #[test]
    fn only_what_is_loaded_is_used() {
        let ways = |f: &[&'static str]| ways(&f.iter().copied().collect());
        assert_eq!(ways(&["nft_masq_eval"]), []);
        assert_eq!(ways(&[NAT_CHAINS, "masquerade_tg"]), []);
        assert_eq!(ways(&[NAT_CHAINS, "nft_nat_eval"]), [Way::Snat]);
        let both = [NAT_CHAINS, XT_IN_NFT, "masquerade_tg", "nft_masq_ipv4_eval"];
        assert_eq!(ways(&both), [Way::Masquerade, Way::Target]);
    }
}
