//! Deaths by someone's decision: netfilter, conntrack, programs.

use super::{Explanation, Scene};
use crate::attribute::original;
use crate::event::{Conntrack, Dir, Tcp};
use crate::journey::Direction;
use crate::report::Code;
use serde_json::json;
use std::net::IpAddr;

pub(super) fn netfilter(scene: &Scene<'_>) -> Explanation {
    loopback(scene)
        .or_else(|| full(scene))
        .or_else(|| unconfirmed(scene))
        .unwrap_or_else(|| policy(scene))
}

/// Translated in OUTPUT from a loopback address to one elsewhere: it is routed anew, and a loopback
/// source is not.
fn loopback(scene: &Scene<'_>) -> Option<Explanation> {
    let t = scene.tuple();
    let translated = scene
        .loss
        .first
        .conntrack
        .is_some_and(|ct| ct.orig.dst.is_loopback() && !t.dst.is_loopback());
    (scene.loss.first.local && t.src.is_loopback() && translated).then(|| {
        Explanation::new(format!(
            "it was translated to {} while its source is {}, and {} does not send a loopback \
             source anywhere (route_localnet is off)",
            t.destination(),
            t.src,
            scene.space()
        ))
        .fix(
            "ask an address of the host and not 127.0.0.1, or net.ipv4.conf.DEVICE.route_localnet=1 \
             for the device it would leave by, and masquerade it",
        )
        .code(Code::MartianSource)
    })
}

/// A rule or a chain's policy.
fn policy(scene: &Scene<'_>) -> Explanation {
    let space = scene.space();
    let (whose, stage) = (dropper(scene), stage(scene));
    let mut text = format!("{whose} of {space} dropped it {stage}");
    if let Some(note) = seen_as(scene) {
        text.push_str(&note);
    }
    if is_invalid(scene) {
        text.push_str("; conntrack knew no connection that it belongs to (INVALID)");
    }
    let mut explained = Explanation::new(text)
        .fix(format!(
            "`nft list ruleset` and `iptables-legacy-save -c` in {space}: a DROP rule with counts, \
             or a policy of DROP"
        ))
        .data(json!({"source": scene.tuple().src, "invalid": is_invalid(scene)}))
        .code(Code::PolicyDrop);
    explained.for_ipvs = scene.of_ipvs();
    explained.entry_perhaps_refused = has_no_entry_yet(scene) && insert_failed(scene);
    explained
}

/// Its entry is made and not in the table, where it is put when the packet has passed all rules.
fn has_no_entry_yet(scene: &Scene<'_>) -> bool {
    let entry = scene.loss.first.conntrack;
    entry.is_some_and(|ct| ct.status & Conntrack::CONFIRMED == 0)
}

/// Whether conntrack counts entries that could not be put into its table.
fn insert_failed(scene: &Scene<'_>) -> bool {
    let counts = scene.facts.and_then(|f| f.conntrack);
    counts.is_some_and(|c| c.insert_failed > 0)
}

const RULE_OR_POLICY: &str = "a netfilter rule or chain policy";
const OR_ENTRY: &str = "a netfilter rule, a chain policy or (two packets at once that begin the same connection) conntrack";

/// Who may have dropped it. A packet whose entry is not in the table yet, nor translated, dies by the same function
/// where another packet was first to make that entry: only the rules can tell.
fn dropper(scene: &Scene<'_>) -> &'static str {
    match has_no_entry_yet(scene) {
        true => OR_ENTRY,
        false => RULE_OR_POLICY,
    }
}

impl Explanation {
    /// A rule, or the policy of a chain, that is known.
    pub(crate) fn by_rule(&mut self) {
        self.text = self.text.replacen(OR_ENTRY, RULE_OR_POLICY, 1);
    }

    /// Netfilter dropped it, and the rules as they were read would have let it pass.
    pub(crate) fn by_no_rule(&mut self) {
        if let Some(addr) = self.for_ipvs {
            return self.by_ipvs(addr);
        }
        if self.entry_perhaps_refused {
            return self.by_conntrack();
        }
        self.by_rule();
        self.text = self.text.replacen(RULE_OR_POLICY, "netfilter", 1);
        self.text.push_str(
            ", but none of the rules and policies there would, as they are now: what else may drop is \
             a BPF program at its hooks, a program in user space, or the kernel itself",
        );
        self.fix = Some(
            "`nft list hooks` there: what is hooked beside the chains; `conntrack -S`: drop and \
             insert_failed"
                .into(),
        );
    }

    /// IPVS refuses what it has no server for (net/netfilter/ipvs/ip_vs_core.c, `ip_vs_leave`).
    fn by_ipvs(&mut self, addr: IpAddr) {
        self.by_rule();
        self.text = self.text.replacen(RULE_OR_POLICY, "netfilter", 1);
        self.text.push_str(&format!(
            ", and none of the rules and policies there would, as they are now: {addr} is an address of IPVS, which refuses what \
             it has no server for"
        ));
        self.fix = Some(format!(
            "`ipvsadm -Ln` there: has {addr} a server on that port? If not: the Service's endpoints (`kubectl get endpointslices`)"
        ));
        self.data["ipvs"] = json!(addr);
    }

    /// What is left where no rule would drop it: conntrack could not take its entry.
    fn by_conntrack(&mut self) {
        self.text = self.text.replacen(OR_ENTRY, "netfilter", 1);
        self.text.push_str(
            ", and none of the rules and policies there would, as they are now: most likely its conntrack entry \
             could not be made, because another packet began the same connection first (conntrack counts such as \
             insert_failed)",
        );
        self.fix =
            Some("`conntrack -S` there: insert_failed and drop, while it happens again".into());
        self.data = json!({"translated": null, "insert_failed": true});
        self.code = Some(Code::ConntrackFailed);
    }

    /// None of the rules that are walked would have dropped it, and there are rules of bridges.
    pub(crate) fn perhaps_on_a_bridge(&mut self) {
        self.text.push_str(
            ": perhaps one of its bridges' (nft's family bridge, ebtables), which are not followed here; \
             none of the others would",
        );
        self.fix = Some("`nft list ruleset bridge` and `ebtables -L --Lc` there".into());
    }
}

/// By where the packet was, as far as its last sighting and its addresses tell.
fn stage(scene: &Scene<'_>) -> &'static str {
    let out = scene
        .loss
        .after
        .is_some_and(|place| Some(place.netns) == scene.loss.netns && place.dir == Dir::Egress);
    if scene.owns(scene.tuple().dst) {
        "on its way in (PREROUTING or INPUT)"
    } else if scene.loss.first.local || out {
        "on its way out (OUTPUT or POSTROUTING)"
    } else {
        "on its way through (PREROUTING, FORWARD or POSTROUTING)"
    }
}

/// The source that the rule saw, where that is not the one that the origin sent.
fn seen_as(scene: &Scene<'_>) -> Option<String> {
    let (now, sent) = (scene.tuple().src, original(scene.journey).src);
    let changed = scene.loss.direction == Direction::Request && now != sent;
    changed.then(|| format!(", which saw the source as {now} and not as {sent}"))
}

/// Conntrack looked at it and found no entry for it, though it was not excluded.
fn is_invalid(scene: &Scene<'_>) -> bool {
    let drop = &scene.loss.first;
    let opens = drop.print.tcp.is_none_or(Tcp::is_syn);
    let in_use = scene
        .journey
        .conntracks
        .iter()
        .any(|(netns, _)| Some(*netns) == scene.loss.netns)
        || scene
            .facts
            .is_some_and(|f| f.conntrack.is_some_and(|c| c.count > 0));
    drop.conntrack_known && drop.conntrack.is_none() && !drop.untracked && !opens && in_use
}

/// Conntrack's table has no room.
fn full(scene: &Scene<'_>) -> Option<Explanation> {
    let counts = scene.facts?.conntrack?;
    let lacks_entry = scene.loss.first.conntrack.is_none();
    (lacks_entry && counts.max > 0 && counts.count >= counts.max).then(|| {
        Explanation::new(format!(
            "the conntrack table of {} is full ({} of {} entries): new connections are dropped",
            scene.space(),
            counts.count,
            counts.max
        ))
        .fix("raise net.netfilter.nf_conntrack_max, or find what opens so many connections")
        .data(json!({"count": counts.count, "max": counts.max}))
        .code(Code::ConntrackFailed)
    })
}

/// Its source had been translated already, which is the last thing that is done to it, and its entry was not in the table:
/// it died when that was to be put there. A translated destination alone says nothing: rules follow that.
fn unconfirmed(scene: &Scene<'_>) -> Option<Explanation> {
    let ct = scene.loss.first.conntrack?;
    let sent_as = ct.reply.reversed();
    let translated = sent_as == scene.tuple() && ct.orig.source() != sent_as.source();
    if !has_no_entry_yet(scene) || !translated {
        return None;
    }
    let failed = insert_failed(scene);
    let counted = if failed {
        " (conntrack counts such as insert_failed)"
    } else {
        ""
    };
    let to = ct.translated_source();
    Some(
        Explanation::new(format!(
            "it was translated to {to}, and then its conntrack entry could not be made in {}: \
             another connection has those addresses and ports{counted}",
            scene.space()
        ))
        .fix(
            "give the translation more ports or addresses (`--random-fully`, a wider port range), \
             or send fewer equal requests at a time",
        )
        .data(json!({"translated": to.to_string(), "insert_failed": failed}))
        .code(Code::ConntrackFailed),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(entry_perhaps_refused: bool) -> Explanation {
        let mut explained =
            Explanation::new(format!("{OR_ENTRY} of node dropped it on its way out"))
                .code(Code::PolicyDrop);
        explained.entry_perhaps_refused = entry_perhaps_refused;
        explained.by_no_rule();
        explained
    }

    #[test]
    fn what_no_rule_would_drop_may_be_an_entry_that_was_refused() {
        let refused = dropped(true);
        assert_eq!(refused.code, Some(Code::ConntrackFailed));
        assert!(
            refused
                .text
                .starts_with("netfilter of node dropped it on its way out, and none of the rules"),
            "{}",
            refused.text
        );
        let mut ipvs = Explanation::new(format!("{OR_ENTRY} of node dropped it"))
            .data(json!({"invalid": false}))
            .code(Code::PolicyDrop);
        ipvs.for_ipvs = "10.96.0.50".parse().ok();
        ipvs.by_no_rule();
        assert_eq!(ipvs.data, json!({"invalid": false, "ipvs": "10.96.0.50"}));
        assert_eq!(
            ipvs.text,
            "netfilter of node dropped it, and none of the rules and policies there would, as they are now: \
             10.96.0.50 is an address of IPVS, which refuses what it has no server for"
        );
        let other = dropped(false);
        assert_eq!(other.code, Some(Code::PolicyDrop));
        assert!(
            other.text.starts_with("netfilter of node dropped it"),
            "{}",
            other.text
        );
    }
}
