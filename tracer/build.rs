//! Finds the eBPF object that `cargo xtask build` made and tells the compiler where it is.

use std::env;
use std::path::{Path, PathBuf};

/// Set by who keeps the object elsewhere; also the name under which the compiler learns its path.
const VARIABLE: &str = "SRCTRACE_EBPF_OBJECT";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let object = env::var_os(VARIABLE).map_or_else(default_object, PathBuf::from);
    println!("cargo::rerun-if-changed={}", object.display());
    if object.is_file() {
        println!("cargo::rustc-env={VARIABLE}={}", object.display());
    } else {
        println!(
            "cargo::error=no eBPF object at {}: run `cargo xtask build`",
            object.display()
        );
    }
}

fn default_object() -> PathBuf {
    // Cargo always sets it for build scripts.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let workspace = Path::new(&package).parent().unwrap_or(Path::new(""));
    workspace.join("target/ebpf/srctrace.bpf.o")
}
