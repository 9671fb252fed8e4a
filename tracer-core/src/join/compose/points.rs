//! What the points of all hosts saw.

use super::hops::Numbers;
use super::{Member, Scene};
use crate::report::PointView;

/// Those of the hosts that saw the flow.
pub(super) fn points(members: &[Member], numbers: &Numbers) -> Vec<PointView> {
    let all = members.iter().enumerate();
    all.flat_map(|(at, member)| {
        let points = member.flow.points.iter();
        points.map(move |point| PointView {
            hop: numbers.of(at, point.hop),
            ..point.clone()
        })
    })
    .collect()
}

/// Those of the hosts that did not.
pub(super) fn of_others(scene: &Scene<'_>) -> Vec<PointView> {
    let hosts = scene.hosts.iter().enumerate();
    let others = hosts.filter(|(source, _)| scene.members.iter().all(|m| m.source != *source));
    others
        .flat_map(|(_, host)| {
            let points = host.header.settings.points.iter();
            points.map(|point| point.unseen(&host.header.host))
        })
        .collect()
}
