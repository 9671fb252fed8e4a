//! One dropped packet a line, and what the namespace said of itself.

use super::host::Names;
use super::sighting::Sightings;
use super::{arg, number};
use tracer_core::event::DropEvent;
use tracer_core::inventory::{
    Attached, ConntrackCounts, Inventory, Refusal, RouteAnswer, RouteQuestion,
};

/// `+9 drop node/veth1 reason=NETFILTER_DROP at=nf_hook_slow count=2`, with the words of a
/// sighting. Without `reason=` the kernel gives none; `nowhere` leaves the namespace out.
pub(super) fn line(
    sightings: &mut Sightings,
    names: &Names,
    words: &[&str],
) -> Result<DropEvent, String> {
    let is_own = |word: &&&str| {
        let own = ["reason=", "at=", "count="];
        own.iter().any(|key| word.starts_with(key)) || **word == "nowhere"
    };
    let packet: Vec<&str> = words.iter().filter(|w| !is_own(w)).copied().collect();
    let event = sightings.read(names, &packet)?;
    let named = |key: &str| {
        let word = words.iter().find_map(|w| w.strip_prefix(key));
        word.map(str::to_owned)
    };
    let nowhere = words.contains(&"nowhere");
    let headers = if event.print.tcp.is_some() { 40 } else { 28 };
    let (reason, location) = (named("reason="), named("at="));
    Ok(DropEvent {
        time_ns: event.time_ns,
        skb: event.skb,
        netns: event.netns.filter(|_| !nowhere),
        ifindex: Some(event.ifindex).filter(|_| !nowhere),
        tuple: event.tuple,
        quoted: event.quoted.map(|quoted| *quoted),
        print: event.print,
        matched: event.matched,
        conntrack: event.conntrack,
        conntrack_known: true,
        untracked: false,
        local: event.local,
        cgroup: None,
        mark: event.mark,
        l3_len: event.print.payload_len + headers,
        count: named("count=").map_or(Ok(1), |n| number(&n))?,
        reason_number: reason.as_ref().map(|r| r.len() as u32),
        address: location.as_ref().map_or(0, |l| l.len() as u64),
        reason,
        location,
    })
}

/// `fact node ipv4.ip_forward 0`, `fact node to 10.1.2.3 blackhole`, `fact node to 10.1.2.3 by 2`,
/// `fact node came 10.12.3.4 7 to 10.1.2.3 by 2`, `fact node conntrack 8 of 8`, `fact node program 7 in tcx 12 policy`.
pub(super) fn fact(names: &Names, inventory: &mut Inventory, words: &[&str]) -> Result<(), String> {
    let facts = inventory
        .facts
        .entry(names.netns(arg(words, 1)?)?)
        .or_default();
    match arg(words, 2)? {
        "to" => {
            let question = RouteQuestion {
                dst: number(arg(words, 3)?)?,
                came: None,
            };
            facts.routes.insert(question, answer(words)?);
        }
        "came" => {
            let answered = words.get(3..).unwrap_or_default();
            let question = RouteQuestion {
                dst: number(arg(answered, 3)?)?,
                came: Some((number(arg(answered, 0)?)?, number(arg(answered, 1)?)?)),
            };
            facts.routes.insert(question, answer(answered)?);
        }
        "conntrack" => {
            facts.conntrack = Some(ConntrackCounts {
                count: number(arg(words, 3)?)?,
                max: number(arg(words, 5)?)?,
                ..ConntrackCounts::default()
            });
        }
        "program" => {
            let dir = match arg(words, 4)? {
                "in" => tracer_core::event::Dir::Ingress,
                _ => tracer_core::event::Dir::Egress,
            };
            let programs = facts.programs.entry((number(arg(words, 3)?)?, dir));
            programs.or_default().push(Attached {
                kind: arg(words, 5)?.into(),
                id: Some(number(arg(words, 6)?)?),
                name: Some(arg(words, 7)?.into()),
                before_ours: words.get(8).map(|side| *side == "before"),
            });
        }
        setting => {
            let value = number(arg(words, 3)?)?;
            facts.settings.insert(setting.into(), value);
        }
    }
    Ok(())
}

fn answer(words: &[&str]) -> Result<RouteAnswer, String> {
    Ok(match arg(words, 4)? {
        "no-route" => RouteAnswer::Refused(Refusal::NoRoute),
        "blackhole" => RouteAnswer::Refused(Refusal::Blackhole),
        "prohibit" => RouteAnswer::Refused(Refusal::Prohibited),
        "unreachable" => RouteAnswer::Refused(Refusal::Unreachable),
        "local" => RouteAnswer::Local,
        "by" => RouteAnswer::Out {
            via: words.get(6).map(|via| number(via)).transpose()?,
            ifindex: number(arg(words, 5)?)?,
        },
        other => return Err(format!("no answer {other:?}")),
    })
}
