//! A hardened node: srctrace comes in a container image that holds nothing but itself, as `kubectl debug` starts it - the
//! node's network and process ids, a file system of its own with /proc and /sys, and none of the node's programs or files.

use anyhow::Result;

use super::Case;
use super::steps::{hold, masquerade, masqueraded_by, same, watch_with};
use crate::lab::Container;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::Srctrace;
use crate::traffic::{Behaviour, StreamServer};

pub(super) const CASES: &[Case] = &[Case::new("e8_image_alone", &["E8"], image_alone)];

const WEB: Container = Container {
    uid: "2f4e2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6b",
    id: "5f2a8c0d9e1b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    hostname: Some("web-7d9f"),
};

/// Builds the image's file system in memory, and goes there. A program that is not static brings its libraries.
const IMAGE: &str = r#"
    mkdir -p /mnt
    mount -t tmpfs image /mnt
    mkdir /mnt/proc /mnt/sys
    cp "$1" /mnt/srctrace
    for library in $(LD_TRACE_LOADED_OBJECTS=1 "$1" --version | grep -o '/[^ ]*'); do
        mkdir -p "/mnt${library%/*}"
        cp -L "$library" "/mnt$library"
    done
    mount -t proc proc /mnt/proc
    mount -o rbind /sys /mnt/sys
    others=$(find /mnt -xdev -type f ! -path /mnt/srctrace ! -name 'lib*.so*' ! -name 'ld-*.so*')
    test -z "$others"
    shift
    exec chroot /mnt /srctrace "$@""#;

fn image_alone() -> Result<()> {
    let lab = cast::one_pod("e8", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let mut web = WEB.start(&lab, "pod")?;
    let pid = web.pid().to_string();
    let srctrace = Srctrace::new(&lab, &["--dest", PEER, "--scope", &pid])
        .whole_machine()
        .around(IMAGE);
    let mut report = watch_with(&srctrace, 1, || {
        let should = "seen 10.100.0.5:43210".to_owned();
        let seen = web.call("10.20.30.40:443", 43_210)?;
        same("whom the far side saw", seen, should)
    })?;
    // Where the first process may not be looked into, a namespace is named by a process in it.
    let by_process = format!("sh[{pid}]");
    for line in &mut report.lines {
        *line = line.replace(&by_process, &lab.netns("pod"));
    }
    hold(
        &lab,
        &report,
        "e8_image_alone",
        &[&masqueraded_by(&[])],
        &[(0, "rules-unread")],
    )
}
