//! The stages that a configuration goes through, compared one by one, as the report shows them.

use super::Agent;
use super::compare::{Compared, Comparison, Half, Timing, compare};
use super::findings::{self, About};
use super::installed::{Installed, Installer};
use super::policy::warnings;
use super::scene::{Held, Running, Scene, defaults, is_same, nets};
use super::steps;
use crate::attribute::view;
use crate::report::{
    ConfigEntry, ConfigReport, ConfigState as State, Finding, RuleEvidence, SCHEMA, Stage,
};
use ipnet::IpNet;

/// Compares the stages. `None`: there is no configuration, no agent, and no chain that one left.
#[must_use]
pub fn tell(scene: &Scene<'_, '_>) -> Option<ConfigReport> {
    let own = defaults(scene);
    let runs = matches!(scene.running, Running::Yes(_));
    let meant = scene.given.or(scene.mounted).or(runs.then_some(&own));
    if scene.agent == Agent::Cilium {
        return super::cilium::tell(scene, meant);
    }
    let found = Installed::find(scene.kernel.rules, &scene.flags.chain);
    let of_agent = found.iter().any(|chain| chain.by == Installer::Agent);
    let left_over = of_agent && *scene.running == Running::No;
    if meant.is_none() && !left_over {
        return None;
    }
    let last = scene.mounted.or(meant).unwrap_or(&own);
    let by_last = compare(
        &last.reading,
        scene.flags,
        &scene.kernel,
        &Timing {
            on_the_way: 0,
            ..scene.timing(last)
        },
    );
    let by_meant = match meant {
        Some(held) => compare(
            &held.reading,
            scene.flags,
            &scene.kernel,
            &scene.timing(held),
        ),
        None => by_last.clone(),
    };
    let telling = Telling {
        scene,
        meant,
        comparison: &by_meant,
        timing: scene.timing(meant.unwrap_or(last)),
        last,
    };
    Some(telling.report(&by_last))
}

pub(super) struct Telling<'t, 's, 'r> {
    pub(super) scene: &'t Scene<'s, 'r>,
    /// The configuration that is meant.
    pub(super) meant: Option<&'t Held>,
    /// It against the rules.
    pub(super) comparison: &'t Comparison<'r>,
    /// When it has come that far.
    pub(super) timing: Timing,
    /// The stage before the rules.
    pub(super) last: &'t Held,
}

impl Telling<'_, '_, '_> {
    pub(super) fn report(&self, by_last: &Comparison<'_>) -> ConfigReport {
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
            found.push(steps::behind(stage, given, self.last, scene.flags));
        }
        found.extend(scene.wire.and_then(steps::on_the_wire));
        if let Some(Ok(config)) = self.meant.map(|held| &held.reading.config) {
            found.extend(warnings(config, scene.flags, scene.ranges));
        }
        found
    }
}

fn told(nets: &[IpNet]) -> Vec<String> {
    nets.iter().map(ToString::to_string).collect()
}
