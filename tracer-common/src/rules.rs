//! Which rule ran: what the probes on rules tell, and what they must know of the kernel.

use crate::{ABSENT, RawConntrack};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Values of [`RawRuleHit::store`]: where the target that ran was found.
pub mod rule_store {
    /// Nowhere: the walk ended without finding it.
    pub const NONE: u8 = 0;
    /// In the blob of an x_tables table (`iptables-legacy`).
    pub const LEGACY: u8 = 1;
    /// In an nftables rule.
    pub const NFT: u8 = 2;
}

/// Values of [`RawRuleHit::target`]: what kind of target ran.
pub mod rule_target {
    /// An x_tables target, called by x_tables or by nftables' compatibility expression.
    pub const XT: u8 = 1;
    /// An nftables expression.
    pub const EXPR: u8 = 2;
}

/// A target or a verdict of a rule ran for a packet of a flow that is ours. Kind [`event_kind::RULE_HIT`].
///
/// [`event_kind::RULE_HIT`]: crate::event_kind::RULE_HIT
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RawRuleHit {
    /// [`event_kind::RULE_HIT`](crate::event_kind::RULE_HIT).
    pub kind: u8,
    /// One of [`rule_store`].
    pub store: u8,
    /// One of [`rule_target`].
    pub target: u8,
    /// `nf_hook_state.hook`, `enum nf_inet_hooks`.
    pub hook: u8,
    /// `nf_hook_state.pf`: 2 for IPv4, 10 for IPv6.
    pub pf: u8,
    /// `nft_table.family` (`NFPROTO_*`), of [`rule_store::NFT`].
    pub family: u8,
    /// 1: [`verdict`](Self::verdict) is what the rule said; 0: a target ran, which says nothing.
    pub said: u8,
    /// Zero.
    pub pad: u8,
    /// Inode number of the network namespace in which it ran.
    pub netns: u32,
    /// Number of the rule in its chain as the kernel has it in force, from 1, of
    /// [`rule_store::NFT`].
    pub index: u32,
    /// `bpf_ktime_get_ns`, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// Address of the `struct sk_buff`.
    pub skb: u64,
    /// Handle of the rule, of [`rule_store::NFT`].
    pub handle: u64,
    /// Offset of the target's data from the table's first entry, bytes, of
    /// [`rule_store::LEGACY`].
    pub offset: u32,
    /// `xt_table_info.size` when it ran, bytes, of [`rule_store::LEGACY`].
    pub size: u32,
    /// `xt_table_info.number` when it ran, of [`rule_store::LEGACY`].
    pub number: u32,
    /// Steps that the search took.
    pub steps: u32,
    /// `nft_verdict.code` (`NF_*` or `NFT_*`), where the rule said one.
    pub verdict: i32,
    /// Zero.
    pub pad2: u32,
    /// The packet's conntrack entry before this target translated it.
    pub conntrack: RawConntrack,
    /// Name of the table, NUL-padded.
    pub table: [u8; 32],
    /// Name of the chain, NUL-padded, cut where it is longer, of [`rule_store::NFT`].
    pub chain: [u8; 64],
    /// Name of the chain that the verdict leads to, likewise; empty where it leads to none.
    pub to: [u8; 64],
}

const _: () = assert!(size_of::<RawRuleHit>() == 320);

macro_rules! rule_offsets {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// Where the running kernel keeps what the probes on rules read. Byte offsets unless
        /// said otherwise; each is [`ABSENT`] where the kernel has no such field.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        pub struct RuleOffsets {
            $($(#[$doc])* pub $field: u32,)*
        }

        impl RuleOffsets {
            /// Every field absent.
            pub const UNKNOWN: Self = Self { $($field: ABSENT,)* };
        }
    };
}

rule_offsets! {
    /// `xt_action_param.targinfo`
    par_targinfo,
    /// `xt_action_param.state`
    par_state,
    /// `nf_hook_state.hook`, one byte
    state_hook,
    /// `nf_hook_state.pf`, one byte
    state_pf,
    /// `nf_hook_state.net`
    state_net,
    /// `nft_pktinfo.skb`
    pkt_skb,
    /// `nft_pktinfo.state` (`.xt.state` in older kernels)
    pkt_state,
    /// `net.nf.hooks_ipv4`
    net_hooks4,
    /// `net.nf.hooks_ipv6`
    net_hooks6,
    /// `net.ipv4.nat_table` (before 5.13)
    net_nat4,
    /// `net.ipv6.ip6table_nat` (before 5.13)
    net_nat6,
    /// `nf_hook_entries.num_hook_entries`, two bytes
    entries_count,
    /// `nf_hook_entries.hooks`
    entries_hooks,
    /// `sizeof(struct nf_hook_entry)`
    entry_size,
    /// `nf_hook_entry.priv`
    entry_priv,
    /// `nf_nat_lookup_hook_priv.entries`
    lookup_entries,
    /// `xt_table.private`
    xt_private,
    /// `xt_table.name`
    xt_name,
    /// `xt_table_info.size`
    info_size,
    /// `xt_table_info.number`
    info_number,
    /// `xt_table_info.entries`
    info_entries,
    /// `nft_chain.table`
    chain_table,
    /// `nft_chain.name`
    chain_name,
    /// `nft_chain.list`
    chain_list,
    /// `nft_chain.blob_gen_0` (5.17 and later)
    chain_blob0,
    /// `nft_chain.blob_gen_1`
    chain_blob1,
    /// `nft_chain.rules`: the list of rules, for kernels without blobs
    chain_rules,
    /// `nft_table.chains`
    table_chains,
    /// `nft_table.name`
    table_name,
    /// The byte whose low six bits are `nft_table.family`
    table_family,
    /// `nft_rule_blob.size`
    blob_size,
    /// `nft_rule_blob.data`
    blob_data,
    /// The word of a rule that holds its length and handle: in `nft_rule_dp`, or in `nft_rule`
    rule_word,
    /// First bit of the length in it (12 bits)
    rule_dlen_bit,
    /// First bit of the handle in it (42 bits)
    rule_handle_bit,
    /// Where a rule's expressions begin
    rule_data,
    /// `nft_rule_dp_last.chain` (6.4 and later)
    last_chain,
    /// `nft_expr.ops`
    expr_ops,
    /// `nft_expr_ops.size`
    ops_size,
    /// `nft_expr.data`
    expr_data,
    /// `nft_immediate_expr.dreg`, one byte; 0 stands for the verdict
    imm_dreg,
    /// `nft_immediate_expr.data.verdict.code`
    imm_code,
    /// `nft_immediate_expr.data.verdict.chain`
    imm_chain,
}

const _: () = assert!(size_of::<RuleOffsets>() == 43 * 4);
