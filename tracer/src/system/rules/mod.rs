//! Reading the rule stores of a namespace, and changing none of them.
//!
//! What is there is asked first by ways that create nothing: `/proc/net/ip_tables_names` for the legacy
//! tables (reading one that does not exist would make it), a netlink dump of the table names for
//! nftables (only where `nf_tables` is in the kernel already: asking would load it), and kernel symbols
//! for ipset. Only then the machine's own programs are run, each in a child of a thread that stands in
//! the namespace and ends.

mod child;
mod hooks;
mod present;
mod programs;

#[cfg(test)]
mod tests;

use super::capabilities::{holds, remedy};
use super::netns::{Netns, visit};
use super::{Roots, SystemError};
use caps::Capability;
use child::Failure;
pub use present::Stores;
use present::{NftTable, Present};
pub use programs::Programs;
use std::path::Path;
use tracer_core::ruleset::{Dumps, Family, Ruleset, Unread, assemble};

/// Reads all rules of a namespace. What is there and cannot be read is in [`Ruleset::unread`], with
/// what would help.
///
/// # Errors
/// When the namespace is gone or may not be entered, or the kernel does not tell which tables it has.
pub fn read(
    netns: &Netns,
    roots: &Roots,
    stores: Stores,
    programs: &Programs,
) -> Result<Ruleset, SystemError> {
    let dumps = visit(netns, || {
        let present = Present::here(roots, stores)?;
        Ok(Reader {
            stores,
            programs,
            dumps: Dumps {
                unread: present.unread.clone(),
                ..Dumps::default()
            },
        }
        .all(&present))
    })?;
    Ok(assemble(&dumps))
}

/// Collects the dumps, in the namespace of the calling thread.
struct Reader<'a> {
    stores: Stores,
    programs: &'a Programs,
    dumps: Dumps,
}

impl Reader<'_> {
    fn all(mut self, present: &Present) -> Dumps {
        for (family, tables) in &present.legacy {
            self.legacy(*family, tables);
        }
        if !present.nft.is_empty() {
            self.nft(&present.nft);
        }
        if self.stores.ipset && self.asks_sets() {
            let ipset = self.programs.ipset.as_deref();
            let holds = "sets that rules look into";
            self.dumps.ipset = self.run("ipset", ipset, &["save"], "ipset", holds);
        }
        self.dumps
    }

    fn legacy(&mut self, family: Family, tables: &[String]) {
        let what = format!("iptables-legacy {family}");
        let program = self.programs.legacy(family);
        let names = tables.join(", ");
        let told = self.dumps.unread.len();
        let dump = self.run(&what, program, &[], "iptables (legacy)", &names);
        // The program itself says "you must be root", and we may well be.
        let refused = program.is_some() && !holds(Capability::CAP_NET_RAW);
        if let Some(unread) = self.dumps.unread.get_mut(told).filter(|_| refused) {
            unread.why = format!("{names}: reading them takes CAP_NET_RAW, which srctrace lacks");
            unread.fix = Some(remedy(Capability::CAP_NET_RAW));
        }
        self.dumps.legacy.extend(dump.map(|dump| (family, dump)));
    }

    /// Whether a rule names an ipset.
    fn asks_sets(&self) -> bool {
        let dumps = self.dumps.legacy.iter().chain(&self.dumps.nft_save);
        dumps.into_iter().any(|(_, dump)| dump.contains("-set "))
    }

    /// iptables-nft's own tables can be read without `nft`; what it adds for them are handles.
    fn nft(&mut self, tables: &[NftTable]) {
        for family in [Family::Ip, Family::Ip6] {
            self.iptables_nft(family, tables);
        }
        if self.stores.hooks {
            // Without an answer the order is unknown, as on kernels that do not tell it.
            self.dumps.hooks = hooks::called().ok();
        }
        let nft = self.programs.nft.as_deref();
        let needed = tables
            .iter()
            .filter(|table| nft.is_some() || !self.is_saved(table));
        let names: Vec<_> = needed.map(NftTable::to_string).collect();
        if names.is_empty() {
            return;
        }
        let names = names.join(", ");
        let list = ["-j", "-a", "list", "ruleset"];
        self.dumps.nft_json = self.run("nft", nft, &list, "nftables", &names);
        if self.dumps.nft_json.is_some() {
            self.dumps.nft_text = self.run("nft", nft, &list[1..], "nftables", &names);
        }
    }

    /// Whether `iptables-nft-save` printed a table, and did not say that it cannot.
    fn is_saved(&self, table: &NftTable) -> bool {
        let refused = format!("# Table `{}'", table.name);
        let is_it = |line: &str| line.strip_prefix('*') == Some(&table.name);
        let mut dumps = self
            .dumps
            .nft_save
            .iter()
            .filter(|(family, _)| *family == table.family);
        dumps.any(|(_, dump)| dump.lines().any(is_it) && !dump.contains(&refused))
    }

    /// Only where x_tables extensions may be in the kernel's nftables tables, and in those tables that
    /// iptables-nft has.
    fn iptables_nft(&mut self, family: Family, tables: &[NftTable]) {
        const NAMES: &[&str] = &["filter", "nat", "mangle", "raw", "security"];
        let of_iptables =
            |table: &&NftTable| table.family == family && NAMES.contains(&table.name.as_str());
        let names: Vec<_> = tables
            .iter()
            .filter(of_iptables)
            .map(NftTable::to_string)
            .collect();
        if !self.stores.nft_compat || names.is_empty() {
            return;
        }
        let what = format!("iptables-nft {family}");
        let program = self.programs.nft_save(family);
        let dump = self.run(&what, program, &[], "iptables (nft)", &names.join(", "));
        self.dumps.nft_save.extend(dump.map(|dump| (family, dump)));
    }

    /// Runs a program for its output; what keeps it from being read is told.
    fn run(
        &mut self,
        what: &str,
        program: Option<&Path>,
        args: &[&str],
        package: &str,
        holds: &str,
    ) -> Option<String> {
        let ran = program
            .ok_or(Failure::Missing)
            .and_then(|program| child::run(program, args));
        let why = match ran {
            Ok(output) => return Some(output),
            Err(Failure::Missing) => {
                format!("{holds}: the program to read it is not here; install {package}")
            }
            Err(failure) => format!("{holds}: {failure}"),
        };
        self.dumps.unread.push(Unread::new(what, why));
        None
    }
}
