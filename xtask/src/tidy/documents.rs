//! Documents that must keep up with the code.

use super::Finding;
use super::source::Source;
use super::tree::Tree;

const TAPS: &str = "tracer-ebpf/src/taps/";
const FINDINGS: &str = "tracer-core/src/report/findings.rs";
const VERDICTS: &str = "docs/verdicts.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const ROOM_TABLE: &str = "| crate | holds | may use |";

/// A tap says in its module documentation which kernel prototype it relies on.
pub(super) fn tap_states_prototype(source: &Source) -> Option<Finding> {
    let name = source.path.strip_prefix(TAPS)?;
    let states = source
        .text
        .lines()
        .any(|line| line.starts_with("//!") && line.contains("Kernel prototype:"));
    (name != "mod.rs" && !states).then(|| {
        Finding::error(
            &source.path,
            1,
            "module documentation lacks a `Kernel prototype:` line",
        )
    })
}

/// Every finding code is explained in docs/verdicts.md under a heading of its own, with an example.
pub(super) fn finding_codes(tree: &Tree) -> Vec<Finding> {
    let Some(source) = tree.sources().iter().find(|source| source.path == FINDINGS) else {
        return Vec::new();
    };
    let codes = codes(source);
    if codes.is_empty() {
        return vec![Finding::error(
            FINDINGS,
            0,
            "no finding codes found: expected an enum named …Code or kebab-case strings",
        )];
    }
    let Some(verdicts) = tree.text(VERDICTS) else {
        return vec![Finding::error(
            VERDICTS,
            0,
            format!("does not exist, but {FINDINGS} has {} codes", codes.len()),
        )];
    };
    let undocumented = codes.iter().filter(|code| !has_example(verdicts, code));
    undocumented
        .map(|code| {
            Finding::error(
                VERDICTS,
                0,
                format!("no heading with `{code}` followed by an example in a code block"),
            )
        })
        .collect()
}

/// The codes that a source defines: variants of enums named `…Code` in kebab case, else its kebab-case strings.
fn codes(source: &Source) -> Vec<String> {
    let mut codes: Vec<String> = enum_variants(source)
        .iter()
        .map(|name| kebab(name))
        .collect();
    if codes.is_empty() {
        let outside_tests = source
            .with_strings
            .lines()
            .enumerate()
            .filter(|(index, _)| !source.is_test_line(index + 1));
        let strings = outside_tests.flat_map(|(_, line)| line.split('"').skip(1).step_by(2));
        codes = strings
            .filter(|text| is_kebab(text))
            .map(str::to_owned)
            .collect();
    }
    codes.sort();
    codes.dedup();
    codes
}

fn enum_variants(source: &Source) -> Vec<String> {
    let mut variants = Vec::new();
    for (at, _) in source.code.match_indices("enum ") {
        let rest = source.code.get(at + 5..).unwrap_or_default();
        let Some((head, body)) = rest.split_once('{') else {
            continue;
        };
        if !head.trim().ends_with("Code") {
            continue;
        }
        let body = body.split('}').next().unwrap_or_default();
        let lines = body
            .split(',')
            .filter_map(|part| part.lines().map(str::trim).rfind(|line| !line.is_empty()));
        variants.extend(lines.filter(|name| is_variant(name)).map(str::to_owned));
    }
    variants
}

fn is_variant(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn kebab(camel: &str) -> String {
    let mut out = String::new();
    for (index, c) in camel.chars().enumerate() {
        if c.is_ascii_uppercase() && index > 0 {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn is_kebab(text: &str) -> bool {
    text.contains('-')
        && text
            .split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase()))
}

fn has_example(markdown: &str, code: &str) -> bool {
    let marked = format!("`{code}`");
    let mut in_section = false;
    let mut in_block = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            if in_section {
                return true;
            }
            in_block = !in_block;
        } else if line.starts_with('#') && !in_block {
            in_section = line.contains(&marked);
        }
    }
    false
}

/// ARCHITECTURE.md has the room table and names every member crate.
pub(super) fn architecture(tree: &Tree, members: &[String]) -> Vec<Finding> {
    let Some(text) = tree.text(ARCHITECTURE) else {
        return vec![Finding::error(ARCHITECTURE, 0, "does not exist")];
    };
    let table = (!text.lines().any(|line| line.trim() == ROOM_TABLE)).then(|| {
        Finding::error(
            ARCHITECTURE,
            0,
            format!("lacks the room table, headed `{ROOM_TABLE}`"),
        )
    });
    let unnamed = members
        .iter()
        .filter(|member| !text.contains(&format!("| `{member}`")));
    let unnamed = unnamed.map(|member| {
        Finding::error(
            ARCHITECTURE,
            0,
            format!("the room table has no row for `{member}`"),
        )
    });
    table.into_iter().chain(unnamed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_state_their_prototype() {
        let check =
            |path: &str, text: &str| tap_states_prototype(&Source::new(path, text)).is_some();
        assert!(check(
            "tracer-ebpf/src/taps/xmit.rs",
            "//! x\n// Kernel prototype: no\n"
        ));
        assert!(!check(
            "tracer-ebpf/src/taps/xmit.rs",
            "//! Kernel prototype: `int f(void)`\n"
        ));
        assert!(!check("tracer-ebpf/src/taps/mod.rs", "//! taps\n"));
        assert!(!check("tracer-ebpf/src/emit.rs", "//! x\n"));
    }

    #[test]
    fn codes_come_from_an_enum_or_from_strings() {
        let enumerated = "/// A\n#[derive(X)]\npub enum FindingCode {\n    /// no, not this\n    ExemptByRule,\n    #[serde(x)]\n    NoRoute,\n}\nenum Other { Third }\n";
        assert_eq!(
            codes(&Source::new(FINDINGS, enumerated)),
            ["exempt-by-rule", "no-route"]
        );
        let strings = "const A: &str = \"rp-filter\"; // \"not-this\"\nf(\"Some-Text\", \"a b-c\", \"no-route\");\n";
        assert_eq!(
            codes(&Source::new(FINDINGS, strings)),
            ["no-route", "rp-filter"]
        );
    }

    #[test]
    fn each_code_needs_a_heading_and_an_example() {
        let source = (FINDINGS, "enum FindingCode { NoRoute, RpFilter }");
        let complain = |verdicts| {
            let tree = Tree::from_pairs(&[source, (VERDICTS, verdicts)]);
            finding_codes(&tree)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let whole =
            "## `no-route`\ntext\n```\nx\n# not a heading\n```\n## `rp-filter`\n```\ny\n```\n";
        assert!(complain(whole).is_empty());
        assert_eq!(
            complain("## `no-route`\n```\nx\n```\n`rp-filter` is mentioned\n"),
            [
                "docs/verdicts.md: error: no heading with `rp-filter` followed by an example in a code block"
            ]
        );
        assert_eq!(
            complain("## `no-route`\n## `rp-filter`\n```\nx\n```\n").len(),
            1
        );
        let alone = Tree::from_pairs(&[source]);
        assert_eq!(
            finding_codes(&alone)[0].message,
            "does not exist, but tracer-core/src/report/findings.rs has 2 codes"
        );
        assert!(finding_codes(&Tree::from_pairs(&[])).is_empty());
    }

    #[test]
    fn the_architecture_has_a_row_for_every_crate() {
        let members = ["tracer".to_owned(), "xtask".to_owned()];
        let text = "| crate | holds | may use |\n|---|---|---|\n| `tracer` (binary) | x | y |\n| `xtask` | x | - |\n";
        let check = |text| architecture(&Tree::from_pairs(&[(ARCHITECTURE, text)]), &members);
        assert!(check(text).is_empty());
        assert_eq!(check("| `tracer-core` | `xtask`").len(), 2);
        assert_eq!(architecture(&Tree::from_pairs(&[]), &members).len(), 1);
    }
}
