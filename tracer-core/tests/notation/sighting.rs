//! One sighting a line.

use super::host::Names;
use super::{START_NS, arg, number};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use tracer_common::reason;
use tracer_core::event::{
    Conntrack, Event, Fingerprint, Fragment, Icmp, Matched, NetnsId, Outer, Process, Reasons, Tap,
    Tcp, Wrap,
};
use tracer_core::packet::{Proto, Tuple};

pub(super) fn millis(text: &str) -> Result<u64, String> {
    let ms: f64 = number(text)?;
    Ok((ms * 1e6).round() as u64)
}

/// A tuple at a tap of a device.
type CounterKey = (Tuple, Tap, Option<NetnsId>, u32);

#[derive(Default)]
pub(super) struct Sightings {
    last: Option<Event>,
    /// Bytes of IP options or extension headers of the last packet.
    options: u32,
    entries: BTreeMap<String, Conntrack>,
    counters: BTreeMap<CounterKey, (u64, u64)>,
}

impl Sightings {
    pub(super) fn entry(&mut self, words: &[&str]) -> Result<(), String> {
        let slash = words.iter().position(|w| *w == "/").ok_or("no /")?;
        // The protocol is taken over from the packet that carries the entry.
        let mut ct = Conntrack {
            orig: tuple(Proto::TCP, arg(words, 2)?)?,
            reply: tuple(Proto::TCP, arg(words, slash + 1)?)?,
            status: Conntrack::CONFIRMED,
            zone: Some(0),
            mark: Some(0),
            is_reply: false,
        };
        for word in &words[slash + 2..] {
            match word.split_once('=') {
                Some(("zone", zone)) => ct.zone = Some(number(zone)?),
                Some(("id", id)) => (ct.orig.sport, ct.reply.sport) = ids(id)?,
                _ => ct.status |= status(word)?,
            }
        }
        self.entries.insert(arg(words, 1)?.into(), ct);
        Ok(())
    }

    /// An entry by its name.
    pub(super) fn known(&self, name: &str) -> Result<Conntrack, String> {
        let known = self.entries.get(name).copied();
        known.ok_or_else(|| format!("no entry {name:?}"))
    }

    pub(super) fn line(&mut self, names: &Names, words: &[&str]) -> Result<Event, String> {
        let mut event = self.read(names, words)?;
        self.count(&mut event);
        self.last = Some(event.clone());
        Ok(event)
    }

    /// A sighting that no tap counts.
    pub(super) fn read(&mut self, names: &Names, words: &[&str]) -> Result<Event, String> {
        let mut event = self.start(words[0])?;
        event.tap = match arg(words, 1)? {
            "rx" => Tap::Receive,
            "tx" => Tap::Transmit,
            "tci" => Tap::TcIngress,
            "tce" => Tap::TcEgress,
            "drop" => event.tap,
            other => return Err(format!("no tap {other:?}")),
        };
        let (netns, ifindex) = names.device(arg(words, 2)?)?;
        (event.netns, event.ifindex) = (Some(netns), ifindex);
        if words[0].starts_with('@') {
            let options = words.iter().find_map(|w| w.strip_prefix("options="));
            self.options = options.map_or(Ok(0), number)?;
        }
        for word in words[3..].iter().filter(|w| !w.starts_with("options=")) {
            self.word(&mut event, word)
                .map_err(|wrong| format!("{word:?}: {wrong}"))?;
        }
        self.last = Some(event.clone());
        Ok(event)
    }

    /// A new packet at its time, or the last one a little later.
    fn start(&self, time: &str) -> Result<Event, String> {
        if let Some(ms) = time.strip_prefix('@') {
            let time_ns = START_NS + millis(ms)?;
            return Ok(blank(time_ns));
        }
        let us = time.strip_prefix('+').ok_or("neither @ nor +")?;
        let mut event = self.last.clone().ok_or("nothing before")?;
        event.time_ns += millis(us)? / 1000;
        event.conntrack = None;
        event.conntrack_known = event.tap.dir() == tracer_core::event::Dir::Ingress;
        event.local = false;
        event.process = None;
        event.outer = None;
        event.reasons = Reasons::default();
        (event.packets, event.bytes) = (0, 0);
        if event.matched == Matched::Forward || event.matched == Matched::Reverse {
            event.matched = Matched::Skb;
        }
        Ok(event)
    }

    /// Counts as the taps do, and gives the reason as they do.
    fn count(&mut self, event: &mut Event) {
        let key = (event.tuple, event.tap, event.netns, event.ifindex);
        let counter = self.counters.entry(key).or_default();
        if counter.0 == 0 {
            event.reasons.0 |= reason::FIRST;
        }
        let headers = if event.print.tcp.is_some() { 40 } else { 28 };
        event.l3_len = event.print.payload_len + headers + self.options;
        counter.0 += u64::from(event.print.wire_packets) + event.packets;
        counter.1 += u64::from(event.l3_len) + event.bytes;
        (event.packets, event.bytes) = *counter;
    }

    fn word(&self, event: &mut Event, word: &str) -> Result<(), String> {
        if let Some((key, value)) = word.split_once('=') {
            return self.setting(event, key, value);
        }
        match word {
            "tcp" | "udp" | "icmp" | "icmpv6" | "sctp" => event.tuple.proto = proto(word)?,
            "local" => event.local = true,
            "again" => event.reasons.0 |= reason::RETRANSMISSION,
            "forward" => event.matched = Matched::Forward,
            "reverse" => event.matched = Matched::Reverse,
            "learned" => event.matched = Matched::Learned,
            "frag1" => event.print.fragment = Fragment::First,
            "fragn" => event.print.fragment = Fragment::Later,
            _ if word.contains('>') => event.tuple = tuple(event.tuple.proto, word)?,
            _ if word.bytes().all(|b| b"SAFRPE.".contains(&b)) => {
                event.print.tcp.get_or_insert(NO_TCP).flags = flags(word);
            }
            _ => return Err("not understood".into()),
        }
        Ok(())
    }

    fn setting(&self, event: &mut Event, key: &str, value: &str) -> Result<(), String> {
        let print = &mut event.print;
        match key {
            "src" => (event.tuple.src, event.tuple.sport) = end(value)?,
            "dst" => (event.tuple.dst, event.tuple.dport) = end(value)?,
            "skb" => event.skb = u64::from_str_radix(value, 16).map_err(|e| e.to_string())?,
            "seq" => print.tcp.get_or_insert(NO_TCP).seq = number(value)?,
            "ack" => print.tcp.get_or_insert(NO_TCP).ack = number(value)?,
            "len" => print.payload_len = number(value)?,
            "segs" => print.wire_packets = number(value)?,
            "ttl" => print.ttl = number(value)?,
            "ipid" => print.ip_id = Some(number(value)?),
            "hash" => print.payload_hash = Some(number(value)?),
            "off" => print.frag_offset = number(value)?,
            "id" => event.tuple.sport = number(value)?,
            "type" => {
                let (kind, code) = value.split_once('/').unwrap_or((value, "0"));
                let icmp = print.icmp.get_or_insert(NO_ICMP);
                (icmp.kind, icmp.code) = (number(kind)?, number(code)?);
            }
            "iseq" => print.icmp.get_or_insert(NO_ICMP).seq = number(value)?,
            "tag" => print.sctp_tag = Some(number(value)?),
            "mark" => event.mark = Some(number(value)?),
            "vlan" => event.vlan = Some(number(value)?),
            "more" => event.packets = number(value)?,
            "bytes" => event.bytes = number(value)?,
            "quotes" => {
                let (p, t) = value.split_once(',').ok_or("quotes=PROTO,A>B")?;
                event.quoted = Some(Box::new(tuple(proto(p)?, t)?));
                event.matched = Matched::Quoted;
            }
            "outer" => event.outer = Some(Box::new(self.outer(value)?)),
            "ct" => event.conntrack = Some(self.conntrack(event.tuple.proto, value)?),
            "proc" => event.process = Some(Box::new(process(value)?)),
            _ => return Err("not understood".into()),
        }
        Ok(())
    }

    /// `outer=vxlan,A:1>B:2`, `outer=vxlan,A:1>B:2,O` with the entry that it has.
    fn outer(&self, value: &str) -> Result<Outer, String> {
        let mut words = value.split(',');
        let (wrap, proto) = match words.next() {
            Some("vxlan") => (Wrap::Vxlan, Proto::UDP),
            Some("geneve") => (Wrap::Geneve, Proto::UDP),
            Some("ipip") => (Wrap::IpInIp, Proto(4)),
            Some("gre") => (Wrap::Gre, Proto(47)),
            _ => return Err("no such way to wrap".into()),
        };
        let tuple = tuple(proto, words.next().ok_or("outer=HOW,A>B")?)?;
        let entry = words.next().map(|name| self.conntrack(proto, name));
        Ok(Outer {
            wrap,
            tuple,
            conntrack: entry.transpose()?,
        })
    }

    /// `ct=A`, `ct=A:reply`, `ct=A:seen:assured`.
    fn conntrack(&self, proto: Proto, value: &str) -> Result<Conntrack, String> {
        let mut words = value.split(':');
        let name = words.next().unwrap_or("");
        let mut ct = *self.entries.get(name).ok_or("no such entry")?;
        (ct.orig.proto, ct.reply.proto) = (proto, proto);
        for word in words {
            match word {
                "reply" => {
                    ct.is_reply = true;
                    ct.status |= Conntrack::SEEN_REPLY;
                }
                "unconfirmed" => ct.status &= !Conntrack::CONFIRMED,
                other => ct.status |= status(other)?,
            }
        }
        Ok(ct)
    }
}

const NO_TCP: Tcp = Tcp {
    seq: 0,
    ack: 0,
    flags: 0,
};
const NO_ICMP: Icmp = Icmp {
    kind: 8,
    code: 0,
    seq: 0,
};

fn blank(time_ns: u64) -> Event {
    let unspecified = IpAddr::from([0, 0, 0, 0]);
    Event {
        time_ns,
        skb: 0,
        tap: Tap::Receive,
        netns: None,
        ifindex: 0,
        tuple: Tuple {
            src: unspecified,
            sport: 0,
            dst: unspecified,
            dport: 0,
            proto: Proto::TCP,
        },
        print: Fingerprint {
            ttl: 64,
            wire_packets: 1,
            ..Fingerprint::default()
        },
        reasons: Reasons::default(),
        matched: Matched::Forward,
        mark: None,
        conntrack: None,
        conntrack_known: true,
        quoted: None,
        outer: None,
        vlan: None,
        local: false,
        process: None,
        l3_len: 0,
        packets: 0,
        bytes: 0,
    }
}

fn proto(word: &str) -> Result<Proto, String> {
    Ok(match word {
        "tcp" => Proto::TCP,
        "udp" => Proto::UDP,
        "icmp" => Proto::ICMP,
        "icmpv6" => Proto::ICMPV6,
        "sctp" => Proto::SCTP,
        _ => return Err("no such protocol".into()),
    })
}

fn status(word: &str) -> Result<u32, String> {
    Ok(match word {
        "offload" => Conntrack::OFFLOAD,
        "snat" => Conntrack::SRC_NAT,
        "dnat" => Conntrack::DST_NAT,
        "seen" => Conntrack::SEEN_REPLY,
        "assured" => Conntrack::ASSURED,
        _ => return Err("no such status".into()),
    })
}

fn ids(text: &str) -> Result<(u16, u16), String> {
    let (a, b) = text.split_once('/').unwrap_or((text, text));
    Ok((number(a)?, number(b)?))
}

fn process(text: &str) -> Result<Process, String> {
    let mut parts = text.split(',');
    let pid = parts.next().map(number).transpose()?;
    let comm = parts.next().map(str::to_owned);
    let cgroup = parts.next().map(number).transpose()?;
    Ok(Process { pid, comm, cgroup })
}

fn flags(word: &str) -> u8 {
    word.bytes().fold(0, |flags, b| {
        flags
            | match b {
                b'S' => Tcp::SYN,
                b'F' => Tcp::FIN,
                b'R' => Tcp::RST,
                b'P' => 0x08,
                _ => Tcp::ACK,
            }
    })
}

fn end(text: &str) -> Result<(IpAddr, u16), String> {
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Ok((socket.ip(), socket.port()));
    }
    Ok((text.parse().map_err(|_| "no address".to_owned())?, 0))
}

fn tuple(proto: Proto, text: &str) -> Result<Tuple, String> {
    let (src, dst) = text.split_once('>').ok_or("no >")?;
    let (src, sport) = end(src)?;
    let (dst, dport) = end(dst)?;
    Ok(Tuple {
        src,
        sport,
        dst,
        dport,
        proto,
    })
}
