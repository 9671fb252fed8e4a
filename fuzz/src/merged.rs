//! Bytes as a file that is joined with a sound recording.

#[path = "../../tracer/tests/played/mod.rs"]
pub mod played;

use std::fs;
use std::path::Path;

/// The recording with which bytes are joined.
const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tracer/tests/samples/node-a.srct"
);

/// Reads and joins both. What it gives is of no interest, only that it gives it.
pub fn with_sample(bytes: &[u8]) {
    let file = std::env::temp_dir().join(format!("srctrace-fuzz-{}", std::process::id()));
    fs::write(&file, bytes).expect("a file in the temporary folder");
    let outcome = played::merge([Path::new(SAMPLE), &file]);
    if let Err(error) = outcome {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}
