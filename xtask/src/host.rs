//! What kind of machine this is, and whether setup may install there.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::stop::Stop;

/// True when this process has root's user id.
pub(crate) fn is_root() -> bool {
    // The kernel gives /proc/self to the effective user; the standard library has no call for it.
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Stops unless this process is root, saying what needs it.
///
/// # Errors
/// Status 3, with the command to run instead.
pub(crate) fn require_root(task: &str, why: &str) -> Result<(), Stop> {
    if is_root() {
        return Ok(());
    }
    Err(Stop::impossible(format!(
        "{why} needs root: run `sudo -E env PATH=\"$PATH\" cargo xtask {task}`"
    )))
}

/// Stops unless Debian packages for this machine can be fetched: `missing` names what would have to be installed.
///
/// # Errors
/// Status 3, with what to install by hand.
pub(crate) fn require_debian(missing: &str) -> Result<(), Stop> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Stop::impossible(format!(
            "setup knows only x86_64 Debian, this is {}; install by hand: {missing}",
            std::env::consts::ARCH
        )));
    }
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !is_debian(&release) {
        return Err(Stop::impossible(format!(
            "setup installs Debian packages and this system is {}; install by hand: {missing}",
            system_name(&release)
        )));
    }
    Ok(())
}

fn field<'a>(release: &'a str, key: &str) -> Option<&'a str> {
    release
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(|value| value.trim_matches('"'))
}

fn is_debian(release: &str) -> bool {
    let ids = field(release, "ID")
        .into_iter()
        .chain(field(release, "ID_LIKE"));
    ids.flat_map(str::split_whitespace).any(|id| id == "debian")
}

fn system_name(release: &str) -> &str {
    field(release, "PRETTY_NAME").unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_children_are_recognised() {
        assert!(is_debian(
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n"
        ));
        assert!(is_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian("ID=fedora\nID_LIKE=rhel\n"));
        assert!(!is_debian("VERSION_ID=debian\n"));
        assert!(!is_debian(""));
    }

    #[test]
    fn a_system_without_a_name_is_unknown() {
        assert_eq!(system_name("ID=x\nPRETTY_NAME=\"Some OS\"\n"), "Some OS");
        assert_eq!(system_name("ID=x\n"), "unknown");
    }
}
