//! `ladder`: at which layer a rung ended, from what the trace proves of it.

mod layer;
mod place;
mod service;
#[cfg(test)]
mod tests;

pub use place::{Arrival, arrival, gateway_device};
pub use service::is_service;

use crate::dns::Reply;
use crate::report::{Flow, Layer, Rung, RungBy, RungCode};
use std::net::IpAddr;

/// What the sender itself got, where srctrace sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An answer.
    Answer,
    /// A reset, or "port unreachable".
    Refusal,
    /// Nothing in time.
    Nothing,
    /// The kernel would not send it, or was told that there is no way: in its words, and whether it is the
    /// kernel's word for "not permitted".
    NoWay {
        /// A rule or program forbids it, and not a route.
        forbidden: bool,
        /// The kernel's words.
        why: String,
    },
}

/// A rung that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// How.
    pub by: RungBy,
    /// The address that was asked.
    pub to: IpAddr,
    /// Whether that is known to be a Service's address.
    pub service: bool,
    /// What its sender got; `None` where another sent it.
    pub heard: Option<Heard>,
}

/// What is said of a rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What came of it.
    pub code: RungCode,
    /// Where it ended.
    pub layer: Option<Layer>,
    /// Whether it is a Service's address.
    pub service: bool,
    /// Whether a namespace passed it on.
    pub forwarded: bool,
    /// The proof.
    pub text: String,
    /// What to look at.
    pub fix: Option<String>,
}

/// The flow that counts of those that a rung made: one that was answered, else the last.
#[must_use]
pub fn telling(flows: &[Flow]) -> Option<&Flow> {
    flows
        .iter()
        .find(|flow| layer::of_delivery(flow) == RungCode::Answered)
        .or(flows.last())
}

/// Tells a rung by its flow; `None`: no packet of it was sighted.
#[must_use]
pub fn tell(flow: Option<&Flow>, tried: &Tried) -> Told {
    match flow {
        Some(flow) => layer::sighted(flow, tried),
        None => layer::unsighted(tried),
    }
}

/// What a resolver's answer makes of a rung that came as far as the resolver; `None`: it gave an address.
#[must_use]
pub fn tell_reply(reply: &Reply, name: &str, resolver: IpAddr) -> Option<Told> {
    let (code, what) = match reply {
        Reply::Addresses(_) => return None,
        Reply::NoSuchName => (RungCode::NoSuchName, format!("there is no {name}")),
        Reply::NoAddress => (RungCode::NoSuchName, format!("{name} has no address")),
        Reply::Failed(how) => (RungCode::ResolverFailed, format!("{how} for {name}")),
    };
    Some(Told {
        code,
        layer: Some(Layer::Dns),
        service: false,
        forwarded: false,
        text: format!("the resolver {resolver} answered: {what}"),
        fix: Some(format!(
            "look at DNS: what {resolver} knows of {name}, and the search list of the sender's resolv.conf"
        )),
    })
}

/// Nothing came from the client.
#[must_use]
pub fn nothing_arrived(client: IpAddr, target: &str, at: Option<&str>, waited: &str) -> Told {
    let place = at.unwrap_or("any device here");
    Told {
        code: RungCode::NothingArrived,
        layer: Some(Layer::Client),
        service: false,
        forwarded: false,
        text: format!(
            "nothing from {client} to {target} arrived on {place} within {waited}: it was not sent, the \
             client's own routes do not lead into the tunnel, or the tunnel lost it"
        ),
        fix: Some(format!(
            "on the client, `ip route get` (or its like) for {target} must name the tunnel, and its source must be {client}"
        )),
    }
}

/// Whether a rung shows that forwarding works: an address that somebody passed on to, and that answered.
#[must_use]
pub fn shows_forwarding(rung: &Rung) -> bool {
    rung.by != RungBy::Dns && rung.code == RungCode::Answered && rung.forwarded
}

/// What the rungs say together: where a name failed and an address did not.
#[must_use]
pub fn conclusion(rungs: &[Rung]) -> Option<String> {
    let failed = rungs.iter().find(|rung| rung.layer == Some(Layer::Dns))?;
    let answered = rungs.iter().find(|rung| shows_forwarding(rung))?;
    Some(format!(
        "{} answered and {} did not come past DNS: forwarding is fine, look at DNS",
        answered.target, failed.target
    ))
}
