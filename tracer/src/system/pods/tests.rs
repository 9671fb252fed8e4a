//! Pods against real processes, namespaces and cgroups; only the log folders are made up.

use super::*;
use crate::system::netns::Netns;
use crate::system::testing::{Folder, TestNetns};
use crate::system::{Scope, Survey, SystemError};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tracer_core::inventory::Cgroup;

const ID: &str = "3f2a8c0d9e1b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";

/// A process that lives as a pod's: cgroup, host name and network namespace of its own.
struct Pod {
    child: Child,
    uid: String,
    cgroup: PathBuf,
}

impl Pod {
    /// Starts it, with the namespaces that `unshare` is told to make.
    fn start(n: u32, unshare: &[&str]) -> Self {
        let uid = format!("{:08x}-9b3d-4e5f-8a7b-{n:012x}", std::process::id());
        let tree = mounted_tree();
        let cgroup = tree.join(format!("kubepods-sys-{n}-{uid}/pod{uid}/{ID}"));
        std::fs::create_dir_all(&cgroup).unwrap();
        let child = Command::new("unshare")
            .args(unshare)
            .args([
                "sh",
                "-c",
                "test -z \"$1\" || hostname \"$1\"; echo ready; read end",
                "sh",
            ])
            .arg(if unshare.contains(&"--uts") {
                "web-0"
            } else {
                ""
            })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pod = Self { child, uid, cgroup };
        let procs = pod.cgroup.join("cgroup.procs");
        std::fs::write(procs, pod.child.id().to_string()).unwrap();
        let mut ready = [0; 6];
        let out = pod.child.stdout.as_mut().unwrap();
        out.read_exact(&mut ready).unwrap();
        pod
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log_folder(&self, host: &Folder, pod: &str) {
        host.make(&format!("var/log/pods/{pod}_{}", self.uid));
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A cgroup is empty a moment after its last process was reaped.
        for folder in self.cgroup.ancestors().take(3) {
            for _ in 0..200 {
                match std::fs::remove_dir(folder) {
                    Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Where the cgroup tree is mounted, and may be written.
fn mounted_tree() -> PathBuf {
    let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(PathBuf::from);
    mounts
        .into_iter()
        .find(|mount| mount.join("cgroup.controllers").exists())
        .expect("a cgroup2 mount")
}

fn roots(host: &Folder) -> Roots {
    Roots::at(Path::new("/proc"), host.path())
}

#[test]
fn a_pods_namespace_is_found_and_named_by_its_log_folder() {
    let host = Folder::new("pods-host");
    let node = TestNetns::new("pods-node");
    let pod = Pod::start(1, &["--net", "--uts"]);
    pod.log_folder(&host, "shop_web-7d9f");
    let roots = roots(&host);
    let own = Netns::at(&PathBuf::from(format!("/run/netns/{}", node.0))).unwrap();
    let survey = Survey::take(&roots, &own, Scope::All).unwrap();
    let id = Netns::at(&roots.of(pod.pid(), "ns/net")).unwrap().id;
    let namespace = &survey.inventory().namespaces[&id];
    assert_eq!(namespace.pod.as_deref(), Some("shop/web-7d9f"));
    assert_eq!(namespace.name, Some(format!("sh[{}]", pod.pid())));
    for given in ["shop/web-7d9f", "web-7d9f"] {
        assert_eq!(resolve_pod(&roots, &survey, given).unwrap().id, id);
        assert_eq!(resolve_origin(&roots, &survey, given).unwrap().id, id);
    }
    assert_eq!(resolve_origin(&roots, &survey, &node.0).unwrap().id, own.id);
    let error = resolve_pod(&roots, &survey, "shop/web").unwrap_err();
    assert!(matches!(error, SystemError::Unknown { .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("pod \"shop/web\" does not run on this node; there are: shop/web-7d9f"),
        "{text}"
    );
    let error = resolve_origin(&roots, &survey, "nobody")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("network namespace or pod \"nobody\" is not on this node"),
        "{error}"
    );
}

#[test]
fn without_log_folders_the_kernels_host_name_is_the_pods() {
    let host = Folder::new("pods-bare");
    let pod = Pod::start(2, &["--net", "--uts"]);
    let mut names = PodNames::default();
    let name = names.of_process(&roots(&host), pod.pid());
    assert_eq!(name.as_deref(), Some("web-0"));
}

#[test]
fn pods_on_the_hosts_network_are_known_by_cgroup_and_told_apart() {
    let host = Folder::new("pods-hostnet");
    let pod = Pod::start(3, &["--fork", "--kill-child"]);
    pod.log_folder(&host, "kube-system_proxy-x1");
    let roots = roots(&host);
    let id = std::fs::metadata(&pod.cgroup).unwrap().ino();
    let mut paths = CgroupPaths::default();
    let path = paths.get(&Roots::default(), id).unwrap().to_owned();
    assert!(path.ends_with(&format!("/pod{}/{ID}", pod.uid)), "{path}");
    let mut names = PodNames::default();
    let name = names.of_cgroup(&roots, &path);
    assert_eq!(name.as_deref(), Some("kube-system/proxy-x1"));
    let own = Netns::own(&roots).unwrap();
    let mut here = Survey::take(&Roots::default(), &own, Scope::All).unwrap();
    here.learn_cgroups([id, 1 << 60]);
    let known: Vec<_> = here.inventory().cgroups.iter().collect();
    let cgroup = Cgroup {
        path,
        pod: None,
        container: Some(ID.to_owned()),
    };
    assert_eq!(known, [(&id, &cgroup)]);
    let survey = Survey::take(&roots, &own, Scope::All).unwrap();
    let error = resolve_pod(&roots, &survey, "proxy-x1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod \"proxy-x1\" is on the host's network and has no network namespace of its own; \
         leave --pod out and filter by --src"
    );
}
