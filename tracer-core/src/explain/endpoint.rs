//! Deaths at the end of the way.

use super::{Explanation, Scene};
use crate::attribute::original;
use crate::journey::Direction;

pub(super) fn no_listener(scene: &Scene<'_>) -> Explanation {
    let (t, space) = (scene.tuple(), scene.space());
    let asked = original(scene.journey);
    match scene.loss.direction {
        Direction::Request => {
            Explanation::new(format!("nothing listens on {} in {space}", t.destination()))
        }
        Direction::Reply if t.source() != asked.destination() => Explanation::new(format!(
            "{space} had asked {}, and this reply came from {}: it fits no connection there",
            asked.destination(),
            t.source()
        )),
        Direction::Reply => Explanation::new(format!(
            "no connection of {space} wants this reply to {}",
            t.destination()
        )),
    }
}

pub(super) fn socket_full(scene: &Scene<'_>) -> Explanation {
    Explanation::new(format!(
        "the socket that listens on {} in {} has no room: its process does not keep up",
        scene.tuple().destination(),
        scene.space()
    ))
    .fix("`ss -lnm` there: receive queue and its limit")
}

pub(super) fn malformed(scene: &Scene<'_>) -> Explanation {
    Explanation::new(format!(
        "{} found it damaged: a checksum or header that is wrong",
        scene.space()
    ))
    .fix("`nstat -az` there names the counter; checksum offload behind a tunnel is a known cause")
}

pub(super) fn ipsec(scene: &Scene<'_>) -> Explanation {
    Explanation::new(format!("an IPsec policy of {} refused it", scene.space()))
        .fix("`ip xfrm policy` and `ip xfrm monitor` there")
}
