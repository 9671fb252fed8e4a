//! Records of the probes on rules.

use super::{RuleHit, RulePlace};
use crate::event::{DecodeError, NetnsId, read_conntrack};
use crate::ruleset::{Family, Hook, Verdict};
use tracer_common::{RawRuleHit, event_kind, rule_store, rule_target};
use zerocopy::FromBytes;

/// Reads one record of kind [`event_kind::RULE_HIT`].
///
/// # Errors
/// When it has another kind or size, or names a hook, family or store that this build does not
/// know.
pub fn decode(bytes: &[u8]) -> Result<RuleHit, DecodeError> {
    let raw = RawRuleHit::read_from_bytes(bytes).map_err(|_| DecodeError::Size(bytes.len()))?;
    if raw.kind != event_kind::RULE_HIT {
        return Err(unknown("kind", raw.kind));
    }
    let entry = read_conntrack(&raw.conntrack);
    let entry = entry.ok_or(unknown("family", raw.conntrack.orig.family))?;
    Ok(RuleHit {
        time_ns: raw.time_ns,
        skb: Some(raw.skb),
        netns: NetnsId(raw.netns),
        hook: Some(hook(raw.hook).ok_or(unknown("hook", raw.hook))?),
        tuple: entry.orig,
        conntrack: Some(entry),
        place: place(&raw)?,
        verdict: (raw.said != 0).then(|| verdict(&raw)).flatten(),
        path: Vec::new(),
        mark: None,
        ct_id: None,
    })
}

/// What the rule said; `None` for codes that this build does not know.
fn verdict(raw: &RawRuleHit) -> Option<Verdict> {
    verdict_of(raw.verdict, || text(&raw.to).0)
}

/// `NF_*` (uapi linux/netfilter.h) and `enum nft_verdicts` (linux/netfilter/nf_tables.h), with the
/// chain that some of them lead to.
pub(super) fn verdict_of(code: i32, chain: impl FnOnce() -> String) -> Option<Verdict> {
    Some(match code {
        0 => Verdict::Drop,
        1 => Verdict::Accept,
        -1 => Verdict::Continue,
        -3 => Verdict::Jump(chain()),
        -4 => Verdict::Goto(chain()),
        -5 => Verdict::Return,
        code if code & 0xff == 3 => Verdict::Queue,
        _ => return None,
    })
}

fn unknown(field: &'static str, value: u8) -> DecodeError {
    DecodeError::Unknown { field, value }
}

fn place(raw: &RawRuleHit) -> Result<RulePlace, DecodeError> {
    let (table, _) = text(&raw.table);
    Ok(match raw.store {
        rule_store::NONE => RulePlace::NotFound,
        rule_store::LEGACY => RulePlace::LegacyOffset {
            family: family(raw.pf).ok_or(unknown("family", raw.pf))?,
            table,
            offset: raw.offset,
            size: raw.size,
            number: raw.number,
        },
        rule_store::NFT => {
            let (chain, chain_cut) = text(&raw.chain);
            RulePlace::Nft {
                family: family(raw.family).ok_or(unknown("family", raw.family))?,
                table,
                chain,
                chain_cut,
                handle: raw.handle,
                index: Some(raw.index),
                xt: raw.target == rule_target::XT,
            }
        }
        other => return Err(unknown("store", other)),
    })
}

/// `enum nf_inet_hooks` (uapi linux/netfilter.h).
pub(super) fn hook(number: u8) -> Option<Hook> {
    Some(match number {
        0 => Hook::Prerouting,
        1 => Hook::Input,
        2 => Hook::Forward,
        3 => Hook::Output,
        4 => Hook::Postrouting,
        _ => return None,
    })
}

/// `NFPROTO_*` (uapi linux/netfilter.h).
pub(super) fn family(number: u8) -> Option<Family> {
    Some(match number {
        1 => Family::Inet,
        2 => Family::Ip,
        3 => Family::Arp,
        5 => Family::Netdev,
        7 => Family::Bridge,
        10 => Family::Ip6,
        _ => return None,
    })
}

/// A NUL-padded name, and whether it fills its place, so that it may have been cut.
fn text(bytes: &[u8]) -> (String, bool) {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let name = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    (name, end + 1 >= bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zerocopy::{FromZeros, IntoBytes};

    fn hit() -> RawRuleHit {
        let mut raw = RawRuleHit::new_zeroed();
        raw.kind = event_kind::RULE_HIT;
        raw.hook = 4;
        raw.pf = 2;
        raw.netns = 7;
        raw.conntrack.orig.family = 4;
        raw.conntrack.reply.family = 4;
        raw.table[..3].copy_from_slice(b"nat");
        raw
    }

    #[test]
    fn each_store_has_its_own_kind_of_place() {
        let mut raw = hit();
        assert_eq!(decode(raw.as_bytes()).unwrap().place, RulePlace::NotFound);
        raw.store = rule_store::LEGACY;
        (raw.offset, raw.size, raw.number) = (3520, 4000, 9);
        let legacy = decode(raw.as_bytes()).unwrap();
        assert_eq!(
            (legacy.netns, legacy.hook),
            (NetnsId(7), Some(Hook::Postrouting))
        );
        assert_eq!(
            legacy.place.to_string(),
            "iptables-legacy ip nat offset 3520 of 4000 (9 entries)"
        );
        raw.store = rule_store::NFT;
        (raw.family, raw.handle, raw.index) = (1, 12, 3);
        raw.chain = [b'c'; 64];
        raw.chain[63] = 0;
        let nft = decode(raw.as_bytes()).unwrap().place.to_string();
        let chain = "c".repeat(63);
        assert_eq!(nft, format!("nft inet nat/{chain}… handle 12 (rule 3)"));
        raw.target = rule_target::XT;
        raw.chain[4] = 0;
        let xt = decode(raw.as_bytes()).unwrap().place.to_string();
        assert_eq!(xt, "iptables-nft inet nat/cccc handle 12 (rule 3)");
    }

    #[test]
    fn what_a_rule_said_is_told_where_it_said_something() {
        let mut raw = hit();
        assert_eq!(decode(raw.as_bytes()).unwrap().verdict, None);
        raw.said = 1;
        raw.to[..3].copy_from_slice(b"out");
        let said = |code| {
            let raw = RawRuleHit {
                verdict: code,
                ..raw
            };
            decode(raw.as_bytes()).unwrap().verdict
        };
        assert_eq!(said(0), Some(Verdict::Drop));
        assert_eq!(said(1), Some(Verdict::Accept));
        assert_eq!(said(-3), Some(Verdict::Jump("out".into())));
        assert_eq!(said(-4), Some(Verdict::Goto("out".into())));
        assert_eq!(said(-5), Some(Verdict::Return));
        assert_eq!(said(2), None);
    }

    #[test]
    fn what_this_build_does_not_know_is_refused_and_named() {
        let refused = |change: fn(&mut RawRuleHit)| {
            let mut raw = hit();
            raw.store = rule_store::NFT;
            raw.family = 2;
            change(&mut raw);
            decode(raw.as_bytes()).unwrap_err()
        };
        assert_eq!(refused(|raw| raw.kind = 1), unknown("kind", 1));
        assert_eq!(refused(|raw| raw.hook = 5), unknown("hook", 5));
        assert_eq!(refused(|raw| raw.family = 9), unknown("family", 9));
        assert_eq!(refused(|raw| raw.store = 9), unknown("store", 9));
        assert_eq!(decode(&[3; 9]), Err(DecodeError::Size(9)));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_hit_or_an_error(bytes in proptest::collection::vec(any::<u8>(), size_of::<RawRuleHit>())) {
            let mut raw = RawRuleHit::read_from_bytes(&bytes).unwrap();
            let _ = decode(raw.as_bytes());
            (raw.kind, raw.hook, raw.pf, raw.family, raw.store) = (event_kind::RULE_HIT, raw.hook % 5, 2, 10, raw.store % 3);
            (raw.conntrack.orig.family, raw.conntrack.reply.family) = (4, 6);
            prop_assert!(decode(raw.as_bytes()).is_ok());
        }
    }
}
