//! `--probe`: one request to one address.

use super::args::ProbeKind;
use super::describe::dest as describe_dest;
use super::dest::DestSpec;
use super::error::UsageError;
use super::options::FilterOptions;
use super::parse::{FromRef, PortRange};
use tracer_core::packet::Proto;

/// A checked `--probe`: there is one destination, not a range, with one port where it needs one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// What to send.
    pub kind: ProbeKind,
    /// The destination port; `None` for ICMP.
    pub port: Option<u16>,
    /// Where from; `None`: where srctrace is started.
    pub from: Option<FromRef>,
}

impl ProbeKind {
    /// As it is written on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        }
    }

    fn is_among(self, protos: &[Proto]) -> bool {
        protos.is_empty()
            || protos.contains(&match self {
                Self::Tcp => Proto::TCP,
                Self::Udp => Proto::UDP,
                Self::Icmp => Proto::ICMP,
            })
    }
}

impl ProbeOptions {
    /// `kind` is `None` for a bare `--probe`: what `--proto` says, else TCP.
    pub(super) fn check(
        kind: Option<ProbeKind>,
        from: Option<FromRef>,
        filter: &FilterOptions,
    ) -> Result<Self, UsageError> {
        let kinds = [ProbeKind::Tcp, ProbeKind::Udp, ProbeKind::Icmp];
        let kind = kind
            .or_else(|| kinds.into_iter().find(|k| k.is_among(&filter.protos)))
            .unwrap_or(ProbeKind::Tcp);
        let name = kind.as_str();
        if !kind.is_among(&filter.protos) {
            return Err(UsageError::new(&format!(
                "--probe {name} would not match --proto: give the same protocol to both, or leave --proto out"
            )));
        }
        let dest = only_address(&filter.dests)?;
        let ports = dest.effective_ports(&filter.ports);
        let port = match (kind, ports) {
            (ProbeKind::Icmp, []) => None,
            (ProbeKind::Icmp, _) => {
                return Err(UsageError::new(
                    "--probe icmp: ICMP has no ports; leave the port out",
                ));
            }
            (_, ports) => Some(only_port(ports).ok_or_else(|| {
                UsageError::new(&format!(
                    "--probe {name} needs exactly one port, as DEST:PORT or with --port"
                ))
            })?),
        };
        Ok(Self { kind, port, from })
    }
}

fn only_address(dests: &[DestSpec]) -> Result<&DestSpec, UsageError> {
    match dests {
        [dest] if !dest.target.is_range() => Ok(dest),
        [range] => Err(UsageError::value(
            "--probe to",
            &describe_dest(range),
            "a probe goes to one address, never to a range; give a DEST without /LENGTH",
        )),
        all => Err(UsageError::new(&format!(
            "--probe needs exactly one DEST, {} were given",
            all.len()
        ))),
    }
}

fn only_port(ports: &[PortRange]) -> Option<u16> {
    match ports {
        [range] => range.single(),
        _ => None,
    }
}
