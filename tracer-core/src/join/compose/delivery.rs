//! Whether the exchange worked, by all who saw it: what no answer came to here may have been answered
//! there.

use super::Scene;
use super::hops::Numbers;
use crate::journey::Direction;
use crate::report::{Code, Delivery, DeliveryCode, Finding, RefusedBy, Severity};
use crate::verdict::finding;
use serde_json::json;

/// What all of them say together, and what is to be said about it.
pub(super) fn delivery(
    scene: &Scene<'_>,
    numbers: &Numbers,
    hops: usize,
) -> (Delivery, Option<Finding>) {
    let members = scene.members;
    let near = &members[0].flow.delivery;
    let (at, code, said) = match near.code {
        DeliveryCode::NoReply | DeliveryCode::InProgress => beyond(scene),
        DeliveryCode::HandshakeOnly => silent(scene),
        code => (0, code, None),
    };
    let from = &members[at].flow.delivery;
    let refused_by = from.refused_by.as_ref().map(|by| RefusedBy {
        hop: numbers.of(at, by.hop),
        ..by.clone()
    });
    let reply_seen =
        (0..members.len()).find_map(|at| numbers.of(at, members[at].flow.delivery.reply_last_seen));
    let delivery = Delivery {
        code,
        last_seen: u32::try_from(hops).ok().filter(|n| *n > 0),
        reply_last_seen: reply_seen,
        refused_by,
    };
    (delivery, said)
}

type Said = (usize, DeliveryCode, Option<Finding>);

/// Nothing came back to the first host: what do the others say?
fn beyond(scene: &Scene<'_>) -> Said {
    let near = scene.members[0].flow.delivery.code;
    let last = scene.members.len() - 1;
    match (answered(scene), scene.members[last].flow.delivery.code) {
        // It may still have been on its way.
        (_, _) if near == DeliveryCode::InProgress => (0, near, None),
        (Some(at), _) => (at, lost_code(scene, near), Some(lost(scene, at))),
        (None, code @ (DeliveryCode::Dropped | DeliveryCode::Refused)) => (last, code, None),
        (None, _) => (0, near, Some(unanswered(scene, last))),
    }
}

/// Lost only where the first host saw all that it could: else the answer may have come unseen.
fn lost_code(scene: &Scene<'_>, near: DeliveryCode) -> DeliveryCode {
    match scene.members[0].flow.verdict.complete {
        true => DeliveryCode::ReplyLost,
        false => near,
    }
}

/// The handshake came back to the first host, and its application's answer did not.
fn silent(scene: &Scene<'_>) -> Said {
    let spoke = |code| code == DeliveryCode::Completed;
    let at = (1..scene.members.len()).find(|at| spoke(scene.members[*at].flow.delivery.code));
    match at {
        Some(at) => {
            let code = lost_code(scene, DeliveryCode::HandshakeOnly);
            (at, code, Some(lost(scene, at)))
        }
        None => (0, DeliveryCode::HandshakeOnly, None),
    }
}

/// The nearest host that sighted a reply or a refusal.
fn answered(scene: &Scene<'_>) -> Option<usize> {
    (1..scene.members.len()).find(|at| {
        let member = &scene.members[*at];
        let replies = !member.witness.way(Direction::Reply).is_empty();
        replies || member.flow.delivery.code == DeliveryCode::Refused
    })
}

fn lost(scene: &Scene<'_>, at: usize) -> Finding {
    let (there, here) = (scene.host(at), scene.host(at - 1));
    Finding {
        text: format!(
            "it was answered at {there}, and the answer was not sighted at {here}: lost on the way back between them"
        ),
        fix: Some(format!(
            "look at the routes and filters between {there} and {here} for what goes to the source that {there} saw"
        )),
        data: json!({"from": there, "to": here}),
        ..finding(Code::LostOnTheWayBack, Severity::Error)
    }
}

fn unanswered(scene: &Scene<'_>, at: usize) -> Finding {
    let there = scene.host(at);
    let ended = scene.members[at].flow.delivery.code == DeliveryCode::InProgress;
    let how = match ended {
        true => "that ends before an answer could have come",
        false => "not answered there",
    };
    Finding {
        text: format!("the request was seen at {there}, and {how}"),
        fix: Some(format!(
            "look on {there}: does the application listen, does a filter drop the request, is there a route back to its source?"
        )),
        data: json!({"host": there}),
        ..finding(Code::SeenNotAnswered, Severity::Warning)
    }
}
