//! `nft list hooks`: the order in which the kernel calls the base chains.

use super::{Backend, Chain, ChainKind, Family, Ruleset, TableId};
use std::collections::BTreeMap;

/// Room between two numbers of the first listing for those that only a later one has.
const GAP: u64 = 1 << 20;

/// What a listing tells of the order; greater is newer, as [`super::Base::registered`] wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    numbers: BTreeMap<Place, u64>,
}

/// A base chain as the listing names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// An nftables chain: family, table, chain.
    Nft(String, String, String),
    /// An x_tables table, known by its family, hook and priority only.
    Xtables(String, String, i32),
}

/// Reads the listing. Hooks stand in the order of their calls, and at equal priority the newest is
/// called first.
pub(super) fn parse(text: &str) -> Order {
    let mut order = Order::default();
    let mut family = String::new();
    let mut hook = String::new();
    let mut places = Vec::new();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["family", name, ..] => family = (*name).to_owned(),
            ["hook", name, ..] => hook = (*name).to_owned(),
            ["}"] => order.number(std::mem::take(&mut places)),
            [_, "chain", family, table, chain, ..] => {
                let nft = Place::Nft((*family).into(), (*table).into(), (*chain).into());
                places.push(nft);
            }
            [priority, function, ..] if function.starts_with("ip") => {
                places.extend(
                    priority
                        .parse()
                        .ok()
                        .map(|priority| Place::Xtables(family.clone(), hook.clone(), priority)),
                );
            }
            _ => {}
        }
    }
    order
}

impl Order {
    /// Numbers the chains of one hook, oldest first. An inet chain is in the listings of IPv4 and IPv6
    /// and keeps its number; chains between two of these get numbers between theirs.
    fn number(&mut self, places: Vec<Place>) {
        let known = places.iter().any(|place| self.numbers.contains_key(place));
        let step = if known { 1 } else { GAP };
        let mut last = 0;
        for place in places.into_iter().rev() {
            let next = last + step;
            last = *self.numbers.entry(place).or_insert(next);
        }
    }

    fn of(&self, id: &TableId, chain: &Chain) -> Option<u64> {
        let base = chain.base.as_ref()?;
        let family = id.family.to_string();
        let place = match id.backend {
            Backend::IptablesLegacy if base.kind == ChainKind::Nat => return None,
            Backend::IptablesLegacy => Place::Xtables(family, base.hook.to_string(), base.priority),
            _ => Place::Nft(family, id.name.clone(), chain.name.clone()),
        };
        self.numbers.get(&place).copied()
    }
}

/// Handles of base chains by family, table and chain: within a table they grow.
pub(super) type Handles = BTreeMap<(Family, String, String), u64>;

/// Fills in [`super::Base::registered`]: from the listing, or, where all base chains of a hook and
/// priority are of one nftables table, from their handles. Otherwise it stays unknown.
pub(super) fn register(rules: &mut Ruleset, order: Option<&Order>, handles: &Handles) {
    let mut homes: BTreeMap<_, Vec<TableId>> = BTreeMap::new();
    for table in rules.tables.iter().filter(|table| !table.dormant) {
        for base in table.chains.iter().filter_map(|chain| chain.base.as_ref()) {
            let home = homes
                .entry((base.hook.to_string(), base.priority))
                .or_default();
            if !home.contains(&table.id) {
                home.push(table.id.clone());
            }
        }
    }
    for table in &mut rules.tables {
        for chain in &mut table.chains {
            let listed = order.and_then(|order| order.of(&table.id, chain));
            let key = (table.id.family, table.id.name.clone(), chain.name.clone());
            let handle = handles
                .get(&key)
                .filter(|_| table.id.backend != Backend::IptablesLegacy);
            let Some(base) = &mut chain.base else {
                continue;
            };
            let alone = homes
                .get(&(base.hook.to_string(), base.priority))
                .is_some_and(|h| h.len() == 1);
            base.registered = listed.or_else(|| handle.copied().filter(|_| alone));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, parse};

    #[test]
    fn the_first_called_is_the_newest_and_inet_chains_keep_their_number() {
        let listing = "family ip {\n\thook forward {\n\
            \t\t 0000000000 chain inet a x [nf_tables]\n\
            \t\t 0000000000 chain ip b y [nf_tables]\n\
            \t\t 0000000000 chain inet d z [nf_tables]\n\
            \t\t 0000000000 ipt_do_table [ip_tables]\n\t}\n}\n\
            family ip6 {\n\thook forward {\n\
            \t\t 0000000000 chain inet a x [nf_tables]\n\
            \t\t 0000000000 chain inet d z [nf_tables]\n\
            \t\t 0000000000 chain ip6 c w [nf_tables]\n\t}\n}\n";
        let order = parse(listing);
        let number =
            |f: &str, t: &str, c: &str| order.numbers[&Place::Nft(f.into(), t.into(), c.into())];
        let (a, b) = (number("inet", "a", "x"), number("ip", "b", "y"));
        let (c, d) = (number("ip6", "c", "w"), number("inet", "d", "z"));
        assert!(a > b && b > d && d > c, "{a} {b} {c} {d}");
        assert!(order.numbers[&Place::Xtables("ip".into(), "forward".into(), 0)] < d);
    }
}
