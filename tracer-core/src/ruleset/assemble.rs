//! All dumps of a namespace put together.

use super::hooks::{self, Called, Handles};
use super::iptables::{self, Origin, Saved};
use super::{Backend, Family, Ruleset, Set, SetId, Table, TableId, Unread, ipset, nft};
use std::collections::{BTreeMap, BTreeSet};

/// What the programs printed in one namespace; what was not to be had is `None` or missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dumps {
    /// `ipset save`.
    pub ipset: Option<String>,
    /// `iptables-legacy-save` and `ip6tables-legacy-save`.
    pub legacy: Vec<(Family, String)>,
    /// `iptables-nft-save` and `ip6tables-nft-save`.
    pub nft_save: Vec<(Family, String)>,
    /// `nft -j -a list ruleset`.
    pub nft_json: Option<String>,
    /// `nft -a list ruleset`.
    pub nft_text: Option<String>,
    /// What the kernel calls at its hooks, in order. Not out of `nft list hooks`, which sorts chains of
    /// equal priority anew (1.0.6).
    pub hooks: Option<Vec<Called>>,
    /// What could not be read, as far as the reader knows.
    pub unread: Vec<Unread>,
}

/// Puts the dumps together. Tables of iptables-nft are read from `iptables-nft-save`, because `nft`
/// shows only the names of x_tables extensions; their hooks, handles and order come from `nft`: the
/// n-th rule of a chain is its n-th `-A`. What iptables-nft cannot print is read from `nft`.
#[must_use]
pub fn assemble(dumps: &Dumps) -> Ruleset {
    let ipsets = dumps.ipset.as_deref().map(ipset::parse).unwrap_or_default();
    let mut rules = Ruleset {
        sets: ipsets.sets,
        unread: ipsets.unread,
        ..Ruleset::default()
    };
    let mut written = BTreeSet::new();
    for (family, dump) in &dumps.legacy {
        let saved = read(
            dump,
            *family,
            Backend::IptablesLegacy,
            &mut rules,
            &mut written,
        );
        rules.tables.extend(saved.tables);
    }
    let mut listed = dumps
        .nft_json
        .as_deref()
        .map(|json| nft::parse(json, dumps.nft_text.as_deref()));
    let mut handles = Handles::new();
    if let Some(listed) = &mut listed {
        let known = std::mem::take(&mut listed.handles).into_iter();
        handles.extend(known.map(|((id, chain), handle)| ((id.family, id.name, chain), handle)));
        rules.unread.append(&mut listed.unread);
    }
    for (family, dump) in &dumps.nft_save {
        let saved = read(
            dump,
            *family,
            Backend::IptablesNft,
            &mut rules,
            &mut written,
        );
        match &mut listed {
            Some(listed) => saved
                .tables
                .into_iter()
                .for_each(|table| adopt(table, listed, &mut rules.unread)),
            None => rules.tables.extend(saved.tables),
        }
    }
    if let Some(listed) = listed {
        rules
            .unread
            .extend(listed.tables.iter().filter_map(names_only));
        rules.tables.extend(listed.tables);
        rules.sets.extend(listed.sets);
    }
    mark_written(&mut rules.sets, &written);
    let order = dumps.hooks.as_deref().map(hooks::order);
    hooks::register(&mut rules, order.as_ref(), &handles);
    rules.unread.extend(dumps.unread.iter().cloned());
    rules
}

fn read(
    dump: &str,
    family: Family,
    backend: Backend,
    rules: &mut Ruleset,
    written: &mut BTreeSet<String>,
) -> Saved {
    let mut saved = iptables::parse(
        dump,
        &Origin {
            backend,
            family,
            sets: &rules.sets,
        },
    );
    rules.unread.append(&mut saved.unread);
    written.append(&mut saved.written_sets);
    saved
}

fn mark_written(sets: &mut BTreeMap<SetId, Set>, names: &BTreeSet<String>) {
    for name in names {
        if let Some(set) = sets.get_mut(&SetId::Ipset(name.clone())) {
            set.dynamic = true;
        }
    }
}

/// Puts a table that `iptables-nft-save` printed in the place of the one that `nft` listed.
fn adopt(mut table: Table, listed: &mut nft::Listed, unread: &mut Vec<Unread>) {
    let same = |id: &TableId| (id.family, &id.name) == (table.id.family, &table.id.name);
    let Some(at) = listed.tables.iter().position(|known| same(&known.id)) else {
        unread.push(changed(&table.id, "the table is not in nft's listing"));
        listed.tables.push(table);
        return;
    };
    let known = &mut listed.tables[at];
    table.dormant = known.dormant;
    let of_kernel: BTreeMap<_, _> = known
        .chains
        .iter()
        .map(|chain| (chain.name.as_str(), chain))
        .collect();
    // Built-in chains are printed though the kernel does not have them yet.
    table
        .chains
        .retain(|chain| of_kernel.contains_key(chain.name.as_str()) || !chain.rules.is_empty());
    for chain in &mut table.chains {
        let Some(kernel) = of_kernel.get(chain.name.as_str()) else {
            continue;
        };
        chain.base.clone_from(&kernel.base);
        if kernel.rules.len() == chain.rules.len() {
            for (rule, kernel) in chain.rules.iter_mut().zip(&kernel.rules) {
                rule.handle = kernel.handle;
            }
        } else {
            unread.push(changed(
                &table.id,
                &format!("chain {} has other rules in nft's listing", chain.name),
            ));
        }
    }
    let old = std::mem::replace(known, table).id;
    listed.sets.retain(|id, _| match id {
        SetId::Named(table, _) | SetId::Anonymous(table, _) => *table != old,
        SetId::Ipset(_) => true,
    });
}

fn changed(id: &TableId, why: &str) -> Unread {
    Unread::new(
        format!("{} {} {}", id.backend, id.family, id.name),
        format!("it changed while it was read: {why}"),
    )
}

/// A table of which only the extensions' names are known.
fn names_only(table: &Table) -> Option<Unread> {
    let foreign = table.id.backend == Backend::IptablesNft;
    let own = matches!(table.id.family, Family::Ip | Family::Ip6);
    let unread = table
        .chains
        .iter()
        .flat_map(|chain| &chain.rules)
        .any(|rule| !rule.text.starts_with("-A "));
    (foreign && own && unread).then(|| {
        Unread::new(
            format!("nft {} {}", table.id.family, table.id.name),
            "it holds x_tables extensions, of which nft shows only the names, and iptables-nft-save does \
             not print it",
        )
    })
}
