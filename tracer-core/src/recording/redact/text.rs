//! Names, and addresses in texts.

use super::Redactor;
use ipnet::IpNet;
use std::net::IpAddr;

impl Redactor {
    /// A name becomes a hash of it.
    pub(super) fn name(&self, name: &mut String) {
        if !name.is_empty() {
            *name = self.hashed(name);
        }
    }

    /// `namespace/name-suffix`: each part by itself, so that pods of one set stay that.
    pub(super) fn pod(&self, pod: &mut String) {
        let part = |part: &str| match part.rsplit_once('-') {
            Some((set, one)) => format!("{}-{}", self.hashed(set), self.short(one)),
            None => self.hashed(part),
        };
        *pod = pod.split('/').map(part).collect::<Vec<_>>().join("/");
    }

    fn hashed(&self, name: &str) -> String {
        format!("x{}", self.short(name))
    }

    fn short(&self, name: &str) -> String {
        format!("{:08x}", self.addresses.hash(name.as_bytes()) >> 32)
    }

    /// Replaces every address and prefix in a text.
    pub(super) fn text(&mut self, text: &mut String) {
        let is_part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(from) = rest.find(is_part) {
            out.push_str(&rest[..from]);
            rest = &rest[from..];
            let to = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (token, behind) = rest.split_at(to);
            let length = prefix_len(behind);
            match self.token(token, length) {
                Some((replaced, with_length)) => {
                    out.push_str(&replaced);
                    rest = &behind[if with_length {
                        length.map_or(0, |(_, n)| n)
                    } else {
                        0
                    }..];
                }
                None => {
                    out.push_str(token);
                    rest = behind;
                }
            }
        }
        out.push_str(rest);
        *text = out;
    }

    /// What stands for a token with an address in it; whether the prefix length behind it is part of that.
    fn token(&mut self, token: &str, length: Option<(u8, usize)>) -> Option<(String, bool)> {
        if let Ok(addr) = token.parse::<IpAddr>() {
            let net = length.and_then(|(bits, _)| IpNet::new(addr, bits).ok());
            return Some(match net {
                Some(net) => (self.addresses.net(net).to_string(), true),
                None => (self.addresses.replace(addr).to_string(), false),
            });
        }
        let (front, back) = token.rsplit_once(':').unwrap_or((token, ""));
        let start = front.find(|c: char| !c.is_ascii_alphabetic() && c != ':')?;
        let addr = front[start..].parse::<IpAddr>().ok()?;
        let addr = self.addresses.replace(addr);
        let colon = if front.len() < token.len() { ":" } else { "" };
        Some((format!("{}{addr}{colon}{back}", &front[..start]), false))
    }
}

/// `/24…`: the number, and how many bytes it takes.
fn prefix_len(text: &str) -> Option<(u8, usize)> {
    let digits = text.strip_prefix('/')?;
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let digits = &digits[..end.unwrap_or(digits.len())];
    Some((digits.parse().ok()?, digits.len() + 1))
}
