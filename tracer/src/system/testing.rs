//! What this room's tests share: folders and namespaces that are gone when the test is.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

fn unique(what: &str) -> String {
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sys-{}-{n}-{what}", std::process::id())
}

/// A folder of the test's own.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(what: &str) -> Self {
        let path = std::env::temp_dir().join(unique(what));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn make(&self, folder: &str) {
        std::fs::create_dir_all(self.0.join(folder)).unwrap();
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A namespace made by `ip netns add`.
pub(super) struct TestNetns(pub(super) String);

impl TestNetns {
    pub(super) fn new(what: &str) -> Self {
        let name = unique(what);
        ip(&format!("netns add {name}"));
        Self(name)
    }

    /// Runs `ip ARGS` inside.
    pub(super) fn ip(&self, args: &str) {
        ip(&format!("-n {} {args}", self.0));
    }

    /// Sets `net.ipv4.ip_forward` inside.
    pub(super) fn forward(&self, on: bool) {
        let path = format!("/run/netns/{}", self.0);
        let netns = super::netns::Netns::at(Path::new(&path)).unwrap();
        let value = if on { "1" } else { "0" };
        super::netns::visit(&netns, || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", value)
                .map_err(|e| super::SystemError::os("write", "ip_forward", e))
        })
        .unwrap();
    }

    pub(super) fn id(&self) -> tracer_core::event::NetnsId {
        let path = format!("/run/netns/{}", self.0);
        super::netns::Netns::at(Path::new(&path)).unwrap().id
    }

    /// Ties two namespaces by a veth pair: devices `a` here and `b` there, both up.
    pub(super) fn tie(&self, a: &str, other: &Self, b: &str) {
        self.ip(&format!(
            "link add {a} type veth peer name {b} netns {}",
            other.0
        ));
        self.ip(&format!("link set {a} up"));
        other.ip(&format!("link set {b} up"));
    }
}

impl Drop for TestNetns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

/// Runs `ip ARGS`, which must succeed.
pub(super) fn ip(args: &str) -> Output {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {output:?}");
    output
}
