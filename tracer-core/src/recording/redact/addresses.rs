//! Addresses for addresses, prefix by prefix.

use ipnet::IpNet;
use siphasher::sip::SipHasher24;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that stay recognisable: what is in them stays in them.
const KEPT: [([u8; 16], u8, bool); 6] = [
    (v4(10, 0), 8, true),
    (v4(172, 16), 12, true),
    (v4(192, 168), 16, true),
    (v4(100, 64), 10, true),
    (v6(0xfc), 7, false),
    (v4(0xfe, 0x80), 10, false),
];

/// Networks whose addresses are everybody's: they stay as they are.
const COMMON: [([u8; 16], u8, bool); 6] = [
    (v4(0, 0), 8, true),
    (v4(127, 0), 8, true),
    (v4(169, 254), 16, true),
    (v4(224, 0), 3, true),
    (v6(0), 127, false),
    (v6(0xff), 8, false),
];

/// So many answers are remembered.
const MEMORY: usize = 1 << 16;

/// An address's first two bytes.
const fn v4(a: u8, b: u8) -> [u8; 16] {
    [a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

const fn v6(a: u8) -> [u8; 16] {
    v4(a, 0)
}

/// Replaces addresses by a secret.
#[derive(Debug)]
pub(super) struct Addresses {
    secret: [u8; 16],
    known: HashMap<IpAddr, IpAddr>,
}

impl Addresses {
    pub(super) fn new(secret: [u8; 16]) -> Self {
        Self {
            secret,
            known: HashMap::new(),
        }
    }

    /// A keyed hash.
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        SipHasher24::new_with_key(&self.secret).hash(bytes)
    }

    /// The address that stands for this one, always the same.
    pub(super) fn replace(&mut self, addr: IpAddr) -> IpAddr {
        if let Some(known) = self.known.get(&addr) {
            return *known;
        }
        let fresh = self.compute(addr);
        if self.known.len() >= MEMORY {
            self.known.clear();
        }
        self.known.insert(addr, fresh);
        fresh
    }

    /// A network.
    pub(super) fn net(&mut self, net: IpNet) -> IpNet {
        let to = self.replace(net.network());
        IpNet::new(to, net.prefix_len()).map_or(net, |to| to.trunc())
    }

    /// An address with its network's length.
    pub(super) fn interface(&mut self, net: IpNet) -> IpNet {
        IpNet::new(self.replace(net.addr()), net.prefix_len()).unwrap_or(net)
    }

    fn compute(&self, addr: IpAddr) -> IpAddr {
        let addr = addr.to_canonical();
        let (bytes, len, is_v4) = match addr {
            IpAddr::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&v4.octets());
                (bytes, 32u8, true)
            }
            IpAddr::V6(v6) => (v6.octets(), 128, false),
        };
        let in_net =
            |(net, bits, v4): &([u8; 16], u8, bool)| *v4 == is_v4 && shared(&bytes, net) >= *bits;
        if COMMON.iter().any(in_net) {
            return addr;
        }
        let mut out = bytes;
        for bit in 0..len {
            if !leads_to_kept(&bytes, bit, is_v4) && self.flips(&bytes, bit, is_v4) {
                out[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
            }
        }
        match is_v4 {
            true => Ipv4Addr::new(out[0], out[1], out[2], out[3]).into(),
            false => Ipv6Addr::from(out).into(),
        }
    }

    /// Whether the bit behind these first bits is turned: by a keyed hash of them.
    fn flips(&self, bytes: &[u8; 16], bit: u8, is_v4: bool) -> bool {
        let mut input = [0; 18];
        input[..16].copy_from_slice(&first_bits(bytes, bit));
        input[16] = bit;
        input[17] = u8::from(is_v4);
        self.hash(&input) & 1 == 1
    }
}

/// Whether a network that stays begins with these first bits: then the next bit stays too, for all, so
/// that nothing comes in or goes out.
fn leads_to_kept(bytes: &[u8; 16], bit: u8, is_v4: bool) -> bool {
    KEPT.iter()
        .chain(&COMMON)
        .any(|(net, bits, v4)| *v4 == is_v4 && bit < *bits && shared(bytes, net) >= bit)
}

/// How many first bits are the same.
fn shared(a: &[u8; 16], b: &[u8; 16]) -> u8 {
    let differ = u128::from_be_bytes(*a) ^ u128::from_be_bytes(*b);
    u8::try_from(differ.leading_zeros()).unwrap_or(u8::MAX)
}

fn first_bits(bytes: &[u8; 16], bits: u8) -> [u8; 16] {
    let mask = match bits {
        0 => 0,
        bits => u128::MAX << (128 - u32::from(bits.min(128))),
    };
    (u128::from_be_bytes(*bytes) & mask).to_be_bytes()
}
