//! The kubelet's log folders: `/var/log/pods/<namespace>_<name>_<uid>`.

use super::cgroup::is_uid;
use crate::system::Roots;
use rustix::fs::Dir;
use std::collections::BTreeMap;

/// Pods of one node at most; a folder with more is not the kubelet's.
const PODS: usize = 1 << 14;

/// `namespace/name` by uid, from the log folders that can be seen from here.
pub(super) fn pods(roots: &Roots) -> BTreeMap<String, String> {
    roots
        .folders("var/log/pods")
        .filter_map(|folder| Dir::new(folder).ok())
        .flat_map(|entries| entries.flatten().take(PODS))
        .filter_map(|entry| parse(entry.file_name().to_str().ok()?))
        .collect()
}

/// Reads a folder's name. Names and namespaces have no underscore, and nothing else than lower
/// case letters, digits, dashes and dots (RFC 1123), so no other reading is possible.
fn parse(folder: &str) -> Option<(String, String)> {
    let mut parts = folder.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let fits = parts.next().is_none()
        && is_label(namespace, 63, false)
        && is_label(name, 253, true)
        && is_uid(uid);
    fits.then(|| (uid.to_owned(), format!("{namespace}/{name}")))
}

/// An RFC 1123 label, or several with dots between.
pub(super) fn is_label(text: &str, longest: usize, dots: bool) -> bool {
    let allowed =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || (dots && b == b'.');
    let edge = |b: Option<&u8>| b.is_some_and(|b| *b != b'-' && *b != b'.');
    let bytes = text.as_bytes();
    bytes.len() <= longest
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| allowed(*b))
}

#[cfg(test)]
mod tests {
    use super::{parse, pods};
    use crate::system::Roots;
    use crate::system::testing::Folder;

    const UID: &str = "0f4e2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6b";

    #[test]
    fn folders_name_pods() {
        let pod = |folder: String| parse(&folder).map(|(_, pod)| pod);
        assert_eq!(
            pod(format!("shop_web-7d9f_{UID}")).as_deref(),
            Some("shop/web-7d9f")
        );
        assert_eq!(
            pod("kube-system_etcd-a.b_d3c5a1b27e6f40918273645546372819".into()).as_deref(),
            Some("kube-system/etcd-a.b")
        );
    }

    #[test]
    fn a_folder_that_was_moved_is_found_as_the_host_finds_it() {
        let host = Folder::new("logs");
        host.make(&format!("mnt/data/logs/shop_web_{UID}"));
        host.write("mnt/data/logs/readme", "no pod");
        host.make("var/log");
        std::os::unix::fs::symlink("/mnt/data/logs", host.path().join("var/log/pods")).unwrap();
        let found = pods(&Roots::at(host.path(), host.path()));
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [(UID.into(), "shop/web".into())]
        );
    }

    #[test]
    fn other_names_are_not_pods() {
        for folder in [
            String::new(),
            "_".into(),
            format!("shop_{UID}"),
            format!("shop_web_x_{UID}"),
            format!("_web_{UID}"),
            format!("shop__{UID}"),
            format!("Shop_web_{UID}"),
            format!("shop_we\u{1b}[2Jb_{UID}"),
            format!("shop_-web_{UID}"),
            format!("a.b_web_{UID}"),
            format!("{}_web_{UID}", "a".repeat(64)),
            "shop_web_../../etc".into(),
        ] {
            assert_eq!(parse(&folder), None, "{folder:?}");
        }
    }
}
