//! Any bytes as a capture or a recording, joined with a recording: it ends, with flows or with one error.
#![no_main]

#[path = "../src/merged.rs"]
mod merged;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| merged::with_sample(bytes));
