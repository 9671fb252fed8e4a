//! The kernel functions by which rules are observed to run.

use std::collections::BTreeSet;
use tracer_core::btf::RuleLayout;

/// A kind of function that a rule calls: those that it may be, by which this kernel is asked for it.
pub(super) struct Target {
    /// The program that is attached to it.
    pub(super) program: &'static str,
    /// In words.
    pub(super) what: &'static str,
    pub(super) functions: &'static [&'static str],
    /// Whether packets of established flows call it too: it is probed on request only, and left
    /// where that costs too much.
    pub(super) passing: bool,
    /// Whether rules can be told from it where this kernel's rule stores are known so well.
    pub(super) is_readable: fn(&RuleLayout) -> bool,
}

/// Every kind.
pub(super) const TARGETS: [Target; 5] = [
    // net/netfilter/xt_MASQUERADE.c, xt_nat.c, xt_NETMAP.c, xt_REDIRECT.c
    Target {
        program: "srctrace_xt_target",
        what: "NAT targets of iptables",
        functions: &[
            "masquerade_tg",
            "masquerade_tg6",
            "xt_snat_target_v0",
            "xt_snat_target_v1",
            "xt_snat_target_v2",
            "xt_dnat_target_v0",
            "xt_dnat_target_v1",
            "xt_dnat_target_v2",
            "netmap_tg4",
            "netmap_tg6",
            "redirect_tg4",
            "redirect_tg6",
        ],
        passing: false,
        is_readable: |layout| layout.finds_legacy() || layout.finds_compat(),
    },
    // net/netfilter/nft_masq.c, nft_nat.c, nft_redir.c: one function for all families, or one each
    Target {
        program: "srctrace_nft_expr",
        what: "NAT expressions of nftables",
        functions: &[
            "nft_masq_eval",
            "nft_masq_ipv4_eval",
            "nft_masq_ipv6_eval",
            "nft_masq_inet_eval",
            "nft_nat_eval",
            "nft_nat_inet_eval",
            "nft_redir_eval",
            "nft_redir_ipv4_eval",
            "nft_redir_ipv6_eval",
            "nft_redir_inet_eval",
        ],
        passing: false,
        is_readable: RuleLayout::finds_nft,
    },
    // net/netfilter/xt_mark.c
    Target {
        program: "srctrace_xt_passed",
        what: "MARK targets of iptables",
        functions: &["mark_tg"],
        passing: true,
        is_readable: |layout| layout.finds_legacy() || layout.finds_compat(),
    },
    // net/netfilter/nft_immediate.c: verdicts but for those of maps, and of policies
    Target {
        program: "srctrace_nft_verdict",
        what: "verdicts of nftables",
        functions: &["nft_immediate_eval"],
        passing: true,
        is_readable: RuleLayout::finds_verdicts,
    },
    // net/netfilter/nft_meta.c
    Target {
        program: "srctrace_nft_meta",
        what: "marks set by nftables",
        functions: &["nft_meta_set_eval"],
        passing: true,
        is_readable: RuleLayout::finds_nft,
    },
];

/// Functions of which it is only asked whether they are there: chains of nftables that translate
/// (net/netfilter/nft_chain_nat.c), and targets of x_tables in its rules (nft_compat.c).
pub const NAT_CHAINS: &str = "nft_nat_do_chain";
/// See [`NAT_CHAINS`].
pub const XT_IN_NFT: &str = "nft_target_eval_xt";

/// What is known of this kernel's rule stores at a moment.
#[derive(Debug)]
pub struct RuleStores {
    /// Where they keep things.
    pub layout: RuleLayout,
    /// Those of [`target_functions`] that are there, or why they cannot be told.
    pub functions: Result<BTreeSet<&'static str>, String>,
    /// Why the built-in layout is not used, where the kernel does not describe its own.
    pub refused: Option<String>,
}

/// The functions that are asked for: those that are probed, where the kernel has them, and those by
/// which it is known what it has.
#[must_use]
pub fn target_functions() -> BTreeSet<&'static str> {
    let all = TARGETS.iter().flat_map(|target| target.functions);
    all.copied().chain([NAT_CHAINS, XT_IN_NFT]).collect()
}
