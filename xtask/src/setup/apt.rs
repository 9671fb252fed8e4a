//! Asking apt: what an installation would do, what is installed, and the download of single packages.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::host;
use crate::process;

/// Packages that are never unpacked privately: a second C library under the first one's loader cannot run.
const NEVER_PRIVATE: [&str; 2] = ["libc6", "libc-bin"];

/// What a simulated installation starts from.
#[derive(Clone, Copy)]
pub(crate) enum Against {
    /// This machine as it is.
    Machine,
    /// A machine with nothing installed: gives every dependency, and no conflicts.
    Nothing,
}

/// One package that a simulated installation would unpack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Package name without architecture.
    pub(crate) package: String,
    /// True when another version of it is installed and would be replaced.
    pub(crate) replaces: bool,
}

/// What a simulated installation would do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Packages that it would remove.
    pub(crate) removed: Vec<String>,
}

impl Plan {
    /// Reads the `Inst` and `Remv` lines of `apt-get install -s`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut plan = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(verb), Some(name)) = (words.next(), words.next()) else {
                continue;
            };
            let package = name.split(':').next().unwrap_or(name).to_owned();
            match verb {
                "Inst" => {
                    let replaces = words.next().is_some_and(|word| word.starts_with('['));
                    plan.steps.push(Step { package, replaces });
                }
                "Remv" | "Purg" => plan.removed.push(package),
                _ => {}
            }
        }
        plan
    }

    /// True when nothing that is installed would be removed, replaced or upgraded.
    pub(crate) fn only_adds(&self) -> bool {
        self.removed.is_empty() && self.steps.iter().all(|step| !step.replaces)
    }

    /// The packages to unpack for a private copy.
    pub(crate) fn packages(&self) -> Vec<String> {
        let names = self.steps.iter().map(|step| step.package.clone());
        names
            .filter(|name| !NEVER_PRIVATE.contains(&name.as_str()))
            .collect()
    }
}

/// Simulates installing `packages`; fetches the package lists first where apt does not know one of them.
///
/// # Errors
/// When apt cannot find a way to install them, or the lists cannot be fetched.
pub(crate) fn simulate(against: Against, packages: &[String]) -> Result<Plan> {
    let attempt = || {
        process::output(
            simulation(against).args(packages),
            "simulating an installation",
        )
    };
    let text = match attempt() {
        Err(error) if format!("{error:#}").contains("Unable to locate package") => {
            refresh()?;
            attempt()?
        }
        other => other?,
    };
    Ok(Plan::parse(&text))
}

fn simulation(against: Against) -> Command {
    let mut apt = apt_get();
    apt.args(["install", "--simulate", "--no-install-recommends"]);
    if matches!(against, Against::Nothing) {
        apt.args(["-o", "Dir::State::status=/dev/null"]);
    }
    apt
}

/// `package` and what it needs and this machine lacks, for a private copy.
///
/// # Errors
/// When apt does not know the package.
pub(crate) fn missing_for(package: &str) -> Result<Vec<String>> {
    let wanted = [package.to_owned()];
    let mut packages = match simulate(Against::Machine, &wanted) {
        Ok(plan) => plan.packages(),
        // The machine's own state forbids it altogether (held or broken packages).
        Err(_) => absent(
            &simulate(Against::Nothing, &wanted)?.packages(),
            &installed()?,
        ),
    };
    if !packages.contains(&wanted[0]) {
        packages.extend(wanted);
    }
    Ok(packages)
}

fn absent(packages: &[String], installed: &BTreeSet<String>) -> Vec<String> {
    packages
        .iter()
        .filter(|package| !installed.contains(*package))
        .cloned()
        .collect()
}

/// Installs `packages` on this machine, or fails rather than remove anything.
///
/// # Errors
/// When apt fails.
pub(crate) fn install(packages: &[String]) -> Result<()> {
    println!("setup: installing Debian packages: {}", packages.join(" "));
    let attempt = || {
        let mut apt = apt_get();
        apt.args([
            "install",
            "--yes",
            "--quiet",
            "--no-install-recommends",
            "--no-remove",
            "--no-upgrade",
        ]);
        process::output(apt.args(packages), "installing packages").map(drop)
    };
    // Lists that are older than the mirror name files that it no longer has.
    attempt().or_else(|_| refresh().and_then(|()| attempt()))
}

/// Downloads `packages` into `folder`.
///
/// # Errors
/// When apt fails, also with fresh lists.
pub(crate) fn download(packages: &[String], folder: &Path) -> Result<()> {
    let attempt = || {
        let mut apt = apt_get();
        apt.current_dir(folder)
            .args(["download", "--quiet"])
            .args(packages);
        process::output(&mut apt, "downloading packages").map(drop)
    };
    attempt().or_else(|_| refresh().and_then(|()| attempt()))
}

/// True when apt knows a version of `package`.
pub(crate) fn knows(package: &str) -> bool {
    let text = process::output(
        process::command("apt-cache").args(["policy", package]),
        "asking for a package",
    );
    text.is_ok_and(|text| has_candidate(&text))
}

fn has_candidate(policy: &str) -> bool {
    let candidate = policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"));
    candidate.is_some_and(|version| version.trim() != "(none)")
}

/// Fetches the package lists.
///
/// # Errors
/// Status 3 without root, else when apt fails.
pub(crate) fn refresh() -> Result<()> {
    host::require_root("setup", "fetching Debian's package lists")?;
    println!("setup: fetching Debian's package lists");
    process::output(
        apt_get().args(["update", "--quiet"]),
        "fetching package lists",
    )
    .map(drop)
}

/// The names of the installed packages.
///
/// # Errors
/// When dpkg fails.
pub(crate) fn installed() -> Result<BTreeSet<String>> {
    let mut query = process::command("dpkg-query");
    query.args(["--show", "--showformat", "${db:Status-Abbrev} ${Package}\n"]);
    process::output(&mut query, "listing installed packages").map(|text| parse_installed(&text))
}

fn parse_installed(text: &str) -> BTreeSet<String> {
    let installed = |line: &str| {
        let (state, name) = line.rsplit_once(' ')?;
        state
            .as_bytes()
            .get(1)
            .is_some_and(|&current| current == b'i')
            .then(|| name.to_owned())
    };
    text.lines().filter_map(installed).collect()
}

/// Unpacks one package file below `root`.
///
/// # Errors
/// When the file is damaged or the disk full.
pub(crate) fn extract(file: &Path, root: &Path) -> Result<()> {
    let mut dpkg = process::command("dpkg-deb");
    process::output(
        dpkg.arg("--extract").arg(file).arg(root),
        "unpacking a package",
    )
    .map(drop)
    .with_context(|| format!("{} into {}", file.display(), root.display()))
}

fn apt_get() -> Command {
    let mut apt = process::command("apt-get");
    // Without the sandbox option root's downloads into a private folder end in a warning each.
    apt.env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C")
        .args([
            "-o",
            "DPkg::Lock::Timeout=300",
            "-o",
            "APT::Sandbox::User=root",
        ]);
    apt
}

#[cfg(test)]
mod tests {
    use super::*;

    const QEMU: &str = "\
Reading package lists...
The following packages will be REMOVED:
  qemu-utils
Remv qemu-utils [1:7.2+dfsg-7+deb12u12]
Inst libfdt1 (1.6.1-4+b1 Debian:12.15/oldstable [amd64])
Inst qemu-system-x86 (1:7.2+dfsg-7+deb12u18+b3 Debian:12.15/oldstable [amd64])
Inst zstd [1.5.4+dfsg2-5] (1.5.4+dfsg2-5+deb12u1 Debian-Security:12/oldstable-security [amd64]) [x on y]
Inst libc6:i386 (2.36 Debian [i386])
Conf libfdt1 (1.6.1-4+b1 Debian:12.15/oldstable [amd64])
";

    fn step(package: &str, replaces: bool) -> Step {
        Step {
            package: package.to_owned(),
            replaces,
        }
    }

    #[test]
    fn a_plan_tells_additions_from_upgrades_and_removals() {
        let plan = Plan::parse(QEMU);
        assert_eq!(
            plan,
            Plan {
                steps: vec![
                    step("libfdt1", false),
                    step("qemu-system-x86", false),
                    step("zstd", true),
                    step("libc6", false),
                ],
                removed: vec!["qemu-utils".to_owned()],
            }
        );
        assert!(!plan.only_adds());
        assert_eq!(plan.packages(), ["libfdt1", "qemu-system-x86", "zstd"]);
    }

    #[test]
    fn an_upgrade_alone_or_a_removal_alone_is_not_an_addition() {
        assert!(Plan::parse("Inst ethtool (1:6.1-1 Debian:12 [amd64])").only_adds());
        assert!(!Plan::parse("Inst zstd [1.5] (1.6 Debian:12 [amd64])").only_adds());
        assert!(!Plan::parse("Inst a (1 D)\nRemv b [1]").only_adds());
        assert!(Plan::parse("").only_adds());
        assert_eq!(Plan::parse("Inst\n\nRemv"), Plan::default());
    }

    #[test]
    fn installed_means_unpacked_and_configured() {
        let names = parse_installed("ii  bash\nrc  gone\niU  half\nun  never\nhi  held\n");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["bash", "held"]);
    }

    #[test]
    fn candidates() {
        assert!(has_candidate(
            "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0\n"
        ));
        assert!(!has_candidate("x:\n  Installed: 1\n  Candidate: (none)\n"));
        assert!(!has_candidate(""));
    }

    #[test]
    fn absent_packages_are_those_not_installed() {
        let installed = BTreeSet::from(["a".to_owned()]);
        assert_eq!(absent(&["a".to_owned(), "b".to_owned()], &installed), ["b"]);
    }
}
