//! `--observe-rules nftrace`: the kernel's own rule trace in the node's namespace.

use super::failure::Failure;
use super::leftovers::Watcher;
use super::plan::Plan;
use crate::sink;
use crate::system::netns::{Netns, visit};
use crate::system::nflog::{self, Nflog};
use crate::system::nftrace::{self, Nftrace};
use crate::system::{Roots, in_container};
use ipnet::IpNet;
use std::io;
use tracer_core::observed::nflog::{LoggedTraversals, message as logged};
use tracer_core::observed::nftrace::message as traced;
use tracer_core::observed::{RuleHit, Traversals};

/// What is added to the node.
const ADDS_TABLE: &str = "srctrace: --observe-rules nftrace adds the nftables table \"inet srctrace\" to the \
                          node while it runs: two chains that mark new flows to DEST for the kernel's rule trace\n";
const ADDS_LOGGER: &str = "srctrace: iptables-legacy tables are there: the node's packet loggers \
                           (net.netfilter.nf_log) are replaced while it runs\n";

/// A running trace.
pub(super) struct KernelTrace {
    // Dropped in this order: first nothing is traced any more, then the loggers are put back.
    nftrace: Nftrace,
    traversals: Traversals,
    log: Option<Log>,
}

/// iptables-legacy's part of it.
struct Log {
    nflog: Nflog,
    traversals: LoggedTraversals,
    _watcher: Watcher,
}

impl KernelTrace {
    /// Starts it, for new flows to the plan's destinations; what it adds is said on stderr first.
    pub(super) fn start(plan: &Plan) -> Result<Self, Failure> {
        let node = &plan.node;
        let dests: Vec<IpNet> = plan.filter.dests.iter().map(|(net, _)| *net).collect();
        nftrace::may_start(node)?;
        let log = if nftrace::has_legacy(node)? {
            Some(Log::start(node)?)
        } else {
            None
        };
        sink::note(ADDS_TABLE);
        Ok(Self {
            nftrace: Nftrace::start(node, &dests)
                .map_err(|error| Failure::CannotTrace(error.to_string()))?,
            traversals: Traversals::new(node.id, nftrace::TABLE),
            log,
        })
    }

    /// Hands over what was traced since it was last asked.
    ///
    /// # Errors
    /// When messages were lost.
    pub(super) fn listen(&mut self, now_ns: u64, hit: &mut dyn FnMut(RuleHit)) -> io::Result<()> {
        let traversals = &mut self.traversals;
        let heard = self.nftrace.drain(|body| {
            let ended = traced(body).and_then(|message| traversals.take(now_ns, message));
            ended.into_iter().for_each(&mut *hit);
        });
        let logged = self.log.as_mut().map(|log| log.listen(now_ns, hit));
        heard.and(logged.unwrap_or(Ok(())))
    }
}

impl Log {
    fn start(node: &Netns) -> Result<Self, Failure> {
        if in_container(&Roots::default()) {
            return Err(Failure::CannotTrace(
                "--observe-rules nftrace: the node has iptables-legacy tables, whose trace needs \
                 the node's packet loggers replaced, and a container can be killed together with \
                 the watcher that puts them back; run it on the node itself"
                    .to_owned(),
            ));
        }
        let loggers = nflog::loggers(node)?;
        sink::note(ADDS_LOGGER);
        let watcher = visit(node, || Ok(Watcher::of_loggers(&loggers)))??;
        Ok(Self {
            nflog: Nflog::start(node).map_err(|error| Failure::CannotTrace(error.to_string()))?,
            traversals: LoggedTraversals::new(node.id),
            _watcher: watcher,
        })
    }

    fn listen(&mut self, now_ns: u64, hit: &mut dyn FnMut(RuleHit)) -> io::Result<()> {
        let traversals = &mut self.traversals;
        let heard = self.nflog.drain(|body| {
            let left = logged(body).and_then(|message| traversals.take(now_ns, message));
            left.into_iter().for_each(&mut *hit);
        });
        traversals.settle(now_ns).into_iter().for_each(hit);
        heard
    }
}
