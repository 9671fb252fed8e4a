//! Whole dumps.

use crate::{fixture, outline, saved};
use std::collections::BTreeMap;
use tracer_core::ruleset::{Backend, Dumps, Family, Ruleset, SetId, Table, assemble};

const KEEP: &str = "create keep-src hash:ip,port family inet hashsize 1024 maxelem 65536\n\
    create keep-dst hash:net family inet hashsize 1024 maxelem 65536\n\
    add keep-src 10.77.1.10,tcp:40000\n\
    add keep-dst 10.0.0.0/8\n\
    add keep-dst 10.11.0.0/16 nomatch\n";

fn everything() -> Ruleset {
    assemble(&Dumps {
        ipset: Some(KEEP.into()),
        legacy: vec![(Family::Ip, fixture("everything.iptables-legacy-save"))],
        nft_save: vec![(Family::Ip, fixture("everything.iptables-nft-save"))],
        nft_json: Some(fixture("everything.nft.json")),
        nft_text: Some(fixture("everything.nft")),
        ..Dumps::default()
    })
}

fn of(rules: &Ruleset, backend: Backend) -> Vec<Table> {
    rules
        .tables
        .iter()
        .filter(|table| table.id.backend == backend)
        .cloned()
        .collect()
}

#[test]
fn everything_in_both_backends() {
    let rules = everything();
    assert_eq!(rules.unread, []);
    insta::assert_snapshot!(
        "everything-legacy",
        outline(&of(&rules, Backend::IptablesLegacy))
    );
    insta::assert_snapshot!("everything-nft", outline(&of(&rules, Backend::IptablesNft)));
}

/// The same rules in both backends are the same model; only handles, and what the kernel does not
/// have yet, differ.
#[test]
fn the_backends_agree() {
    let rules = everything();
    let nft = of(&rules, Backend::IptablesNft);
    let mut compared = 0;
    for legacy in of(&rules, Backend::IptablesLegacy) {
        let table = nft
            .iter()
            .find(|table| table.id.name == legacy.id.name)
            .unwrap();
        for chain in &legacy.chains {
            let Some(same) = table.chain(&chain.name) else {
                assert!(chain.rules.is_empty(), "{} is missing", chain.name);
                continue;
            };
            let mut base = same.base.clone();
            base.iter_mut().for_each(|base| base.registered = None);
            assert_eq!(base, chain.base, "{}/{}", legacy.id.name, chain.name);
            for (left, right) in chain.rules.iter().zip(&same.rules) {
                assert_eq!((&left.text, &left.steps), (&right.text, &right.steps));
                assert_eq!((&left.comment, left.owner), (&right.comment, right.owner));
                assert!(left.handle.is_none() && right.handle.is_some());
                compared += 1;
            }
            assert_eq!(chain.rules.len(), same.rules.len());
        }
    }
    assert_eq!(compared, 52);
}

#[test]
fn nft_native_constructs() {
    let rules = assemble(&Dumps {
        nft_json: Some(fixture("native.nft.json")),
        nft_text: Some(fixture("native.nft")),
        ..Dumps::default()
    });
    assert_eq!(rules.unread, []);
    insta::assert_snapshot!("native", outline(&rules.tables));
    insta::assert_snapshot!("native-sets", sets(&rules));
}

fn sets(rules: &Ruleset) -> String {
    let mut text = String::new();
    for (id, set) in &rules.sets {
        text += &match id {
            SetId::Ipset(name) => format!("ipset {name}"),
            SetId::Named(table, name) => format!("{} {} @{name}", table.family, table.name),
            SetId::Anonymous(table, n) => format!("{} {} #{n}", table.family, table.name),
        };
        text += &format!(
            ": {}{}\n",
            set.kind,
            if set.dynamic { " dynamic" } else { "" }
        );
        for element in &set.elements {
            text += &format!(
                "  {:?} {:?} {:?}\n",
                element.key, element.action, element.data
            );
        }
    }
    text
}

/// What the agents write is read without a remainder.
#[test]
fn agents_dumps() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rules");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with('K') && !name.starts_with("flag") {
            continue;
        }
        let dump = saved(&fixture(&name), Backend::IptablesNft, &BTreeMap::new());
        assert_eq!(dump.unread, [], "{name}");
        let text = outline(&dump.tables);
        assert!(!text.contains("Unknown("), "{name}: {text}");
        read += 1;
    }
    assert_eq!(read, 18);
}
