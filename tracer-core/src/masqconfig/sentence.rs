//! The comparison in one sentence.

use super::compare::Half;
use super::installed::Installed;
use super::prefixes::listed;
use super::told::Telling;
use crate::report::ConfigState as State;
use ipnet::IpNet;

impl Telling<'_, '_, '_> {
    pub(super) fn text(&self, state: Option<State>, differs_at: Option<&str>) -> String {
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
        let config = self.meant?.reading.config.as_ref().ok()?;
        self.timing
            .due(config.resync)
            .map(|due| (self.scene.utc)(due))
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
