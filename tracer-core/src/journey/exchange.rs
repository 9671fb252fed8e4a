//! What the two sides of a flow said to each other, as far as delivery is judged by it.

use super::Direction;
use crate::event::{Event, Fingerprint, Tcp};

/// The state of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Initial sequence number of the opener.
    pub syn: Option<u32>,
    /// Initial sequence number of the answer.
    pub syn_ack: Option<u32>,
    /// Whether a request was sighted that opens the flow (a SYN for TCP).
    pub opened: bool,
    /// When the first packet toward the origin was sighted.
    pub reply_ns: Option<u64>,
    /// When the first payload was sighted, request and reply.
    pub data_ns: [Option<u64>; 2],
    /// When each side said that it has no more to send.
    pub fin_ns: [Option<u64>; 2],
    /// Which side reset the connection first, and when.
    pub reset: Option<(Direction, u64)>,
    /// When the flow was over for both sides.
    pub closed_ns: Option<u64>,
    /// The origin's SYN was sent again at this time (the last).
    pub syn_again_ns: Option<u64>,
    /// The origin's payload was sent again at this time (the last).
    pub data_again_ns: Option<u64>,
    /// Length (from the network header) of the largest segment with payload that was sent again, in
    /// each direction.
    pub again_len: [u32; 2],
    /// The origin acknowledged the handshake: the SYN-ACK arrived.
    pub handshake_arrived: bool,
    /// The origin acknowledged payload: the reply arrived.
    pub reply_arrived: bool,
    /// Sequence number of the first payload toward the origin.
    reply_data_seq: Option<u32>,
}

impl Exchange {
    /// Takes one packet in. `again`: it was sent before, sighted at the flow's first hop.
    pub(super) fn take(&mut self, event: &Event, dir: Direction, again: bool) {
        let stray = event.print.tcp.is_some_and(|t| self.is_stray(t, dir));
        if dir == Direction::Reply && !stray {
            self.reply_ns.get_or_insert(event.time_ns);
        }
        match event.print.tcp {
            Some(_) if stray => {}
            Some(tcp) => self.segment(event, tcp, dir, again),
            None => {
                self.opened |= dir == Direction::Request;
                self.data_ns[dir as usize].get_or_insert(event.time_ns);
            }
        }
    }

    /// Takes in a packet that died: one that opens the flow opened it all the same.
    pub(super) fn lose(&mut self, print: &Fingerprint, dir: Direction) {
        let opens = print.tcp.is_none_or(|t| t.is_syn()) && dir == Direction::Request;
        self.opened |= opens;
        if opens && self.syn.is_none() {
            self.syn = print.tcp.map(|t| t.seq);
        }
    }

    fn segment(&mut self, event: &Event, tcp: Tcp, dir: Direction, again: bool) {
        let now = event.time_ns;
        let len = event.print.payload_len;
        if tcp.is_syn_ack() && dir == Direction::Reply {
            self.syn_ack = Some(tcp.seq);
            self.syn.get_or_insert(tcp.ack.wrapping_sub(1));
        } else if tcp.is_syn() && dir == Direction::Request {
            self.syn = Some(tcp.seq);
            self.opened = true;
            if again {
                self.syn_again_ns = Some(now);
            }
        }
        if len > 0 && again && !tcp.is_syn() {
            let largest = &mut self.again_len[dir as usize];
            let one = event.l3_len / u32::from(event.print.wire_packets.max(1));
            *largest = (*largest).max(one);
        }
        if len > 0 {
            self.data_ns[dir as usize].get_or_insert(now);
            if dir == Direction::Reply {
                self.reply_data_seq.get_or_insert(tcp.seq);
            } else if again && !tcp.is_syn() {
                self.data_again_ns = Some(now);
            }
        }
        if tcp.has(Tcp::ACK) && dir == Direction::Request {
            self.acknowledged(tcp.ack);
        }
        if tcp.has(Tcp::FIN) {
            self.fin_ns[dir as usize].get_or_insert(now);
        }
        if tcp.has(Tcp::RST) {
            self.reset.get_or_insert((dir, now));
        }
        if self.fin_ns.iter().all(Option::is_some) || self.reset.is_some() {
            self.closed_ns.get_or_insert(now);
        }
    }

    /// A segment toward the origin that does not acknowledge the SYN, while that is unanswered: of
    /// an earlier connection with this tuple. The origin does not take it for an answer either.
    fn is_stray(&self, tcp: Tcp, dir: Direction) -> bool {
        let unanswered = self.opened && self.syn_ack.is_none() && dir == Direction::Reply;
        let isn = self.syn.filter(|_| unanswered);
        isn.is_some_and(|isn| !covers(tcp.ack, isn))
    }

    fn acknowledged(&mut self, ack: u32) {
        self.handshake_arrived |= self.syn_ack.is_some_and(|seq| covers(ack, seq));
        self.reply_arrived |= self.reply_data_seq.is_some_and(|seq| covers(ack, seq));
    }

    /// Takes in what was known of another part of the same exchange.
    pub(super) fn absorb(&mut self, other: &Self) {
        let first = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let reset = self.reset.into_iter().chain(other.reset);
        *self = Self {
            syn: self.syn.or(other.syn),
            syn_ack: self.syn_ack.or(other.syn_ack),
            opened: self.opened || other.opened,
            reply_ns: first(self.reply_ns, other.reply_ns),
            data_ns: [0, 1].map(|i| first(self.data_ns[i], other.data_ns[i])),
            fin_ns: [0, 1].map(|i| first(self.fin_ns[i], other.fin_ns[i])),
            reset: reset.min_by_key(|(_, at)| *at),
            closed_ns: first(self.closed_ns, other.closed_ns),
            syn_again_ns: self.syn_again_ns.max(other.syn_again_ns),
            data_again_ns: self.data_again_ns.max(other.data_again_ns),
            again_len: [0, 1].map(|i| self.again_len[i].max(other.again_len[i])),
            handshake_arrived: self.handshake_arrived || other.handshake_arrived,
            reply_arrived: self.reply_arrived || other.reply_arrived,
            reply_data_seq: self.reply_data_seq.or(other.reply_data_seq),
        };
    }

    /// Whether a TCP connection stands and its application has not answered yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.syn_ack.is_some() && self.data_ns[Direction::Reply as usize].is_none()
    }

    /// Whether a TCP opener has been sent and not a word has come back.
    #[must_use]
    pub fn awaits_answer(&self) -> bool {
        self.syn.is_some() && self.reply_ns.is_none()
    }
}

/// Whether a packet belongs to the TCP connection that began with `syn` and not to a later one with the same tuple: the SYN
/// flag tells.
pub(super) fn fits(syn: Option<u32>, tcp: Tcp, dir: Direction) -> bool {
    if !tcp.has(Tcp::SYN) {
        return true;
    }
    match (dir, syn) {
        (Direction::Request, Some(isn)) if tcp.is_syn() => isn == tcp.seq,
        (Direction::Reply, Some(isn)) if tcp.is_syn_ack() => acknowledges(tcp, isn),
        _ => false,
    }
}

/// Whether a packet acknowledges a SYN, and the data that it may have carried.
fn acknowledges(tcp: Tcp, isn: u32) -> bool {
    (1..=1 << 16).contains(&tcp.ack.wrapping_sub(isn))
}

/// Whether an acknowledgement covers the byte (or flag) at a sequence number.
fn covers(ack: u32, seq: u32) -> bool {
    (ack.wrapping_sub(seq) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: Tcp = Tcp {
        seq: u32::MAX,
        ack: 0,
        flags: Tcp::SYN,
    };

    fn opened() -> Exchange {
        Exchange {
            syn: Some(SYN.seq),
            opened: true,
            ..Exchange::default()
        }
    }

    #[test]
    fn an_answer_acknowledges_the_syn_across_the_wrap() {
        let fits = |tcp| fits(Some(SYN.seq), tcp, Direction::Reply);
        let answer = |ack| Tcp {
            seq: 9,
            ack,
            flags: Tcp::SYN | Tcp::ACK,
        };
        assert!(
            fits(answer(0)) && fits(answer(300)),
            "without and with data"
        );
        assert!(!fits(answer(SYN.seq)));
    }

    #[test]
    fn another_sequence_number_is_another_connection() {
        let other = Tcp { seq: 1, ..SYN };
        let fits = |tcp, dir| fits(Some(SYN.seq), tcp, dir);
        assert!(fits(SYN, Direction::Request));
        assert!(!fits(other, Direction::Request));
        assert!(!fits(SYN, Direction::Reply));
    }

    #[test]
    fn a_reset_that_does_not_acknowledge_the_syn_is_stray() {
        let reset = |ack| Tcp {
            seq: 0,
            ack,
            flags: Tcp::RST | Tcp::ACK,
        };
        assert!(opened().is_stray(reset(SYN.seq), Direction::Reply));
        assert!(!opened().is_stray(reset(0), Direction::Reply));
        assert!(!opened().is_stray(reset(SYN.seq), Direction::Request));
    }
}
