//! The kernel's functions, as it lists them.

use super::{Roots, SystemError};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Those of `wanted` that the kernel has now, in itself or in loaded modules.
///
/// # Errors
/// When the list cannot be read.
pub fn kernel_functions(
    roots: &Roots,
    wanted: &BTreeSet<&'static str>,
) -> Result<BTreeSet<&'static str>, SystemError> {
    let path = roots.proc().join("kallsyms");
    let failed = |error| SystemError::os("read", path.display(), error);
    let mut found = BTreeSet::new();
    let mut lines = BufReader::with_capacity(1 << 16, File::open(&path).map_err(failed)?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(failed)? != 0 {
        if let Some(name) = symbol(&line).and_then(|name| wanted.get(name)) {
            found.insert(*name);
        }
        line.clear();
    }
    Ok(found)
}

/// The name in a line `ADDRESS TYPE NAME [MODULE]`.
fn symbol(line: &[u8]) -> Option<&str> {
    let name = line.split(u8::is_ascii_whitespace).nth(2)?;
    std::str::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_read_with_and_without_a_module() {
        let module = b"ffffffffc0 t nft_masq_eval\t[nft_masq]\n";
        assert_eq!(symbol(module), Some("nft_masq_eval"));
        let own = b"0000000000000000 T masquerade_tg\n";
        assert_eq!(symbol(own), Some("masquerade_tg"));
        assert_eq!(symbol(b"garbage"), None);
    }

    #[test]
    fn this_kernel_has_what_every_kernel_has() {
        let wanted = BTreeSet::from(["netif_receive_skb", "no_such_function"]);
        let found = kernel_functions(&Roots::default(), &wanted).unwrap();
        assert_eq!(found, BTreeSet::from(["netif_receive_skb"]));
    }
}
