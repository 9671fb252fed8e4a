//! What is open to both sides where nothing came back, side by side: from a finding's `data.choices`.

use super::super::escape;
use super::super::look::{Look, Role, pad};
use serde_json::Value;

/// A line for each choice: what it is, to which addresses, and what it costs.
pub(super) fn choices(data: &Value, look: Look) -> String {
    let all = data["choices"].as_array().map(Vec::as_slice);
    let lines = all.unwrap_or_default().iter().map(|choice| {
        let addresses = choice["addresses"].as_array().into_iter().flatten();
        let addresses: Vec<&str> = addresses.filter_map(Value::as_str).collect();
        let (what, verb) = match text(&choice["choice"]) {
            "route-back" => ("keep the source", "the far side routes back"),
            "masquerade" => ("or masquerade", "the far side sees"),
            other => (other, "with"),
        };
        let line = format!(
            "     {} {verb} {} ({}): {}",
            look.paint(Role::Faint, &pad(&format!("{}:", escape(what)), 16)),
            escape(&addresses.join(", ")),
            escape(text(&choice["known_by"])),
            escape(text(&choice["cost"]))
        );
        format!("{}\n", look.wrap(&line))
    });
    lines.collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
