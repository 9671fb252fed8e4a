//! Real rules in namespaces of their own.

use super::{Programs, Stores, read};
use crate::system::Roots;
use crate::system::netns::Netns;
use crate::system::testing::TestNetns;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tracer_core::ruleset::{Backend, Family, Hook, Ruleset, SetId, Step, Table, TableId};

/// The program's own fixtures, built in so that the test runs in other kernels' machines too.
const EVERYTHING: &str =
    include_str!("../../../../tracer-core/tests/fixtures/rules/everything.iptables-legacy-save");
const NATIVE: &str = include_str!("../../../../tracer-core/tests/fixtures/rules/native.nft");
const CONSTRUCTS: &str =
    include_str!("../../../../tracer-core/tests/fixtures/rules/constructs.nft");

/// Runs a program in a namespace with this on its standard input.
fn feed(netns: &TestNetns, program: &[&str], input: &str) {
    let mut child = Command::new("ip")
        .args(["netns", "exec", &netns.0])
        .args(program)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{program:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn rules(netns: &TestNetns) -> Ruleset {
    let roots = Roots::default();
    let stores = Stores::of_kernel(&roots).unwrap();
    let netns = Netns::at(&Path::new("/run/netns").join(&netns.0)).unwrap();
    read(&netns, &roots, stores, &Programs::find()).unwrap()
}

const SETS: &str = "create keep-src hash:ip,port family inet\ncreate keep-dst hash:net family inet\n\
    add keep-src 10.77.1.10,tcp:40000\nadd keep-dst 10.0.0.0/8\nadd keep-dst 10.11.0.0/16 nomatch\n";

fn of(rules: &Ruleset, backend: Backend) -> Vec<&Table> {
    rules
        .tables
        .iter()
        .filter(|table| table.id.backend == backend)
        .collect()
}

/// The same rules through both backends are one model; nft adds handles and leaves out what the kernel
/// does not have.
fn same_in_both(rules: &Ruleset) -> usize {
    let nft = of(rules, Backend::IptablesNft);
    let mut compared = 0;
    for legacy in of(rules, Backend::IptablesLegacy) {
        let is_it = |id: &TableId| (id.family, &id.name) == (legacy.id.family, &legacy.id.name);
        let other = nft.iter().find(|table| is_it(&table.id)).unwrap();
        for chain in &legacy.chains {
            let Some(same) = other.chain(&chain.name) else {
                assert!(chain.rules.is_empty(), "{} is missing", chain.name);
                continue;
            };
            assert_eq!(chain.base, same.base, "{}/{}", legacy.id.name, chain.name);
            assert_eq!(chain.rules.len(), same.rules.len(), "{}", chain.name);
            for (left, right) in chain.rules.iter().zip(&same.rules) {
                assert_eq!((&left.text, &left.steps), (&right.text, &right.steps));
                assert_eq!((&left.comment, left.owner), (&right.comment, right.owner));
                assert!(
                    left.handle.is_none() && right.handle.is_some(),
                    "{}",
                    left.text
                );
                compared += 1;
            }
        }
    }
    compared
}

#[test]
fn both_backends_read_the_same_rules_alike() {
    let netns = TestNetns::new("both");
    feed(&netns, &["ipset", "restore"], SETS);
    feed(&netns, &["iptables-legacy-restore"], EVERYTHING);
    feed(&netns, &["iptables-nft-restore"], EVERYTHING);
    let rules = rules(&netns);
    assert_eq!(rules.unread, []);
    assert_eq!(same_in_both(&rules), 52);
    let keep = &rules.sets[&SetId::Ipset("keep-dst".into())];
    assert_eq!(
        keep.elements
            .iter()
            .filter(|element| element.except)
            .count(),
        1
    );
}

#[test]
fn both_backends_read_ipv6_alike() {
    const RULES: &str = "*nat\n-A POSTROUTING -s fd77:1::/64 ! -d ff00::/8 -o eth0 -j MASQUERADE --random-fully\n\
        -A POSTROUTING -s fd77:2::/64 -p tcp -j SNAT --to-source [2001:db8:50::77]:1024-2047\n\
        -A PREROUTING -d fd77:9::/64 -j DNAT --to-destination fd77:1::10\n\
        -A POSTROUTING -s fd77:3::/64 -j SNAT --to-source 2001:db8::1-2001:db8::9\nCOMMIT\n\
        *filter\n-A FORWARD -p icmpv6 -m icmp6 --icmpv6-type 1/3 -j DROP\n\
        -A FORWARD -p icmpv6 -m icmp6 --icmpv6-type 128 -j ACCEPT\n\
        -A FORWARD -d fd77::/ffff:0:ffff:: -m hl --hl-lt 5 -j REJECT\nCOMMIT\n";
    let netns = TestNetns::new("six");
    feed(&netns, &["ip6tables-legacy-restore"], RULES);
    feed(&netns, &["ip6tables-nft-restore"], RULES);
    let rules = rules(&netns);
    assert_eq!(rules.unread, []);
    assert!(
        rules
            .tables
            .iter()
            .all(|table| table.id.family == Family::Ip6)
    );
    assert_eq!(same_in_both(&rules), 7);
    assert!(!format!("{rules:?}").contains("Unknown("), "{rules:?}");
}

/// nftables' own constructs, and what only its text listing tells: dormant tables, rules' texts.
#[test]
fn native_tables_are_read_with_their_texts() {
    let netns = TestNetns::new("native");
    // Older kernels (6.12 does) refuse a chain of a device that is not there.
    netns.ip("link add eth0 type veth peer name eth1");
    feed(&netns, &["nft", "-f", "-"], NATIVE);
    let rules = rules(&netns);
    assert_eq!(rules.unread, []);
    let names: Vec<_> = rules
        .tables
        .iter()
        .map(|t| (t.id.name.as_str(), t.dormant))
        .collect();
    assert_eq!(
        names,
        [
            ("kube-proxy", false),
            ("lab", false),
            ("asleep", true),
            ("ing", false)
        ]
    );
    let all = || {
        rules
            .tables
            .iter()
            .flat_map(|table| &table.chains)
            .flat_map(|chain| &chain.rules)
    };
    for rule in all() {
        assert!(!rule.text.starts_with('['), "{}", rule.text);
        assert!(rule.handle.is_some(), "{}", rule.text);
        let unknown = rule
            .steps
            .iter()
            .any(|step| format!("{step:?}").contains("Unknown("));
        assert!(!unknown, "{}: {:?}", rule.text, rule.steps);
    }
    assert_eq!(all().count(), 41);
    assert_eq!(
        rules.tables[3].chains[0].base.as_ref().unwrap().devices,
        ["eth0"]
    );
    let flows = SetId::Named(rules.tables[1].id.clone(), "flows".into());
    assert!(rules.sets[&flows].dynamic);
}

/// Looking must not make tables: not the legacy ones, which reading makes, nor nftables'.
#[test]
fn reading_creates_nothing() {
    let netns = TestNetns::new("empty");
    let before = tables(&netns);
    assert_eq!(rules(&netns), Ruleset::default());
    assert_eq!(tables(&netns), before);
    feed(
        &netns,
        &["iptables-legacy-restore"],
        "*nat\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n",
    );
    let before = tables(&netns);
    let read = rules(&netns);
    assert_eq!(read.tables.len(), 1);
    assert_eq!(tables(&netns), before);
}

fn tables(netns: &TestNetns) -> String {
    let script = "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names; nft list tables";
    let output = Command::new("ip")
        .args(["netns", "exec", &netns.0, "sh", "-c", script])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What is there and cannot be read is told, with what would help.
#[test]
fn missing_programs_are_told() {
    let netns = TestNetns::new("bare");
    let rule = "*nat\n-A POSTROUTING -m comment --comment x -j MASQUERADE\nCOMMIT\n";
    feed(&netns, &["iptables-legacy-restore"], rule);
    feed(&netns, &["iptables-nft-restore"], rule);
    let roots = Roots::default();
    let stores = Stores::of_kernel(&roots).unwrap();
    let node = Netns::at(&Path::new("/run/netns").join(&netns.0)).unwrap();
    let none = read(&node, &roots, stores, &Programs::default()).unwrap();
    assert_eq!(none.tables, []);
    let told: Vec<_> = none
        .unread
        .iter()
        .map(|unread| format!("{}: {}", unread.what, unread.why))
        .collect();
    assert_eq!(
        told,
        [
            "iptables-legacy ip: nat: the program to read it is not here; install iptables (legacy)",
            "iptables-nft ip: ip nat: the program to read it is not here; install iptables (nft)",
            "nft: ip nat: the program to read it is not here; install nftables",
        ]
    );
    let no_nft = Programs {
        nft: None,
        ..Programs::find()
    };
    let saved = read(&node, &roots, stores, &no_nft).unwrap();
    assert_eq!((saved.tables.len(), saved.unread), (2, vec![]));
    let nft_only = Programs {
        nft: Programs::find().nft,
        ..Programs::default()
    };
    let read = read(&node, &roots, stores, &nft_only).unwrap();
    assert!(
        read.unread
            .iter()
            .any(|unread| unread.why.contains("shows only the names")),
        "{:?}",
        read.unread
    );
    let rule = &read.tables[0]
        .chains
        .iter()
        .flat_map(|chain| &chain.rules)
        .next()
        .unwrap();
    assert!(
        matches!(rule.steps.last(), Some(Step::Do(_))),
        "{:?}",
        rule.steps
    );
}

/// nftables of firewalls and proxies (docker, firewalld, TPROXY, flow offload): what is understood and
/// what is not.
#[test]
fn constructs_are_understood_or_named() {
    let netns = TestNetns::new("constructs");
    feed(&netns, &["nft", "-f", "-"], CONSTRUCTS);
    let rules = rules(&netns);
    assert_eq!(rules.unread, []);
    let all = rules
        .tables
        .iter()
        .flat_map(|table| &table.chains)
        .flat_map(|chain| &chain.rules);
    for rule in all {
        let steps = format!("{:?}", rule.steps);
        let seen = (
            steps.contains("Unknown("),
            steps.contains("Chance(") || steps.contains("ChanceOf("),
        );
        let comment = rule.comment.as_deref().unwrap_or_default();
        let expected = (
            comment.starts_with("unknown"),
            comment.starts_with("chance"),
        );
        assert_eq!(seen, expected, "{}: {steps}", rule.text);
    }
}

/// Comments are input from strangers: a line break in one must not become a rule.
#[test]
fn a_comment_with_a_line_break_is_one_rule() {
    let netns = TestNetns::new("forged");
    let forged = "a\n-A POSTROUTING -j ACCEPT";
    for tool in ["iptables-legacy", "iptables-nft"] {
        let add = [
            tool,
            "-t",
            "nat",
            "-A",
            "POSTROUTING",
            "-m",
            "comment",
            "--comment",
            forged,
            "-j",
            "MASQUERADE",
        ];
        feed(&netns, &add, "");
    }
    let rules = rules(&netns);
    assert_eq!(rules.unread, []);
    let chains = rules.tables.iter().flat_map(|table| &table.chains);
    let all: Vec<_> = chains.flat_map(|chain| &chain.rules).collect();
    assert_eq!(
        all.iter()
            .map(|rule| rule.comment.as_deref())
            .collect::<Vec<_>>(),
        [Some(forged); 2]
    );
}

/// Chains of equal priority run newest first. The kernel tells their order only where nfnetlink_hook
/// is loaded; else it stays unknown.
#[test]
fn the_order_of_registration_is_the_kernels_or_unknown() {
    let netns = TestNetns::new("order");
    let chain = |table: &str| {
        format!(
            "add table {table}\nadd chain {table} f {{ type filter hook forward priority 0; }}\n"
        )
    };
    feed(&netns, &["nft", "-f", "-"], &chain("inet first"));
    feed(
        &netns,
        &["iptables-legacy", "-A", "FORWARD", "-j", "ACCEPT"],
        "",
    );
    feed(
        &netns,
        &["iptables-nft", "-A", "FORWARD", "-j", "ACCEPT"],
        "",
    );
    feed(&netns, &["nft", "-f", "-"], &chain("ip last"));
    let rules = rules(&netns);
    let registered = |table: &str, backend| {
        let table = rules
            .tables
            .iter()
            .find(|t| t.id.name == table && t.id.backend == backend)
            .unwrap();
        let bases = table.chains.iter().filter_map(|chain| chain.base.as_ref());
        bases
            .filter(|base| base.hook == Hook::Forward)
            .map(|base| base.registered)
            .next()
            .unwrap()
    };
    let order = [
        registered("first", Backend::Nft),
        registered("filter", Backend::IptablesLegacy),
        registered("filter", Backend::IptablesNft),
        registered("last", Backend::Nft),
    ];
    if Stores::of_kernel(&Roots::default()).unwrap().hooks {
        assert!(
            order.iter().all(Option::is_some) && order.is_sorted(),
            "{order:?}"
        );
    } else {
        assert_eq!(order, [None; 4]);
    }
}
