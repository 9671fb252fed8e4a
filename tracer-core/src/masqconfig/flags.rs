//! The agents' own flags, out of their command line (Go's `flag` package).

use super::{Agent, Span};

/// What an agent was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--masq-chain`.
    pub chain: String,
    /// `--nomasq-all-reserved-ranges`: its defaults are all reserved ranges.
    pub reserved_ranges: bool,
    /// `--enable-ipv6`.
    pub ipv6: bool,
    /// `--random-fully` (on, unless turned off).
    pub random_fully: bool,
    /// `--to-ports`.
    pub to_ports: Option<String>,
    /// `--resync-interval` (Azure's).
    pub resync: Span,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            chain: "IP-MASQ-AGENT".to_owned(),
            reserved_ranges: false,
            ipv6: false,
            random_fully: true,
            to_ports: None,
            resync: Span::seconds(60),
        }
    }
}

/// Flags of klog that take no value.
const SWITCHES: &[&str] = &[
    "logtostderr",
    "alsologtostderr",
    "add_dir_header",
    "skip_headers",
    "skip_log_headers",
    "one_output",
    "version",
];

impl Flags {
    /// Reads a command line, the program's name first. What is unknown changes nothing.
    #[must_use]
    pub fn of<'a>(agent: Agent, words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut flags = Self {
            random_fully: agent == Agent::Upstream,
            ..Self::default()
        };
        let mut words = words.into_iter().skip(1);
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                break;
            };
            if name.is_empty() {
                break;
            }
            match name.split_once('=') {
                Some((name, value)) => flags.set(name, Some(value)),
                None if flags.is_switch(name) => flags.set(name, None),
                None => {
                    let value = words.next();
                    flags.set(name, value);
                }
            }
        }
        flags
    }

    fn is_switch(&mut self, name: &str) -> bool {
        SWITCHES.contains(&name) || self.switch(name).is_some()
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "nomasq-all-reserved-ranges" => &mut self.reserved_ranges,
            "enable-ipv6" => &mut self.ipv6,
            "random-fully" => &mut self.random_fully,
            _ => return None,
        })
    }

    fn set(&mut self, name: &str, value: Option<&str>) {
        if let Some(switch) = self.switch(name) {
            match value {
                None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => *switch = true,
                Some("0" | "f" | "F" | "false" | "FALSE" | "False") => *switch = false,
                Some(_) => {}
            }
            return;
        }
        let value = value.unwrap_or_default();
        match name {
            "masq-chain" => value.clone_into(&mut self.chain),
            "to-ports" => self.to_ports = Some(value.to_owned()).filter(|v| !v.is_empty()),
            "resync-interval" => {
                if let Ok(seconds) = value.parse() {
                    self.resync = Span::seconds(seconds);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Agent, Flags};

    #[test]
    fn flags_are_read_as_go_does() {
        let of = |line: &str| Flags::of(Agent::Upstream, line.split(' '));
        assert_eq!(of("ip-masq-agent"), Flags::default());
        let gke = "/ip-masq-agent --masq-chain=IP-MASQ --nomasq-all-reserved-ranges --v=2";
        assert_eq!(
            of(gke),
            Flags {
                chain: "IP-MASQ".into(),
                reserved_ranges: true,
                ..Flags::default()
            }
        );
        let spaced = "agent -v 2 -masq-chain X --logtostderr --enable-ipv6 --random-fully=false -- --to-ports=1";
        assert_eq!(
            of(spaced),
            Flags {
                chain: "X".into(),
                ipv6: true,
                random_fully: false,
                ..Flags::default()
            }
        );
        assert!(!of("agent --enable-ipv6=false").ipv6);
        assert!(!of("agent stray --enable-ipv6").ipv6);
    }
}
