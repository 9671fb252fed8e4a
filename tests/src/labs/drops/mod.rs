//! Rows B and D: where a request died, and why.

pub(super) mod answers;
pub(super) mod filter;
pub(super) mod noise;
pub(super) mod programs;
pub(super) mod routing;
pub(super) mod traced;

use anyhow::Result;

use super::steps::{A_MOMENT, hold, same, watch};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, PEER6, RouteBack};
use crate::traffic::{Outcome, StreamCall};

const DROPPED: &str = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod";

/// One request that must end so, and the whole report on it. The finding's code may have its rule behind it.
fn one_request(lab: &Lab, name: &str, ends: Outcome, reason: &str, why: &str) -> Result<()> {
    let report = watch(lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(lab)?, ends)
    })?;
    let (code, by) = parts(why);
    let claims = format!(
        "{DROPPED}
         dropped: {reason}{by}
         source-unknown, on the wire null, dropped"
    );
    hold(lab, &report, name, &[&claims], &[(0, code)])
}

/// A pod that sends with a source that is not its own.
fn spoofing(name: &str, source: &str) -> Result<Lab> {
    let mut net = cast::one_pod(name, RouteBack::Known);
    net.ip("pod", &format!("addr add {source}/32 dev lo"))
        .ip(
            "pod",
            &format!("route replace default via 10.12.3.1 src {source}"),
        )
        // The node would not even answer the question for its own address.
        .ip("node", "link set veth-pod address 02:00:00:00:00:01")
        .ip(
            "pod",
            "neigh replace 10.12.3.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent",
        );
    net.up()
}

/// One IPv6 request that must end so, and the whole report on it.
fn one_request6(lab: &Lab, name: &str, ends: Outcome, reason: &str, why: &str) -> Result<()> {
    let report = watch(lab, &["--dest", PEER6], 1, || {
        let call = StreamCall::new("pod", "[fd50::20]:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(lab)?, ends)
    })?;
    let (code, by) = parts(why);
    let claims = format!(
        "tcp [fd12:3::4]:43210 > [fd50::20]:443 from pod pod
         dropped: {reason}{by}
         source-unknown, on the wire null, dropped"
    );
    hold(lab, &report, name, &[&claims], &[(0, code)])
}

/// The finding's code, and a line with its rule, if it is to have one.
fn parts(why: &str) -> (&str, String) {
    match why.split_once(':') {
        Some((code, _)) => (code, format!("\n{why}")),
        None => (why, String::new()),
    }
}
