//! Where nftables lies in memory on kernels that do not describe their modules: before 5.11, or built
//! without `CONFIG_DEBUG_INFO_BTF_MODULES`.
//!
//! From 5.10's include/net/netfilter/nf_tables.h and nf_nat_core.c, for 64-bit little-endian machines.
//! Nobody vouches for it: it is used only after a rule that is known was found by it.
//!
//! ```text
//! nft_chain   0 rules_gen_0, rules_gen_1   16 rules   32 list   48 rhlhead   64 table   72 handle
//!             80 use   84 flags, bound, genmask   88 name
//! nft_table   0 list   16 chains_ht (rhltable, which vmlinux describes), and from its end on:
//!             0 chains   16 sets   32 objects   48 flowtables   64 hgenerator   72 handle   80 use
//!             84 family:6 flags:8 genmask:2   88 name
//! nft_rule    0 list   16 handle:42 genmask:2 dlen:12 udata:1   24 data
//! nft_expr    0 ops   8 data
//! nft_pktinfo 0 skb   8 tprot_set, tprot   16 xt (xt_action_param)
//! nft_immediate_expr       0 data (nft_verdict: 0 code, 8 chain)   16 dreg   17 dlen
//! nf_nat_lookup_hook_priv  0 entries
//! ```

use super::{Btf, RuleLayout};
use std::collections::BTreeSet;
use tracer_common::ABSENT;

const CHAINS_HT: u32 = 16;
const RULE_WORD: u32 = 16;
const GENMASK_BITS: u32 = 2;
const HANDLE_BITS: u32 = 42;
const XT: u32 = 16;

impl RuleLayout {
    /// With the built-in layout of nftables, where the kernel describes nothing of it; `None` where
    /// it does, or where not even that can be put together.
    #[must_use]
    pub fn with_built_in(&self, vmlinux: &Btf<'_>) -> Option<Self> {
        let mut offsets = self.offsets;
        let o = &mut offsets;
        if o.chain_table != ABSENT || o.rule_word != ABSENT || o.par_state == ABSENT {
            return None;
        }
        let tables = vmlinux.own_structures(&BTreeSet::from(["rhltable"]));
        let size = vmlinux.size(*tables.get("rhltable")?).ok()?;
        let chains = CHAINS_HT.checked_add(u32::try_from(size).ok()?)?;
        (o.pkt_skb, o.pkt_state) = (0, XT + o.par_state);
        o.lookup_entries = 0;
        (o.chain_rules, o.chain_list, o.chain_table, o.chain_name) = (16, 32, 64, 88);
        o.table_chains = chains;
        (o.table_family, o.table_name) = (chains.checked_add(84)?, chains.checked_add(88)?);
        (o.rule_word, o.rule_data) = (RULE_WORD, RULE_WORD + 8);
        (o.rule_handle_bit, o.rule_dlen_bit) = (0, HANDLE_BITS + GENMASK_BITS);
        (o.expr_ops, o.expr_data) = (0, 8);
        (o.imm_code, o.imm_chain, o.imm_dreg) = (0, 8, 16);
        Some(Self { offsets })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Writer;
    use super::*;
    use tracer_common::RuleOffsets;

    #[test]
    fn it_is_for_kernels_that_describe_nothing() {
        let mut writer = Writer::new();
        writer.aggregate(4, "rhltable", 136, &[]);
        let bytes = writer.bytes();
        let btf = Btf::parse(&bytes).unwrap();
        let bare = RuleLayout {
            offsets: RuleOffsets {
                par_state: 16,
                ..RuleOffsets::UNKNOWN
            },
        };
        let o = bare.with_built_in(&btf).unwrap().offsets;
        assert_eq!(
            (o.table_chains, o.table_family, o.table_name),
            (152, 236, 240)
        );
        assert_eq!((o.pkt_state, o.rule_dlen_bit), (32, 44));
        assert_eq!(o.last_chain, ABSENT, "a list has no last header");
        let described = RuleLayout {
            offsets: RuleOffsets {
                chain_table: 64,
                ..bare.offsets
            },
        };
        assert_eq!(described.with_built_in(&btf), None);
        let empty = Writer::new().bytes();
        let btf = Btf::parse(&empty).unwrap();
        assert_eq!(
            bare.with_built_in(&btf),
            None,
            "the table's size is not known"
        );
    }
}
