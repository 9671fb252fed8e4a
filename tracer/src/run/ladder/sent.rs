//! Rungs that srctrace sends itself, from a pod.

use super::super::failure::Failure;
use super::super::probe::Probe;
use super::ground::Ground;
use super::look::Looks;
use super::{Request, Step, request, rung as told_rung, step};
use crate::cli::{DNS, ProbeKind, RungSpec, RungTarget};
use crate::system::netns::Netns;
use crate::system::probe::{Answer, Outcome, Question, Resolved, TIMEOUT};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use tracer_core::dns::{Asked, Reply, Resolving};
use tracer_core::ladder::{self, Heard, Told, Tried, tell_reply};
use tracer_core::report::{Flow, RungBy, RungCode};

/// What a request of ours came to: its flow, and what its sender got.
struct Came<T> {
    flow: Option<Flow>,
    heard: Heard,
    answer: T,
}

/// Tries a rung; `None`: a signal ended it.
pub(super) async fn rung(
    ground: &Ground,
    looks: &mut Looks<'_>,
    n: u32,
    spec: &RungSpec,
) -> Result<Option<Step>, Failure> {
    let Some(from) = &ground.from else {
        return Err(Failure::Usage("ladder: --from says who sends".to_owned()));
    };
    match (&spec.target, request(&spec.target)) {
        (RungTarget::Name(name, port), _) => {
            name_rung(ground, looks, from, (n, spec), (name, *port)).await
        }
        (RungTarget::Resolver(resolver), _) => {
            let root = (vec![".".to_owned()], &[Asked::Ns][..]);
            let came = ask(ground, looks, from, *resolver, root).await?;
            Ok(came.map(|came| {
                let tried = tried(ground, RungBy::Dns, *resolver, came.heard);
                step(n, spec, came.flow, &tried)
            }))
        }
        (_, Some(request)) => {
            let came = send(ground, looks, from, request).await?;
            Ok(came.map(|came| {
                let tried = tried(ground, request.0, request.1, came.heard);
                step(n, spec, came.flow, &tried)
            }))
        }
        (_, None) => Ok(None),
    }
}

fn tried(ground: &Ground, by: RungBy, to: IpAddr, heard: Heard) -> Tried {
    Tried {
        by,
        to,
        service: ground.is_service(to),
        heard: Some(heard),
    }
}

/// The pod's resolvers are asked in order until one answers; then, with a port, the first address.
async fn name_rung(
    ground: &Ground,
    looks: &mut Looks<'_>,
    from: &Netns,
    (n, spec): (u32, &RungSpec),
    (name, port): (&str, Option<u16>),
) -> Result<Option<Step>, Failure> {
    let Some(resolving) = &ground.resolving else {
        return Err(Failure::Usage(
            "ladder: --dns ADDR names a resolver".to_owned(),
        ));
    };
    let Some((last, silent, mut flows)) = resolve(ground, looks, from, resolving, name).await?
    else {
        return Ok(None);
    };
    let (resolver, told, resolved) = last;
    let reply = resolved
        .reply
        .as_ref()
        .filter(|_| told.code == RungCode::Answered);
    let addresses = match reply {
        Some(Reply::Addresses(found)) => found.clone(),
        _ => Vec::new(),
    };
    let told = with_name(told, (name, &resolved), resolver, &silent);
    let mut rung = told_rung(n, spec, told, &flows);
    rung.resolver = Some(resolver);
    rung.addresses.clone_from(&addresses);
    if let (Some(port), Some(addr)) = (port, addresses.first()) {
        let request = (RungBy::Tcp, *addr, Some(port));
        let Some(came) = send(ground, looks, from, request).await? else {
            return Ok(None);
        };
        let tried = tried(ground, RungBy::Tcp, *addr, came.heard);
        let told = ladder::tell(came.flow.as_ref(), &tried);
        rung.flows
            .extend(came.flow.as_ref().map(|flow| flow.id.clone()));
        flows.extend(came.flow);
        (rung.service, rung.forwarded) = (told.service, told.forwarded);
        (rung.code, rung.layer, rung.fix) = (told.code, told.layer, told.fix);
        rung.text = format!("{name} is {addr}; {}", told.text);
    }
    Ok(Some(Step { rung, flows }))
}

/// The last resolver that was asked, what is told of that, and what it answered.
type Last = (IpAddr, Told, Resolved);

/// Asks resolvers in order until one answers; gives those that did not, and the flows. `None`: a signal ended it.
async fn resolve(
    ground: &Ground,
    looks: &mut Looks<'_>,
    from: &Netns,
    resolving: &Resolving,
    name: &str,
) -> Result<Option<(Last, Vec<IpAddr>, Vec<Flow>)>, Failure> {
    let mut flows = Vec::new();
    let mut silent: Vec<IpAddr> = Vec::new();
    for resolver in &resolving.resolvers {
        let names = (resolving.candidates(name), &[Asked::A, Asked::Aaaa][..]);
        let Some(came) = ask(ground, looks, from, *resolver, names).await? else {
            return Ok(None);
        };
        let tried = tried(ground, RungBy::Dns, *resolver, came.heard);
        let told = ladder::tell(came.flow.as_ref(), &tried);
        flows.extend(came.flow);
        let is_last = silent.len() + 1 == resolving.resolvers.len();
        if told.code == RungCode::Answered || is_last {
            return Ok(Some(((*resolver, told, came.answer), silent, flows)));
        }
        silent.push(*resolver);
    }
    Ok(None)
}

/// What is told of a query, with the name that it was for.
fn with_name(
    told: Told,
    (name, resolved): (&str, &Resolved),
    resolver: IpAddr,
    silent: &[IpAddr],
) -> Told {
    if told.code != RungCode::Answered {
        return Told {
            text: format!("the query for {name} to {resolver}: {}", told.text),
            ..told
        };
    }
    let before: Vec<String> = silent.iter().map(ToString::to_string).collect();
    let before = match before.is_empty() {
        true => String::new(),
        false => format!(" (asked before it, {} did not answer)", before.join(", ")),
    };
    let Some(reply) = &resolved.reply else {
        return told;
    };
    if let Some(told) = tell_reply(reply, name, resolver) {
        return Told {
            text: format!("{}{before}", told.text),
            ..told
        };
    }
    let found = match reply {
        Reply::Addresses(found) => found.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    Told {
        text: format!(
            "{} is {}, says {resolver}{before}; {}",
            resolved.name,
            found.join(", "),
            told.text
        ),
        ..told
    }
}

/// Sends a request and gives what came of it.
async fn send(
    ground: &Ground,
    looks: &mut Looks<'_>,
    from: &Netns,
    request: Request,
) -> Result<Option<Came<Answer>>, Failure> {
    let (by, to, port) = request;
    let kind = match by {
        RungBy::Icmp => ProbeKind::Icmp,
        RungBy::Tcp | RungBy::Dns => ProbeKind::Tcp,
    };
    let (hear, heard) = channel();
    // Nobody waits for it any more once the ladder was ended.
    let hear = move |answer| {
        let _ = hear.send(answer);
    };
    let probe = Probe::heard(from.clone(), kind, (to, port), &ground.survey, hear);
    let flows = looks.probe(request, probe).await?;
    Ok(came(flows, &heard, from, |answer: &Answer| {
        (answer.outcome, answer.from)
    }))
}

/// Asks a resolver and gives what came of it.
async fn ask(
    ground: &Ground,
    looks: &mut Looks<'_>,
    from: &Netns,
    resolver: IpAddr,
    (names, kinds): (Vec<String>, &'static [Asked]),
) -> Result<Option<Came<Resolved>>, Failure> {
    let question = Question {
        resolver: SocketAddr::new(resolver, DNS),
        names,
        kinds,
        timeout: TIMEOUT,
    };
    let (hear, heard) = channel();
    let hear = move |resolved| {
        let _ = hear.send(resolved);
    };
    let probe = Probe::question(from.clone(), question, &ground.survey, hear);
    let request = (RungBy::Dns, resolver, Some(DNS));
    let flows = looks.probe(request, probe).await?;
    Ok(came(flows, &heard, from, |resolved: &Resolved| {
        (resolved.outcome, resolved.from)
    }))
}

/// Puts together what the trace saw and what the sender got. `None`: it was ended before.
fn came<T>(
    flows: Option<Vec<Flow>>,
    heard: &Receiver<T>,
    from: &Netns,
    read: impl Fn(&T) -> (Outcome, Option<SocketAddr>),
) -> Option<Came<T>> {
    let flows = flows?;
    let answer = heard.try_recv().ok()?;
    let (outcome, local) = read(&answer);
    let is_ours = |flow: &&Flow| match local {
        Some(local) => {
            let tuple = &flow.flow.tuple;
            (tuple.src, tuple.sport) == (local.ip(), local.port())
        }
        None => flow.origin.netns == Some(from.id.0),
    };
    Some(Came {
        flow: flows.iter().find(is_ours).cloned(),
        heard: heard_of(outcome),
        answer,
    })
}

fn heard_of(outcome: Outcome) -> Heard {
    match outcome {
        Outcome::Answered => Heard::Answer,
        Outcome::Refused => Heard::Refusal,
        Outcome::Timeout => Heard::Nothing,
        Outcome::Unreachable(code) => Heard::NoWay {
            forbidden: matches!(code, libc::EPERM | libc::EACCES),
            why: std::io::Error::from_raw_os_error(code).to_string(),
        },
    }
}
