//! The far side's capture, packet by packet, for `merge`.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Result;
use tracer_common::RawEvent;

use crate::merge::{FRAME, OTHERS, UTC_NS};
use crate::synth;

/// Or so many short connections, which take about as many bytes.
const STRANGERS: u64 = 40;
/// From the node to the far side.
const DELAY_NS: u64 = 30_000;

/// What the far side captures.
pub(crate) struct Capture {
    pub(crate) file: BufWriter<File>,
    pub(crate) packets: u64,
}

impl Capture {
    /// pcap with nanoseconds, of Ethernet.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&0xa1b2_3c4d_u32.to_le_bytes())?;
        file.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        file.write_all(&262_144_u32.to_le_bytes())?;
        file.write_all(&1_u32.to_le_bytes())?;
        Ok(Self { file, packets: 0 })
    }

    /// What passes the node's way out comes to the far side, or comes from there.
    pub(crate) fn sight(&mut self, raw: &RawEvent) -> Result<()> {
        let Some(request) = synth::leaves_by_uplink(raw) else {
            return Ok(());
        };
        let (at_ns, ttl) = match request {
            true => (raw.time_ns + DELAY_NS, 62),
            false => (raw.time_ns - DELAY_NS, 64),
        };
        let tuple = &raw.tuple;
        let addr = |bytes: &[u8; 16]| [bytes[0], bytes[1], bytes[2], bytes[3]];
        let segment = Segment {
            src: addr(&tuple.src),
            dst: addr(&tuple.dst),
            sport: tuple.sport,
            dport: tuple.dport,
            seq: raw.print.seq,
            ack: raw.print.ack,
            flags: raw.print.tcp_flags,
            ttl,
            payload: raw.print.payload_len as usize,
        };
        self.packet(at_ns, &segment)
    }

    /// Connections that begin, ask, are answered and end, each with another client port or client.
    pub(crate) fn strangers(&mut self, turn: u64, now_ns: u64) -> Result<()> {
        const ENDS: [(bool, u8, usize); 6] = [
            (true, 0x02, 0),
            (false, 0x12, 0),
            (true, 0x18, 100),
            (false, 0x18, 200),
            (true, 0x11, 0),
            (false, 0x11, 0),
        ];
        for number in 0..STRANGERS {
            let n = turn * STRANGERS + number;
            let client = ([10, 50, (n >> 24) as u8, (n >> 16) as u8], n as u16);
            let server = ([10, 20, 30, 40], 5002);
            // The traced connections' clients begin with an even number, and their servers with an odd one (`synth.rs`).
            let mut seq = [
                (n as u32).wrapping_mul(2_246_822_519) | 1,
                (n as u32).wrapping_mul(3_266_489_917) & !1,
            ];
            for (asks, flags, payload) in ENDS {
                let (from, to) = if asks {
                    (client, server)
                } else {
                    (server, client)
                };
                let [own, other] = if asks { [0, 1] } else { [1, 0] };
                let segment = Segment {
                    src: from.0,
                    dst: to.0,
                    sport: from.1.to_be_bytes(),
                    dport: to.1.to_be_bytes(),
                    seq: seq[own],
                    ack: seq[other],
                    flags,
                    ttl: 60,
                    payload,
                };
                self.packet(now_ns, &segment)?;
                let counts = usize::from(flags & 0x03 != 0) + payload;
                seq[own] = seq[own].wrapping_add(counts as u32);
            }
        }
        Ok(())
    }

    /// Other traffic: transfers that go on.
    pub(crate) fn transfers(&mut self, turn: u64, now_ns: u64) -> Result<()> {
        for number in 0..OTHERS {
            let payload = FRAME - 54;
            let segment = Segment {
                src: [10, 40, 0, number as u8],
                dst: [10, 20, 30, 40],
                sport: 50_000_u16.to_be_bytes(),
                dport: 5001_u16.to_be_bytes(),
                seq: (turn * payload as u64) as u32,
                ack: 1,
                flags: 0x10,
                ttl: 60,
                payload,
            };
            self.packet(now_ns, &segment)?;
        }
        Ok(())
    }

    fn packet(&mut self, at_ns: u64, segment: &Segment) -> Result<()> {
        let bytes = segment.frame();
        let utc_ns = at_ns + UTC_NS.unsigned_abs();
        let second = 1_000_000_000;
        for word in [
            (utc_ns / second) as u32,
            (utc_ns % second) as u32,
            bytes.len() as u32,
            bytes.len() as u32,
        ] {
            self.file.write_all(&word.to_le_bytes())?;
        }
        self.file.write_all(&bytes)?;
        self.packets += 1;
        Ok(())
    }
}

/// A TCP segment over IPv4 in a frame. Nobody looks at its checksums.
struct Segment {
    src: [u8; 4],
    dst: [u8; 4],
    sport: [u8; 2],
    dport: [u8; 2],
    seq: u32,
    ack: u32,
    flags: u8,
    ttl: u8,
    payload: usize,
}

impl Segment {
    fn frame(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0];
        let total = 40 + self.payload as u16;
        bytes.extend([0x45, 0]);
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, self.ttl, 6, 0, 0]);
        bytes.extend(self.src);
        bytes.extend(self.dst);
        bytes.extend(self.sport);
        bytes.extend(self.dport);
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([0x50, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.resize(54 + self.payload, b'x');
        bytes
    }
}
