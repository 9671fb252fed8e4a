//! The shared libraries that a program is linked to.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::programs::{LIBRARIES, Programs};

/// Where each library that `file` is linked to belongs in the image, and which file it is here. None for a statically
/// linked program or a script.
///
/// # Errors
/// When a library cannot be found here.
pub(crate) fn needed_by(file: &Path, programs: &Programs) -> Result<Vec<(String, PathBuf)>> {
    let output = programs.ldd().arg(file).output().context("starting ldd")?;
    if !output.status.success() {
        return Ok(Vec::new());
    }
    let found = parse_ldd(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("libraries of {}", file.display()))?;
    let place = |(name, path): (String, String)| {
        let loader = name.starts_with('/');
        let target = if loader {
            name
        } else {
            format!("{LIBRARIES}/{name}")
        };
        (target, PathBuf::from(path))
    };
    Ok(found.into_iter().map(place).collect())
}

/// Names of libraries with the files found for them. The program loader has its path as name.
fn parse_ldd(text: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some((what, _address)) = line.rsplit_once(" (0x") else {
            if line.contains("not found") {
                bail!("a library is missing: {line}");
            }
            continue;
        };
        match what.split_once(" => ") {
            Some((name, path)) => found.push((name.to_owned(), path.to_owned())),
            None if what.starts_with('/') => found.push((what.to_owned(), what.to_owned())),
            None => {} // the kernel's own, linux-vdso
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_output_gives_names_and_files() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd1e3f2000)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f2a)\n";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            parse_ldd(text).unwrap(),
            [
                pair("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
                pair("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
            ]
        );
        assert!(parse_ldd("\tstatically linked\n").unwrap().is_empty());
        let error = parse_ldd("\tlibx.so.1 => not found\n")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "a library is missing: libx.so.1 => not found");
    }
}
