//! NDJSON.

use std::fmt::Write as _;
use tracer_core::report::Line;

/// One report line as JSON, with its line end. Every character that is not printable ASCII is
/// escaped: the values are the same, and a terminal that shows them is safe.
///
/// # Errors
/// When the value cannot be JSON; a report always can.
pub fn json_line(line: &Line) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(line)?;
    let mut out = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if matches!(c, ' '..='~') {
            out.push(c);
            continue;
        }
        // Outside of strings JSON is printable ASCII, so this is inside one.
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out.push('\n');
    Ok(out)
}
