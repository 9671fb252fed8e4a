//! The machine's own programs that print rules.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tracer_core::ruleset::Family;

/// Where programs are looked for, besides our own `PATH`; also the `PATH` that they get.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs that are here.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    pub(super) legacy: [Option<PathBuf>; 2],
    pub(super) nft_save: [Option<PathBuf>; 2],
    pub(super) nft: Option<PathBuf>,
    pub(super) ipset: Option<PathBuf>,
}

impl Programs {
    /// Looks them up once. A plain `iptables-save` is of the backend that its `--version` names; old
    /// ones (before 1.8) name none and know only the legacy one.
    #[must_use]
    pub fn find() -> Self {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&own)
            .chain(std::env::split_paths(PATH))
            .collect();
        Self::among(&folders)
    }

    fn among(folders: &[PathBuf]) -> Self {
        let find = |name: &str| {
            folders
                .iter()
                .map(|folder| folder.join(name))
                .find(|path| runs(path))
        };
        let mut programs = Self {
            nft: find("nft"),
            ipset: find("ipset"),
            ..Self::default()
        };
        for (at, tool) in ["iptables", "ip6tables"].into_iter().enumerate() {
            programs.legacy[at] = find(&format!("{tool}-legacy-save"));
            programs.nft_save[at] = find(&format!("{tool}-nft-save"));
            let complete = programs.legacy[at].is_some() && programs.nft_save[at].is_some();
            let Some(plain) = find(&format!("{tool}-save")).filter(|_| !complete) else {
                continue;
            };
            let slot = if of_nft(&plain) {
                &mut programs.nft_save[at]
            } else {
                &mut programs.legacy[at]
            };
            slot.get_or_insert(plain);
        }
        programs
    }

    /// What reads the legacy tables of a family.
    pub(super) fn legacy(&self, family: Family) -> Option<&Path> {
        self.legacy[index(family)].as_deref()
    }

    /// What reads iptables-nft's tables of a family.
    pub(super) fn nft_save(&self, family: Family) -> Option<&Path> {
        self.nft_save[index(family)].as_deref()
    }
}

fn index(family: Family) -> usize {
    usize::from(family == Family::Ip6)
}

fn runs(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// `iptables-save v1.8.9 (nf_tables)`.
fn of_nft(program: &Path) -> bool {
    super::child::run(program, &["--version"]).is_ok_and(|version| version.contains("nf_tables"))
}
