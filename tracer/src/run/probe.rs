//! `--probe`: one request of our own, traced like any other.

use super::failure::Failure;
use super::plan::{self, Plan};
use crate::cli::{ProbeKind, TraceOptions};
use crate::sink;
use crate::system::netns::Netns;
use crate::system::probe::{self, Answer, Kind, Request, TIMEOUT};
use crate::system::{Survey, SystemError};
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// After the answer, so long packets are still waited for: the other half of an orderly close.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// A probe on its way.
pub(super) struct Probe {
    origin: Netns,
    request: Request,
    said: String,
    running: Option<JoinHandle<Result<Answer, SystemError>>>,
    /// Set by the answer: when the trace may end.
    ends: Option<Instant>,
}

/// Finds out where the probe starts and where it goes; sends nothing yet.
pub(super) fn prepare(
    options: &TraceOptions,
    plan: &Plan,
    survey: &Survey,
) -> Result<Option<Probe>, Failure> {
    let (Some(probe), Some(target)) = (&options.probe, &plan.resolved.probe) else {
        return Ok(None);
    };
    let origin = plan::probe_origin(&plan.roots, survey, probe.from.as_ref())?;
    let kind = match target.kind {
        ProbeKind::Tcp => Kind::Tcp,
        ProbeKind::Udp => Kind::Udp,
        ProbeKind::Icmp => Kind::Icmp,
    };
    let to = SocketAddr::new(target.addr, target.port.unwrap_or(0));
    let place = survey
        .inventory()
        .name(origin.id)
        .map_or(String::new(), |n| format!(" {n}"));
    let target = target
        .port
        .map_or_else(|| to.ip().to_string(), |_| to.to_string());
    let said = format!("{} to {target} from namespace{place}", probe.kind.as_str());
    let request = Request {
        kind,
        to,
        timeout: TIMEOUT,
    };
    Ok(Some(Probe {
        origin,
        request,
        said,
        running: None,
        ends: None,
    }))
}

/// Sends the probe at the first call (dropped before it is ready, it goes on at the next); `true` once it is answered or given up, and its packets had
/// time to pass. Never ready without a probe.
pub(super) async fn next(probe: &mut Option<Probe>) -> Result<bool, Failure> {
    let Some(probe) = probe else {
        return pending().await;
    };
    if let Some(ends) = probe.ends {
        sleep_until(ends).await;
        return Ok(true);
    }
    let running = probe.running.get_or_insert_with(|| {
        sink::note(&format!(
            "srctrace: probe: {}, with srctrace's own cgroup and uid\n",
            crate::render::escape(&probe.said)
        ));
        let (origin, request) = (probe.origin.clone(), probe.request);
        tokio::task::spawn_blocking(move || probe::probe(&origin, &request))
    });
    let answer = running
        .await
        .map_err(|e| Failure::CannotTrace(format!("the probe died: {e}")))??;
    probe.ends = Some(Instant::now() + AFTERWARDS);
    sink::note(&format!(
        "srctrace: probe: {} after {} ms\n",
        answer.outcome,
        answer.took.as_millis()
    ));
    Ok(false)
}
