//! Who decides about the source where Cilium's programs are on the way: netfilter, where Cilium masquerades by it; else its
//! programs, of whose list of exempt destinations the pinned maps tell.
//!
//! Cilium masquerades by iptables or by its programs, never by both (pkg/datapath/iptables: with `enable-bpf-masquerade` the
//! rules are not installed), and sends pods' packets past netfilter only with the latter ("eBPF host routing").

use super::{Ground, Sender};
use crate::attribute::view;
use crate::evaluate::At;
use crate::report::{OriginKind, Rule, RuleEvidence};
use crate::ruleset::{Action, Backend, Chain, Family, NatKind, Rule as Installed, Step};
use crate::verdict::rules;
use ipnet::IpNet;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Beginnings of the comments on the rules by which Cilium masquerades what leaves the cluster.
const COMMENTS: [&str; 2] = ["cilium masquerade non-cluster", "cilium snat non-cluster"];
/// The chain that they are in. Its namesake before a restart of the agent (`OLD_CILIUM_POST_nat`) is on its way out.
const CHAIN: &str = "CILIUM_POST";

/// As a finding's data say that rules decide.
pub(super) const BY_RULES: &str = "rules";

/// Who decides.
#[derive(Clone, Debug)]
pub(super) enum Decider {
    /// netfilter's rules: by this one Cilium masquerades.
    Rules(Box<Rule>),
    /// Cilium's programs, and this entry of its list keeps the source.
    List {
        /// The entry.
        entry: IpNet,
        /// Where the list is pinned.
        map: String,
    },
    /// Cilium's programs, and nothing tells what they do.
    Programs,
}

/// Who decides about a packet that goes to that destination, where Cilium's programs are on the way.
pub(super) fn decider(ground: &Ground<'_, '_>, sender: &Sender, dst: Option<IpAddr>) -> Decider {
    let Some(dst) = dst else {
        return Decider::Programs;
    };
    if let Some(at) = masquerades(ground, dst.is_ipv4()) {
        return Decider::Rules(Box::new(view(at, &[], RuleEvidence::Replayed)));
    }
    // The list is asked for what pods send, not for what the node does.
    let maps = ground.pinned.filter(|_| sender.kind == OriginKind::Pod);
    let holding = maps.and_then(|maps| {
        let nets = maps.nets.as_ref().ok()?.iter();
        let holding = nets.filter(|net| net.contains(&dst));
        holding
            .max_by_key(|net| net.prefix_len())
            .map(|net| (net, maps))
    });
    match holding {
        Some((entry, maps)) => {
            let of_family = |path: &&String| path.ends_with("_v6") == dst.is_ipv6();
            let map = maps.from.iter().find(of_family);
            Decider::List {
                entry: *entry,
                map: map.cloned().unwrap_or_default(),
            }
        }
        None => Decider::Programs,
    }
}

/// The rule by which Cilium masquerades on the node.
fn masquerades<'r>(ground: &Ground<'_, 'r>, v4: bool) -> Option<At<'r>> {
    let rules = ground.rules.get(&ground.inventory.node?)?;
    let family = if v4 { Family::Ip } else { Family::Ip6 };
    let tables = rules.ruleset.tables.iter();
    let mut own = tables
        .filter(|table| table.id.backend != Backend::Nft && table.id.family == family)
        .flat_map(|table| table.chains.iter().map(move |chain| (table, chain)))
        .filter(|(_, chain)| chain.name.starts_with(CHAIN))
        .flat_map(|(table, chain)| {
            let each = chain.rules.iter();
            each.map(move |rule| At { table, chain, rule })
        });
    own.find(|at| is_masquerade(at.chain, at.rule))
}

/// Not those for what goes into the cluster (`cilium host->cluster masquerade`).
fn is_masquerade(chain: &Chain, rule: &Installed) -> bool {
    let nat = rule.steps.iter().find_map(|step| match step {
        Step::Do(Action::Nat(nat)) => Some(nat.kind),
        _ => None,
    });
    let by_comment = |text: &String| COMMENTS.iter().any(|start| text.starts_with(start));
    match nat {
        Some(NatKind::Masquerade) => chain.name.starts_with(CHAIN),
        Some(NatKind::Snat) => rule.comment.as_ref().is_some_and(by_comment),
        _ => false,
    }
}

impl Decider {
    /// What that means, after the name of a program of Cilium's.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Rules(rule) => format!(
                "is Cilium's, which masquerades by iptables on this node ({}): the rules decide about the source; which \
                 backend a Service of Cilium's has is not told by rules",
                rules::name(rule)
            ),
            Self::List { entry, map } => format!(
                "is Cilium's: it may send the packet on and translate it itself; iptables and nftables do not decide here. \
                 {entry} of its list ({map}) keeps a pod's source"
            ),
            Self::Programs => "is Cilium's: it may send the packet on and translate it itself; iptables and nftables do not \
                               decide here"
                .to_owned(),
        }
    }

    /// The same for programs.
    pub(super) fn data(&self) -> Value {
        match self {
            Self::Rules(_) => json!(BY_RULES),
            Self::List { entry, .. } => json!(entry),
            Self::Programs => Value::Null,
        }
    }

    /// The rule that tells that rules decide.
    pub(super) fn rule(&self) -> Option<Rule> {
        match self {
            Self::Rules(rule) => Some(Rule::clone(rule)),
            _ => None,
        }
    }
}
