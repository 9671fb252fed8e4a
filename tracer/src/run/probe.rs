//! `--probe`: requests of our own, traced like any other.

use super::agreed;
use super::failure::Failure;
use super::plan::{self, Plan};
use crate::cli::{ProbeKind, TraceOptions};
use crate::render::escape;
use crate::sink;
use crate::system::netns::Netns;
use crate::system::probe::{self, Answer, Kind, Outcome, Question, Request, Resolved, TIMEOUT};
use crate::system::{Survey, SystemError};
use std::collections::VecDeque;
use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// After the last answer, so long packets are still waited for: the other half of an orderly close.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// A request that is ready to be sent.
pub(super) struct Probe {
    said: String,
    /// Sends it and waits; gives what came of it, in words. Blocks.
    send: Box<dyn FnOnce() -> Result<String, SystemError> + Send>,
}

/// Probes that are sent one after the other.
pub(super) struct Probes {
    waiting: VecDeque<Probe>,
    running: Option<JoinHandle<Result<String, SystemError>>>,
    /// Set by the last answer: when the trace may end.
    ends: Option<Instant>,
}

impl Probe {
    /// To this address and port (none for ICMP), from that namespace.
    pub(super) fn new(
        origin: Netns,
        kind: ProbeKind,
        to: (IpAddr, Option<u16>),
        survey: &Survey,
    ) -> Self {
        Self::heard(origin, kind, to, survey, |_| {})
    }

    /// As [`Probe::new`]; `hear` is told what came of it.
    pub(super) fn heard(
        origin: Netns,
        kind: ProbeKind,
        (addr, port): (IpAddr, Option<u16>),
        survey: &Survey,
        hear: impl FnOnce(Answer) + Send + 'static,
    ) -> Self {
        let to = SocketAddr::new(addr, port.unwrap_or(0));
        let target = port.map_or_else(|| addr.to_string(), |_| to.to_string());
        let said = format!("{} to {target} {}", kind.as_str(), whence(&origin, survey));
        let kind = match kind {
            ProbeKind::Tcp => Kind::Tcp,
            ProbeKind::Udp => Kind::Udp,
            ProbeKind::Icmp => Kind::Icmp,
        };
        let request = Request {
            kind,
            to,
            timeout: TIMEOUT,
        };
        let send = move || {
            let answer = probe::probe(&origin, &request)?;
            hear(answer);
            Ok(words(answer.outcome, answer.took))
        };
        Self {
            said,
            send: Box::new(send),
        }
    }

    /// A question to a resolver; `hear` is told what came of it.
    pub(super) fn question(
        origin: Netns,
        question: Question,
        survey: &Survey,
        hear: impl FnOnce(Resolved) + Send + 'static,
    ) -> Self {
        let said = format!(
            "DNS query for {} to {} {}",
            question.names.join(", "),
            question.resolver,
            whence(&origin, survey)
        );
        let send = move || {
            let resolved = probe::ask(&origin, &question)?;
            let words = words(resolved.outcome, resolved.took);
            hear(resolved);
            Ok(words)
        };
        Self {
            said,
            send: Box::new(send),
        }
    }
}

fn whence(origin: &Netns, survey: &Survey) -> String {
    let name = survey.inventory().name(origin.id);
    name.map_or("from namespace".to_owned(), |n| {
        format!("from namespace {n}")
    })
}

fn words(outcome: Outcome, took: Duration) -> String {
    format!("{outcome} after {} ms", took.as_millis())
}

impl Probes {
    /// These, one after the other.
    pub(super) fn of(probes: Vec<Probe>) -> Self {
        Self {
            waiting: probes.into(),
            running: None,
            ends: None,
        }
    }
}

/// Finds out where probes start and where they go; sends nothing yet.
pub(super) fn prepare(
    options: &TraceOptions,
    plan: &Plan,
    survey: &Survey,
) -> Result<Option<Probes>, Failure> {
    let waiting = match (&options.probe, &plan.resolved.probe) {
        (Some(probe), Some(target)) => {
            let origin = plan::probe_origin(&plan.roots, survey, probe.from.as_ref())?;
            let to = (target.addr, target.port);
            vec![Probe::new(origin, target.kind, to, survey)]
        }
        _ if options.sends() => agreed::probes(options, plan, survey)?,
        _ => return Ok(None),
    };
    Ok(Some(Probes::of(waiting)))
}

/// Sends the next probe (dropped before it is ready, it goes on at the next call); `true` once the last one is answered
/// or given up, and its packets had time to pass. Never ready without probes.
pub(super) async fn next(probes: &mut Option<Probes>) -> Result<bool, Failure> {
    let Some(probes) = probes else {
        return pending().await;
    };
    if let Some(ends) = probes.ends {
        sleep_until(ends).await;
        return Ok(true);
    }
    if probes.running.is_none() {
        probes.running = probes.waiting.pop_front().map(send);
    }
    if let Some(running) = &mut probes.running {
        let answer = running.await;
        probes.running = None;
        tell(&answer.map_err(|e| Failure::CannotTrace(format!("the probe died: {e}")))??);
    }
    if probes.waiting.is_empty() {
        probes.ends = Some(Instant::now() + AFTERWARDS);
    }
    Ok(false)
}

fn send(probe: Probe) -> JoinHandle<Result<String, SystemError>> {
    sink::note(&format!(
        "srctrace: probe: {}, with srctrace's own cgroup and uid\n",
        escape(&probe.said)
    ));
    tokio::task::spawn_blocking(probe.send)
}

fn tell(answer: &str) {
    sink::note(&format!("srctrace: probe: {}\n", escape(answer)));
}
