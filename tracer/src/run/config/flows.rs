//! `--flows`: flows that were seen, out of a recording or a JSON report.

use crate::render::escape;
use crate::run::failure::Failure;
use crate::run::merge::Player;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::IpAddr;
use std::path::Path;
use tracer_core::inventory::Inventory;
use tracer_core::masqconfig::Wire;
use tracer_core::packet::Proto;
use tracer_core::report::{Code, Flow, Line, OriginKind, SourceCode};

/// Flows by their path.
pub(super) struct Seen {
    from: String,
    pub(super) paths: BTreeMap<Path4, Counted>,
}

/// Who sends what to whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path4 {
    pub(super) sender: String,
    pub(super) kind: OriginKind,
    pub(super) src: IpAddr,
    /// As asked for by the sender.
    pub(super) dst: IpAddr,
    pub(super) proto: u8,
    pub(super) dport: u16,
}

/// Flows of one path.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) count: u64,
    /// The device by which they came into the node, where it was sighted.
    pub(super) iif: Option<String>,
    /// The destination on the wire, and the source there, of those that left by rules of their time.
    left: Option<(IpAddr, IpAddr)>,
}

/// More paths than this are not compared one by one.
const MOST: usize = 10_000;

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Seen, Failure> {
    let mut seen = Seen {
        from: path.display().to_string(),
        paths: BTreeMap::new(),
    };
    if is_report(path)? {
        seen.report(path)?;
    } else {
        let mut player = Player::open(path, 1)?;
        while let Some(parts) = player.step()? {
            parts.iter().for_each(|(_, flow)| seen.add(flow));
        }
        player.remark();
    }
    Ok(seen)
}

fn fail(path: &Path, why: &str) -> Failure {
    let line = format!("--flows {}: {why}", path.display());
    Failure::Usage(escape(&line).into_owned())
}

/// A report begins with a brace.
fn is_report(path: &Path) -> Result<bool, Failure> {
    let unreadable = |error: std::io::Error| fail(path, &format!("cannot be read: {error}"));
    let mut first = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(16).read_to_end(&mut first).map_err(unreadable)?;
    Ok(first.trim_ascii_start().first() == Some(&b'{'))
}

impl Seen {
    fn report(&mut self, path: &Path) -> Result<(), Failure> {
        let unreadable = |error: std::io::Error| fail(path, &format!("cannot be read: {error}"));
        let file = BufReader::new(File::open(path).map_err(unreadable)?);
        for (n, line) in file.lines().enumerate() {
            let line = line.map_err(unreadable)?;
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(&line) {
                Ok(Line::Flow(flow)) => self.add(&flow),
                Ok(_) => {}
                Err(error) => {
                    let why = format!(
                        "line {}: no line of a report: {error}; give what -o json printed",
                        n + 1
                    );
                    return Err(fail(path, &why));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, flow: &Flow) {
        let path = Path4 {
            sender: sender(flow),
            kind: flow.origin.kind,
            src: flow.flow.tuple.src,
            dst: flow.flow.tuple.dst,
            proto: flow.flow.proto.0.0,
            dport: flow.flow.tuple.dport,
        };
        if self.paths.len() >= MOST && !self.paths.contains_key(&path) {
            return;
        }
        let known = self.paths.entry(path).or_insert(Counted {
            count: 0,
            iif: flow.hops.first().and_then(|hop| hop.ifname.clone()),
            left: left(flow),
        });
        known.count += flow.count;
    }

    /// How the flows left, against what the agent's chain exempts.
    pub(super) fn wire(&self, exempt: &[IpNet], inventory: &Inventory) -> Wire {
        let mut wire = Wire {
            from: self.from.clone(),
            flows: 0,
            other: Vec::new(),
        };
        for (path, counted) in &self.paths {
            let Some((dst, src)) = counted.left.filter(|_| path.kind == OriginKind::Pod) else {
                continue;
            };
            if inventory.node_owns(dst) {
                continue;
            }
            wire.flows += counted.count;
            let keeps = exempt.iter().any(|net| net.contains(&dst));
            if keeps != (src == path.src) {
                let rules = if keeps { "exempt it" } else { "masquerade it" };
                wire.other.push(format!(
                    "{} {} to {dst} left as {src}, and the rules {rules}",
                    path.sender, path.src
                ));
            }
        }
        wire
    }
}

fn sender(flow: &Flow) -> String {
    let origin = &flow.origin;
    match origin.kind {
        OriginKind::Node => "node".to_owned(),
        _ => {
            let name = origin.pod.clone().or_else(|| origin.netns_name.clone());
            name.unwrap_or_else(|| flow.flow.tuple.src.to_string())
        }
    }
}

/// Destination and source of a flow that left; not of one that keeps a binding of before.
fn left(flow: &Flow) -> Option<(IpAddr, IpAddr)> {
    let older = |code: Code| matches!(code, Code::MappingPredatesTrace | Code::NoRuleExplains);
    if flow.findings.iter().any(|finding| older(finding.code)) {
        return None;
    }
    let known = matches!(
        flow.verdict.source,
        SourceCode::SourcePreserved | SourceCode::SourceRewritten
    );
    let last = flow.hops.last()?;
    let src = flow.verdict.source_on_wire.filter(|_| known)?;
    Some((last.tuple.dst, src))
}

impl Path4 {
    pub(super) fn proto(&self) -> Proto {
        Proto(self.proto)
    }
}
