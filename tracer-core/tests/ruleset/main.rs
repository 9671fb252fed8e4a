//! Rule stores: what the tools print, as the model that the evaluator walks.

mod chains;
mod dumps;
mod hostile;
mod natives;
mod options;
mod owners;
mod sets;

use std::collections::BTreeMap;
use std::path::Path;
use tracer_core::ruleset::{
    Action, Backend, Condition, Family, Rule, Set, SetId, Step, Table, Test, iptables,
};

/// A dump out of the fixtures' folder.
fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rules");
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Reads an `iptables-save` dump of IPv4.
fn saved(dump: &str, backend: Backend, sets: &BTreeMap<SetId, Set>) -> iptables::Saved {
    iptables::parse(
        dump,
        &iptables::Origin {
            backend,
            family: Family::Ip,
            sets,
        },
    )
}

/// The rule of one line `-A POSTROUTING LINE`, in a table that has the chains A and B.
fn rule_in(line: &str, family: Family, sets: &BTreeMap<SetId, Set>) -> Rule {
    let dump = format!(
        "*nat\n:POSTROUTING ACCEPT [0:0]\n:A - [0:0]\n:B - [0:0]\n-A POSTROUTING {line}\nCOMMIT\n"
    );
    let origin = iptables::Origin {
        backend: Backend::IptablesLegacy,
        family,
        sets,
    };
    let saved = iptables::parse(&dump, &origin);
    assert!(saved.unread.is_empty(), "{line}: {:?}", saved.unread);
    saved.tables[0].chains[0].rules[0].clone()
}

fn rule(line: &str) -> Rule {
    rule_in(line, Family::Ip, &BTreeMap::new())
}

/// The tests of a rule.
fn tests(rule: &Rule) -> Vec<Test> {
    let steps = rule.steps.iter();
    steps
        .filter_map(|step| {
            if let Step::Test(test) = step {
                Some(test.clone())
            } else {
                None
            }
        })
        .collect()
}

/// What a rule does.
fn actions(rule: &Rule) -> Vec<Action> {
    let steps = rule.steps.iter();
    steps
        .filter_map(|step| {
            if let Step::Do(action) = step {
                Some(action.clone())
            } else {
                None
            }
        })
        .collect()
}

fn yes(condition: Condition) -> Test {
    Test {
        negated: false,
        condition,
    }
}

fn no(condition: Condition) -> Test {
    Test {
        negated: true,
        condition,
    }
}

/// One line for each chain and rule, for snapshots.
fn outline(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let id = &table.id;
        let dormant = if table.dormant { " dormant" } else { "" };
        text += &format!("table {} {} {}{dormant}\n", id.backend, id.family, id.name);
        for chain in &table.chains {
            text += &format!("  chain {}\n", chain.name);
            if let Some(base) = &chain.base {
                text += &format!("    {base:?}\n");
            }
            for rule in &chain.rules {
                let handle = rule
                    .handle
                    .map(|handle| format!(" handle {handle}"))
                    .unwrap_or_default();
                text += &format!("    {}{handle}: {}\n", rule.index, rule.text);
                if let Some(owner) = rule.owner {
                    text += &format!("      of {owner}\n");
                }
                if let Some(comment) = &rule.comment {
                    text += &format!("      says {comment}\n");
                }
                for step in &rule.steps {
                    text += &format!("      {step:?}\n");
                }
            }
        }
    }
    text
}
