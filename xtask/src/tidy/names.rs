//! No text of the project names the place where it happened to be written.

use std::path::{Component, Path};

use super::Finding;
use super::tree::Tree;

/// Top folders that every Linux system has: naming them says nothing about this machine.
const EVERYWHERE: [&str; 16] = [
    "bin", "boot", "dev", "etc", "home", "lib", "media", "mnt", "opt", "proc", "root", "run",
    "srv", "sys", "tmp", "usr",
];

/// Texts that name the folder this checkout is in, or a company's registry.
pub(super) fn check(tree: &Tree, root: &Path) -> Vec<Finding> {
    // Written in two halves: this file is checked as well.
    let mut private = vec![concat!("artif", "actory").to_owned()];
    private.extend(own_folder(root));
    let mut findings = Vec::new();
    for file in tree.files() {
        for (index, line) in file.text.lines().enumerate() {
            let named = private.iter().filter(|name| mentions(line, name));
            findings.extend(named.map(|name| {
                Finding::error(
                    &file.path,
                    index + 1,
                    format!("names `{name}`, which means nothing to a reader elsewhere"),
                )
            }));
        }
    }
    findings
}

/// The folder at the top of the file system that the checkout is below, as `/name/`; for a folder that every system
/// has, the checkout's whole path.
fn own_folder(root: &Path) -> Option<String> {
    let top = root.components().find_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })?;
    if EVERYWHERE.contains(&top) || top == "var" {
        return root
            .to_str()
            .filter(|path| path.len() > top.len() + 1)
            .map(|path| format!("{path}/"));
    }
    Some(format!("/{top}/"))
}

fn mentions(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !name.starts_with('/')
            || before.is_none_or(|c| !(c.is_alphanumeric() || "-_.~/}*".contains(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, root: &str) -> Vec<usize> {
        let tree = Tree::from_pairs(&[("docs/a.md", text)]);
        check(&tree, Path::new(root))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn the_folder_of_the_checkout_is_not_named() {
        let text = "see /builds/x/y\nsrc/builds/ok\n`/builds/`\nhttps://x.org/builds/1\n";
        assert_eq!(lines(text, "/builds/me/srctrace"), [1, 3]);
    }

    #[test]
    fn common_folders_may_be_named_but_not_the_checkout_in_them() {
        let text = "/home/user/a\n/home/me/srctrace/target\n/tmp/x\n";
        assert_eq!(lines(text, "/home/me/srctrace"), [2]);
        assert!(lines(text, "/tmp").is_empty());
    }

    #[test]
    fn registries_of_companies_are_not_named() {
        let host = format!("x\nhttps://{}.example/api\n", concat!("artif", "actory"));
        assert_eq!(lines(&host, "/tmp/x"), [2]);
    }
}
