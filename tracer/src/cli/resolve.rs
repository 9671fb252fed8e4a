//! From destinations as given to addresses. The resolver is handed in: this room has no I/O.

use super::args::ProbeKind;
use super::dest::{DestSpec, DestTarget};
use super::error::UsageError;
use super::options::TraceOptions;
use super::parse::PortRange;
use ipnet::IpNet;
use std::io;
use std::net::IpAddr;

/// One destination to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dest {
    /// Its addresses.
    pub net: IpNet,
    /// Its ports; empty: every port.
    pub ports: Vec<PortRange>,
}

/// What `--probe` sends and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTarget {
    /// What.
    pub kind: ProbeKind,
    /// To which address.
    pub addr: IpAddr,
    /// To which port; `None` for ICMP.
    pub port: Option<u16>,
}

/// Every destination with its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// What to look for; empty: every destination.
    pub dests: Vec<Dest>,
    /// Where the probe goes.
    pub probe: Option<ProbeTarget>,
    /// A line for each name that was resolved, to be shown on stderr.
    pub notes: Vec<String>,
}

impl DestSpec {
    /// Its own ports, or else those of `--port`.
    #[must_use]
    pub fn effective_ports<'a>(&'a self, common: &'a [PortRange]) -> &'a [PortRange] {
        if self.ports.is_empty() {
            common
        } else {
            &self.ports
        }
    }
}

impl TraceOptions {
    /// Resolves host names with `lookup` (the system's resolver) and takes all their addresses.
    ///
    /// # Errors
    /// When a name has no address, or when `--probe` is left with more than one.
    pub fn resolve(
        &self,
        mut lookup: impl FnMut(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<Resolved, UsageError> {
        let mut out = Resolved::default();
        for spec in &self.filter.dests {
            let ports = spec.effective_ports(&self.filter.ports).to_vec();
            for net in nets(&spec.target, &mut lookup, &mut out.notes)? {
                let dest = Dest {
                    net,
                    ports: ports.clone(),
                };
                if !out.dests.contains(&dest) {
                    out.dests.push(dest);
                }
            }
        }
        if let Some(probe) = &self.probe {
            out.probe = Some(ProbeTarget {
                kind: probe.kind,
                addr: only_address(&out.dests)?,
                port: probe.port,
            });
        }
        Ok(out)
    }
}

pub(super) fn nets(
    target: &DestTarget,
    lookup: &mut impl FnMut(&str) -> io::Result<Vec<IpAddr>>,
    notes: &mut Vec<String>,
) -> Result<Vec<IpNet>, UsageError> {
    let name = match target {
        DestTarget::Net(net) => return Ok(vec![*net]),
        DestTarget::Name(name) => name,
    };
    let mut addrs: Vec<IpAddr> = lookup(name)
        .map_err(|why| UsageError::value("DEST", name, &format!("the name has no address: {why}")))?
        .into_iter()
        .map(|addr| addr.to_canonical())
        .collect();
    addrs.sort_unstable();
    addrs.dedup();
    if addrs.is_empty() {
        return Err(UsageError::value("DEST", name, "the name has no address"));
    }
    notes.push(format!("{name} is {}", list(&addrs)));
    Ok(addrs.into_iter().map(IpNet::from).collect())
}

fn only_address(dests: &[Dest]) -> Result<IpAddr, UsageError> {
    match dests {
        [dest] => Ok(dest.net.addr()),
        all => {
            let addrs: Vec<IpAddr> = all.iter().map(|d| d.net.addr()).collect();
            Err(UsageError::new(&format!(
                "--probe sends to one address, and the name has {}: {}; give one of them",
                addrs.len(),
                list(&addrs)
            )))
        }
    }
}

fn list(addrs: &[IpAddr]) -> String {
    addrs
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
