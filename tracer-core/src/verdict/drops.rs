//! What died of a flow, as the report shows it, and the findings that it makes.

use super::findings::finding;
use super::trouble;
use super::view::known;
use super::{Context, rules};
use crate::attribute::{self, Stopped, number_at};
use crate::explain::{Explanation, explain, is_loss};
use crate::inventory::Inventory;
use crate::journey::{Direction, Journey, Loss};
use crate::report::{Code, Delivery, DeliveryCode, Drop, Finding, RewriteDirection, Severity};
use serde_json::{Value, json};

/// A drop that is told.
pub(super) struct Told<'a> {
    pub(super) loss: &'a Loss,
    explained: Option<Explanation>,
}

impl Told<'_> {
    /// It died because there was no way for it.
    pub(super) fn is_unroutable(&self) -> bool {
        let code = self.explained.as_ref().and_then(|e| e.code);
        matches!(
            code,
            Some(Code::NoRoute | Code::ForwardingDisabled | Code::NeighbourFailed)
        )
    }
}

/// The drops of a flow that are losses, each explained.
pub(super) fn told<'a>(journey: &'a Journey, context: &Context<'_>) -> Vec<Told<'a>> {
    let inventory = context.inventory;
    let losses = journey.losses.iter();
    losses
        .filter(|loss| is_loss(loss, journey, inventory))
        .map(|loss| Told {
            loss,
            explained: explain(loss, journey, inventory),
        })
        .collect()
}

/// Names the rule, or the policy, that dropped a packet, where the rules of its namespace tell.
pub(super) fn name_rules(told: &mut [Told<'_>], journey: &Journey, context: &Context<'_>) {
    for one in told.iter_mut() {
        let policy_drop = |e: &&mut Explanation| e.code == Some(Code::PolicyDrop);
        let Some(explained) = one.explained.as_mut().filter(policy_drop) else {
            continue;
        };
        let (inventory, hits) = (context.inventory, context.hits);
        match attribute::stopped(one.loss, journey, inventory, context.rules, hits) {
            Some(Stopped::By(rule)) => {
                explained.by_rule();
                explained.text.push_str(": ");
                explained.text.push_str(&rules::stopper_name(&rule));
                explained.rule = Some(*rule);
            }
            Some(Stopped::ByNone) => explained.by_no_rule(),
            Some(Stopped::PerhapsOnABridge) => explained.perhaps_on_a_bridge(),
            None => {}
        }
    }
}

pub(super) fn view(told: &Told<'_>, journey: &Journey, context: &Context<'_>) -> Drop {
    let loss = told.loss;
    let name = loss.netns.and_then(|netns| context.inventory.name(netns));
    let explained = told.explained.as_ref();
    Drop {
        direction: direction(loss.direction),
        after: after(loss, journey),
        netns: loss.netns.and_then(known),
        netns_name: name.map(str::to_owned),
        reason: loss.first.reason.clone(),
        location: loss.first.location.clone(),
        explain: explained.map(|e| e.text.clone()),
        rule: explained.and_then(|e| e.rule.clone()),
        program: explained.and_then(|e| e.program.clone()),
        count: loss.count,
    }
}

fn direction(direction: Direction) -> RewriteDirection {
    match direction {
        Direction::Request => RewriteDirection::Request,
        Direction::Reply => RewriteDirection::Reply,
    }
}

fn after(loss: &Loss, journey: &Journey) -> Option<u32> {
    loss.after.and_then(|place| number_at(journey, place))
}

/// One finding for each kind of death in each direction.
pub(super) fn findings(told: &[Told<'_>], journey: &Journey, delivery: &Delivery) -> Vec<Finding> {
    let mut found: Vec<(Direction, Finding)> = Vec::new();
    for one in told {
        let direction = one.loss.direction;
        let Some(next) = about(one, journey, delivery) else {
            continue;
        };
        if !found
            .iter()
            .any(|(d, f)| (*d, f.code) == (direction, next.code))
        {
            found.push((direction, next));
        }
    }
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Gateways that were replaced by one that does not forward.
pub(super) fn replaced(told: &[Told<'_>], inventory: &Inventory) -> Option<Finding> {
    told.iter().find_map(|one| {
        let explained = one.explained.as_ref()?;
        trouble::forwarding_lost(one.loss.netns?, explained, inventory)
    })
}

fn about(told: &Told<'_>, journey: &Journey, delivery: &Delivery) -> Option<Finding> {
    let explained = told.explained.as_ref()?;
    let loss = told.loss;
    let what = match loss.direction {
        _ if loss.first.quoted.is_some() => "an ICMP error about the request",
        Direction::Request => "the request",
        Direction::Reply => "the reply",
    };
    let fatal = matches!(
        delivery.code,
        DeliveryCode::Dropped | DeliveryCode::ReplyLost
    );
    let severity = if fatal {
        Severity::Error
    } else {
        Severity::Warning
    };
    Some(Finding {
        text: format!("{what} was dropped here: {}", explained.text),
        fix: explained.fix.clone(),
        rule: explained.rule.clone(),
        hop: after(loss, journey),
        data: data(loss, &explained.data),
        ..finding(explained.code?, severity)
    })
}

/// What is known of every drop, with what this kind of death adds.
fn data(loss: &Loss, more: &Value) -> Value {
    let mut data = json!({"direction": direction(loss.direction)});
    if let (Some(all), Some(more)) = (data.as_object_mut(), more.as_object()) {
        all.extend(more.clone());
    }
    data
}
