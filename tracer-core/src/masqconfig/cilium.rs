//! Cilium's own agent keeps its list in BPF maps: netfilter's rules say nothing of it.

use super::compare::{Comparison, Timing};
use super::prefixes::{covers, listed, same};
use super::scene::{Held, Running, Scene, defaults, nets};
use super::told::Telling;
use crate::report::{
    Code, ConfigEntry, ConfigReport, ConfigState as State, Finding, Severity, Stage,
};
use crate::verdict::finding;
use ipnet::IpNet;
use serde_json::json;

/// The list as the data path has it: Cilium's pinned maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Where they are pinned.
    pub from: Vec<String>,
    /// Destinations that keep their source; or why the maps could not be read.
    pub nets: Result<Vec<IpNet>, String>,
}

const NOT_IPTABLES: &str = "iptables does not decide what Cilium's data path sends out";

/// The report of a node on which Cilium masquerades. `None`: nothing is known of it.
pub(super) fn tell(scene: &Scene<'_, '_>, meant: Option<&Held>) -> Option<ConfigReport> {
    if meant.is_none() && scene.pinned.is_none() {
        return None;
    }
    let own = defaults(scene);
    let installed = scene.pinned.and_then(|maps| maps.nets.as_ref().ok());
    let state = meant.and_then(|held| state(scene, held, installed.map(Vec::as_slice)));
    let comparison = Comparison {
        state: state.unwrap_or(State::Agrees),
        halves: Vec::new(),
    };
    let telling = Telling {
        scene,
        meant,
        comparison: &comparison,
        timing: Timing::default(),
        last: scene.mounted.or(meant).unwrap_or(&own),
    };
    let mut report = telling.report(&comparison);
    report.config_state = state;
    report.next_resync = None;
    report.chain = name(scene);
    report.entries = entries(scene, meant, installed);
    report
        .stages
        .iter_mut()
        .filter(|stage| stage.stage == "kernel")
        .for_each(|stage| kernel(stage, scene, meant.map(|_| telling.last), installed));
    let mut differs = report.stages.iter().filter(|s| s.agrees == Some(false));
    report.differs_at = differs.next().map(|stage| stage.stage.clone());
    if state != Some(State::Invalid) {
        let at = report.differs_at.as_deref();
        let at = at
            .filter(|stage| *stage != "kernel")
            .map_or(String::new(), |stage| {
                format!(
                    "; the first stage that differs is the {}",
                    stage.replace('-', " ")
                )
            });
        report.text = text(scene, meant, state) + &at;
    }
    let drift = drift(scene, meant, state, &report);
    report.findings.extend(drift);
    report.findings.extend(left_over(scene));
    Some(report)
}

fn name(scene: &Scene<'_, '_>) -> String {
    match scene.pinned {
        Some(maps) => maps.from.join(" and "),
        None => "a BPF map".to_owned(),
    }
}

/// `None`: the maps are not known.
fn state(scene: &Scene<'_, '_>, meant: &Held, installed: Option<&[IpNet]>) -> Option<State> {
    if meant.reading.config.is_err() {
        return Some(State::Invalid);
    }
    let installed = installed?;
    if same(installed, &nets(&meant.reading, scene.flags)) {
        return Some(State::Agrees);
    }
    // It is told of a change of its file at once.
    let due = scene.timing(meant).due(None);
    if due.is_some_and(|due| scene.now < due) {
        return Some(State::Lagging);
    }
    let own = super::read(scene.agent, &[], scene.flags);
    Some(
        match meant.reading.found && same(installed, &nets(&own, scene.flags)) {
            true => State::NotRead,
            false => State::Differs,
        },
    )
}

fn kernel(
    stage: &mut Stage,
    scene: &Scene<'_, '_>,
    before: Option<&Held>,
    installed: Option<&Vec<IpNet>>,
) {
    stage.from = name(scene);
    stage.exempt = installed.map(|nets| nets.iter().map(ToString::to_string).collect());
    stage.why = unknown(scene);
    stage.agrees = match (installed, before) {
        (Some(installed), Some(held)) => {
            Some(held.reading.config.is_ok() && same(installed, &nets(&held.reading, scene.flags)))
        }
        _ => None,
    };
}

/// Why the maps' content is not known.
fn unknown(scene: &Scene<'_, '_>) -> Option<String> {
    let look = "`cilium bpf ipmasq list` in Cilium's pod shows it";
    match scene.pinned {
        None => Some(format!(
            "no map cilium_ipmasq_v4 is pinned below /sys/fs/bpf/tc/globals here ({look}, if enable-ip-masq-agent is on), \
             and {NOT_IPTABLES}"
        )),
        Some(maps) => {
            let why = maps.nets.as_ref().err()?;
            Some(format!(
                "cannot be read: {why} ({look}), and {NOT_IPTABLES}"
            ))
        }
    }
}

fn entries(
    scene: &Scene<'_, '_>,
    meant: Option<&Held>,
    installed: Option<&Vec<IpNet>>,
) -> Vec<ConfigEntry> {
    let wanted = meant.filter(|held| held.reading.config.is_ok());
    let wanted = wanted.map(|held| nets(&held.reading, scene.flags));
    let entry = |net: &IpNet, is_wanted: Option<bool>, differs: bool| ConfigEntry {
        prefix: net.to_string(),
        wanted: is_wanted,
        rule: None,
        differs,
    };
    let asked = wanted.as_deref().unwrap_or_default();
    let lacking = |net: &IpNet| installed.is_some_and(|installed| !covers(installed, *net));
    let asked_for = asked.iter().map(|net| entry(net, Some(true), lacking(net)));
    let extra = installed.into_iter().flatten();
    let extra = extra.filter(|net| !asked.contains(net)).map(|net| {
        let differs = wanted.is_some() && !covers(asked, *net);
        entry(net, wanted.is_some().then_some(false), differs)
    });
    asked_for.chain(extra).collect()
}

fn text(scene: &Scene<'_, '_>, meant: Option<&Held>, state: Option<State>) -> String {
    let maps = name(scene);
    let Some(meant) = meant else {
        return format!(
            "{maps} is there, and no agent runs and no configuration was given; {NOT_IPTABLES}"
        );
    };
    let from = &meant.from;
    match state {
        Some(State::Agrees) => format!("{maps} has what {from} asks for; {NOT_IPTABLES}"),
        Some(State::Lagging) => {
            format!("{maps} has not yet what {from} asks for: it changed just now; {NOT_IPTABLES}")
        }
        Some(State::NotRead) => {
            format!("{maps} holds Cilium's defaults and not what {from} says; {NOT_IPTABLES}")
        }
        Some(_) => format!("{maps} has not what {from} asks for; {NOT_IPTABLES}"),
        None => {
            let why = unknown(scene).unwrap_or_default();
            format!("{from} is read by Cilium, which keeps it in {maps}: {why}")
        }
    }
}

fn drift(
    scene: &Scene<'_, '_>,
    meant: Option<&Held>,
    state: Option<State>,
    report: &ConfigReport,
) -> Option<Finding> {
    let (code, severity) = match state? {
        State::Differs => (Code::ConfigDrift, Severity::Error),
        State::NotRead => (Code::ConfigNotRead, Severity::Error),
        State::Lagging => (Code::ConfigDrift, Severity::Info),
        _ => return None,
    };
    let of = |wanted: bool| -> Vec<IpNet> {
        let entries = report.entries.iter();
        let differing = entries.filter(|e| e.differs && e.wanted == Some(wanted));
        differing.filter_map(|e| e.prefix.parse().ok()).collect()
    };
    let (missing, extra) = (of(true), of(false));
    let parts = [
        (!missing.is_empty()).then(|| {
            format!(
                "lacks {} (masqueraded, and should not be)",
                listed(&missing)
            )
        }),
        (!extra.is_empty()).then(|| format!("exempts {}, which is not asked for", listed(&extra))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Some(Finding {
        text: format!(
            "{} has not what {} asks for: it {}",
            name(scene),
            meant?.from,
            parts.join(", and ")
        ),
        fix: Some(
            match report.differs_at.as_deref() {
                Some("mounted-file") => "Cilium takes what its file says: see there",
                _ => {
                    "look at the log of cilium-agent on this node: it takes a changed file at once"
                }
            }
            .to_owned(),
        ),
        data: json!({ "missing": missing, "extra": extra }),
        ..finding(code, severity)
    })
}

/// The data path goes on without its agent.
fn left_over(scene: &Scene<'_, '_>) -> Option<Finding> {
    let maps = scene.pinned?;
    (*scene.running == Running::No).then(|| Finding {
        text: format!(
            "{} is there, and no cilium-agent runs on this node: the data path goes on with it, nobody reads an edit",
            maps.from.join(" and ")
        ),
        fix: Some("kubectl -n kube-system get pods -o wide -l k8s-app=cilium: is one on this node?".to_owned()),
        data: json!({ "maps": maps.from }),
        ..finding(Code::AgentNotRunning, Severity::Warning)
    })
}
