//! `cargo xtask tidy`: what the design promises about this tree and no compiler checks.

mod blank;
mod documents;
mod imports;
mod manifests;
mod names;
mod paths;
mod sizes;
mod source;
mod tree;

use std::fmt;

use anyhow::Result;

use crate::stop::Stop;
use crate::workspace::Workspace;
use tree::Tree;

/// One thing that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    file: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    message: String,
    /// Shown, but not a failure.
    only_warn: bool,
}

impl Finding {
    fn error(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            message: message.into(),
            only_warn: false,
        }
    }

    fn warning(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            only_warn: true,
            ..Self::error(file, line, message)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.only_warn { "warning" } else { "error" };
        match self.line {
            0 => write!(f, "{}: {kind}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {kind}: {}", self.file, self.message),
        }
    }
}

/// Checks the tree and prints what is wrong with it.
///
/// # Errors
/// Status 1 when there is anything worse than a warning.
pub(crate) fn run(space: &Workspace) -> Result<()> {
    let tree = Tree::read(space.root())?;
    let members = space.members()?;
    let findings = check(space, &tree, &members);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.iter().filter(|finding| !finding.only_warn).count() {
        0 => Ok(()),
        errors => Err(Stop::failed(format!("tidy found {errors} violations")).into()),
    }
}

fn check(space: &Workspace, tree: &Tree, members: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree.sources() {
        findings.extend(sizes::check(source));
        findings.extend(imports::check(source));
        findings.extend(documents::tap_states_prototype(source));
    }
    findings.extend(manifests::check(tree));
    findings.extend(documents::finding_codes(tree));
    findings.extend(documents::architecture(tree, members));
    findings.extend(names::check(tree, space.root()));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_like_compiler_messages() {
        assert_eq!(
            Finding::error("a.rs", 3, "too long").to_string(),
            "a.rs:3: error: too long"
        );
        assert_eq!(Finding::warning("b", 0, "hm").to_string(), "b: warning: hm");
    }
}
