//! The PROXY protocol's header, versions 1 and 2, as HAProxy's `doc/proxy-protocol.txt` has it.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What a connection of version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The longest header of version 1, its line end included.
const LONGEST_LINE: usize = 107;
/// What stands before the addresses in version 2.
const FIXED: usize = 16;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Header {
    /// 1 or 2.
    pub version: u8,
    /// The client that it names; `None` where it names none (`UNKNOWN`, `LOCAL`, another family).
    pub client: Option<SocketAddr>,
    /// Its length, bytes: it may be longer than what was read.
    pub len: u32,
}

/// Reads the header that bytes begin with; `None` where they begin with none, or with one that is cut
/// off before its addresses end, or is malformed.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Header> {
    if bytes.starts_with(&SIGNATURE) {
        binary(bytes)
    } else {
        line(bytes)
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n`
fn line(bytes: &[u8]) -> Option<Header> {
    let bytes = bytes.get(..bytes.len().min(LONGEST_LINE))?;
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut words = text.split(' ');
    if words.next() != Some("PROXY") {
        return None;
    }
    let client = match words.next()? {
        "UNKNOWN" => None,
        family @ ("TCP4" | "TCP6") => {
            let source: IpAddr = words.next()?.parse().ok()?;
            let destination: IpAddr = words.next()?.parse().ok()?;
            let port: u16 = words.next()?.parse().ok()?;
            words.next()?.parse::<u16>().ok()?;
            let fits = source.is_ipv4() == (family == "TCP4");
            if !fits || destination.is_ipv4() != source.is_ipv4() || words.next().is_some() {
                return None;
            }
            Some(SocketAddr::new(source, port))
        }
        _ => return None,
    };
    Some(Header {
        version: 1,
        client,
        len: u32::try_from(end + 2).ok()?,
    })
}

fn binary(bytes: &[u8]) -> Option<Header> {
    let [what, family, high, low] = *bytes.get(SIGNATURE.len()..FIXED)? else {
        return None;
    };
    let len = u16::from_be_bytes([high, low]);
    let rest = bytes.get(FIXED..)?;
    let rest = &rest[..rest.len().min(len.into())];
    let client = match (what, family >> 4) {
        (0x20, _) => None, // LOCAL: the proxy speaks for itself
        (0x21, 1) => Some(v4(rest)?),
        (0x21, 2) => Some(v6(rest)?),
        (0x21, _) => None,
        _ => return None,
    };
    Some(Header {
        version: 2,
        client,
        len: u32::from(len) + FIXED as u32,
    })
}

fn v4(rest: &[u8]) -> Option<SocketAddr> {
    // Two addresses and two ports.
    let rest = rest.get(..12)?;
    let source: [u8; 4] = rest.get(..4)?.try_into().ok()?;
    Some(SocketAddr::new(source.into(), port(rest, 8)?))
}

fn v6(rest: &[u8]) -> Option<SocketAddr> {
    let rest = rest.get(..36)?;
    let source: [u8; 16] = rest.get(..16)?.try_into().ok()?;
    let source = Ipv6Addr::from(source);
    Some(SocketAddr::new(source.into(), port(rest, 32)?))
}

fn port(rest: &[u8], at: usize) -> Option<u16> {
    let port: [u8; 2] = rest.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(bytes: &[u8]) -> Option<String> {
        read(bytes)?.client.map(|c| c.to_string())
    }

    #[test]
    fn version_1_names_the_client() {
        let line = b"PROXY TCP4 10.12.3.4 10.100.0.5 43210 80\r\nGET /";
        assert_eq!(client(line).as_deref(), Some("10.12.3.4:43210"));
        assert_eq!(read(line).map(|h| (h.version, h.len)), Some((1, 42)));
        let six = b"PROXY TCP6 fd10::4 fd10::5 43210 80\r\n";
        assert_eq!(client(six).as_deref(), Some("[fd10::4]:43210"));
        assert_eq!(read(b"PROXY UNKNOWN\r\n").map(|h| h.client), Some(None));
    }

    #[test]
    fn what_is_no_line_is_none() {
        for bytes in [
            &b"PROXY TCP4 10.12.3.4 10.100.0.5 43210 80"[..],
            b"PROXY TCP4 fd10::4 10.100.0.5 43210 80\r\n",
            b"PROXY TCP4 10.12.3.4 10.100.0.5 43210 80 9\r\n",
            b"PROXY TCP4 10.12.3.4 10.100.0.5 99999 80\r\n",
            b"GET / HTTP/1.1\r\n",
            b"",
        ] {
            assert_eq!(read(bytes), None);
        }
    }

    #[test]
    fn version_2_names_the_client() {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([0x21, 0x11, 0, 15]);
        bytes.extend([10, 12, 3, 4, 10, 100, 0, 5]);
        bytes.extend([43_210u16.to_be_bytes(), 80u16.to_be_bytes()].concat());
        bytes.extend([4, 0, 0]); // a TLV
        assert_eq!(client(&bytes).as_deref(), Some("10.12.3.4:43210"));
        assert_eq!(read(&bytes).map(|h| (h.version, h.len)), Some((2, 31)));
        assert_eq!(read(&bytes[..27]), None, "cut off");
        bytes[12] = 0x20;
        assert_eq!(read(&bytes).map(|h| h.client), Some(None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            begin in 0usize..3,
        ) {
            let begins = [&b""[..], b"PROXY TCP4 ", &SIGNATURE];
            let _ = read(&[begins[begin], &bytes].concat());
        }
    }
}
