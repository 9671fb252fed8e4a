//! What the manifests must hold to: the dependencies of the rooms, the core's ban on unsafe code, the registry.

use super::Finding;
use super::tree::Tree;

/// Crates with a closed list of dependencies.
const CLOSED: [(&str, &[&str]); 2] = [
    ("tracer-common/Cargo.toml", &["zerocopy"]),
    (
        "tracer-ebpf/Cargo.toml",
        &["tracer-common", "aya-ebpf", "aya-log-ebpf"],
    ),
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Everything about manifests and the lock file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = closed_lists(tree);
    findings.extend(core_forbids_unsafe(tree));
    findings.extend(lock_names_public_registry(tree));
    findings
}

fn closed_lists(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, allowed) in CLOSED {
        let Some(text) = tree.text(path) else {
            continue;
        };
        let others = dependencies(text)
            .into_iter()
            .filter(|(name, _)| !allowed.contains(&name.as_str()));
        findings.extend(others.map(|(name, line)| {
            Finding::error(
                path,
                line,
                format!("depends on {name}; allowed: {}", allowed.join(", ")),
            )
        }));
    }
    findings
}

/// The normal and target-specific dependencies of a manifest, with their lines (from 1).
fn dependencies(manifest: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut listing = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            listing = section == "dependencies" || section.ends_with(".dependencies");
            if let Some((_, name)) = section
                .split_once("dependencies.")
                .filter(|(kind, _)| is_normal(kind))
            {
                found.push((name.to_owned(), index + 1));
            }
        } else if let Some((name, _)) = line
            .split_once('=')
            .filter(|_| listing && !line.starts_with('#'))
        {
            let name = name
                .trim()
                .split('.')
                .next()
                .unwrap_or_default()
                .trim_matches('"');
            found.push((name.to_owned(), index + 1));
        }
    }
    found
}

fn is_normal(before_dependencies: &str) -> bool {
    before_dependencies.is_empty() || before_dependencies.ends_with('.')
}

fn core_forbids_unsafe(tree: &Tree) -> Option<Finding> {
    let path = "tracer-core/src/lib.rs";
    let source = tree.sources().iter().find(|source| source.path == path)?;
    let missing = !source.code.contains("#![forbid(unsafe_code)]");
    missing.then(|| Finding::error(path, 1, "lacks #![forbid(unsafe_code)]"))
}

/// A lock file written behind a mirror names the mirror, and nobody else could build from it.
fn lock_names_public_registry(tree: &Tree) -> Vec<Finding> {
    let text = tree.text("Cargo.lock").unwrap_or_default();
    let lines = text.lines().enumerate();
    let sources =
        lines.filter_map(|(index, line)| Some((index + 1, line.strip_prefix("source = \"")?)));
    sources
        .filter(|(_, source)| source.trim_end_matches('"') != CRATES_IO)
        .map(|(line, _)| {
            Finding::error("Cargo.lock", line, "a package does not come from crates.io")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::from_pairs(files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn dependencies_are_found_in_every_spelling() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\n# a = 1\nb = \"1\"\nc.workspace = true\n\
                        [dependencies.d]\nversion = \"1\"\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n\
                        [dev-dependencies]\nf = \"1\"\n[dev-dependencies.g]\nversion = \"1\"\n";
        let names: Vec<_> = dependencies(manifest)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["b", "c", "d", "e"]);
    }

    #[test]
    fn closed_lists_are_closed() {
        let files = [(
            "tracer-common/Cargo.toml",
            "[dependencies]\nzerocopy = \"1\"\nserde = \"1\"\n",
        )];
        assert_eq!(
            messages(&files),
            ["tracer-common/Cargo.toml:3: error: depends on serde; allowed: zerocopy"]
        );
    }

    #[test]
    fn the_core_must_forbid_unsafe_code_outside_comments() {
        let error = ["tracer-core/src/lib.rs:1: error: lacks #![forbid(unsafe_code)]"];
        assert_eq!(
            messages(&[("tracer-core/src/lib.rs", "//! #![forbid(unsafe_code)]")]),
            error
        );
        assert!(
            messages(&[("tracer-core/src/lib.rs", "//! x\n#![forbid(unsafe_code)]")]).is_empty()
        );
    }

    #[test]
    fn the_lock_file_names_crates_io_only() {
        let lock = format!(
            "[[package]]\nsource = \"{CRATES_IO}\"\n[[package]]\nsource = \"sparse+https://mirror/\"\n"
        );
        assert_eq!(
            messages(&[("Cargo.lock", &lock)]),
            ["Cargo.lock:4: error: a package does not come from crates.io"]
        );
    }
}
