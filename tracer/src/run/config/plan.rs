//! What a configuration would change: the source today against the source after it, path by path.

use super::changed::{Changed, changed};
use super::flows::{Counted, Path4, Seen};
use crate::cli::ExplainOptions;
use crate::run::explain::is_of_use;
use crate::run::terrain::{ROUNDS, Terrain};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tracer_core::evaluate::Rules;
use tracer_core::event::NetnsId;
use tracer_core::foresee::{self, Needs, Request, Sender};
use tracer_core::inventory::{Inventory, Role};
use tracer_core::masqconfig::{self, Config, Flags};
use tracer_core::packet::Proto;
use tracer_core::report::{Explain, OriginKind, PlanPath, PlanReport, PlannedSource, SCHEMA};
use tracer_core::ruleset::Ruleset;

/// What a plan is asked for.
pub(super) struct Ask<'a> {
    pub(super) node: NetnsId,
    pub(super) rules: &'a Ruleset,
    pub(super) flags: &'a Flags,
    pub(super) addrs: &'a [IpAddr],
    pub(super) options: &'a ExplainOptions,
    pub(super) seen: Option<&'a Seen>,
}

/// One path to be foretold twice.
pub(super) struct Trial {
    pub(super) path: PlanPath,
    pub(super) count: u64,
    pub(super) sender: Sender,
    pub(super) request: Request,
}

/// Pods that are tried for a prefix, at most.
const PODS: usize = 250;

/// Every path, those whose source changes first.
pub(super) fn plans(terrain: &mut Terrain, ask: &Ask<'_>, after: &Config) -> Vec<PlanReport> {
    let rules = masqconfig::edited(ask.rules, after, ask.flags);
    let changed = changed(ask, after);
    let trials = trials(terrain, ask, &changed);
    let today = foretold(terrain, None, &trials);
    let then = foretold(terrain, Some((ask.node, &rules)), &trials);
    let mut plans: Vec<PlanReport> = Vec::new();
    for ((trial, from), to) in trials.iter().zip(today).zip(then) {
        let (Some(from), Some(to)) = (from, to) else {
            continue;
        };
        let mut path = trial.path.clone();
        path.src = path.src.or(from.origin.addr);
        let plan = PlanReport {
            schema: SCHEMA,
            path,
            from: source(from),
            to: source(to),
            count: trial.count,
        };
        add(&mut plans, plan);
    }
    plans.sort_by_key(|plan| !plan.changes());
    plans
}

/// Pods that fare the same on the way to a prefix are one path.
pub(super) fn add(plans: &mut Vec<PlanReport>, plan: PlanReport) {
    let kind = |p: &PlanReport| {
        let rules = (p.from.rule.clone(), p.to.rule.clone());
        (p.path.dest.clone(), p.from.source, p.to.source, rules)
    };
    let alike = kind(&plan);
    let is_alike = |known: &&mut PlanReport| known.count == 0 && kind(known) == alike;
    match plans.iter_mut().find(is_alike).filter(|_| plan.count == 0) {
        Some(known) => known.path.others += 1,
        None => plans.push(plan),
    }
}

fn source(line: Explain) -> PlannedSource {
    PlannedSource {
        source: line.source,
        source_on_wire: line.source_on_wire,
        rule: line.rule,
    }
}

pub(super) fn trials(terrain: &Terrain, ask: &Ask<'_>, changed: &[Changed]) -> Vec<Trial> {
    let inventory = &terrain.inventory;
    let mut all = Vec::new();
    for addr in ask.addrs {
        let senders = terrain
            .senders(&ask.options.senders, addr.is_ipv4())
            .unwrap_or_default();
        for mut sender in senders {
            sender.src = ask.options.src.or(sender.src);
            let request = request(*addr, Proto::TCP, ask.options.port);
            all.push(trial(inventory, sender, request, IpNet::from(*addr), 0));
        }
    }
    let paths = ask.seen.iter().flat_map(|seen| &seen.paths);
    all.extend(paths.filter_map(|(path, counted)| of_flow(inventory, ask.node, path, counted)));
    // An address that was asked about says more than the prefix around it.
    if ask.addrs.is_empty() {
        for changed in changed {
            for sender in pods(inventory, changed.sample.is_ipv4()) {
                let request = request(changed.sample, Proto::TCP, None);
                let mut trial = trial(inventory, sender, request, changed.net, 0);
                trial.path.except.clone_from(&changed.except);
                all.push(trial);
            }
        }
    }
    all
}

fn request(dst: IpAddr, proto: Proto, dport: Option<u16>) -> Request {
    Request {
        dst,
        proto,
        sport: None,
        dport,
    }
}

fn trial(
    inventory: &Inventory,
    sender: Sender,
    request: Request,
    dest: IpNet,
    count: u64,
) -> Trial {
    let name = name(inventory, &sender);
    let name = name.unwrap_or_else(|| format!("namespace {}", sender.netns.0));
    let device = sender
        .iif
        .and_then(|index| inventory.link(sender.netns, index));
    let device = device.map_or("a device", |link| link.name.as_str());
    let path = PlanPath {
        sender: match sender.kind {
            OriginKind::Pod => name,
            OriginKind::Node => "node".to_owned(),
            OriginKind::Gateway => format!("clients of {name}"),
            OriginKind::External => format!("clients in by {device}"),
        },
        others: 0,
        src: sender.src,
        dest: match dest.prefix_len() == dest.max_prefix_len() {
            true => dest.addr().to_string(),
            false => dest.to_string(),
        },
        except: Vec::new(),
    };
    Trial {
        path,
        count,
        sender,
        request,
    }
}

/// A flow that was seen, as it would be sent today: by the pod that has its source now, else as one that
/// came into the node by the same device.
fn of_flow(inventory: &Inventory, node: NetnsId, path: &Path4, counted: &Counted) -> Option<Trial> {
    let owner = inventory
        .namespaces
        .keys()
        .copied()
        .find(|id| inventory.role(*id) == Role::Pod && inventory.owns(*id, path.src));
    let device = |name: &String| {
        let links = &inventory.namespaces.get(&node)?.links;
        links
            .iter()
            .find(|(_, link)| link.name == *name)
            .map(|(index, _)| *index)
    };
    let here = inventory.namespaces.get(&node)?;
    let sender = match (path.kind, owner) {
        (OriginKind::Node, _) => Sender {
            kind: OriginKind::Node,
            netns: node,
            iif: None,
            src: Some(path.src).filter(|src| inventory.node_owns(*src)),
        },
        (_, Some(netns)) => Sender {
            kind: OriginKind::Pod,
            netns,
            iif: None,
            src: Some(path.src),
        },
        _ => {
            let back = masqconfig::way_out(here, path.src).map(str::to_owned);
            let iif = counted.iif.iter().chain(&back).find_map(device)?;
            Sender {
                kind: OriginKind::External,
                netns: node,
                iif: Some(iif),
                src: Some(path.src),
            }
        }
    };
    let dport = Some(path.dport).filter(|port| *port > 0);
    let request = request(path.dst, path.proto(), dport);
    let mut trial = trial(
        inventory,
        sender,
        request,
        IpNet::from(path.dst),
        counted.count,
    );
    trial.path.sender.clone_from(&path.sender);
    trial.path.src = Some(path.src);
    Some(trial)
}

fn pods(inventory: &Inventory, v4: bool) -> Vec<Sender> {
    let all = foresee::senders(inventory, &BTreeMap::new(), v4).into_iter();
    let mut pods: Vec<Sender> = all
        .filter(|sender| sender.kind == OriginKind::Pod)
        .take(PODS)
        .collect();
    pods.sort_by_key(|sender| name(inventory, sender));
    pods
}

fn name(inventory: &Inventory, sender: &Sender) -> Option<String> {
    inventory.called(sender.netns).map(str::to_owned)
}

/// What becomes of each, with the rules of today or with others in one namespace.
fn foretold(
    terrain: &mut Terrain,
    instead: Option<(NetnsId, &Ruleset)>,
    trials: &[Trial],
) -> Vec<Option<Explain>> {
    for round in 1.. {
        let mut needs = Needs::default();
        let mut rules = terrain.indexed();
        if let Some((netns, other)) = instead {
            rules.insert(netns, Rules::new(other));
        }
        let ground = terrain.ground(&rules);
        let mut lines = Vec::new();
        for trial in trials {
            let forecast = foresee::foresee(&ground, &trial.sender, &trial.request);
            needs.absorb(forecast.needs.clone());
            let line = foresee::tell(&ground, &trial.sender, &[(trial.request, forecast)]);
            lines.push(line.filter(is_of_use));
        }
        drop(rules);
        if round == ROUNDS || !terrain.supply(&needs) {
            return lines;
        }
    }
    Vec::new()
}
