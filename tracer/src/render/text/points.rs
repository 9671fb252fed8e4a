//! Explicit capture points: those that saw nothing, and how many flows each saw.

use super::super::look::{Look, Role, name};
use super::words;
use tracer_core::report::{Dir, Flow, PointSeen, PointSum};

/// A line for each point that never saw the flow, or only its replies: that is an answer.
pub(super) fn unseen(flow: &Flow, look: Look) -> String {
    let mut text = String::new();
    for point in &flow.points {
        let what = match point.seen {
            PointSeen::Never => "never saw this flow",
            PointSeen::Reply => "saw only replies",
            PointSeen::Request | PointSeen::Both => continue,
        };
        let device = device(&point.ifname, point.netns_name.as_deref(), point.dir);
        let line = format!(
            "  {} {} ({device}) {what}",
            look.paint(Role::Odd, "point"),
            name(&point.name)
        );
        text.push_str(&format!("{}\n", look.wrap(&line)));
    }
    text
}

/// A line for each point.
pub(super) fn counts(points: &[PointSum], look: Look) -> String {
    let mut text = String::new();
    for point in points {
        let device = device(&point.ifname, point.netns_name.as_deref(), point.dir);
        let all = point.saw + point.never;
        let saw = match (point.saw, all) {
            (0, 0) => "saw nothing: no flow was reported".to_owned(),
            (0, _) => look.paint(Role::Odd, &format!("never saw any of {all}")),
            (saw, _) => format!("saw {saw} of {}", words::count(all, "flow")),
        };
        let line = format!("point {} ({device}): {saw}", name(&point.name));
        text.push_str(&format!("{}\n", look.wrap(&line)));
    }
    text
}

/// `tun0 in vpn`, `eth0 out in vpn`.
fn device(ifname: &str, netns: Option<&str>, dir: Option<Dir>) -> String {
    let side = dir.map_or_else(String::new, |dir| format!(" {}", words::direction(dir)));
    let netns = netns.map_or_else(String::new, |netns| format!(" of {}", name(netns)));
    format!("{}{side}{netns}", name(ifname))
}
