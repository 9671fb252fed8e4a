//! What goes wrong without a packet that is dropped here: it leaves untranslated, or its gateway's successor does not forward.

use super::findings::finding;
use crate::attribute::number_at;
use crate::event::{NetnsId, Tcp};
use crate::explain::Explanation;
use crate::inventory::Inventory;
use crate::journey::{Journey, Place};
use crate::report::{Code, Finding, Severity};
use serde_json::json;

pub(super) fn device(place: Place, inventory: &Inventory) -> String {
    let link = inventory.link(place.netns, place.ifindex);
    link.map_or_else(|| format!("device {}", place.ifindex), |l| l.name.clone())
}

pub(super) fn space(netns: NetnsId, inventory: &Inventory) -> String {
    let name = inventory.name(netns).map(str::to_owned);
    name.unwrap_or_else(|| format!("netns {}", netns.0))
}

/// Conntrack had no entry for it, so its translation was not asked for.
pub(super) fn untranslated(journey: &Journey, inventory: &Inventory) -> Option<Finding> {
    let leak = journey.leak.as_ref()?;
    let what = match leak.flags {
        Some(flags) if flags & Tcp::RST != 0 => "a reset (RST)",
        Some(flags) if flags & Tcp::FIN != 0 => "the end of the connection (FIN)",
        _ => "a packet",
    };
    Some(Finding {
        text: format!(
            "{what} left by {} as {}, though the flow is translated there: conntrack of {} had no \
             connection for it any more (INVALID), and NAT rules are not asked about such packets",
            device(leak.place, inventory),
            leak.tuple.source(),
            space(leak.place.netns, inventory),
        ),
        fix: Some(
            "drop what is INVALID on its way out (`-m conntrack --ctstate INVALID -j DROP`, `ct \
             state invalid drop`), or keep entries for longer than the application keeps silent"
                .into(),
        ),
        hop: number_at(journey, leak.place),
        data: json!({"source": leak.tuple.src}),
        ..finding(Code::InvalidNotTranslated, Severity::Warning)
    })
}

/// A gateway that was replaced, with forwarding switched off in the new one.
pub(super) fn forwarding_lost(
    netns: NetnsId,
    explained: &Explanation,
    inventory: &Inventory,
) -> Option<Finding> {
    if explained.code != Some(Code::ForwardingDisabled) {
        return None;
    }
    let now = inventory.namespaces.get(&netns)?;
    let others = inventory.namespaces.iter().filter(|(id, _)| **id != netns);
    let (_, before) = others
        .chain(inventory.replaced.iter().map(|(id, f)| (id, &f.namespace)))
        .find(|(_, other)| other.forwards == Some(true) && other.is_predecessor_of(now))?;
    Some(Finding {
        text: format!(
            "{} has taken the place of {}, in which forwarding was on; in the new one it is off",
            space(netns, inventory),
            before.name.as_deref().unwrap_or("another namespace"),
        ),
        fix: Some(
            "forwarding was set in the old namespace only and went with it: let the pod's own \
             definition set it (see forwarding-disabled)"
                .into(),
        ),
        data: json!({"before": true, "now": false}),
        ..finding(Code::ForwardingLost, Severity::Error)
    })
}
