//! Steps that many labs take.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::lab::{Agent, Lab};
use crate::trace::expect::difference;
use crate::traffic::Outcome;

/// How long a client waits where no answer is expected: long against any answer inside one machine, short for a test.
pub(super) const A_MOMENT: Duration = Duration::from_millis(400);

/// The outcome in which the far side saw this address and port.
pub(super) fn answered(addr: &str) -> Result<Outcome> {
    let addr: SocketAddr = addr.parse().with_context(|| format!("{addr} in a lab"))?;
    Ok(Outcome::Answered(addr))
}

/// Two values must be equal.
pub(super) fn same<T: PartialEq + Debug>(what: &str, is: T, should: T) -> Result<()> {
    ensure!(is == should, "{what}: {is:?}, should be {should:?}");
    Ok(())
}

/// Two long texts must be equal; the error shows where they are not.
pub(super) fn same_text(what: &str, is: &str, should: &str) -> Result<()> {
    ensure!(is == should, "{what} differs:\n{}", difference(should, is));
    Ok(())
}

/// The node's ip-masq-agent rules by iptables-legacy, with these exemptions.
pub(super) fn masquerade(lab: &Lab, exempt: &[&str]) -> Result<()> {
    let agent = Agent {
        chain: "IP-MASQ",
        exempt,
    };
    lab.restore("node", "iptables-legacy-restore", &agent.restore_script())
}

/// Waits for a condition that nobody signals, looking every few milliseconds.
pub(super) fn wait_for(
    what: &str,
    patience: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<Duration> {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > patience {
            bail!("not within {patience:?}: {what}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(began.elapsed())
}
