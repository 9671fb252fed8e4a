//! srctrace's output against the JSON Schema that it prints itself.

use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use jsonschema::Validator;
use serde_json::Value;

use super::binary;

/// Compares one line with the schema.
///
/// # Errors
/// When it does not fit, or there is no schema.
pub(super) fn check(line: &Value) -> Result<()> {
    static VALIDATOR: OnceLock<Result<Validator, String>> = OnceLock::new();
    let validator = VALIDATOR
        .get_or_init(|| validator().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("{error}"))?;
    let wrong: Vec<String> = validator
        .iter_errors(line)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    if !wrong.is_empty() {
        bail!(
            "a line does not fit `srctrace schema`: {}\n{line}",
            wrong.join("; ")
        );
    }
    Ok(())
}

fn validator() -> Result<Validator> {
    let said = Command::new(binary()?)
        .arg("schema")
        .output()
        .context("run `srctrace schema`")?;
    ensure!(said.status.success(), "`srctrace schema` failed: {said:?}");
    let schema: Value = serde_json::from_slice(&said.stdout).context("the schema is not JSON")?;
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&schema)
        .map_err(|error| anyhow!("the schema is none: {error}"))
}
