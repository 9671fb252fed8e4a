//! A made-up ruleset, as text for the tools that load it. Rules can be taken out one by one, to find
//! the smallest one that still shows a difference.

use super::six;
use std::fmt::Write as _;

/// Which tools load it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Legacy,
    IptablesNft,
    Nft,
}

/// A ruleset, perhaps of two stores.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// Whether it is for IPv6. The text of its parts is for IPv4 all the same.
    pub(super) six: bool,
    pub(super) tables: Vec<Table>,
}

#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) tool: Tool,
    /// iptables: its name; nft: `ip NAME`.
    pub(super) name: String,
    /// nft's sets and maps, complete.
    pub(super) sets: String,
    pub(super) chains: Vec<Chain>,
}

#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) name: String,
    /// iptables: the policy or `-`; nft: the hook's line or nothing.
    pub(super) head: String,
    pub(super) rules: Vec<String>,
}

impl Draft {
    /// The tools that load it, in the order in which they do.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let mut tools: Vec<Tool> = self.tables.iter().map(|table| table.tool).collect();
        tools.dedup();
        tools
    }

    /// What `iptables-restore` or `nft -f` takes.
    pub(super) fn text(&self, tool: Tool) -> String {
        let mut text = String::new();
        for table in self.tables.iter().filter(|table| table.tool == tool) {
            match tool {
                Tool::Nft => native(&mut text, table),
                Tool::Legacy | Tool::IptablesNft => restored(&mut text, table),
            }
        }
        if self.six { six::text(&text) } else { text }
    }

    /// All of it, for people.
    pub(super) fn whole(&self) -> String {
        let part = |tool| format!("{tool:?}:\n{}", self.text(tool));
        self.tools().into_iter().map(part).collect()
    }

    /// How many rules there are.
    pub(super) fn len(&self) -> usize {
        self.chains().map(|chain| chain.rules.len()).sum()
    }

    /// The same without the n-th rule.
    pub(super) fn without(&self, n: usize) -> Self {
        let mut less = self.clone();
        let mut n = n;
        for chain in less.tables.iter_mut().flat_map(|t| &mut t.chains) {
            if n < chain.rules.len() {
                chain.rules.remove(n);
                break;
            }
            n -= chain.rules.len();
        }
        less
    }

    fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.tables.iter().flat_map(|table| &table.chains)
    }
}

fn restored(text: &mut String, table: &Table) {
    let _ = writeln!(text, "*{}", table.name);
    for chain in &table.chains {
        let _ = writeln!(text, ":{} {} [0:0]", chain.name, chain.head);
    }
    for chain in &table.chains {
        for rule in &chain.rules {
            let _ = writeln!(text, "-A {} {rule}", chain.name);
        }
    }
    text.push_str("COMMIT\n");
}

/// nft wants a chain to be there before a rule names it: chains first, then rules.
fn native(text: &mut String, table: &Table) {
    let _ = writeln!(text, "table {} {{", table.name);
    for chain in table.chains.iter().filter(|chain| chain.head.is_empty()) {
        let _ = writeln!(text, "\tchain {} {{\n\t}}", chain.name);
    }
    text.push_str(&table.sets);
    for chain in &table.chains {
        let _ = writeln!(text, "\tchain {} {{\n{}", chain.name, chain.head);
        for rule in &chain.rules {
            let _ = writeln!(text, "\t\t{rule}");
        }
        text.push_str("\t}\n");
    }
    text.push_str("}\n");
}
