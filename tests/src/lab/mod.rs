//! A lab: a set of network namespaces that stand for a node, its pods and the world outside.

mod agent_loop;
pub mod bpf;
pub mod cast;
mod container;
pub mod netkit;
pub mod netns;
pub mod openvpn;
pub mod redirect;
mod resolv;
pub mod rewriter;
mod rules;
mod service;
mod topology;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

pub use agent_loop::{AgentLoop, Which};
pub use container::{Container, Running};
pub use resolv::Resident;
pub use rules::Agent;
pub use service::Service;
pub use topology::{End, Topology};

/// A network that is up. Dropping it removes all its namespaces, also when a test panics.
#[derive(Debug)]
pub struct Lab {
    prefix: String,
    spaces: Vec<String>,
    inodes: BTreeMap<String, u64>,
    /// Of namespaces that came again under the same name.
    former: Vec<(String, u64)>,
}

impl Lab {
    fn of(prefix: String, spaces: Vec<String>) -> Self {
        Self {
            prefix,
            spaces,
            inodes: BTreeMap::new(),
            former: Vec::new(),
        }
    }

    /// The name under /run/netns of the namespace that the lab calls `ns`.
    #[must_use]
    pub fn netns(&self, ns: &str) -> String {
        format!("{}{ns}", self.prefix)
    }

    /// What the names under /run/netns of this lab begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The lab's short namespace names.
    #[must_use]
    pub fn spaces(&self) -> &[String] {
        &self.spaces
    }

    /// The inode that names the namespace in a report, also after it is gone; `None` before it was built.
    #[must_use]
    pub fn inode(&self, ns: &str) -> Option<u64> {
        self.inodes.get(ns).copied()
    }

    /// The inodes that namespaces had before they were deleted and came again.
    #[must_use]
    pub fn former(&self) -> &[(String, u64)] {
        &self.former
    }

    /// Creates the named namespaces of this lab and remembers their inodes.
    fn create(&mut self, spaces: &[String]) -> Result<()> {
        let names: Vec<String> = spaces.iter().map(|ns| self.netns(ns)).collect();
        netns::create(&names)?;
        for (ns, name) in spaces.iter().zip(&names) {
            let path = netns::path(name);
            let meta =
                fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?;
            // A number may be given again.
            self.inodes.retain(|_, known| *known != meta.ino());
            if let Some(old) = self.inodes.insert(ns.clone(), meta.ino()) {
                self.former.push((ns.clone(), old));
            }
        }
        Ok(())
    }

    /// Runs `f` inside the namespace, on a thread of its own.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn in_ns<T: Send>(&self, ns: &str, f: impl FnOnce() -> T + Send) -> Result<T> {
        netns::enter(&self.netns(ns), f)
    }

    /// Runs a command line (split at spaces) inside the namespace and returns its standard output.
    ///
    /// # Errors
    /// When it is missing or fails; the message has what it said.
    pub fn run(&self, ns: &str, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command")?;
        let mut command = Command::new(program);
        command.args(words);
        let output = self
            .in_ns(ns, || command.output())?
            .with_context(|| format!("start {program}"))?;
        if !output.status.success() {
            bail!(
                "`{line}` in {ns} failed ({}): {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs lines of `ip` (without the word `ip`) inside the namespace.
    ///
    /// # Errors
    /// When a line fails.
    pub fn ip(&self, ns: &str, script: &str) -> Result<()> {
        self.in_ns(ns, || netns::ip_batch(script))?
            .with_context(|| format!("ip in {ns}"))
    }

    /// Writes a sysctl below /proc/sys/net inside the namespace.
    ///
    /// # Errors
    /// When there is no such sysctl.
    pub fn sysctl(&self, ns: &str, key: &str, value: &str) -> Result<()> {
        self.in_ns(ns, || topology::write_sysctl(key, value))?
    }

    /// Adds a namespace while the lab runs: empty, with `lo` up.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn add_ns(&mut self, ns: &str) -> Result<()> {
        self.spaces.push(ns.to_owned());
        self.create(&[ns.to_owned()])?;
        self.sysctl(ns, "ipv6/conf/default/accept_dad", "0")?;
        self.ip(ns, "link set lo up")
    }

    /// Waits until the kernel has noticed that a link which was made while the lab runs is up: before, it drops what is sent
    /// there.
    ///
    /// # Errors
    /// When it does not in time.
    pub fn settle(&self, ns: &str, ifname: &str) -> Result<()> {
        self.in_ns(ns, || topology::settle(&[ifname]))?
    }

    /// Deletes a namespace while the lab runs.
    pub fn delete_ns(&self, ns: &str) {
        netns::delete(&self.netns(ns));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for ns in &self.spaces {
            netns::delete(&self.netns(ns));
        }
    }
}
