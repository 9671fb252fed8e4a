//! What forecasts are made from: this machine, asked bit by bit as they need it, or a recording.

use super::datapath;
use super::failure::Failure;
use super::merge::Player;
use super::plan;
use crate::cli::SenderOptions;
use crate::system::netns::{Netns, discover};
use crate::system::prefixes::prefixes;
use crate::system::rules::{self, Programs, Stores};
use crate::system::steering::steering;
use crate::system::{Roots, Survey, pods, route};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tracer_core::evaluate::Rules;
use tracer_core::event::NetnsId;
use tracer_core::foresee::{Asked, Ground, Needs, Routes, Sender, senders, told_apart};
use tracer_core::inventory::{Inventory, Namespace, Role};
use tracer_core::masqconfig::Pinned;
use tracer_core::ruleset::{Ruleset, Unread};

/// Rounds of asking, at most: each leads a packet one namespace further.
pub(super) const ROUNDS: usize = 12;

const SEVERAL: &str = "a route has several next hops: of the destinations that nothing else tells apart, it has the way of one";

/// The machine as far as it is known.
pub(super) struct Terrain {
    pub(super) inventory: Inventory,
    pub(super) rules: BTreeMap<NetnsId, Ruleset>,
    routes: Routes,
    /// Namespaces whose prefixes were asked for.
    looked: BTreeSet<NetnsId>,
    /// What Cilium's data path exempts, where it is the node's.
    pinned: Option<Pinned>,
    machine: Option<Machine>,
}

/// How to ask this machine.
struct Machine {
    roots: Roots,
    survey: Survey,
    programs: Programs,
    stores: Stores,
}

impl Terrain {
    /// What the options name.
    pub(super) fn new(options: &SenderOptions) -> Result<Self, Failure> {
        match &options.recording {
            Some(file) => Self::recorded(file),
            None => Self::live(options),
        }
    }

    fn live(options: &SenderOptions) -> Result<Self, Failure> {
        let roots = Roots::default();
        let known = discover(&roots);
        let node = match &options.node_netns {
            Some(given) => plan::by_ref(&roots, &known, given)?,
            None => Netns::own(&roots)?,
        };
        let scope = plan::scope(&roots, &known, &options.scope)?;
        let survey = Survey::take(&roots, &node, scope)?;
        let mut inventory = survey.inventory().clone();
        datapath::add_programs(&node, &mut inventory);
        let pinned = datapath::pinned(&roots, &inventory);
        Ok(Self {
            inventory,
            rules: BTreeMap::new(),
            routes: Routes::default(),
            looked: BTreeSet::new(),
            pinned,
            machine: Some(Machine {
                stores: Stores::of_kernel(&roots)?,
                programs: Programs::find(),
                survey,
                roots,
            }),
        })
    }

    /// Whether it is this machine, now.
    pub(super) fn is_live(&self) -> bool {
        self.machine.is_some()
    }

    /// As the recording's machine was at its end.
    fn recorded(file: &Path) -> Result<Self, Failure> {
        let mut player = Player::open(file, 1)?;
        while player.step()?.is_some() {}
        player.remark();
        Ok(Self {
            inventory: player.replay.inventory().clone(),
            rules: player.replay.rules().clone(),
            routes: Routes::default(),
            looked: BTreeSet::new(),
            pinned: None,
            machine: None,
        })
    }

    /// The senders that are asked about; those of a recording whose rules it has.
    pub(super) fn senders(
        &self,
        options: &SenderOptions,
        v4: bool,
    ) -> Result<Vec<Sender>, Failure> {
        let wanted = self.wanted(options)?;
        let live = self.machine.is_some();
        let mut all = senders(&self.inventory, &self.rules, v4);
        all.retain(|sender| {
            wanted
                .as_ref()
                .is_none_or(|ids| ids.contains(&sender.netns))
        });
        all.retain(|sender| live || self.rules.contains_key(&sender.netns));
        Ok(all)
    }

    /// Reads the rules of pods that forward, before they are asked who sends: a pod with one device is known by them to
    /// forward for others. What the pods themselves send goes through them anyway.
    pub(super) fn read_forwarders(&mut self, options: &SenderOptions) -> Result<(), Failure> {
        let wanted = self.wanted(options)?;
        let inventory = &self.inventory;
        let forwards = |id: &NetnsId| {
            let ns = inventory.namespaces.get(id);
            ns.is_some_and(Namespace::is_forwarding) && inventory.role(*id) == Role::Pod
        };
        let asked = |id: &NetnsId| wanted.as_ref().is_none_or(|ids| ids.contains(id));
        let ids = inventory.namespaces.keys().copied();
        let lacking = ids.filter(|id| !self.rules.contains_key(id));
        let needs = Needs {
            rules: lacking.filter(|id| forwards(id) && asked(id)).collect(),
            ..Needs::default()
        };
        self.supply(&needs);
        Ok(())
    }

    fn wanted(&self, options: &SenderOptions) -> Result<Option<BTreeSet<NetnsId>>, Failure> {
        if options.netns.is_empty() && options.pods.is_empty() {
            return Ok(None);
        }
        let mut ids = BTreeSet::new();
        let Some(machine) = &self.machine else {
            return self.recorded_names(options).map(Some);
        };
        let (roots, survey) = (&machine.roots, &machine.survey);
        for given in &options.netns {
            ids.insert(plan::by_ref(roots, survey.discovery(), given)?.id);
        }
        for pod in &options.pods {
            ids.insert(pods::resolve_pod(roots, survey, &plan::pod_name(pod))?.id);
        }
        Ok(Some(ids))
    }

    fn recorded_names(&self, options: &SenderOptions) -> Result<BTreeSet<NetnsId>, Failure> {
        let names = options.netns.iter().map(|given| match given {
            crate::cli::NetnsRef::Name(name) => name.clone(),
            crate::cli::NetnsRef::Pid(pid) => pid.to_string(),
            crate::cli::NetnsRef::Path(path) => path.display().to_string(),
        });
        let names: Vec<String> = names
            .chain(options.pods.iter().map(plan::pod_name))
            .collect();
        let mut ids = BTreeSet::new();
        for name in &names {
            let is = |text: &Option<String>| {
                text.as_ref().is_some_and(|known| {
                    known == name || known.rsplit('/').next() == Some(name.as_str())
                })
            };
            let spaces = self.inventory.namespaces.iter();
            let found = spaces.filter(|(_, ns)| is(&ns.name) || is(&ns.pod));
            let before = ids.len();
            ids.extend(found.map(|(id, _)| *id));
            if ids.len() == before {
                return Err(Failure::Usage(
                    crate::render::escape(&format!(
                        "{name}: the recording has no namespace or pod of that name"
                    ))
                    .into_owned(),
                ));
            }
        }
        Ok(ids)
    }

    /// The rules, made ready to be asked.
    pub(super) fn indexed(&self) -> BTreeMap<NetnsId, Rules<'_>> {
        let rules = self.rules.iter();
        rules.map(|(id, rules)| (*id, Rules::new(rules))).collect()
    }

    /// The same, for very many destinations.
    pub(super) fn indexed_for_many(&self) -> BTreeMap<NetnsId, Rules<'_>> {
        let rules = self.rules.iter();
        rules
            .map(|(id, rules)| (*id, Rules::of_many(rules)))
            .collect()
    }

    pub(super) fn ground<'g, 'r>(
        &'g self,
        rules: &'g BTreeMap<NetnsId, Rules<'r>>,
    ) -> Ground<'g, 'r> {
        Ground {
            inventory: &self.inventory,
            rules,
            routes: &self.routes,
            pinned: self.pinned.as_ref(),
        }
    }

    /// Asks the machine for what is needed; whether that brought anything. Nothing can be asked of a
    /// recording.
    pub(super) fn supply(&mut self, needs: &Needs) -> bool {
        let Some(machine) = &self.machine else {
            return false;
        };
        for id in &needs.rules {
            if let Some(Ok(asks)) = machine.survey.netns(*id).map(steering) {
                self.routes.note_steering(*id, asks);
            }
        }
        let mut questions: BTreeMap<NetnsId, Vec<Asked>> = BTreeMap::new();
        for (netns, question) in &needs.routes {
            questions.entry(*netns).or_default().push(*question);
        }
        for (netns, questions) in &questions {
            let ways = machine
                .survey
                .netns(*netns)
                .map(|at| route::ways(at, questions));
            let ways = ways.and_then(Result::ok);
            let none = || questions.iter().map(|question| (*question, None)).collect();
            for (question, answer) in ways.unwrap_or_else(none) {
                self.routes.note(*netns, question, answer);
            }
        }
        for netns in &needs.rules {
            let rules = machine.read(*netns);
            self.rules.insert(*netns, rules);
        }
        !needs.is_empty()
    }
}

impl Terrain {
    /// As [`Terrain::supply`], and of rules only what is not there yet; with them, where the routes tell
    /// destinations apart. What makes that inexact is told.
    pub(super) fn supply_map(&mut self, needs: Needs, doubts: &mut BTreeSet<String>) -> bool {
        for id in needs.rules.iter().filter(|id| self.looked.insert(**id)) {
            let at = self.machine.as_ref().and_then(|m| m.survey.netns(*id));
            match at.map(prefixes) {
                Some(Ok(found)) => {
                    if !found.whole {
                        doubts.insert("a namespace has more routes than are looked at".to_owned());
                    }
                    if found.several {
                        doubts.insert(SEVERAL.to_owned());
                    }
                    let sources = self.inventory.namespaces.get(id).map(told_apart);
                    let cuts = sources.into_iter().flatten();
                    self.routes
                        .note_edges(*id, found.nets.into_iter().chain(cuts).collect());
                    if found.whole && !found.several {
                        self.routes.note_alike(*id);
                    }
                }
                Some(Err(error)) => {
                    doubts.insert(error.to_string());
                }
                None => {}
            }
        }
        let lacking = |id: &NetnsId| !self.rules.contains_key(id);
        let needs = Needs {
            rules: needs.rules.into_iter().filter(lacking).collect(),
            ..needs
        };
        self.supply(&needs)
    }

    /// The name of a sender: its pod's, else its namespace's.
    pub(super) fn name(&self, sender: &Sender) -> Option<String> {
        self.inventory.called(sender.netns).map(str::to_owned)
    }
}

impl Machine {
    fn read(&self, id: NetnsId) -> Ruleset {
        let why = match self.survey.netns(id) {
            Some(netns) => match rules::read(netns, &self.roots, self.stores, &self.programs) {
                Ok(rules) => return rules,
                Err(error) => error.to_string(),
            },
            None => "the namespace is gone".to_owned(),
        };
        Ruleset {
            unread: vec![Unread::new("the rules", why)],
            ..Ruleset::default()
        }
    }
}
