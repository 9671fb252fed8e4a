//! Rungs that a client sends: it is told what to run, and its packets are watched.

use super::super::failure::Failure;
use super::ground::Ground;
use super::look::Looks;
use super::{Step, request, rung as told_rung, step};
use crate::cli::{DNS, RungSpec, RungTarget};
use std::net::IpAddr;
use tracer_core::ladder::{Tried, nothing_arrived, telling};

/// Waits for a rung; `None`: a signal ended it.
pub(super) async fn rung(
    ground: &Ground,
    looks: &mut Looks<'_>,
    (n, spec): (u32, &RungSpec),
    client: IpAddr,
) -> Result<Option<Step>, Failure> {
    let resolver = ground
        .resolving
        .as_ref()
        .and_then(|r| r.resolvers.first().copied());
    let (by, to, port) = match request(&spec.target) {
        Some((by, to, port)) => (by, Some(to), port),
        None => (spec.target.by(), resolver, Some(DNS)),
    };
    let said = format!(
        "srctrace: rung {n}, {}: on {client}, run:  {}",
        spec.text,
        command(&spec.target, resolver)
    );
    let Some(flows) = looks.watch(by, to, port, &said).await? else {
        return Ok(None);
    };
    let Some(flow) = telling(&flows) else {
        let at = ground.arrival.as_deref();
        let waited = looks.options.wait.map_or("the time".to_owned(), |wait| {
            format!("{} s", wait.as_secs_f64())
        });
        let told = nothing_arrived(client, &spec.text, at, &waited);
        let rung = told_rung(n, spec, told, &[]);
        return Ok(Some(Step {
            rung,
            flows: Vec::new(),
        }));
    };
    let asked = to.unwrap_or(flow.flow.tuple.dst);
    let tried = Tried {
        by,
        to: asked,
        service: ground.is_service(asked),
        heard: None,
    };
    let mut step = step(n, spec, Some(flow.clone()), &tried);
    if matches!(spec.target, RungTarget::Name(..)) {
        step.rung.resolver = Some(asked);
    }
    Ok(Some(step))
}

/// What the client is to run: tools that most machines have.
fn command(target: &RungTarget, resolver: Option<IpAddr>) -> String {
    let six = |addr: &IpAddr| if addr.is_ipv6() { "-6 " } else { "" };
    match target {
        RungTarget::Echo(addr) => format!("ping {}-c 1 {addr}", six(addr)),
        RungTarget::Tcp(addr, port) => format!("nc {}-z -v -w 5 {addr} {port}", six(addr)),
        RungTarget::Resolver(addr) => format!("nslookup -type=ns . {addr}"),
        RungTarget::Name(name, _) => {
            let resolver = resolver.map_or(String::new(), |addr| format!(" {addr}"));
            format!("nslookup {name}{resolver}")
        }
    }
}
