//! A question to a resolver, as a pod's own would ask it: one socket, one name after the other.

use super::socket::{receive_into, socket};
use super::{Outcome, judge};
use crate::system::SystemError;
use crate::system::netns::{Netns, visit};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketType, connect, getsockname, send};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tracer_core::dns::{self, Asked, Reply};

/// After this time without an answer a query is sent again.
const AGAIN: Duration = Duration::from_secs(2);
/// Answers by UDP are no longer.
const LONGEST: usize = 65_535;

/// What to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whom.
    pub resolver: SocketAddr,
    /// Names in the order in which they are tried; the first that has what is asked for counts.
    pub names: Vec<String>,
    /// What is asked of each name; the second only where it has none of the first.
    pub kinds: &'static [Asked],
    /// How long to wait in all.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Whether it answered at all: to the last query that was sent.
    pub outcome: Outcome,
    /// What it answered last.
    pub reply: Option<Reply>,
    /// The name that this is about.
    pub name: String,
    /// The address and port it was asked from.
    pub from: Option<SocketAddr>,
    /// From the first query to the outcome.
    pub took: Duration,
}

/// Asks a resolver from inside a namespace. Blocks: call it from a thread of its own.
///
/// # Errors
/// When the namespace is gone or may not be entered, or no such socket is to be had there.
pub fn ask(netns: &Netns, question: &Question) -> Result<Resolved, SystemError> {
    visit(netns, || {
        let start = Instant::now();
        let fail = |e| SystemError::os("ask the resolver", question.resolver, e);
        let fd = socket(question.resolver, SocketType::DGRAM, None).map_err(fail)?;
        let mut asking = Asking {
            fd,
            deadline: start + question.timeout,
            name: question.names.first().cloned().unwrap_or_default(),
            reply: None,
        };
        let outcome = judge(asking.all(question)).map_err(fail)?;
        let local = getsockname(&asking.fd).ok();
        let local = local.and_then(|local| SocketAddr::try_from(local).ok());
        Ok(Resolved {
            outcome,
            reply: asking.reply,
            name: asking.name,
            from: local.filter(|local| !local.ip().is_unspecified()),
            took: start.elapsed(),
        })
    })
}

/// A socket, and what was learned by it.
struct Asking {
    fd: OwnedFd,
    deadline: Instant,
    name: String,
    reply: Option<Reply>,
}

impl Asking {
    /// Asks until a name has what is wanted.
    fn all(&mut self, question: &Question) -> io::Result<()> {
        connect(&self.fd, &question.resolver)?;
        let each = question.names.iter();
        let each = each.flat_map(|name| question.kinds.iter().map(move |kind| (name, *kind)));
        for (name, kind) in each {
            let reply = self.one(name, kind)?;
            self.name.clone_from(name);
            let found = matches!(reply, Reply::Addresses(_) | Reply::Failed(_));
            self.reply = Some(reply);
            if found {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One query, sent again as long as nothing comes.
    fn one(&self, name: &str, kind: Asked) -> io::Result<Reply> {
        let id = random()?;
        let query = dns::query(id, name, kind)
            .ok_or_else(|| io::Error::other("that is too long for a name"))?;
        loop {
            send(&self.fd, &query, SendFlags::NOSIGNAL)?;
            let until = self.deadline.min(Instant::now() + AGAIN);
            let mut buffer = vec![0; LONGEST];
            let mut reply = None;
            let heard = receive_into(&self.fd, &mut buffer, until, |bytes| {
                reply = dns::answer(bytes, id);
                reply.is_some()
            });
            match (heard, reply) {
                (Ok(()), Some(reply)) => return Ok(reply),
                (Err(error), _) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
                _ if Instant::now() >= self.deadline => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                _ => {}
            }
        }
    }
}

/// A number that nobody can guess, so that only who saw the query can answer it.
fn random() -> io::Result<u16> {
    let mut bytes = [0; 2];
    match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
        Ok(2) => Ok(u16::from_ne_bytes(bytes)),
        Ok(_) => Err(Errno::AGAIN.into()),
        Err(error) => Err(error.into()),
    }
}
