//! The order in which the kernel calls the base chains.

use super::{Backend, Chain, ChainKind, Family, Hook, Ruleset, TableId};
use std::collections::BTreeMap;

/// Room between two numbers of the first listing for those that only a later one has.
const GAP: u64 = 1 << 20;

/// A function at a hook, as nfnetlink_hook lists it, in the order of the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// For packets of which family: IPv4 or IPv6.
    pub family: Family,
    /// At which hook.
    pub hook: Hook,
    /// Lower runs first.
    pub priority: i32,
    /// What is called.
    pub what: Callee,
}

/// What is called at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A base chain of nftables: family, table, chain. NAT chains are not listed: one function calls
    /// them all.
    Chain(Family, String, String),
    /// A function of the kernel, by its name.
    Function(String),
}

/// What a listing tells of the order; greater is newer, as [`super::Base::registered`] wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    numbers: BTreeMap<Place, u64>,
}

/// A base chain as the listing names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// An nftables chain: family, table, chain.
    Nft(Family, String, String),
    /// An x_tables table, known by its family, hook and priority only.
    Xtables(Family, String, i32),
}

/// The order of a listing: at equal priority the newest is called first.
pub(super) fn order(calls: &[Called]) -> Order {
    let mut order = Order::default();
    for hook in calls.chunk_by(|a, b| (a.family, a.hook) == (b.family, b.hook)) {
        order.number(hook.iter().filter_map(place).collect());
    }
    order
}

fn place(call: &Called) -> Option<Place> {
    match &call.what {
        Callee::Chain(family, table, chain) => {
            Some(Place::Nft(*family, table.clone(), chain.clone()))
        }
        // `ipt_do_table`, before 5.16 `iptable_filter_hook` and its like.
        Callee::Function(name) if name.starts_with("ipt") || name.starts_with("ip6t") => Some(
            Place::Xtables(call.family, call.hook.to_string(), call.priority),
        ),
        Callee::Function(_) => None,
    }
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
        let family = id.family;
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
    use super::{Called, Callee, Family, Hook, Place, order};

    fn call(of: Family, what: Callee) -> Called {
        Called {
            family: of,
            hook: Hook::Forward,
            priority: 0,
            what,
        }
    }

    fn chain(of: Family, family: Family, table: &str) -> Called {
        call(of, Callee::Chain(family, table.into(), "c".into()))
    }

    #[test]
    fn the_first_called_is_the_newest_and_inet_chains_keep_their_number() {
        use Family::{Inet, Ip, Ip6};
        let order = order(&[
            chain(Ip, Inet, "a"),
            chain(Ip, Ip, "b"),
            chain(Ip, Inet, "d"),
            call(Ip, Callee::Function("selinux_ip_forward".into())),
            call(Ip, Callee::Function("ipt_do_table".into())),
            chain(Ip6, Inet, "a"),
            chain(Ip6, Inet, "d"),
            chain(Ip6, Ip6, "c"),
        ]);
        let number =
            |family, table: &str| order.numbers[&Place::Nft(family, table.into(), "c".into())];
        let (a, b, c, d) = (
            number(Inet, "a"),
            number(Ip, "b"),
            number(Ip6, "c"),
            number(Inet, "d"),
        );
        assert!(a > b && b > d && d > c, "{a} {b} {c} {d}");
        assert!(order.numbers[&Place::Xtables(Ip, "forward".into(), 0)] < d);
    }
}
