//! Debian packages fetched through a private apt: own sources list, state and cache, so that suites the machine does not
//! use can be read without touching its configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::host;
use crate::process;

/// Debian's own keys; they sign every suite used here, old and new.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where this machine gets its packages from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// Base address of the archive.
    archive: String,
    /// Base address of the security archive.
    security: String,
}

impl Mirror {
    /// Asks the machine's apt, so that every way of writing sources lists is understood.
    ///
    /// # Errors
    /// When this is no Debian machine, or apt's sources lack the archive or its security part.
    pub(crate) fn of_machine() -> Result<Self> {
        host::require_debian("kernels for virtual machines")?;
        let text = fs::read_to_string("/etc/os-release").context("reading /etc/os-release")?;
        let codename = text
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let codename = codename
            .context("/etc/os-release names no release of Debian")?
            .trim_matches('"');
        let mut apt = process::command("apt-get");
        apt.args([
            "indextargets",
            "--no-release-info",
            "--format",
            "$(REPO_URI) $(RELEASE)",
            "Created-By: Packages",
        ]);
        let text = process::output(&mut apt, "asking apt for the machine's package sources")?;
        Self::parse(&text, codename)
    }

    fn parse(targets: &str, codename: &str) -> Result<Self> {
        let of = |suite: &str| {
            let found = targets
                .lines()
                .find_map(|line| line.strip_suffix(suite)?.strip_suffix(' '));
            found.map(|uri| uri.trim_end_matches('/').to_owned()).with_context(|| {
                format!("the machine's apt sources have no suite {suite}; add it to /etc/apt/sources.list.d")
            })
        };
        Ok(Self {
            archive: of(codename)?,
            security: of(&format!("{codename}-security"))?,
        })
    }

    fn source(&self, suite: &str) -> String {
        let base = if suite.ends_with("-security") {
            &self.security
        } else {
            &self.archive
        };
        format!("deb [signed-by={KEYRING}] {base} {suite} main\n")
    }
}

/// A package at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Name.
    pub(crate) name: String,
    /// Version, in Debian's notation.
    pub(crate) version: String,
}

impl Package {
    fn spec(&self) -> String {
        format!("{}={}", self.name, self.version)
    }
}

/// One package's description, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stanza {
    /// Which package it describes.
    pub(crate) package: Package,
    /// Names of the packages it depends on (all alternatives).
    pub(crate) depends: Vec<String>,
}

/// A set of suites, indexed privately in one directory.
pub(crate) struct Pool {
    dir: PathBuf,
}

impl Pool {
    /// Fetches the indexes of `suites` into `dir`.
    ///
    /// # Errors
    /// When a suite is gone or unreachable: nothing is left out silently.
    pub(crate) fn open(dir: &Path, mirror: &Mirror, suites: &[&str]) -> Result<Self> {
        for sub in ["state/lists/partial", "cache/archives/partial"].map(|sub| dir.join(sub)) {
            fs::create_dir_all(&sub).with_context(|| format!("creating {}", sub.display()))?;
        }
        let sources: String = suites.iter().map(|suite| mirror.source(suite)).collect();
        write(&dir.join("sources.list"), &sources)?;
        write(&dir.join("apt.conf"), &configuration(dir))?;
        let pool = Self {
            dir: dir.to_path_buf(),
        };
        process::output(
            pool.apt("apt-get").arg("update"),
            "reading the package indexes",
        )
        .with_context(|| {
            format!(
                "suite gone or mirror unreachable, wanted: {}",
                suites.join(", ")
            )
        })?;
        Ok(pool)
    }

    /// All versions of `name` in these suites.
    ///
    /// # Errors
    /// When apt knows no such package.
    pub(crate) fn show(&self, name: &str) -> Result<Vec<Stanza>> {
        let text = process::output(
            self.apt("apt-cache").args(["show", name]),
            "looking up a package",
        )?;
        Ok(parse_stanzas(&text))
    }

    /// Downloads `packages` (apt checks them against the signed index) and unpacks them over each other into `root`.
    ///
    /// # Errors
    /// When one cannot be had or unpacked.
    pub(crate) fn unpack(&self, packages: &[Package], root: &Path) -> Result<()> {
        let debs = self.dir.join("debs");
        let _ = fs::remove_dir_all(&debs);
        fs::create_dir_all(&debs).with_context(|| format!("creating {}", debs.display()))?;
        let mut apt = self.apt("apt-get");
        apt.arg("download")
            .args(packages.iter().map(Package::spec))
            .current_dir(&debs);
        process::output(&mut apt, "downloading packages")?;
        fs::create_dir_all(root).with_context(|| format!("creating {}", root.display()))?;
        let mut unpacked = 0;
        for deb in fs::read_dir(&debs)? {
            let mut dpkg = process::command("dpkg-deb");
            process::output(
                dpkg.arg("-x").arg(deb?.path()).arg(root),
                "unpacking a package",
            )?;
            unpacked += 1;
        }
        if unpacked != packages.len() {
            bail!(
                "apt-get download left {unpacked} packages of {} in {}",
                packages.len(),
                debs.display()
            );
        }
        fs::remove_dir_all(&debs).with_context(|| format!("removing {}", debs.display()))
    }

    fn apt(&self, program: &str) -> Command {
        let mut apt = process::command(program);
        apt.arg("--config-file")
            .arg(self.dir.join("apt.conf"))
            .env("LC_ALL", "C.UTF-8");
        apt
    }
}

/// True if Debian orders version `a` after version `b`.
///
/// # Errors
/// When dpkg is missing.
pub(crate) fn is_newer(a: &str, b: &str) -> Result<bool> {
    let mut dpkg = process::command("dpkg");
    let status = dpkg
        .args(["--compare-versions", a, "gt", b])
        .status()
        .context("starting dpkg")?;
    Ok(status.success())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Everything apt would otherwise take from or leave in the machine's own directories. Proxy settings stay.
fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "Dir::Etc::SourceList \"{dir}/sources.list\";\n\
         Dir::Etc::SourceParts \"/dev/null\";\n\
         Dir::State \"{dir}/state\";\n\
         Dir::State::status \"/dev/null\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         APT::Architectures {{ \"amd64\"; }};\n\
         APT::Sandbox::User \"root\";\n\
         APT::Update::Error-Mode \"any\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"3\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         Acquire::IndexTargets::deb::CNF::DefaultEnabled \"false\";\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n"
    )
}

fn parse_stanzas(text: &str) -> Vec<Stanza> {
    text.split("\n\n").filter_map(parse_stanza).collect()
}

fn parse_stanza(text: &str) -> Option<Stanza> {
    let field = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    };
    let depends = field("Depends").unwrap_or_default();
    Some(Stanza {
        package: Package {
            name: field("Package")?.to_owned(),
            version: field("Version")?.to_owned(),
        },
        depends: depends
            .split([',', '|'])
            .filter_map(|d| d.split_whitespace().next())
            .map(str::to_owned)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn the_mirror_is_the_machines_own() {
        let targets = "http://m.example/debian/ bookworm-updates\nhttp://m.example/debian/ bookworm\n\
                       http://s.example/sec bookworm-security\n";
        let mirror = Mirror::parse(targets, "bookworm").unwrap();
        assert_eq!(
            mirror,
            Mirror {
                archive: "http://m.example/debian".to_owned(),
                security: "http://s.example/sec".to_owned()
            }
        );
        assert_eq!(
            mirror.source("bullseye-security"),
            format!("deb [signed-by={KEYRING}] http://s.example/sec bullseye-security main\n")
        );
        let error = Mirror::parse("http://m.example/debian/ bookworm\n", "bookworm")
            .unwrap_err()
            .to_string();
        assert!(error.contains("no suite bookworm-security"), "{error}");
    }

    #[test]
    fn stanzas_give_name_version_and_dependencies() {
        let text = "Package: linux-image-cloud-amd64\nVersion: 7.3.4-1~bpo13+1\n\
                    Depends: linux-base-x (= 7), linux-image-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1)\n\n\
                    Package: linux-image-cloud-amd64\nDepends: kmod, dracut | initramfs-tools (>= 0.120)\nVersion: 6.1\n\n";
        assert_eq!(
            parse_stanzas(text),
            [
                Stanza {
                    package: package("linux-image-cloud-amd64", "7.3.4-1~bpo13+1"),
                    depends: vec![
                        "linux-base-x".to_owned(),
                        "linux-image-7.3.4+deb13-cloud-amd64".to_owned()
                    ],
                },
                Stanza {
                    package: package("linux-image-cloud-amd64", "6.1"),
                    depends: vec![
                        "kmod".to_owned(),
                        "dracut".to_owned(),
                        "initramfs-tools".to_owned()
                    ],
                },
            ]
        );
        assert!(parse_stanzas("").is_empty());
    }

    #[test]
    fn a_suite_that_is_not_there_is_an_error() {
        let dir = std::env::temp_dir().join(format!("srctrace-pool-{}", std::process::id()));
        let archive = format!("file://{}/archive", dir.display());
        let mirror = Mirror {
            archive: archive.clone(),
            security: archive,
        };
        let error = Pool::open(&dir, &mirror, &["gone"]).err().unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            error.to_string(),
            "suite gone or mirror unreachable, wanted: gone"
        );
    }
}
