//! Fills [`RuleOffsets`] from BTF: vmlinux's, or that of the modules that hold the rule stores.

use super::{Btf, BtfError, Field, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use tracer_common::{ABSENT, RuleOffsets};

/// The modules whose structures are read, where they are not part of the kernel itself.
pub const RULE_MODULES: [&str; 3] = ["x_tables", "nf_tables", "nf_nat"];

/// A field: the module that describes it, its structure, its path.
type Place = (&'static str, &'static str, &'static str);

struct Row {
    slot: fn(&mut RuleOffsets) -> &mut u32,
    /// Tried in order.
    places: &'static [Place],
}

macro_rules! rows {
    ($($slot:ident: $($module:literal $ty:literal $path:literal),+;)*) => {
        &[$(Row { slot: |o| &mut o.$slot, places: &[$(($module, $ty, $path)),+] }),*]
    };
}

static ROWS: &[Row] = rows! {
    par_targinfo: "x_tables" "xt_action_param" "targinfo";
    par_state: "x_tables" "xt_action_param" "state";
    state_hook: "" "nf_hook_state" "hook";
    state_pf: "" "nf_hook_state" "pf";
    state_net: "" "nf_hook_state" "net";
    pkt_skb: "nf_tables" "nft_pktinfo" "skb";
    pkt_state: "nf_tables" "nft_pktinfo" "state", "nf_tables" "nft_pktinfo" "xt.state";
    net_hooks4: "" "net" "nf.hooks_ipv4[0]";
    net_hooks6: "" "net" "nf.hooks_ipv6[0]";
    net_nat4: "" "net" "ipv4.nat_table";
    net_nat6: "" "net" "ipv6.ip6table_nat";
    entries_count: "" "nf_hook_entries" "num_hook_entries";
    entries_hooks: "" "nf_hook_entries" "hooks";
    entry_priv: "" "nf_hook_entry" "priv";
    lookup_entries: "nf_nat" "nf_nat_lookup_hook_priv" "entries";
    xt_private: "x_tables" "xt_table" "private";
    xt_name: "x_tables" "xt_table" "name";
    info_size: "x_tables" "xt_table_info" "size";
    info_number: "x_tables" "xt_table_info" "number";
    info_entries: "x_tables" "xt_table_info" "entries";
    chain_table: "nf_tables" "nft_chain" "table";
    chain_name: "nf_tables" "nft_chain" "name";
    chain_list: "nf_tables" "nft_chain" "list";
    chain_blob0: "nf_tables" "nft_chain" "blob_gen_0";
    chain_blob1: "nf_tables" "nft_chain" "blob_gen_1";
    table_chains: "nf_tables" "nft_table" "chains";
    table_name: "nf_tables" "nft_table" "name";
    blob_size: "nf_tables" "nft_rule_blob" "size";
    blob_data: "nf_tables" "nft_rule_blob" "data";
    last_chain: "nf_tables" "nft_rule_dp_last" "chain";
    expr_ops: "nf_tables" "nft_expr" "ops";
    expr_data: "nf_tables" "nft_expr" "data";
    ops_size: "nf_tables" "nft_expr_ops" "size";
    imm_dreg: "nf_tables" "nft_immediate_expr" "dreg";
    imm_code: "nf_tables" "nft_immediate_expr" "data.verdict.code";
    imm_chain: "nf_tables" "nft_immediate_expr" "data.verdict.chain";
};

/// What is found only by hand: bit-fields.
const MORE: [(&str, &str); 2] = [("nf_tables", "nft_rule_dp"), ("nf_tables", "nft_rule")];

/// The kernel's own BTF and that of its modules, with the structures found in them.
struct Sources<'s> {
    vmlinux: &'s Btf<'s>,
    own: BTreeMap<&'static str, TypeId>,
    modules: Vec<(&'s str, &'s Btf<'s>, BTreeMap<&'static str, TypeId>)>,
}

impl<'s> Sources<'s> {
    /// `modules`: those that are loaded and described, by name.
    fn new(vmlinux: &'s Btf<'s>, modules: &'s [(&'s str, Btf<'s>)]) -> Self {
        let places = ROWS.iter().flat_map(|row| row.places);
        let all = places.map(|(module, ty, _)| (*module, *ty)).chain(MORE);
        let all: BTreeSet<(&str, &'static str)> = all.collect();
        let of = |module: &str| {
            all.iter()
                .filter(|(m, _)| *m == module)
                .map(|(_, ty)| *ty)
                .collect()
        };
        let modules = modules
            .iter()
            .map(|(name, btf)| (*name, btf, btf.own_structures(&of(name))))
            .collect();
        Self {
            vmlinux,
            own: vmlinux.own_structures(&all.iter().map(|(_, ty)| *ty).collect()),
            modules,
        }
    }

    /// A field by the module that describes its structure, or by the kernel's own description.
    fn field(&self, (module, ty, path): &Place) -> Result<Field, BtfError> {
        let module = self.modules.iter().find(|(name, _, _)| name == module);
        if let Some((_, btf, found)) = module
            && let Some(id) = found.get(ty)
        {
            return btf.field_of(*id, path);
        }
        let id = self.own.get(ty).ok_or_else(|| BtfError::NoSuchType {
            what: "struct",
            name: (*ty).to_owned(),
        })?;
        self.vmlinux.field_of(*id, path)
    }
}

/// Where this kernel keeps what tells a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLayout {
    /// For the programs.
    pub offsets: RuleOffsets,
}

impl RuleLayout {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        offsets: RuleOffsets::UNKNOWN,
    };

    /// Looks every field up. `modules`: those of [`RULE_MODULES`] that are loaded and described, by
    /// name, each with vmlinux as its base.
    #[must_use]
    pub fn resolve(vmlinux: &Btf<'_>, modules: &[(&str, Btf<'_>)]) -> Self {
        let sources = &Sources::new(vmlinux, modules);
        let mut offsets = RuleOffsets::UNKNOWN;
        for row in ROWS {
            let places = row.places.iter();
            let found = places.filter_map(|place| sources.field(place).ok()?.byte_offset());
            *(row.slot)(&mut offsets) = found.take(1).next().unwrap_or(ABSENT);
        }
        if let Some(ty) = sources.own.get("nf_hook_entry") {
            let size = vmlinux.size(*ty).ok();
            offsets.entry_size = size.and_then(|size| size.try_into().ok()).unwrap_or(ABSENT);
        }
        let _ = family(sources, &mut offsets);
        if rule(sources, &mut offsets, "nft_rule_dp").is_err() {
            offsets.chain_rules = listed(sources, &mut offsets).unwrap_or(ABSENT);
        }
        if offsets.par_targinfo == ABSENT {
            (offsets.par_targinfo, offsets.par_state) = PARAMETERS;
        }
        Self { offsets }
    }

    /// Whether a packet's namespace is found, which every search needs.
    fn finds_packet(&self) -> bool {
        let o = &self.offsets;
        known(&[o.state_hook, o.state_pf, o.state_net])
    }

    /// Whether its NAT hooks are found.
    fn finds_hooks(&self) -> bool {
        let o = &self.offsets;
        let hooks = known(&[o.net_hooks4, o.net_hooks6, o.lookup_entries]);
        hooks && known(&[o.entries_count, o.entries_hooks, o.entry_size, o.entry_priv])
    }

    /// Whether targets of iptables-legacy can be found.
    #[must_use]
    pub fn finds_legacy(&self) -> bool {
        let o = &self.offsets;
        let tables = self.finds_hooks() || known(&[o.net_nat4]);
        self.finds_targets()
            && tables
            && known(&[
                o.xt_private,
                o.xt_name,
                o.info_size,
                o.info_number,
                o.info_entries,
            ])
    }

    /// Whether x_tables targets tell what they were called with.
    fn finds_targets(&self) -> bool {
        self.finds_packet() && known(&[self.offsets.par_targinfo, self.offsets.par_state])
    }

    /// Whether x_tables targets in nftables rules can be found.
    #[must_use]
    pub fn finds_compat(&self) -> bool {
        self.finds_targets() && self.finds_hooks() && self.finds_rules()
    }

    /// Whether nftables expressions can be found.
    #[must_use]
    pub fn finds_nft(&self) -> bool {
        let o = &self.offsets;
        let packet = self.finds_packet() && known(&[o.pkt_skb, o.pkt_state]);
        packet && self.finds_hooks() && self.finds_rules()
    }

    /// Whether the verdicts of nftables' rules can be read too.
    #[must_use]
    pub fn finds_verdicts(&self) -> bool {
        let o = &self.offsets;
        self.finds_nft() && known(&[o.imm_dreg, o.imm_code, o.imm_chain])
    }

    fn finds_rules(&self) -> bool {
        let o = &self.offsets;
        let blobs = known(&[o.chain_blob0, o.chain_blob1, o.blob_size, o.blob_data]);
        let chains = known(&[
            o.chain_table,
            o.chain_name,
            o.chain_list,
            o.table_chains,
            o.table_name,
        ]);
        let rules = known(&[o.rule_word, o.rule_dlen_bit, o.rule_handle_bit, o.rule_data]);
        chains && rules && o.expr_data != ABSENT && (blobs || o.chain_rules != ABSENT)
    }
}

fn known(offsets: &[u32]) -> bool {
    !offsets.contains(&ABSENT)
}

/// `xt_action_param.targinfo` and `.state`, the same since 4.10.
const PARAMETERS: (u32, u32) = (8, 16);

/// `nft_table.family` is a bit-field of six bits, which begins a byte.
fn family(sources: &Sources<'_>, offsets: &mut RuleOffsets) -> Result<(), BtfError> {
    let field = sources.field(&("nf_tables", "nft_table", "family"))?;
    if field.bits == 6 && field.bit_offset.is_multiple_of(8) {
        offsets.table_family = field.bit_offset / 8;
    }
    Ok(())
}

/// The header of a rule: one word with length and handle, and what follows it.
fn rule(
    sources: &Sources<'_>,
    offsets: &mut RuleOffsets,
    ty: &'static str,
) -> Result<(), BtfError> {
    let field = |path| sources.field(&("nf_tables", ty, path));
    let (dlen, handle, data) = (field("dlen")?, field("handle")?, field("data")?);
    let word = handle.bit_offset / 64 * 64;
    if (dlen.bits, handle.bits) == (12, 42) && dlen.bit_offset / 64 * 64 == word {
        offsets.rule_word = word / 8;
        offsets.rule_dlen_bit = dlen.bit_offset - word;
        offsets.rule_handle_bit = handle.bit_offset - word;
        offsets.rule_data = data.byte_offset().unwrap_or(ABSENT);
    }
    Ok(())
}

/// Kernels without blocks keep a chain's rules in a list, whose node is a rule's first member.
fn listed(sources: &Sources<'_>, offsets: &mut RuleOffsets) -> Option<u32> {
    rule(sources, offsets, "nft_rule").ok()?;
    let node = sources.field(&("nf_tables", "nft_rule", "list")).ok()?;
    let list = sources.field(&("nf_tables", "nft_chain", "rules")).ok()?;
    (node.bit_offset == 0).then(|| list.byte_offset())?
}
