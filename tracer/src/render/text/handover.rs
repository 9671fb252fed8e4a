//! `handover`: the text for the other side's team. Plain sentences, to be sent as they are.

use super::super::escape;
use super::words::{self, count};
use tracer_core::report::{DeliveryCode, Sheet};

/// The text of one sheet.
#[must_use]
pub fn handover(sheet: &Sheet) -> String {
    let parts = [
        left(sheet),
        back(sheet),
        ask(sheet),
        outcomes(sheet),
        answer(sheet),
    ];
    parts.join("\n")
}

fn left(sheet: &Sheet) -> String {
    let to = to(sheet);
    let from = words::endpoint(sheet.proto, sheet.source, sheet.sport);
    let by = sheet
        .ifname
        .as_deref()
        .map_or(String::new(), |ifname| format!(" by {}", escape(ifname)));
    let when = match sheet.first == sheet.last {
        true => format!("at {}", escape(&sheet.first)),
        false => format!("from {} to {}", escape(&sheet.first), escape(&sheet.last)),
    };
    let own = if sheet.kept {
        "the sender's own address"
    } else {
        "a translated address"
    };
    let what: Vec<&str> = sheet
        .deliveries
        .iter()
        .map(|code| came_of_it(*code))
        .collect();
    format!(
        "To the team of {}\n\n\
         What left here (times are UTC)\n  \
         {} {when}\n  \
         {} {from} → {to}, left {}{by}; the source {} is {own}\n  \
         what came of it here: {}\n",
        sheet.dst,
        count(sheet.flows, "request"),
        sheet.proto.0,
        escape(&sheet.host),
        sheet.source,
        what.join("; ")
    )
}

fn came_of_it(code: DeliveryCode) -> &'static str {
    match code {
        DeliveryCode::Completed => "answers came back",
        DeliveryCode::HandshakeOnly => "the handshake was answered, no data came back",
        DeliveryCode::NoReply => "nothing came back",
        DeliveryCode::ReplyLost => "an answer came back and was lost on this side",
        DeliveryCode::Refused => "it was refused",
        DeliveryCode::Dropped => "it was dropped on this side",
        DeliveryCode::InProgress => "the trace ended before that could be told",
    }
}

fn back(sheet: &Sheet) -> String {
    let mut text = format!(
        "What your side needs\n  \
         a route back to {} toward us (known by: {})\n",
        escape(&sheet.route_back),
        escape(&sheet.known_by)
    );
    if !sheet.or_masquerade.is_empty() {
        text.push_str(&format!(
            "  or, if we masquerade instead: a route back to {}; you would then see all of our pods as their node\n",
            escape(&sheet.or_masquerade.join(", "))
        ));
    }
    text
}

fn ask(sheet: &Sheet) -> String {
    format!(
        "Please run this where {} lives, while we send again (both directions, headers only)\n  {}\n",
        sheet.dst,
        command(sheet)
    )
}

/// Without the source: it may have been translated on the way, which is what is to be found out.
fn command(sheet: &Sheet) -> String {
    let (icmp, unreachable) = match sheet.dst.is_ipv4() {
        true => ("icmp", "icmp[icmptype] == icmp-unreach"),
        false => ("icmp6", "icmp6 and ip6[40] == 1"),
    };
    let proto = sheet.proto.0.to_string();
    let what = match proto.as_str() {
        "icmp" | "icmpv6" => format!("host {} and {icmp}", sheet.dst),
        "tcp" | "udp" | "sctp" => format!("host {} and {proto} port {}", sheet.dst, sheet.dport),
        _ => format!("host {}", sheet.dst),
    };
    format!("tcpdump -n -i any -s 128 -c 1000 -w answer.pcap '({what}) or ({unreachable})'")
}

fn outcomes(sheet: &Sheet) -> String {
    let Sheet {
        source,
        dst,
        route_back,
        ..
    } = sheet;
    let route_back = escape(route_back);
    format!(
        "What each outcome means\n  \
         no packet to {dst}: it is lost between us: tunnel selectors, routes or firewalls that do not know {source}\n  \
         packets from {source}, no answer leaves: it is dropped on that machine: its firewall, its reverse-path check, \
         or no route to {source} (`ip route get {source}` there)\n  \
         packets from {source}, answers leave: they get lost on the way back: the route to {route_back} leads elsewhere, \
         or a tunnel or firewall does not let it through\n  \
         packets from another address: the source is translated between us: tell us that address\n  \
         answers from another address than {dst}: a translation on your side is not taken back\n  \
         a reset, or ICMP unreachable: who sends it refuses: a policy, or nobody listens\n"
    )
}

/// Their capture is of the request that is sent again: only a recording of that one goes with it.
fn answer(sheet: &Sheet) -> String {
    let to = to(sheet);
    format!(
        "How your answer is used here\n  \
         while you capture, we record what we send again: `srctrace {to} --record again.srct`\n  \
         answer.pcap: `srctrace merge again.srct answer.pcap`\n  \
         the address that you saw: `srctrace {to} --peer-saw ADDR`\n"
    )
}

fn to(sheet: &Sheet) -> String {
    words::endpoint(sheet.proto, sheet.dst, sheet.dport)
}
