//! Why a packet died, in one sentence for a person on call, from the kernel's word and from what
//! the namespace's settings and tables said.

mod cause;
mod endpoint;
mod filter;
mod link;
mod noise;
mod program;
mod routing;
mod scene;

pub use cause::{Cause, Hook};
pub use noise::is_loss;
pub(crate) use scene::Scene;

use crate::inventory::Inventory;
use crate::journey::{Journey, Loss};
use crate::report::{Code, Rule, Tc};
use serde_json::Value;
use std::net::IpAddr;

/// What is said of a drop.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// One sentence.
    pub text: String,
    /// What to look at or change.
    pub fix: Option<String>,
    /// The finding that it makes; `None` where the sentence is all there is to say.
    pub code: Option<Code>,
    /// The program that did it, where there is just one.
    pub program: Option<Tc>,
    /// The rule that did it, where that is known.
    pub rule: Option<Rule>,
    /// For programs that read the finding.
    pub data: Value,
    /// Its conntrack entry was not in the table yet, and there are entries that could not be put there.
    pub(crate) entry_perhaps_refused: bool,
    /// It was for this address of IPVS.
    pub(crate) for_ipvs: Option<IpAddr>,
}

impl Explanation {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            fix: None,
            code: None,
            program: None,
            rule: None,
            data: Value::Null,
            entry_perhaps_refused: false,
            for_ipvs: None,
        }
    }

    fn code(self, code: Code) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }

    fn data(self, data: Value) -> Self {
        Self { data, ..self }
    }
}

/// Explains a drop; `None` where the kernel's own word is all that is known.
#[must_use]
pub fn explain(loss: &Loss, journey: &Journey, inventory: &Inventory) -> Option<Explanation> {
    let scene = Scene::new(loss, journey, inventory);
    Some(match scene.cause() {
        Cause::ForwardingOff => routing::forwarding_off(&scene),
        Cause::ReversePath => routing::reverse_path(&scene),
        Cause::Route => routing::no_route(&scene),
        Cause::OwnSource => routing::own_source(&scene),
        Cause::Martian => routing::martian(&scene),
        Cause::Netfilter => filter::netfilter(&scene),
        Cause::Neighbour => link::neighbour(&scene),
        Cause::HopLimit => link::hop_limit(&scene),
        Cause::TooBig => link::too_big(&scene),
        Cause::Program(hook) => program::program(&scene, hook),
        Cause::NoListener => endpoint::no_listener(&scene),
        Cause::SocketFull => endpoint::socket_full(&scene),
        Cause::QueueFull => link::queue_full(&scene),
        Cause::OtherHost => link::other_host(&scene),
        Cause::Malformed => endpoint::malformed(&scene),
        Cause::Ipsec => endpoint::ipsec(&scene),
        Cause::Endpoint | Cause::Copy | Cause::Other => return None,
    })
}
