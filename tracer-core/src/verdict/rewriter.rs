//! Who rewrote, where that is not one rule: programs of which one did it, and the fast path that goes
//! past the rules.

use super::findings::finding;
use crate::attribute::{Change, Suspect};
use crate::event::{Conntrack, NetnsId};
use crate::inventory::Inventory;
use crate::journey::Journey;
use crate::report::{Code, Finding, RewriteDirection, RewriteHook, Severity};
use serde_json::json;

pub(super) fn findings(
    journey: &Journey,
    changes: &[Change],
    inventory: &Inventory,
) -> Vec<Finding> {
    let open = changes.iter().filter_map(uncertain);
    open.chain(offloaded(journey, inventory)).collect()
}

/// Programs that come into question, and none of them can be named.
fn uncertain(change: &Change) -> Option<Finding> {
    let rewrite = &change.rewrite;
    if rewrite.program.is_some() || rewrite.rule.is_some() || change.suspects.is_empty() {
        return None;
    }
    let names: Vec<String> = change.suspects.iter().map(words).collect();
    let why = if change.unasked {
        "; and conntrack there could not be asked, so it may be netfilter's doing"
    } else if change.by_rule {
        "; and a rule may have written it without conntrack"
    } else {
        ""
    };
    let which = match names.as_slice() {
        [one] => one.clone(),
        many => format!("one of {}", many.join(", ")),
    };
    let what = match rewrite.direction {
        RewriteDirection::Request => "the request",
        RewriteDirection::Reply => "the reply",
    };
    Some(Finding {
        text: format!(
            "what made {} of {} in {what} cannot be told: {which}{why}",
            rewrite.to.addr, rewrite.from.addr
        ),
        fix: Some(
            "take them off one by one, or look into them: `bpftool prog dump xlated id ID`, `tc \
             filter show dev DEV`"
                .into(),
        ),
        hop: rewrite.between[1],
        data: json!({
            "direction": rewrite.direction,
            "candidates": change.suspects.iter().map(data).collect::<Vec<_>>(),
            "conntrack_asked": !change.unasked,
        }),
        ..finding(Code::RewriterUncertain, Severity::Warning)
    })
}

fn words(suspect: &Suspect) -> String {
    let side = match suspect.hook {
        RewriteHook::TcIngress => "at the ingress of",
        RewriteHook::TcEgress => "at the egress of",
        _ => "at",
    };
    format!("{} {side} {}", suspect.attached.words(), suspect.device)
}

fn data(suspect: &Suspect) -> serde_json::Value {
    json!({
        "kind": suspect.attached.kind,
        "id": suspect.attached.id,
        "name": suspect.attached.name,
        "device": suspect.device,
        "hook": suspect.hook,
    })
}

/// An entry of the flow is marked as being on the fast path.
fn offloaded(journey: &Journey, inventory: &Inventory) -> Option<Finding> {
    let is_on_it = |ct: &Conntrack| ct.status & (Conntrack::OFFLOAD | Conntrack::HW_OFFLOAD) != 0;
    let (netns, entry) = journey.conntracks.iter().find(|(_, ct)| is_on_it(ct))?;
    let hardware = entry.status & Conntrack::HW_OFFLOAD != 0;
    let by = if hardware {
        "a device's own flow table"
    } else {
        "a flowtable of nftables"
    };
    Some(Finding {
        text: format!(
            "{by} in {} forwards this flow past the rules: after its first packets no rule is asked, \
             and its packets carry no conntrack entry; they keep the translation of the entry",
            space(*netns, inventory)
        ),
        fix: Some(
            "`nft list flowtables` and rules with `flow add` show what goes this way; a change of \
             rules acts on such a flow only when its entry is gone"
                .into(),
        ),
        data: json!({"netns": netns.0, "hardware": hardware}),
        ..finding(Code::FlowOffloaded, Severity::Info)
    })
}

fn space(netns: NetnsId, inventory: &Inventory) -> String {
    let name = inventory.name(netns).map(str::to_owned);
    name.unwrap_or_else(|| format!("netns {}", netns.0))
}
