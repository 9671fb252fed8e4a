//! What a ladder stands on: who sends, which addresses are Services', how names are resolved.

use super::super::failure::Failure;
use super::super::plan::{self, Plan};
use crate::cli::{LadderOptions, RungTarget};
use crate::render::escape;
use crate::sink;
use crate::system::netns::Netns;
use crate::system::resolver;
use crate::system::rules::{self, Programs, Stores};
use crate::system::{Survey, SystemError};
use std::net::IpAddr;
use tracer_core::dns::Resolving;
use tracer_core::event::NetnsId;
use tracer_core::inventory::Inventory;
use tracer_core::ladder::{arrival, gateway_device, is_service};
use tracer_core::report::RungBy;
use tracer_core::ruleset::{Ruleset, Unread};

/// What is known before the first rung.
pub(super) struct Ground {
    pub(super) survey: Survey,
    rules: Ruleset,
    /// Who sends, or forwards what a client sends.
    pub(super) from: Option<Netns>,
    /// How names are resolved; where no name is to be resolved, or a client does that, `None`.
    pub(super) resolving: Option<Resolving>,
    /// Where a client's packets come in: device and namespace.
    pub(super) arrival: Option<String>,
}

impl Ground {
    pub(super) fn new(options: &LadderOptions) -> Result<Self, Failure> {
        let plan = Plan::new(&options.trace(RungBy::Icmp, None, None))?;
        let survey = Survey::take(&plan.roots, &plan.node, plan.scope.clone())?;
        let from = options.from.as_ref();
        let from = from
            .map(|from| plan::probe_origin(&plan.roots, &survey, Some(from)))
            .transpose()?;
        let mut ground = Self {
            rules: read_rules(&plan).unwrap_or_else(|error| unread(&error)),
            arrival: None,
            resolving: None,
            survey,
            from,
        };
        ground.say_unread();
        ground.refuse_echo_of_services(options)?;
        ground.resolving = ground.resolving(options, &plan)?;
        match options.client {
            Some(client) => ground.arrival = ground.arrival(client),
            None => ground.warn_of_gateway(),
        }
        Ok(ground)
    }

    fn inventory(&self) -> &Inventory {
        self.survey.inventory()
    }

    pub(super) fn host(&self) -> &str {
        &self.inventory().host
    }

    /// Whether the node's rules make an address a Service's.
    pub(super) fn is_service(&self, addr: IpAddr) -> bool {
        is_service(&self.rules, self.inventory(), addr)
    }

    fn say_unread(&self) {
        for unread in &self.rules.unread {
            sink::note(&format!(
                "srctrace: {}: {}; which addresses are Services' may not be known\n",
                escape(&unread.what),
                escape(&unread.why)
            ));
        }
    }

    /// A Service's address answers no echo request, or by chance: what is tried there must have a port.
    fn refuse_echo_of_services(&self, options: &LadderOptions) -> Result<(), Failure> {
        let targets = options.rungs.iter().map(|rung| &rung.target);
        let mut echoed = targets.filter_map(|target| match target {
            RungTarget::Echo(addr) => Some(*addr),
            _ => None,
        });
        match echoed.find(|addr| self.is_service(*addr)) {
            None => Ok(()),
            Some(addr) => Err(Failure::Usage(format!(
                "ladder: {addr} is a Service's address, which no echo request tells anything about: give it a port \
                 (TCP), or {addr}:53/udp (a DNS query)"
            ))),
        }
    }

    /// How the sender resolves names, where there is a name to be resolved.
    fn resolving(
        &self,
        options: &LadderOptions,
        plan: &Plan,
    ) -> Result<Option<Resolving>, Failure> {
        let is_name = |target: &RungTarget| matches!(target, RungTarget::Name(..));
        if !options.rungs.iter().any(|rung| is_name(&rung.target)) {
            return Ok(None);
        }
        if options.client.is_some() {
            return Ok(options.dns.map(Resolving::by));
        }
        let Some(from) = &self.from else {
            return Ok(None);
        };
        let found = resolver::resolving(&plan.roots, from);
        match (found, options.dns) {
            // The pod's search list counts, whoever is asked.
            (Ok(found), Some(resolver)) => Ok(Some(Resolving {
                resolvers: vec![resolver],
                ..found
            })),
            (Ok(found), None) => Ok(Some(found)),
            (Err(_), Some(resolver)) => Ok(Some(Resolving::by(resolver))),
            (Err(why), None) => Err(Failure::Usage(
                escape(&format!("ladder: which resolver to ask for names is not known: {why}; --dns ADDR names one"))
                    .into_owned(),
            )),
        }
    }

    fn arrival(&self, client: IpAddr) -> Option<String> {
        let inventory = self.inventory();
        let at = arrival(inventory, self.from.as_ref().map(|netns| netns.id), client)?;
        Some(format!("{} of {}", at.ifname, self.name(at.netns)))
    }

    /// What a namespace is called: its pod's name, else its own.
    fn name(&self, netns: NetnsId) -> String {
        let name = self.inventory().called(netns).map(str::to_owned);
        name.unwrap_or_else(|| format!("netns {}", netns.0))
    }

    /// What a gateway sends itself does not go the way of what it forwards.
    fn warn_of_gateway(&self) {
        let Some(from) = &self.from else { return };
        let Some(device) = gateway_device(self.inventory(), from.id) else {
            return;
        };
        let name = self.name(from.id);
        sink::note(&format!(
            "{}\n",
            escape(&format!(
                "srctrace: warning: {name} has others behind {device}: what it sends itself is output, and says nothing of \
                 what it forwards for them; for that, `srctrace ladder --client ADDR --from {name} …` watches while a client sends"
            ))
        ));
    }
}

fn read_rules(plan: &Plan) -> Result<Ruleset, SystemError> {
    let stores = Stores::of_kernel(&plan.roots)?;
    rules::read(&plan.node, &plan.roots, stores, &Programs::find())
}

fn unread(error: &SystemError) -> Ruleset {
    Ruleset {
        unread: vec![Unread::new("the node's rules", error.to_string())],
        ..Ruleset::default()
    }
}
