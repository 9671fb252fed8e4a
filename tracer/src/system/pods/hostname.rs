//! The pod's name as its container knows it, for nodes whose log folders cannot be seen.
//!
//! The host name comes from the kernel (the process's UTS namespace), not from files in the
//! container, which its owner may replace by anything. The pod's namespace is only in the
//! container's service account files: read without following links out of the container's root,
//! and only where no file system that a user can serve is mounted, since reading from one can
//! hang for ever.

use super::logs::is_label;
use crate::system::Roots;
use crate::system::netns::{enter, on_visitor};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::thread::LinkNameSpaceType;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const NAMESPACE: &str = "run/secrets/kubernetes.io/serviceaccount/namespace";

/// Longest name that is read.
const LONGEST: u64 = 256;

/// `namespace/name`, or the name alone.
pub(super) fn of(roots: &Roots, pid: u32) -> Option<String> {
    let name = kernel_hostname(roots, pid)?;
    match namespace(roots, pid) {
        Some(namespace) => Some(format!("{namespace}/{name}")),
        None => Some(name),
    }
}

/// The host name in the process's UTS namespace, if that is not ours (a pod on the host's
/// network has the host's name).
fn kernel_hostname(roots: &Roots, pid: u32) -> Option<String> {
    let path = roots.of(pid, "ns/uts");
    let theirs = std::fs::read_link(&path).ok()?;
    let ours = std::fs::read_link(roots.proc().join("self/ns/uts")).ok()?;
    if theirs == ours {
        return None;
    }
    let file = File::open(&path).ok()?;
    let visit = on_visitor(|| {
        enter(&file, LinkNameSpaceType::HostNameAndNISDomainName, &pid).ok()?;
        Some(crate::system::host::hostname())
    });
    let name = visit.ok()??;
    is_label(&name, 253, true).then_some(name)
}

fn namespace(roots: &Roots, pid: u32) -> Option<String> {
    if !trustworthy(&roots.of(pid, "mountinfo")) {
        return None;
    }
    let text = read_inside(&roots.of(pid, "root"), NAMESPACE)?;
    let name = text.trim_ascii_end();
    is_label(name, 63, false).then(|| name.to_owned())
}

/// Whether every mount of a process is of a kind that the kernel itself serves.
fn trustworthy(mountinfo: &Path) -> bool {
    const SERVED: [&str; 6] = ["fuse", "nfs", "9p", "cifs", "smb", "ceph"];
    let kind = |line: &str| Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned());
    std::fs::read_to_string(mountinfo).is_ok_and(|text| {
        let kinds = text.lines().filter_map(kind);
        !kinds
            .into_iter()
            .any(|k| SERVED.iter().any(|s| k.starts_with(s)))
    })
}

/// Reads a small regular file below a root that somebody else owns.
fn read_inside(root: &Path, path: &str) -> Option<String> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, root, folder, Mode::empty()).ok()?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = String::new();
    File::from(file)
        .take(LONGEST)
        .read_to_string(&mut text)
        .ok()
        .map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Folder;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_do_not_lead_out_of_a_containers_root() {
        let outside = Folder::new("hostname-outside");
        outside.write("secret", "host");
        let root = Folder::new("hostname-root");
        root.write("real", "shop\n");
        root.write("secret", "inside");
        symlink(outside.path().join("secret"), root.path().join("out")).unwrap();
        symlink("../../../../../secret", root.path().join("up")).unwrap();
        symlink("/real", root.path().join("in")).unwrap();
        symlink("/proc/self/fd/0", root.path().join("magic")).unwrap();
        let read = |path: &str| read_inside(root.path(), path);
        assert_eq!(read("real").as_deref(), Some("shop\n"));
        assert_eq!(read("in").as_deref(), Some("shop\n"));
        assert_eq!(read("up").as_deref(), Some("inside"), "stays in the root");
        assert_eq!(read("out"), None);
        assert_eq!(read("magic"), None);
        assert_eq!(read("."), None, "a folder is no file");
    }

    #[test]
    fn pipes_do_not_block_and_long_files_are_cut() {
        let root = Folder::new("hostname-pipe");
        let pipe = root.path().join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        root.write("long", &"x".repeat(10_000));
        assert_eq!(read_inside(root.path(), "pipe"), None);
        assert_eq!(read_inside(root.path(), "long").unwrap().len(), 256);
    }

    #[test]
    fn file_systems_served_by_users_are_not_trusted() {
        let at = Folder::new("hostname-mounts");
        at.write(
            "good",
            "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /run rw - tmpfs t rw\n",
        );
        at.write(
            "bad",
            "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /x rw - fuse.evil e rw\n",
        );
        assert!(trustworthy(&at.path().join("good")));
        assert!(!trustworthy(&at.path().join("bad")));
        assert!(!trustworthy(&at.path().join("missing")));
    }
}
