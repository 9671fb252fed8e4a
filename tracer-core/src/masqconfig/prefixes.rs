//! Sets of addresses as prefixes.

use ipnet::IpNet;

/// Whether every address of `net` is in one of `set`.
#[must_use]
pub fn covers(set: &[IpNet], net: IpNet) -> bool {
    minus(net, set).is_empty()
}

/// What of `net` is in none of `set`, as prefixes in order.
#[must_use]
pub fn minus(net: IpNet, set: &[IpNet]) -> Vec<IpNet> {
    let near: Vec<IpNet> = set
        .iter()
        .copied()
        .filter(|other| other.contains(&net) || net.contains(other))
        .collect();
    if near.is_empty() {
        return vec![net];
    }
    if near.iter().any(|other| other.contains(&net)) {
        return Vec::new();
    }
    let half = net.prefix_len() + 1;
    let halves = net.subnets(half).into_iter().flatten();
    halves.flat_map(|half| minus(half, &near)).collect()
}

/// What of `a` is not in `b`, joined where it can be.
#[must_use]
pub fn difference(a: &[IpNet], b: &[IpNet]) -> Vec<IpNet> {
    let rest: Vec<IpNet> = a.iter().flat_map(|net| minus(*net, b)).collect();
    IpNet::aggregate(&rest)
}

/// Whether two sets hold the same addresses.
#[must_use]
pub fn same(a: &[IpNet], b: &[IpNet]) -> bool {
    difference(a, b).is_empty() && difference(b, a).is_empty()
}

/// A prefix of ordinary addresses beyond all of these: the widest.
#[must_use]
pub fn elsewhere(v6: bool, known: &[IpNet]) -> Option<IpNet> {
    const SPECIAL: &[&str] = &["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"];
    let all: IpNet = if v6 { "2000::/3" } else { "0.0.0.0/0" }.parse().ok()?;
    let special = SPECIAL.iter().filter_map(|net| net.parse().ok());
    let taken: Vec<IpNet> = special.chain(known.iter().copied()).collect();
    let rest = difference(&[all], &taken);
    rest.into_iter().min_by_key(|net| net.prefix_len())
}

/// An address of the prefix that a host may have: not the network's own.
#[must_use]
pub fn host(net: IpNet) -> std::net::IpAddr {
    net.hosts().next().unwrap_or_else(|| net.addr())
}

/// Prefixes in a sentence, the first few.
#[must_use]
pub fn listed(nets: &[IpNet]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = nets.iter().take(SHOWN).map(ToString::to_string).collect();
    match nets.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::{IpNet, covers, difference, listed, minus, same};

    fn nets(text: &str) -> Vec<IpNet> {
        text.split_whitespace()
            .map(|net| net.parse().unwrap())
            .collect()
    }

    #[test]
    fn sets_of_addresses_are_compared_and_not_their_spelling() {
        let all = "10.0.0.0/8".parse().unwrap();
        assert_eq!(
            minus(all, &nets("10.0.0.0/9 10.192.0.0/10")),
            nets("10.128.0.0/10")
        );
        assert_eq!(minus(all, &nets("fd00::/8")), nets("10.0.0.0/8"));
        assert!(covers(&nets("10.0.0.0/9 10.128.0.0/9"), all));
        assert!(!covers(&nets("10.0.0.0/9 10.128.0.0/10"), all));
        assert!(same(&nets("10.0.0.0/8 10.11.0.0/16"), &nets("10.0.0.0/8")));
        assert!(same(&nets("10.0.0.0/9 10.128.0.0/9"), &nets("10.0.0.0/8")));
        assert!(!same(&nets("10.0.0.0/9"), &nets("10.0.0.0/8")));
        let rest = difference(&nets("0.0.0.0/0"), &nets("10.0.0.0/8"));
        assert_eq!(rest.len(), 8);
        assert_eq!(
            listed(&rest),
            "0.0.0.0/5, 8.0.0.0/7, 11.0.0.0/8, 12.0.0.0/6, 16.0.0.0/4 and 3 more"
        );
    }
}
