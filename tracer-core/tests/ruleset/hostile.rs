//! Whatever is printed, the parsers end, do not panic, and keep no more than they were given.

use crate::{fixture, saved};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tracer_core::ruleset::{Backend, Dumps, Family, Ruleset, assemble, ipset, nft};

fn rules(ruleset: &Ruleset) -> usize {
    ruleset
        .tables
        .iter()
        .flat_map(|table| &table.chains)
        .map(|chain| chain.rules.len())
        .sum()
}

/// Words that mean something to the parsers, and some that mean nothing.
fn word() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "-A",
        "OUTPUT",
        "!",
        "-s",
        "-d",
        "-p",
        "-i",
        "-o",
        "-f",
        "-m",
        "-j",
        "-g",
        "--dport",
        "--mark",
        "tcp",
        "mark",
        "set",
        "--match-set",
        "addrtype",
        "--src-type",
        "LOCAL",
        "conntrack",
        "--ctstate",
        "NEW,DNAT",
        "SNAT",
        "--to-source",
        "1.2.3.4-1.2.3.5:1-2",
        "[::1]:5",
        ":",
        "-",
        "/",
        "0x",
        "1/2/3",
        "\"",
        "\\",
        "'",
        "MARK",
        "--set-xmark",
        "CONNMARK",
        "--restore-mark",
        "10.0.0.0/33",
        "::/129",
        "1.2.3.4/255.0.255.0",
        "comment",
        "--comment",
        "icmp",
        "--icmp-type",
        "300/5",
        "999999999999999999999",
        "+",
        "*",
        "\u{0}",
        "é",
    ];
    prop_oneof![4 => prop::sample::select(KNOWN).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    const WORDS: &[&str] = &[
        "==", "!=", "in", "!", "@s", "*", "eth*", "\\*", "10.0.0.1", "::1", "tcp", "ip", "ip6",
        "saddr", "dport", "mark", "state", "new", "netmap", "type", "daddr", "", "ct_state",
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        (0_u64..70).prop_map(Into::into),
        prop::sample::select(WORDS).prop_map(Into::into),
    ];
    const KEYS: &[&str] = &[
        "match",
        "op",
        "left",
        "right",
        "payload",
        "protocol",
        "field",
        "meta",
        "ct",
        "key",
        "fib",
        "result",
        "flags",
        "&",
        "|",
        "^",
        "concat",
        "set",
        "map",
        "data",
        "vmap",
        "elem",
        "val",
        "prefix",
        "addr",
        "len",
        "range",
        "snat",
        "port",
        "family",
        "mangle",
        "value",
        "xt",
        "name",
        "goto",
        "target",
        "numgen",
        "jhash",
        "limit",
        "stmt",
        "reject",
        "redirect",
        "masquerade",
        "dir",
        "base",
        "offset",
        "accept",
        "tcp option",
    ];
    leaf.prop_recursive(5, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map(prop::sample::select(KEYS), inner, 0..5).prop_map(|map| {
                map.into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            }),
        ]
    })
}

/// A fixture with bytes changed and cut off.
fn broken(name: &'static str) -> impl Strategy<Value = String> {
    let text = fixture(name);
    let length = text.len();
    (
        prop::collection::vec((0..length, any::<u8>()), 0..20),
        0..length,
    )
        .prop_map(move |(changes, end)| {
            let mut bytes = text.clone().into_bytes();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            bytes.truncate(length - end / 4);
            String::from_utf8_lossy(&bytes).into_owned()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_line_is_a_rule_or_told(words in prop::collection::vec(word(), 0..24)) {
        let line = words.join(" ");
        let dump = format!("*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT {line}\nCOMMIT\n");
        let read = saved(&dump, Backend::IptablesLegacy, &BTreeMap::new());
        let kept = read.tables.iter().flat_map(|t| &t.chains).map(|c| c.rules.len()).sum::<usize>();
        prop_assert!(kept + read.unread.len() >= 1);
        let printed = format!("{read:?}").len();
        prop_assert!(printed < 2_000 + 200 * dump.len(), "{printed}");
    }

    #[test]
    fn any_text_is_read(text in "\\PC{0,200}(\n\\PC{0,50}){0,8}") {
        let _ = saved(&text, Backend::IptablesNft, &BTreeMap::new());
        let _ = ipset::parse(&text);
        let _ = nft::parse(&text, Some(&text));
    }

    #[test]
    fn any_expression_is_a_step_or_unknown(statements in prop::collection::vec(json(), 1..4), family in "ip|inet|netdev") {
        let dump = serde_json::json!({"nftables": [
            {"table": {"family": family, "name": "t", "handle": 1}},
            {"map": {"family": family, "table": "t", "name": "s", "type": statements[0], "map": "verdict", "elem": statements}},
            {"chain": {"family": family, "table": "t", "name": "c", "handle": 1}},
            {"rule": {"family": family, "table": "t", "chain": "c", "handle": 2, "expr": statements}},
        ]});
        let listed = nft::parse(&dump.to_string(), None);
        prop_assert_eq!(listed.tables[0].chains[0].rules.len(), 1);
    }

    #[test]
    fn broken_dumps_are_read(
        legacy in broken("everything.iptables-legacy-save"),
        nft_save in broken("everything.iptables-nft-save"),
        nft_text in broken("everything.nft"),
        nft_json in prop_oneof![broken("everything.nft.json"), Just(fixture("everything.nft.json"))],
    ) {
        let lines = legacy.lines().count() + nft_save.lines().count();
        let rules_read = rules(&assemble(&Dumps {
            legacy: vec![(Family::Ip, legacy)],
            nft_save: vec![(Family::Ip, nft_save)],
            nft_json: Some(nft_json),
            nft_text: Some(nft_text),
            ..Dumps::default()
        }));
        prop_assert!(rules_read <= lines + 100);
    }
}

#[test]
fn nesting_without_end_is_refused() {
    let deep = format!(
        "{{\"nftables\": {}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(nft::parse(&deep, None).unread.len(), 1);
}
