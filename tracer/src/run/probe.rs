//! `--probe`: requests of our own, traced like any other.

use super::agreed;
use super::failure::Failure;
use super::plan::{self, Plan};
use crate::cli::{ProbeKind, TraceOptions};
use crate::render::escape;
use crate::sink;
use crate::system::netns::Netns;
use crate::system::probe::{self, Answer, Kind, Request, TIMEOUT};
use crate::system::{Survey, SystemError};
use std::collections::VecDeque;
use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// After the last answer, so long packets are still waited for: the other half of an orderly close.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// A request, and where it starts.
pub(super) struct Probe {
    origin: Netns,
    request: Request,
    said: String,
}

/// Probes that are sent one after the other.
pub(super) struct Probes {
    waiting: VecDeque<Probe>,
    running: Option<JoinHandle<Result<Answer, SystemError>>>,
    /// Set by the last answer: when the trace may end.
    ends: Option<Instant>,
}

impl Probe {
    /// To this address and port (none for ICMP), from that namespace.
    pub(super) fn new(
        origin: Netns,
        kind: ProbeKind,
        (addr, port): (IpAddr, Option<u16>),
        survey: &Survey,
    ) -> Self {
        let to = SocketAddr::new(addr, port.unwrap_or(0));
        let name = survey.inventory().name(origin.id);
        let place = name.map_or(String::new(), |n| format!(" {n}"));
        let target = port.map_or_else(|| addr.to_string(), |_| to.to_string());
        let said = format!("{} to {target} from namespace{place}", kind.as_str());
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
        Self {
            origin,
            request,
            said,
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
            [Probe::new(origin, target.kind, to, survey)].into()
        }
        _ if options.sends() => agreed::probes(options, plan, survey)?.into(),
        _ => return Ok(None),
    };
    Ok(Some(Probes {
        waiting,
        running: None,
        ends: None,
    }))
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
        tell(answer.map_err(|e| Failure::CannotTrace(format!("the probe died: {e}")))??);
    }
    if probes.waiting.is_empty() {
        probes.ends = Some(Instant::now() + AFTERWARDS);
    }
    Ok(false)
}

fn send(probe: Probe) -> JoinHandle<Result<Answer, SystemError>> {
    sink::note(&format!(
        "srctrace: probe: {}, with srctrace's own cgroup and uid\n",
        escape(&probe.said)
    ));
    tokio::task::spawn_blocking(move || probe::probe(&probe.origin, &probe.request))
}

fn tell(answer: Answer) {
    sink::note(&format!(
        "srctrace: probe: {} after {} ms\n",
        answer.outcome,
        answer.took.as_millis()
    ));
}
