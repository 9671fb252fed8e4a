//! Where the running kernel keeps what the programs read, and what its drop reasons are called.

use super::btf::{BtfFile, ReadError};
use super::drops;
use std::collections::BTreeMap;
use tracer_common::Offsets;
use tracer_core::btf::{Absent, Btf, Layout, MissingField, RULE_MODULES, RuleLayout};
use tracer_core::report::Unavailable;

/// What the running kernel's BTF told; the BTF itself is dropped.
#[derive(Debug)]
pub struct KernelTypes {
    /// For the programs.
    pub offsets: Offsets,
    /// For the probes on rules.
    pub rules: RuleLayout,
    /// The same with nftables as it is known to have been, where the kernel does not describe it: to
    /// be checked before it is used.
    pub unchecked_rules: Option<RuleLayout>,
    /// What they cannot read here, for the report.
    pub unavailable: Vec<Unavailable>,
    /// Name of each drop reason, without `SKB_DROP_REASON_`. Empty before 5.17, which has none.
    pub drop_reasons: BTreeMap<u32, String>,
    /// How many arguments tracepoint `kfree_skb` has, its own data included.
    pub drop_arguments: Option<usize>,
}

/// Why the programs cannot run on this kernel: exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum OffsetsError {
    /// No BTF to read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A field that the programs cannot do without.
    #[error(transparent)]
    Missing(#[from] MissingField),
}

/// Reads vmlinux's BTF and, where that does not describe conntrack, the module's.
///
/// # Errors
/// If there is no BTF or a field that is needed is not in it.
pub fn read() -> Result<KernelTypes, OffsetsError> {
    let vmlinux = BtfFile::vmlinux()?;
    let vmlinux = vmlinux.parse()?;
    let mut layout = Layout::resolve(&[&vmlinux])?;
    if layout.lacks_conntrack()
        && let Some(module) = BtfFile::module("nf_conntrack")?
    {
        let module = module.parse_split(&vmlinux)?;
        layout = Layout::resolve(&[&vmlinux, &module])?;
    }
    let mut unavailable = unavailable(&layout.absent);
    let drop = vmlinux.prototype("btf_trace_kfree_skb").ok();
    unavailable.extend(drop.is_none().then(drops::missing));
    let rules = rules(&vmlinux)?;
    Ok(KernelTypes {
        offsets: layout.offsets,
        unchecked_rules: rules.with_built_in(&vmlinux),
        rules,
        unavailable,
        drop_reasons: drop_reasons(&vmlinux),
        drop_arguments: drop.map(|prototype| prototype.parameters.len()),
    })
}

/// The layout of the rule stores, from the modules that are loaded now.
fn rules(vmlinux: &Btf<'_>) -> Result<RuleLayout, ReadError> {
    let mut files = Vec::new();
    for name in RULE_MODULES {
        if let Some(file) = BtfFile::module(name)? {
            files.push((name, file));
        }
    }
    let mut modules = Vec::new();
    for (name, file) in &files {
        modules.push((*name, file.parse_split(vmlinux)?));
    }
    Ok(RuleLayout::resolve(vmlinux, &modules))
}

/// One line for each effect, naming the fields whose absence has it.
fn unavailable(absent: &[Absent]) -> Vec<Unavailable> {
    let mut lines: Vec<Unavailable> = Vec::new();
    for field in absent {
        match lines.iter_mut().find(|line| line.effect == field.effect) {
            Some(line) => {
                line.what = format!("{}, {}", line.what, field.field);
                if !line.why.contains(&field.why) {
                    line.why = format!("{}; {}", line.why, field.why);
                }
            }
            None => lines.push(Unavailable {
                what: field.field.to_owned(),
                why: field.why.clone(),
                effect: field.effect.to_owned(),
            }),
        }
    }
    lines
}

fn drop_reasons(btf: &Btf<'_>) -> BTreeMap<u32, String> {
    let reasons = btf.enumerators("skb_drop_reason").unwrap_or_default();
    let named = reasons.iter().filter_map(|reason| {
        let name = reason.name.strip_prefix("SKB_DROP_REASON_").or_else(|| {
            // The two that are not reasons have the prefix without "REASON".
            reason.name.strip_prefix("SKB_")
        })?;
        Some((u32::try_from(reason.value).ok()?, name.to_owned()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this machine's kernel says of itself, held against what must be true of any kernel.
    #[test]
    fn this_kernel_is_described() {
        let types = read().unwrap();
        let o = types.offsets;
        assert_eq!(types.unavailable, []);
        assert_eq!(o.skb_data, o.skb_head + 8, "head and data are neighbours");
        assert_eq!(
            o.skb_data_len,
            o.skb_len + 4,
            "len and data_len are neighbours"
        );
        assert!([o.skb_vlan_tci + 2, o.skb_vlan_tci - 2].contains(&o.skb_vlan_proto));
        assert_eq!(
            o.ct_reply - o.ct_orig,
            56,
            "list node of 16 bytes, tuple of 40"
        );
        assert_eq!([o.tuple_src, o.tuple_sport, o.tuple_l3num], [0, 16, 18]);
        assert_eq!([o.tuple_dst, o.tuple_dport, o.tuple_proto], [20, 36, 38]);
        let rules = types.rules.offsets;
        assert_eq!([rules.par_targinfo, rules.par_state], [8, 16]);
        assert_eq!(
            [rules.entries_hooks, rules.entry_size, rules.entry_priv],
            [8, 16, 8]
        );
        assert!(o.ct_status > o.ct_reply && o.ct_mark > o.ct_status);
        assert!(
            types
                .drop_reasons
                .values()
                .any(|name| name == "NETFILTER_DROP")
        );
    }

    /// A tracepoint passes its own data and then what its prototype lists.
    #[test]
    fn this_kernels_tracepoints_are_described() {
        let file = BtfFile::vmlinux().unwrap();
        let btf = file.parse().unwrap();
        let count = |name: &str| {
            let prototype = btf.prototype(&format!("btf_trace_{name}")).unwrap();
            prototype.parameters.len()
        };
        assert_eq!(count("netif_receive_skb"), 2);
        assert_eq!(count("net_dev_start_xmit"), 3);
    }

    #[test]
    fn fields_with_one_effect_make_one_line() {
        let absent = |field, effect| Absent {
            field,
            why: format!("no {field}"),
            effect,
        };
        let lines = unavailable(&[
            absent("a", "less"),
            absent("b", "other"),
            absent("c", "less"),
        ]);
        let line = |what: &str, why: &str, effect: &str| Unavailable {
            what: what.into(),
            why: why.into(),
            effect: effect.into(),
        };
        assert_eq!(
            lines,
            [
                line("a, c", "no a; no c", "less"),
                line("b", "no b", "other")
            ]
        );
    }
}
