//! The kernel's symbols, from /proc/kallsyms. The table has some 200,000 lines and takes some 50 ms to
//! read.

use super::{Roots, SystemError};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::time::{Duration, Instant};

/// One of the kernel's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol<'a> {
    /// Where it begins; zero where the kernel hides that (`kptr_restrict`).
    pub(super) address: u64,
    /// Whether it is code.
    pub(super) code: bool,
    /// Its name; its module is not told.
    pub(super) name: &'a str,
}

/// Hands out every symbol of the kernel and its loaded modules.
///
/// # Errors
/// When the list cannot be read.
pub(super) fn each(roots: &Roots, take: impl FnMut(Symbol<'_>)) -> Result<(), SystemError> {
    let path = roots.proc().join("kallsyms");
    let failed = |error| SystemError::os("read", path.display(), error);
    let file = File::open(&path).map_err(failed)?;
    each_of(BufReader::with_capacity(1 << 16, file), take).map_err(failed)
}

/// The symbols of a table; lines that are none are passed over.
pub(super) fn each_of(mut table: impl BufRead, mut take: impl FnMut(Symbol<'_>)) -> io::Result<()> {
    let mut line = Vec::new();
    while table.read_until(b'\n', &mut line)? > 0 {
        symbol(&line).map(&mut take);
        line.clear();
    }
    Ok(())
}

/// `ffffffff81a2b3c0 t ip_error` and, for a module's, its name behind that.
fn symbol(line: &[u8]) -> Option<Symbol<'_>> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    Some(Symbol {
        address,
        code,
        name,
    })
}

/// Those of `wanted` that the kernel has now, in itself or in loaded modules.
///
/// # Errors
/// When the list cannot be read.
pub fn kernel_functions(
    roots: &Roots,
    wanted: &BTreeSet<&'static str>,
) -> Result<BTreeSet<&'static str>, SystemError> {
    let mut found = BTreeSet::new();
    each(roots, |symbol| {
        found.extend(wanted.get(symbol.name));
    })?;
    Ok(found)
}

/// The kernel's functions by address, read when the first is asked for.
#[derive(Debug)]
pub struct Functions {
    roots: Roots,
    table: Option<(Instant, Table)>,
}

/// Modules may be loaded while a trace runs: for an address that was not asked for before, a table is
/// believed for this long.
const HOLD: Duration = Duration::from_secs(10);

impl Functions {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self { roots, table: None }
    }

    /// The function that an address lies in, without what the compiler added to its name (`.part.0`,
    /// `.constprop.0`, `.isra.0`). `None` where the kernel hides addresses (`kptr_restrict`).
    pub fn at(&mut self, address: u64) -> Option<String> {
        if self
            .table
            .as_ref()
            .is_none_or(|(at, _)| at.elapsed() > HOLD)
        {
            let mut table = Table::default();
            // What cannot be read names nothing, and is not read again for each address.
            let _ = each(&self.roots, |symbol| table.add(symbol));
            table.starts.sort_unstable();
            self.table = Some((Instant::now(), table));
        }
        let (_, table) = self.table.as_ref()?;
        table.at(address).map(str::to_owned)
    }
}

/// Functions by address, their names one behind the other: a third of the size of single strings.
#[derive(Debug, Default)]
struct Table {
    /// Where each begins, and where its name does in `names`.
    starts: Vec<(u64, u32)>,
    /// Each name and a line break.
    names: String,
}

impl Table {
    fn add(&mut self, symbol: Symbol<'_>) {
        let at = u32::try_from(self.names.len());
        if let (Ok(at), true) = (at, symbol.code && symbol.address != 0) {
            self.starts.push((symbol.address, at));
            self.names.push_str(plain(symbol.name));
            self.names.push('\n');
        }
    }

    /// The last function that begins at or before `address`.
    fn at(&self, address: u64) -> Option<&str> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let (_, at) = self.starts.get(after.checked_sub(1)?)?;
        self.names.get(*at as usize..)?.lines().next()
    }
}

fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
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

    fn table(text: &[u8]) -> Table {
        let mut table = Table::default();
        each_of(text, |symbol| table.add(symbol)).unwrap();
        table.starts.sort_unstable();
        table
    }

    #[test]
    fn an_address_lies_in_the_function_that_begins_before_it() {
        let table = table(TABLE.as_bytes());
        assert_eq!(table.at(0x2900), Some("ip_rcv_finish_core"));
        assert_eq!(table.at(0x3000), Some("ip_forward"));
        assert_eq!(table.at(0x9010), Some("nft_do_chain"));
        assert_eq!(table.at(0x8010), Some("nft_dump"));
        assert_eq!(table.at(0x10), None);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden = b"0000000000000000 T ip_rcv\nnot a line\n\xff\n";
        assert_eq!(table(hidden).at(0x2000), None);
    }

    #[test]
    fn this_kernels_functions_are_found() {
        let mut start = 0;
        let find = |symbol: Symbol<'_>| {
            if symbol.name == "ip_rcv" {
                start = symbol.address;
            }
        };
        each(&Roots::default(), find).unwrap();
        if start != 0 {
            let mut functions = Functions::new(Roots::default());
            assert_eq!(functions.at(start + 1).as_deref(), Some("ip_rcv"));
            let (_, table) = functions.table.unwrap();
            println!(
                "{} functions, {} bytes",
                table.starts.len(),
                table.names.len()
            );
        }
    }

    #[test]
    fn symbols_are_read_with_and_without_a_module() {
        let module = symbol(b"ffffffffc0 t nft_masq_eval\t[nft_masq]\n");
        assert_eq!(module.unwrap().name, "nft_masq_eval");
        let own = symbol(b"0000000000000000 T masquerade_tg\n").unwrap();
        assert_eq!(
            (own.address, own.code, own.name),
            (0, true, "masquerade_tg")
        );
        assert_eq!(symbol(b"garbage"), None);
    }

    #[test]
    fn this_kernel_has_what_every_kernel_has() {
        let wanted = BTreeSet::from(["netif_receive_skb", "no_such_function"]);
        let found = kernel_functions(&Roots::default(), &wanted).unwrap();
        assert_eq!(found, BTreeSet::from(["netif_receive_skb"]));
    }
}
