//! The hint after ten seconds in which nothing matched.

use super::plan::Plan;
use crate::render::{Hint, Look, hint};
use crate::sink;
use crate::system::Survey;
use crate::system::route::route_get;
use std::time::Duration;

/// After so long without a packet it is said.
const PATIENCE: Duration = Duration::from_secs(10);

/// Knows what to say, and whether it was said.
pub(super) struct Silence<'a> {
    plan: &'a Plan,
    spoken: bool,
}

impl<'a> Silence<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self { plan, spoken: false }
    }

    /// Says it once, when it is time.
    pub(super) fn speak(&mut self, silent: Duration, survey: &Survey) {
        if self.spoken || silent < PATIENCE {
            return;
        }
        self.spoken = true;
        let inventory = survey.inventory();
        let links = inventory.namespaces.values().map(|ns| ns.links.len() as u64);
        let route = self.plan.resolved.dests.first().map(|dest| {
            match route_get(&self.plan.node, dest.net.addr()) {
                Ok(route) => route.to_string(),
                Err(error) => error.to_string(),
            }
        });
        let said = Hint {
            silent_s: silent.as_secs(),
            what: "matching packet".to_owned(),
            interfaces: links.sum(),
            namespaces: inventory.namespaces.len() as u64,
            other_packets: None,
            nearest: Vec::new(),
            route,
            socket_lb: Vec::new(),
        };
        let look = Look { colour: sink::stderr_colour(), names: true, verbose: 0 };
        sink::note(&hint(&said, look));
    }
}
