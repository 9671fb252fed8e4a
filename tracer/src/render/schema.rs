//! The JSON Schema of the NDJSON lines, made from the report's own types.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use tracer_core::report::{Line, SCHEMA};

/// JSON Schema (draft 2020-12) of one line: `flow`, `summary`, … Every key is
/// required, and keys that it does not know are allowed: fields may be added.
#[must_use]
pub fn schema() -> String {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(standard_address))
        .into_generator();
    let mut schema = generator.into_root_schema_for::<Line>();
    schema.insert(
        "title".to_owned(),
        format!("srctrace report line, schema {SCHEMA}").into(),
    );
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// `"format": "ip"` is not in the standard; `ipv4` or `ipv6` is, and validators know it.
fn standard_address(schema: &mut Schema) {
    if schema.get("format").is_some_and(|format| format == "ip") {
        schema.remove("format");
        schema.insert(
            "anyOf".to_owned(),
            serde_json::json!([{ "format": "ipv4" }, { "format": "ipv6" }]),
        );
    }
}
