//! What a cgroup path tells of its pod and container.
//!
//! kubelet names a pod's cgroup `pod<uid>` (cgroupfs driver) or `kubepods[-qos]-pod<uid>.slice`
//! with the uid's dashes as underscores (systemd driver); the runtime puts the container below
//! it, as a bare id, or in a scope: `cri-containerd-<id>.scope`, `crio-<id>.scope`,
//! `docker-<id>.scope`, `libpod-<id>.scope`. containerd with the wrong driver under systemd
//! writes `…pod<uid>.slice:cri-containerd:<id>`.

/// What a cgroup path tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Uid of the pod, with dashes, lower case.
    pub pod_uid: Option<String>,
    /// Id of the container: 64 hexadecimal digits.
    pub id: Option<String>,
}

/// Reads a cgroup path. Anything else than pods and containers gives nothing; the path may begin
/// with `/..` when it lies outside the reader's cgroup namespace.
pub fn parse_cgroup(path: &str) -> Container {
    let mut out = Container::default();
    for part in path.split(['/', ':']) {
        if let Some(uid) = pod_uid(part) {
            out.pod_uid = Some(uid);
        }
        if let Some(id) = container_id(part) {
            out.id = Some(id.to_owned());
        }
    }
    out
}

/// `pod<uid>`, or a slice that ends in `-pod<uid>.slice`.
fn pod_uid(part: &str) -> Option<String> {
    let slice = part.strip_suffix(".slice");
    let uid = match slice {
        Some(name) => name.rsplit_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    is_uid(&uid).then_some(uid)
}

/// A UUID, or the 32 digits that the kubelet gives to pods from manifests on disk.
pub(super) fn is_uid(uid: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    let shape = |(at, byte): (usize, u8)| match dashes.contains(&at) {
        true => byte == b'-',
        false => is_hex(byte),
    };
    match uid.len() {
        36 => uid.bytes().enumerate().all(shape),
        32 => uid.bytes().all(is_hex),
        _ => false,
    }
}

/// A bare id, or one in a scope of the runtime's. `crio-conmon-<id>` is the container's monitor.
fn container_id(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    (id.len() == 64 && id.bytes().all(is_hex)).then_some(id)
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0f4e2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6b";
    const ID: &str = "3f2a8c0d9e1b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";

    fn whole(path: &str) -> (Option<String>, Option<String>) {
        let container = parse_cgroup(path);
        (container.pod_uid, container.id)
    }

    #[test]
    fn every_runtime_and_driver() {
        let under = UID.replace('-', "_");
        let both = (Some(UID.to_owned()), Some(ID.to_owned()));
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{under}.slice/crio-{ID}.scope"),
            format!("/kubepods.slice/kubepods-pod{under}.slice/crio-{ID}.scope/container"),
            format!(
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice/docker-{ID}.scope"
            ),
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{ID}"),
            format!("/../../kubepods-burstable-pod{under}.slice/cri-containerd-{ID}.scope"),
            format!(
                "/system.slice/containerd.service/kubepods-burstable-pod{under}.slice:cri-containerd:{ID}"
            ),
            format!(
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{under}.slice/cri-containerd-{ID}.scope"
            ),
            format!(
                "/docker/{}/kubepods/besteffort/pod{UID}/{ID}",
                ID.replace('3', "0")
            ),
        ] {
            assert_eq!(whole(&path), both, "{path}");
        }
    }

    #[test]
    fn pods_from_manifests_have_a_hash_for_a_uid() {
        let hash = "d3c5a1b27e6f40918273645546372819";
        assert_eq!(
            whole(&format!("/kubepods/burstable/pod{hash}/{ID}")),
            (Some(hash.into()), Some(ID.into()))
        );
    }

    #[test]
    fn containers_without_a_pod() {
        let id_only = (None, Some(ID.to_owned()));
        assert_eq!(whole(&format!("/system.slice/docker-{ID}.scope")), id_only);
        assert_eq!(whole(&format!("/docker/{ID}")), id_only);
        assert_eq!(whole(&format!("/machine.slice/libpod-{ID}.scope")), id_only);
    }

    #[test]
    fn everything_else_gives_nothing() {
        for path in [
            "",
            "/",
            "/user.slice/user-0.slice/session-1.scope",
            "/kubepods.slice/kubepods-pod.slice",
            "/kubepods/podwxyz2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6b",
            "/kubepods/pod0F4E2C1A-9B3D-4E5F-8A7B-1C2D3E4F5A6B",
            "/kubepods/pod../../../etc",
            "/pod\u{1b}[31m0f4e2c1a-9b3d-4e5f-8a7b-1c2d3e",
            "/podé4e2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6",
        ] {
            assert_eq!(parse_cgroup(path), Container::default(), "{path:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_path_is_read_without_harm(any: String, like in "(/|-|pod|:|[0-9a-f_-]{32,64}|\\.slice|\\.scope|é){0,12}") {
            for path in [any, like] {
                let container = parse_cgroup(&path);
                proptest::prop_assert!(container.pod_uid.is_none_or(|uid| is_uid(&uid)));
                proptest::prop_assert!(container.id.is_none_or(|id| id.len() == 64));
            }
        }
    }
}
