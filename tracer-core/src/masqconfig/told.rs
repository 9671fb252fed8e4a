//! The stages that a configuration goes through, compared one by one, as the report shows them.

use super::compare::{Compared, Comparison, Half, Kernel, Timing, compare};
use super::findings::{self, About};
use super::installed::{Installed, Installer};
use super::policy::{Ranges, warnings};
use super::prefixes::{listed, same};
use super::{Agent, Flags, Reading};
use crate::attribute::view;
use crate::report::{
    AgentProcess, ConfigEntry, ConfigReport, ConfigState as State, Finding, RuleEvidence, SCHEMA,
    Stage,
};
use ipnet::IpNet;

/// A configuration and where it was read.
#[derive(Clone, Debug)]
pub struct Held {
    /// Where, in words.
    pub from: String,
    /// What the agent makes of it.
    pub reading: Reading,
    /// When it changed last, seconds since 1970.
    pub changed: Option<i64>,
}

/// Whether the agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    /// It cannot be told.
    Unknown,
    /// No process of it is there.
    No,
    /// This one.
    Yes(AgentProcess),
}

/// What flows showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Where they were read.
    pub from: String,
    /// Flows whose source was looked at.
    pub flows: u64,
    /// Flows that left otherwise than the rules say, each in words.
    pub other: Vec<String>,
}

/// Everything that is known.
pub struct Scene<'s, 'r> {
    /// Whose reading.
    pub agent: Agent,
    /// Its flags.
    pub flags: &'s Flags,
    /// Whether it runs.
    pub running: &'s Running,
    /// The configuration that was given: a ConfigMap, or a file.
    pub given: Option<&'s Held>,
    /// The file in the agent's pod.
    pub mounted: Option<&'s Held>,
    /// The rules.
    pub kernel: Kernel<'s, 'r>,
    /// What flows showed.
    pub wire: Option<&'s Wire>,
    /// The networks around.
    pub ranges: &'s Ranges,
    /// Now, seconds since 1970.
    pub now: i64,
    /// A time as RFC 3339.
    pub utc: &'s dyn Fn(i64) -> String,
}

/// How long the kubelet may take to copy a changed ConfigMap: its sync period and its cache.
const KUBELET: i64 = 120;

/// Compares the stages. `None`: there is neither agent, nor configuration, nor rules of one.
#[must_use]
pub fn tell(scene: &Scene<'_, '_>) -> Option<ConfigReport> {
    let own = Held {
        from: "the agent's defaults".to_owned(),
        reading: super::read(scene.agent, &[], scene.flags),
        changed: None,
    };
    let runs = matches!(scene.running, Running::Yes(_));
    let meant = scene.given.or(scene.mounted).or(runs.then_some(&own));
    let found = Installed::find(scene.kernel.rules, &scene.flags.chain);
    let of_agent = found.iter().any(|chain| chain.by == Installer::Agent);
    if meant.is_none() && !of_agent {
        return None;
    }
    let last = scene.mounted.or(meant).unwrap_or(&own);
    let timing = |held: &Held| Timing {
        now: scene.now,
        changed: held.changed,
        on_the_way: if scene.mounted.is_some() && scene.given.is_some() {
            KUBELET
        } else {
            0
        },
    };
    let by_last = compare(
        &last.reading,
        scene.flags,
        &scene.kernel,
        &Timing {
            on_the_way: 0,
            ..timing(last)
        },
    );
    let by_meant = match meant {
        Some(held) => compare(&held.reading, scene.flags, &scene.kernel, &timing(held)),
        None => by_last.clone(),
    };
    let telling = Telling {
        scene,
        meant,
        comparison: &by_meant,
        last,
    };
    Some(telling.report(&by_last))
}

struct Telling<'t, 's, 'r> {
    scene: &'t Scene<'s, 'r>,
    meant: Option<&'t Held>,
    comparison: &'t Comparison<'r>,
    last: &'t Held,
}

impl Telling<'_, '_, '_> {
    fn report(&self, by_last: &Comparison<'_>) -> ConfigReport {
        let scene = self.scene;
        let stages = self.stages(by_last);
        let differs = stages.iter().find(|stage| stage.agrees == Some(false));
        let differs_at = differs.map(|stage| stage.stage.clone());
        let state = self.meant.map(|_| self.comparison.state);
        ConfigReport {
            schema: SCHEMA,
            agent: scene.agent.name().to_owned(),
            process: match scene.running {
                Running::Yes(process) => Some(process.clone()),
                _ => None,
            },
            chain: scene.flags.chain.clone(),
            config_state: state,
            findings: self.findings(&stages),
            entries: self.entries(),
            next_resync: self.due().map(|due| (scene.utc)(due)),
            text: self.text(state, differs_at.as_deref()),
            differs_at,
            stages,
        }
    }

    /// When the running agent has looked again at the latest, where that is still to come.
    fn due(&self) -> Option<i64> {
        let Running::Yes(_) = self.scene.running else {
            return None;
        };
        let config = self.last.reading.config.as_ref().ok()?;
        let timing = Timing {
            now: self.scene.now,
            changed: self.last.changed,
            on_the_way: 0,
        };
        timing
            .due(config.resync)
            .filter(|due| *due > self.scene.now)
    }

    fn stages(&self, by_last: &Comparison<'_>) -> Vec<Stage> {
        let scene = self.scene;
        let utc = |time: Option<i64>| time.map(|time| (scene.utc)(time));
        let stage = |stage: &str, held: &Held, agrees| {
            let config = held.reading.config.as_ref();
            Stage {
                stage: stage.to_owned(),
                from: held.from.clone(),
                changed: utc(held.changed),
                exempt: config.ok().map(|_| told(&nets(&held.reading, scene.flags))),
                why: config.err().map(ToString::to_string),
                agrees,
            }
        };
        let mut stages = Vec::new();
        stages.extend(scene.given.map(|held| stage("configmap", held, None)));
        stages.extend(scene.mounted.map(|held| {
            let agrees = scene
                .given
                .map(|given| is_same(&given.reading, &held.reading, scene.flags));
            stage("mounted-file", held, agrees)
        }));
        stages.push(self.kernel(by_last));
        stages.extend(scene.wire.map(|wire| Stage {
            stage: "wire".to_owned(),
            from: wire.from.clone(),
            changed: None,
            exempt: None,
            why: (!wire.other.is_empty()).then(|| wire.other.join("; ")),
            agrees: (wire.flows > 0).then_some(wire.other.is_empty()),
        }));
        stages
    }

    fn kernel(&self, by_last: &Comparison<'_>) -> Stage {
        let chains: Vec<&Installed<'_>> = by_last.halves.iter().filter_map(Half::chain).collect();
        let names: Vec<String> = chains.iter().map(|chain| chain.name()).collect();
        let nets: Vec<IpNet> = chains.iter().flat_map(|chain| chain.nets()).collect();
        Stage {
            stage: "kernel".to_owned(),
            from: match names.as_slice() {
                [] => format!("no chain {}", self.scene.flags.chain),
                names => names.join(" and "),
            },
            changed: None,
            exempt: (!chains.is_empty()).then(|| told(&nets)),
            why: None,
            agrees: self.meant.map(|_| by_last.state == State::Agrees),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let valid = self.meant.is_some_and(|held| held.reading.config.is_ok());
        let installed = |entry: &&Compared<'_>| valid || entry.rule.is_some();
        let entry = |half: &Half<'_>| -> Vec<ConfigEntry> {
            let chain = half.chain();
            half.entries
                .iter()
                .filter(installed)
                .map(|entry| ConfigEntry {
                    prefix: entry.net.to_string(),
                    wanted: valid.then_some(entry.wanted),
                    rule: chain.zip(entry.rule).map(|(chain, rule)| {
                        let at = chain.at(rule);
                        view(at, &[at], RuleEvidence::Replayed)
                    }),
                    differs: valid && entry.matters,
                })
                .collect()
        };
        self.comparison.halves.iter().flat_map(entry).collect()
    }

    fn findings(&self, stages: &[Stage]) -> Vec<Finding> {
        let scene = self.scene;
        let behind = |stage: &&Stage| stage.stage == "mounted-file" && stage.agrees == Some(false);
        let about = About {
            agent: scene.agent,
            flags: scene.flags,
            running: scene.running,
            comparison: self.comparison,
            from: self.meant.map(|held| held.from.as_str()),
            behind: stages.iter().any(|stage| behind(&stage)),
            reading: self.meant.map(|held| &held.reading),
        };
        let mut found = findings::of(&about);
        if let Some((stage, given)) = stages.iter().find(behind).zip(scene.given) {
            found.push(findings::behind(stage, given, self.last, scene.flags));
        }
        found.extend(scene.wire.and_then(findings::on_the_wire));
        if let Some(Ok(config)) = self.meant.map(|held| &held.reading.config) {
            found.extend(warnings(config, scene.flags, scene.ranges));
        }
        found
    }

    fn text(&self, state: Option<State>, differs_at: Option<&str>) -> String {
        let from = self.meant.map_or("", |held| held.from.as_str());
        let chain = self.comparison.halves.iter().filter_map(Half::chain).next();
        let chain = chain.map_or_else(
            || format!("chain {}", self.scene.flags.chain),
            Installed::name,
        );
        let mut text = match state {
            None => format!("{chain} is there, and no agent runs and no configuration was given"),
            Some(State::Agrees) => format!(
                "{chain} is what {from} asks for{}",
                self.otherwise_written()
            ),
            Some(State::Invalid) => {
                format!(
                    "{from} is refused as a whole: no rule follows from it, those of before stay"
                )
            }
            Some(State::NotRead) => {
                format!("{chain} holds the agent's defaults and not what {from} says")
            }
            Some(State::ChainMissing) => self.missing(from),
            Some(State::JumpMissing) => {
                format!("{chain} is there, and nothing jumps to it: it does nothing")
            }
            Some(State::Shadowed) => format!("another rule decides before {chain} is reached"),
            Some(State::Differs) => format!("{chain} is not what {from} asks for"),
            Some(State::Lagging) => {
                let by = self
                    .comparison_due()
                    .map_or(String::new(), |due| format!(" by {due}"));
                format!(
                    "{chain} is not yet what {from} asks for: it changed just now, and the agent looks again{by}"
                )
            }
        };
        if let Some(stage) = differs_at.filter(|stage| *stage != "kernel") {
            text.push_str(&format!(
                "; the first stage that differs is the {}",
                stage.replace('-', " ")
            ));
        }
        let others = self.comparison.halves.iter().flat_map(|half| &half.others);
        let others: Vec<String> = others
            .filter(|chain| !chain.jumps.is_empty())
            .map(Installed::name)
            .collect();
        if !others.is_empty() {
            text.push_str(&format!(
                "; {} beside it is not this agent's: a boot script or another agent wrote it, and no ConfigMap of this one changes it",
                others.join(" and ")
            ));
        }
        text
    }

    fn missing(&self, from: &str) -> String {
        let halves = &self.comparison.halves;
        let name = &self.scene.flags.chain;
        match halves.iter().any(|half| half.chain().is_some()) {
            true => {
                format!("{from} asks for rules in both families, and one half has no chain {name}")
            }
            false => format!("{from} asks for rules, and there is no chain {name}"),
        }
    }

    fn comparison_due(&self) -> Option<String> {
        let held = self.meant?;
        let config = held.reading.config.as_ref().ok()?;
        let timing = Timing {
            now: self.scene.now,
            changed: held.changed,
            on_the_way: 0,
        };
        timing.due(config.resync).map(|due| (self.scene.utc)(due))
    }

    /// Where the prefixes are others and the addresses are the same.
    fn otherwise_written(&self) -> String {
        let entries = self.comparison.halves.iter().flat_map(|half| &half.entries);
        let lone = |is: bool| -> Vec<IpNet> {
            let lone = entries
                .clone()
                .filter(|e| e.wanted == is && (e.wanted != e.rule.is_some()));
            lone.map(|entry| entry.net).collect()
        };
        let (missing, extra) = (lone(true), lone(false));
        match (missing.as_slice(), extra.as_slice()) {
            ([], []) => String::new(),
            (missing, []) => format!(
                ", in other words: {} has no rule of its own, others cover it",
                listed(missing)
            ),
            ([], extra) => format!(
                ", in other words: {} is installed beside it, and covered by what is asked for",
                listed(extra)
            ),
            (missing, extra) => format!(
                ", in other words: {} instead of {}",
                listed(extra),
                listed(missing)
            ),
        }
    }
}

/// What an agent installs of it: IPv6 prefixes only with its flag.
fn nets(reading: &Reading, flags: &Flags) -> Vec<IpNet> {
    let families = [false, true].into_iter().filter(|v6| !v6 || flags.ipv6);
    let config = reading.config.as_ref().ok();
    config.map_or(Vec::new(), |config| {
        families.flat_map(|v6| config.exempt(v6)).collect()
    })
}

fn told(nets: &[IpNet]) -> Vec<String> {
    nets.iter().map(ToString::to_string).collect()
}

/// Whether an agent would install the same.
fn is_same(a: &Reading, b: &Reading, flags: &Flags) -> bool {
    match (&a.config, &b.config) {
        (Ok(_), Ok(_)) => same(&nets(a, flags), &nets(b, flags)),
        (Err(a), Err(b)) => a == b,
        _ => false,
    }
}
