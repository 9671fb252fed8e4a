//! As `file`, with the checksums of a recording made right: so that what is behind them is reached.
#![no_main]

#[path = "../src/merged.rs"]
mod merged;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    merged::played::seal(&mut bytes);
    merged::with_sample(&bytes);
});
