//! The kernel's functions, from /proc/kallsyms. The table has some 200,000 lines: it is read through
//! once for each question and never kept.

use super::{Roots, SystemError};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// The function that an address lies in, without what the compiler added to its name (`.part.0`,
/// `.constprop.0`, `.isra.0`). `None` where the kernel hides addresses (`kptr_restrict`).
#[must_use]
pub fn function_at(address: u64) -> Option<String> {
    let table = BufReader::with_capacity(1 << 16, File::open("/proc/kallsyms").ok()?);
    search(table, address)
}

/// The last function that begins at or before `address`. The table is sorted for the kernel itself
/// but not across modules.
fn search(mut table: impl BufRead, address: u64) -> Option<String> {
    let mut best: Option<(u64, String)> = None;
    let mut line = Vec::new();
    while table.read_until(b'\n', &mut line).ok()? > 0 {
        if let Some((start, name)) = function(&line)
            && start <= address
            && best.as_ref().is_none_or(|(nearest, _)| start > *nearest)
        {
            best = Some((start, name.to_owned()));
        }
        line.clear();
    }
    let (_, name) = best?;
    Some(plain(&name).to_owned())
}

/// `ffffffff81a2b3c0 t ip_error` and, for a module's, its name behind that. Only code.
fn function(line: &[u8]) -> Option<(u64, &str)> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    (is_code && start != 0).then_some((start, name))
}

fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

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

    const TABLE: &str = "\
0000000000001000 T ip_rcv
0000000000002000 t ip_rcv_finish_core.constprop.0
0000000000002800 d some_data
0000000000003000 T ip_forward
0000000000009000 t nft_do_chain\t[nf_tables]
0000000000008000 t nft_dump\t[nf_tables]
";

    #[test]
    fn an_address_lies_in_the_function_that_begins_before_it() {
        let at = |address| search(TABLE.as_bytes(), address);
        assert_eq!(at(0x2900).as_deref(), Some("ip_rcv_finish_core"));
        assert_eq!(at(0x3000).as_deref(), Some("ip_forward"));
        assert_eq!(at(0x9010).as_deref(), Some("nft_do_chain"));
        assert_eq!(at(0x8010).as_deref(), Some("nft_dump"));
        assert_eq!(at(0x10), None);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden = b"0000000000000000 T ip_rcv\nnot a line\n\xff\n";
        assert_eq!(search(&hidden[..], 0x2000), None);
    }

    #[test]
    fn this_kernels_functions_are_found() {
        let table = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let line = table
            .lines()
            .find(|line| line.ends_with(" ip_rcv"))
            .unwrap();
        let start = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        if start != 0 {
            assert_eq!(function_at(start + 1).as_deref(), Some("ip_rcv"));
        }
    }

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
