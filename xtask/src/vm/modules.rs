//! Kernel modules for the image: networking and what it depends on, uncompressed, with a fresh index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::programs::Programs;
use crate::process;

/// Changes whenever the selection below does, so that stored kernels are made again.
pub(crate) const SELECTION: &str = "networking 2";

/// Directories below `kernel/` that the labs may need.
const WANTED: [&str; 4] = ["net/", "drivers/net/", "crypto/", "arch/x86/crypto/"];

/// Parts of them that no lab needs and that are large.
const UNWANTED: [&str; 18] = [
    "drivers/net/ethernet/",
    "drivers/net/hyperv/",
    "drivers/net/team/",
    "drivers/net/vmxnet3/",
    "drivers/net/wwan/",
    "drivers/net/xen-",
    "net/9p/",
    "net/ceph/",
    "net/dccp/",
    "net/kcm/",
    "net/l2tp/",
    "net/openvswitch/",
    "net/rds/",
    "net/smc/",
    "net/sunrpc/",
    "net/tipc/",
    "net/tls/",
    "net/vmw_vsock/",
];

/// Copies the wanted modules of the tree `from` (a directory below lib/modules) to `to`, uncompressed and indexed.
///
/// # Errors
/// When a file cannot be copied or depmod or xz fails.
pub(crate) fn select(from: &Path, to: &Path, release: &str, programs: &Programs) -> Result<()> {
    depmod(from, release, programs)?;
    let index = from.join("modules.dep");
    let text =
        fs::read_to_string(&index).with_context(|| format!("reading {}", index.display()))?;
    let chosen = with_dependencies(&parse_dep(&text), is_wanted);
    for module in &chosen {
        let target = to.join(module);
        let parent = target.parent().context("a module has no directory")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        fs::copy(from.join(module), &target).with_context(|| format!("copying module {module}"))?;
    }
    let packed = chosen
        .iter()
        .filter(|module| module.ends_with(".xz"))
        .map(|module| to.join(module))
        .collect::<Vec<_>>();
    for some in packed.chunks(200) {
        process::output(
            programs.command("xz")?.arg("-d").args(some),
            "uncompressing kernel modules",
        )?;
    }
    for file in [
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    ] {
        if from.join(file).exists() {
            fs::copy(from.join(file), to.join(file)).with_context(|| format!("copying {file}"))?;
        }
    }
    depmod(to, release, programs)
}

/// Makes the index of the tree `dir`, which lies in some `lib/modules/RELEASE`.
fn depmod(dir: &Path, release: &str, programs: &Programs) -> Result<()> {
    let base = dir
        .ancestors()
        .nth(3)
        .context("not a directory below lib/modules")?;
    process::output(
        programs
            .command_as("kmod", "depmod")?
            .arg("-b")
            .arg(base)
            .arg(release),
        "indexing kernel modules",
    )?;
    Ok(())
}

/// Path of each module with the paths of those it needs.
fn parse_dep(text: &str) -> BTreeMap<&str, Vec<&str>> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(module, needs)| (module, needs.split_whitespace().collect()))
        .collect()
}

fn is_wanted(module: &str) -> bool {
    let path = module.strip_prefix("kernel/").unwrap_or(module);
    WANTED.iter().any(|dir| path.starts_with(dir))
        && !UNWANTED.iter().any(|dir| path.starts_with(dir))
}

/// The wanted modules and all that they need. modules.dep lists dependencies completely, so one step is enough.
fn with_dependencies<'a>(
    deps: &BTreeMap<&'a str, Vec<&'a str>>,
    wanted: impl Fn(&str) -> bool,
) -> BTreeSet<&'a str> {
    let roots = deps.iter().filter(|(module, _)| wanted(module));
    roots
        .flat_map(|(module, needs)| std::iter::once(*module).chain(needs.iter().copied()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wanted_module_brings_what_it_needs() {
        let text = "kernel/net/ipv4/ah4.ko.xz: kernel/lib/a.ko.xz kernel/fs/b.ko\nkernel/lib/a.ko.xz:\nkernel/fs/b.ko:\n\
                    kernel/fs/c.ko: kernel/fs/b.ko\nkernel/net/tipc/tipc.ko: kernel/net/t.ko\nkernel/net/t.ko:\n";
        let chosen = with_dependencies(&parse_dep(text), is_wanted);
        assert_eq!(
            chosen.into_iter().collect::<Vec<_>>(),
            [
                "kernel/fs/b.ko",
                "kernel/lib/a.ko.xz",
                "kernel/net/ipv4/ah4.ko.xz",
                "kernel/net/t.ko"
            ]
        );
    }
}
