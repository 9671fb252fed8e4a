//! Namespaces that are held by a mount: `ip netns`, CNIs, docker and podman.

use super::parse_link;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use tracer_core::event::NetnsId;

/// A mount of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NsMount {
    /// The namespace.
    pub(super) id: NetnsId,
    /// Number of the mount: changes when a namespace is made anew under the same name.
    pub(super) mount: u64,
    /// Where it is mounted.
    pub(super) path: PathBuf,
}

/// The network namespaces among the mounts of a `/proc/PID/mountinfo`. Lines that cannot be read
/// are not ours and are passed over.
pub(super) fn parse(mountinfo: &[u8]) -> Vec<NsMount> {
    mountinfo
        .split(|b| *b == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<NsMount> {
    let mut fields = line.split(|b| *b == b' ');
    let mount = text(fields.next()?)?.parse().ok()?;
    let id = parse_link(text(fields.nth(2)?)?)?;
    let path = unescape(fields.next()?);
    let kind = fields.skip_while(|f| *f != b"-").nth(1)?;
    (kind == b"nsfs").then_some(NsMount { id, mount, path })
}

fn text(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        match tail.get(..3).filter(|_| byte == b'\\').and_then(octal) {
            Some(decoded) => {
                out.push(decoded);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out).into()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(text(digits)?, 8).ok()
}

/// What people call a namespace mounted there: the name `ip netns` uses, or the engine's name for
/// those that docker and podman keep elsewhere.
pub(super) fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let folder = path.parent()?;
    if folder.ends_with("run/netns") {
        return Some(name.into_owned());
    }
    match folder.parent().and_then(Path::file_name) {
        Some(engine) if folder.ends_with("netns") => {
            Some(format!("{}/{name}", engine.to_string_lossy()))
        }
        _ => Some(name.into_owned()),
    }
}

/// Whether `ip netns` would list it: its name is the one people type.
pub(super) fn is_ip_netns(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| folder.ends_with("run/netns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(id: u32, mount: u64, path: &str) -> NsMount {
        NsMount {
            id: NetnsId(id),
            mount,
            path: path.into(),
        }
    }

    #[test]
    fn finds_the_namespaces_of_ip_cni_and_docker() {
        let text = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            31 22 0:4 net:[4026532281] /run/netns/blue rw shared:9 - nsfs nsfs rw\n\
            32 22 0:4 net:[4026532290] /run/netns/cni-7c1e rw shared:9 master:2 - nsfs nsfs rw\n\
            33 22 0:4 net:[4026532300] /run/docker/netns/5f0b rw - nsfs nsfs rw\n\
            34 22 0:4 mnt:[4026532301] /run/ns/m rw - nsfs nsfs rw\n\
            35 22 0:30 net:[77] /evil rw - tmpfs tmpfs rw\n";
        assert_eq!(
            parse(text),
            [
                mount(4026532281, 31, "/run/netns/blue"),
                mount(4026532290, 32, "/run/netns/cni-7c1e"),
                mount(4026532300, 33, "/run/docker/netns/5f0b"),
            ]
        );
    }

    #[test]
    fn hostile_lines_are_passed_over() {
        for line in [
            &b""[..],
            b"31",
            b"x 22 0:4 net:[1] /a rw - nsfs nsfs rw",
            b"31 22 0:4 net:[99999999999] /a rw - nsfs nsfs rw",
            b"31 22 0:4 net:[1 /a rw - nsfs nsfs rw",
            b"31 22 0:4 net:[1] /a rw",
            b"\xff\xfe \xff \xff net:[1] \xff - nsfs",
        ] {
            assert_eq!(parse(line), [], "{line:?}");
        }
    }

    #[test]
    fn escapes_are_undone_and_broken_ones_kept() {
        assert_eq!(unescape(b"/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(unescape(b"/a\\9zz\\04"), Path::new("/a\\9zz\\04"));
    }

    #[test]
    fn names_are_the_ones_people_use() {
        let name = |path: &str| name_of(Path::new(path));
        assert_eq!(name("/run/netns/blue").as_deref(), Some("blue"));
        assert_eq!(name("/proc/1/root/run/netns/blue").as_deref(), Some("blue"));
        assert_eq!(
            name("/run/docker/netns/5f0b").as_deref(),
            Some("docker/5f0b")
        );
        assert_eq!(name("/srv/keep").as_deref(), Some("keep"));
        assert_eq!(name("/"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>, path in "(/[a-z\\\\ 0-7]{0,8}){0,4}") {
            parse(&bytes);
            let mut line = b"31 22 0:4 net:[7] ".to_vec();
            line.extend(path.bytes());
            line.extend(b" rw - nsfs nsfs rw");
            for mount in parse(&line) {
                name_of(&mount.path);
            }
        }
    }
}
