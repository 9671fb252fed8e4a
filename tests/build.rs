//! Embeds the expected reports: the same binary also runs where the sources are not, in a virtual machine.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package's folder"));
    let folder = root.join("expect");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("read expect/")
        .map(|entry| entry.expect("an entry of expect/").path())
        .collect();
    files.sort();
    let mut table = String::from("&[\n");
    for file in files.iter().filter(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    }) {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy();
        writeln!(
            table,
            "    ({name:?}, include_str!({:?})),",
            file.display().to_string()
        )
        .expect("write to a string");
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").expect("cargo names the output folder");
    fs::write(Path::new(&out).join("expected.rs"), table)
        .expect("write the table of expected reports");
}
