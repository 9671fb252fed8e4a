//! The numbers in a [`RawEvent`](crate::RawEvent): what it is, where and why it was told, what is in it.

/// Values of [`crate::RawEvent::kind`].
pub mod event_kind {
    /// A packet was sighted at a tap.
    pub const PACKET: u8 = 1;
    /// A packet was thrown away: the record is a [`crate::RawDrop`].
    pub const DROP: u8 = 2;
    /// A NAT target ran: [`crate::RawRuleHit`](crate::RawRuleHit).
    pub const RULE_HIT: u8 = 3;
    /// A process used a connection that was accepted here: [`crate::RawSocket`].
    pub const SOCKET: u8 = 4;
    /// The first bytes of a connection: [`crate::RawOpening`].
    pub const OPENING: u8 = 5;
}

/// Values of [`crate::RawEvent::tap`]: where a packet was sighted.
pub mod tap {
    /// Raw tracepoint `netif_receive_skb`: the packet came in by the device, before tc ingress.
    pub const RECEIVE: u8 = 1;
    /// Raw tracepoint `net_dev_start_xmit`: the packet goes out by the device, after tc egress.
    pub const TRANSMIT: u8 = 2;
    /// Our traffic-control program at the device's ingress.
    pub const TC_INGRESS: u8 = 3;
    /// Our traffic-control program at the device's egress.
    pub const TC_EGRESS: u8 = 4;
}

/// Bits of [`crate::RawEvent::reasons`]: why this packet was told and not only counted.
pub mod reason {
    /// First packet with this tuple at this tap.
    pub const FIRST: u16 = 1 << 0;
    /// A TCP flag (SYN, FIN, RST) that this tap had not seen on this tuple.
    pub const FLAGS: u16 = 1 << 1;
    /// First payload on this tuple at this tap.
    pub const DATA: u16 = 1 << 2;
    /// The packet's mark differs from the one before.
    pub const MARK: u16 = 1 << 3;
    /// The packet's conntrack entry or its state differs from the one before.
    pub const CONNTRACK: u16 = 1 << 4;
    /// A TCP segment whose sequence range was sighted here before.
    pub const RETRANSMISSION: u16 = 1 << 5;
    /// Nothing new: the flow is alive.
    pub const KEEPALIVE: u16 = 1 << 6;
    /// Every packet was asked for.
    pub const EACH: u16 = 1 << 7;
    /// An ICMP error that quotes a followed packet.
    pub const QUOTES: u16 = 1 << 8;
}

/// Values of [`crate::RawEvent::matched`]: what made this packet one of ours.
pub mod matched {
    /// Its tuple matches the filter, as a request.
    pub const FORWARD: u8 = 1;
    /// Its tuple matches the filter, as a reply.
    pub const REVERSE: u8 = 2;
    /// Its conntrack entry's original tuple matches the filter.
    pub const CONNTRACK: u8 = 3;
    /// Its tuple was learned from an earlier packet of the flow in this namespace.
    pub const LEARNED: u8 = 4;
    /// The same buffer (skb) was sighted before as one of ours.
    pub const SKB: u8 = 5;
    /// It is an ICMP error that quotes a packet of ours.
    pub const QUOTED: u8 = 6;
    /// It opens a connection of a process that ends ours: where that leads to was not asked for.
    pub const OPENED: u8 = 7;
}

/// Values of [`crate::RawEvent::wrap`]: what stands between the outer packet and the one inside.
pub mod wrap {
    /// VXLAN (RFC 7348): UDP, eight bytes, an Ethernet frame.
    pub const VXLAN: u8 = 1;
    /// Geneve (RFC 8926): UDP, eight bytes and options, an Ethernet frame or an IP packet.
    pub const GENEVE: u8 = 2;
    /// IP in IP (RFC 2003, 2473, 4213): nothing.
    pub const IPIP: u8 = 3;
    /// GRE (RFC 2784, 2890): four to sixteen bytes, an IP packet or an Ethernet frame.
    pub const GRE: u8 = 4;
}

/// Bits of [`crate::RawEvent::present`]: which optional parts are filled in.
pub mod present {
    /// `netns` is the device's namespace (inode number).
    pub const NETNS: u32 = 1 << 0;
    /// `mark` is the packet's mark.
    pub const MARK: u32 = 1 << 1;
    /// The packet carries a conntrack entry and `conntrack` holds it.
    pub const CONNTRACK: u32 = 1 << 2;
    /// `_nfct` could be read (so without [`CONNTRACK`] there is no entry).
    pub const CONNTRACK_KNOWN: u32 = 1 << 3;
    /// `process.pid` and `process.comm` name the task that owns the packet's socket.
    pub const PROCESS: u32 = 1 << 4;
    /// `process.cgroup` is the cgroup (v2) id of the packet's socket or task.
    pub const CGROUP: u32 = 1 << 5;
    /// `quoted` is the tuple of the packet that an ICMP error quotes.
    pub const QUOTED: u32 = 1 << 6;
    /// `print.payload_hash` was computed.
    pub const PAYLOAD_HASH: u32 = 1 << 7;
    /// `print.ip_id` is an IPv4 identification or IPv6 fragment identification.
    pub const IP_ID: u32 = 1 << 8;
    /// The packet is a fragment that is not the first: the tuple has no ports.
    pub const LATER_FRAGMENT: u32 = 1 << 9;
    /// The packet is a first fragment (more follow).
    pub const FIRST_FRAGMENT: u32 = 1 << 10;
    /// The packet was made on this host: it never came in by a device (`skb_iif` is zero).
    pub const LOCAL: u32 = 1 << 11;
    /// `print` holds TCP numbers.
    pub const TCP: u32 = 1 << 12;
    /// `vlan` is the packet's VLAN tag.
    pub const VLAN: u32 = 1 << 13;
    /// The packet is marked as not tracked by conntrack (`IP_CT_UNTRACKED`).
    pub const UNTRACKED: u32 = 1 << 14;
    /// The packet is inside another one: `outer` and `wrap` say which and how, and mark and conntrack
    /// entry are the outer one's.
    pub const OUTER: u32 = 1 << 15;
}
