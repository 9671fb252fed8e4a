//! Rules in a lab's namespaces, by every backend.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Lab, netns};

/// The rules that an ip-masq-agent would install, with its own comments.
#[derive(Debug, Clone)]
pub struct Agent<'a> {
    /// The agent's chain; `IP-MASQ-AGENT` in older releases, `IP-MASQ` in newer ones.
    pub chain: &'a str,
    /// Destinations that keep their source (`nonMasqueradeCIDRs`).
    pub exempt: &'a [&'a str],
}

impl Agent<'_> {
    /// The rules in `iptables-restore` format.
    #[must_use]
    pub fn restore_script(&self) -> String {
        let chain = self.chain;
        let mut script = format!(
            "*nat\n:{chain} - [0:0]\n\
             -A POSTROUTING -m comment --comment \"ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL \
             destination traffic to our custom {chain} chain\" -m addrtype ! --dst-type LOCAL -j {chain}\n"
        );
        for cidr in self.exempt {
            script.push_str(&format!(
                "-A {chain} -d {cidr} -m comment --comment \"ip-masq-agent: local traffic is not subject to \
                 MASQUERADE\" -j RETURN\n"
            ));
        }
        script.push_str(&format!(
            "-A {chain} -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last \
             in chain)\" -j MASQUERADE\nCOMMIT\n"
        ));
        script
    }
}

impl Lab {
    /// One `iptables-legacy` command line, without the program's name.
    ///
    /// # Errors
    /// When the rule is refused.
    pub fn iptables_legacy(&self, ns: &str, line: &str) -> Result<()> {
        self.run(ns, &format!("iptables-legacy -w 10 {line}"))
            .map(drop)
    }

    /// One `iptables-nft` command line, without the program's name.
    ///
    /// # Errors
    /// When the rule is refused.
    pub fn iptables_nft(&self, ns: &str, line: &str) -> Result<()> {
        self.run(ns, &format!("iptables-nft {line}")).map(drop)
    }

    /// Adds rules in `iptables-restore` format by the named program: `iptables-legacy-restore`, `ip6tables-nft-restore`…
    ///
    /// # Errors
    /// When a rule is refused.
    pub fn restore(&self, ns: &str, program: &str, script: &str) -> Result<()> {
        let mut command = Command::new(program);
        command.arg("--noflush");
        if program.contains("legacy") {
            command.args(["-w", "10"]);
        }
        self.in_ns(ns, || netns::run_with_input(&mut command, script))?
            .with_context(|| format!("rules of {ns}"))
    }

    /// Loads a native nft script.
    ///
    /// # Errors
    /// When nft refuses it.
    pub fn nft(&self, ns: &str, script: &str) -> Result<()> {
        let mut command = Command::new("nft");
        command.args(["-f", "-"]);
        self.in_ns(ns, || netns::run_with_input(&mut command, script))?
            .with_context(|| format!("nft rules of {ns}"))
    }

    /// Loads a script for `ipset restore`.
    ///
    /// # Errors
    /// When ipset refuses it.
    pub fn ipset(&self, ns: &str, script: &str) -> Result<()> {
        let mut command = Command::new("ipset");
        command.arg("restore");
        self.in_ns(ns, || netns::run_with_input(&mut command, script))?
            .with_context(|| format!("ipsets of {ns}"))
    }

    /// Loads a configuration into a namespace's `wg0`.
    ///
    /// # Errors
    /// When `wg` is missing or refuses it.
    pub fn wireguard(&self, ns: &str, config: &str) -> Result<()> {
        let mut command = Command::new("wg");
        command.args(["setconf", "wg0", "/proc/self/fd/0"]);
        self.in_ns(ns, || netns::run_with_input(&mut command, config))?
            .with_context(|| format!("wg0 of {ns}"))
    }
}
