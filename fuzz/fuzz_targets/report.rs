//! Any bytes as the lines of a JSON report, as `srctrace diff` reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer_core::report::Reader;

fuzz_target!(|bytes: &[u8]| {
    for line in Reader::new(bytes) {
        if line.is_err() {
            break;
        }
    }
});
