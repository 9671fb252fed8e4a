//! Which stores the kernel has, and which tables a namespace has, asked without creating any.

use crate::system::attributes::{attribute, list};
use crate::system::capabilities::remedy;
use crate::system::netlink::Netlink;
use crate::system::{Roots, SystemError, symbols};
use caps::Capability;
use netlink_packet_core::NLM_F_DUMP;
use std::fmt;
use std::io;
use tracer_core::ruleset::{Family, Unread};

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE` (uapi linux/netfilter/nfnetlink.h, nf_tables.h).
const GET_TABLE: u16 = 10 << 8 | 1;

/// Size of `struct nfgenmsg`; its first byte is the family.
pub(super) const GENERIC: usize = 4;

/// `NFTA_TABLE_NAME`.
const TABLE_NAME: u16 = 1;

/// What the running kernel has by now. Asking a store that is not there would load its module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stores {
    /// nftables.
    pub nf_tables: bool,
    /// x_tables extensions inside nftables: what iptables-nft needs.
    pub nft_compat: bool,
    /// ipset.
    pub ipset: bool,
    /// Listing the hooks.
    pub hooks: bool,
}

impl Stores {
    /// Looks for symbols of the stores, built in or of modules. Takes some 50 ms: once per reading, not
    /// per namespace.
    ///
    /// # Errors
    /// When the kernel does not show its symbols' names.
    pub fn of_kernel(roots: &Roots) -> Result<Self, SystemError> {
        let mut stores = Self::default();
        symbols::each(roots, |symbol| stores.note(symbol.name))?;
        Ok(stores)
    }

    fn note(&mut self, symbol: &str) {
        match symbol {
            "nft_do_chain" => self.nf_tables = true,
            "nft_target_eval_xt" => self.nft_compat = true,
            "ip_set_test" => self.ipset = true,
            name if name.starts_with("nfnl_hook_") => self.hooks = true,
            _ => {}
        }
    }
}

/// An nftables table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NftTable {
    /// Its family.
    pub(super) family: Family,
    /// Its name.
    pub(super) name: String,
}

impl fmt::Display for NftTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.name)
    }
}

/// The tables of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Present {
    /// Legacy tables, by family; a family without tables is left out.
    pub(super) legacy: Vec<(Family, Vec<String>)>,
    /// nftables tables.
    pub(super) nft: Vec<NftTable>,
    /// What may not be asked.
    pub(super) unread: Vec<Unread>,
}

impl Present {
    /// Asks in the calling thread's namespace.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(super) fn here(roots: &Roots, stores: Stores) -> Result<Self, SystemError> {
        let mut present = Self::default();
        for (family, file) in [
            (Family::Ip, "ip_tables_names"),
            (Family::Ip6, "ip6_tables_names"),
        ] {
            match names(roots, file) {
                Ok(tables) if tables.is_empty() => {}
                Ok(tables) => present.legacy.push((family, tables)),
                Err(error) if error.is_refusal() => present.unread.push(Unread {
                    what: format!("iptables-legacy {family}"),
                    why: format!("only root may read /proc/net/{file}"),
                    fix: Some(remedy(Capability::CAP_DAC_READ_SEARCH)),
                }),
                Err(error) => return Err(error),
            }
        }
        if stores.nf_tables {
            present.nft = nft_tables()?;
        }
        Ok(present)
    }
}

/// Legacy tables that exist in this thread's namespace. No file: no legacy iptables in this kernel.
fn names(roots: &Roots, file: &str) -> Result<Vec<String>, SystemError> {
    let path = roots.proc().join("thread-self/net").join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(SystemError::os("read", path.display(), e)),
    }
}

fn nft_tables() -> Result<Vec<NftTable>, SystemError> {
    let mut tables = Vec::new();
    let mut netlink = Netlink::open_netfilter()?;
    let take = |_, body: &[u8]| tables.extend(table(body));
    let asked = netlink.raw(GET_TABLE, NLM_F_DUMP, &[0; GENERIC], take);
    asked.map_err(|e| SystemError::os("list", "nftables tables", e))?;
    Ok(tables)
}

/// A family by its number (`NFPROTO_*`); those that no packet of ours passes are left out.
pub(super) fn family(number: u8) -> Option<Family> {
    Some(match i32::from(number) {
        1 => Family::Inet,
        libc::AF_INET => Family::Ip,
        5 => Family::Netdev,
        libc::AF_BRIDGE => Family::Bridge,
        libc::AF_INET6 => Family::Ip6,
        _ => return None,
    })
}

/// A table of an answer.
fn table(body: &[u8]) -> Option<NftTable> {
    let (generic, attributes) = body.split_at_checked(GENERIC)?;
    let family = family(generic[0])?;
    let name = attribute(list(attributes), TABLE_NAME)?;
    let name = name.split(|byte| *byte == 0).next()?;
    Some(NftTable {
        family,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Family, NftTable, Stores, table};

    #[test]
    fn symbols_tell_the_stores() {
        let mut noted = Stores::default();
        for symbol in ["nft_do_chain", "nft_target_eval_xtra", "ip_set_test", "x"] {
            noted.note(symbol);
        }
        let stores = Stores {
            nf_tables: true,
            ipset: true,
            ..Stores::default()
        };
        assert_eq!(noted, stores);
    }

    #[test]
    fn a_table_is_read_and_lies_are_not() {
        let mut body = vec![
            10, 0, 0, 0, 8, 0, 2, 0, 0, 0, 0, 1, 8, 0, 1, 0, b'n', b'a', b't', 0,
        ];
        let nat = NftTable {
            family: Family::Ip6,
            name: "nat".into(),
        };
        assert_eq!(table(&body), Some(nat));
        for length in [0, 3, 255] {
            body[4] = length;
            assert_eq!(table(&body), None, "{length}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_read_without_harm(body: Vec<u8>) {
            let _ = table(&body);
        }
    }
}
