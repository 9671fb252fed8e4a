//! The same rules for IPv6: made-up text is written for IPv4 once, and read over into IPv6. An IPv4
//! address becomes the last 32 bits of one in `fd00::/96`, so prefixes and ranges stay what they
//! were.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The IPv6 address that stands for an IPv4 one.
pub(super) fn addr(four: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits((0xfd00 << 112) | u128::from(four.to_bits()))
}

/// Bits before the part that holds an IPv4 address.
const BEFORE: u8 = 96;

/// Words that the tools have for one family only, and those of the other.
const WORDS: &[(&str, &str)] = &[
    ("ip saddr", "ip6 saddr"),
    ("ip daddr", "ip6 daddr"),
    ("dnat ip to", "dnat ip6 to"),
    ("snat ip to", "snat ip6 to"),
    ("table ip ", "table ip6 "),
    ("ipv4_addr", "ipv6_addr"),
    ("family inet\n", "family inet6\n"),
    ("-m icmp ", "-m icmp6 "),
    ("-p icmp", "-p ipv6-icmp"),
    ("--icmp-type 8", "--icmpv6-type 128"),
    ("icmp-port-unreachable", "icmp6-port-unreachable"),
];

/// Text for `iptables-restore`, `nft` or `ipset`, read over into IPv6.
pub(super) fn text(four: &str) -> String {
    let mut six = String::new();
    let mut rest = four;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        six.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = from.split_at(end.unwrap_or(from.len()));
        rest = after;
        match number.parse() {
            Ok(four) => rest = put(&mut six, addr(four), after),
            Err(_) => six.push_str(number),
        }
    }
    six.push_str(rest);
    for (word, other) in WORDS {
        six = six.replace(word, other);
    }
    six
}

/// Adds an address with the prefix length or port that follows; returns what comes after these.
fn put<'t>(six: &mut String, addr: Ipv6Addr, after: &'t str) -> &'t str {
    let digits = |text: &'t str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        text.split_at(end.unwrap_or(text.len()))
    };
    if let Some((length, after)) = after.strip_prefix('/').map(digits) {
        let length = length.parse::<u8>().unwrap_or(0);
        six.push_str(&format!("{addr}/{}", length + BEFORE));
        return after;
    }
    match after.strip_prefix(':').map(digits) {
        Some((port, after)) if !port.is_empty() => {
            six.push_str(&format!("[{addr}]:{port}"));
            after
        }
        _ => {
            six.push_str(&addr.to_string());
            after
        }
    }
}
