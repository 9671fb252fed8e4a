//! A small agent: a loop that reads its mounted file and writes the chain IP-MASQ-AGENT, as the real one does. It has the real
//! one's name, runs in the node's network namespace, and sees its file in a mount namespace of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Lab;

/// The loop. It takes lists of IPv4 prefixes, one a line, which is what the labs write; a file with anything else in its list it
/// refuses, and then its old rules stay. After each round it tells which file it has read.
const SCRIPT: &str = r#"#!/bin/sh
chain=IP-MASQ-AGENT
jump() {
    iptables-legacy -w 10 -t nat "$1" POSTROUTING -m comment \
        --comment "ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom $chain chain" \
        -m addrtype ! --dst-type LOCAL -j "$chain"
}
while :; do
    read=$(cat /etc/config/ip-masq-agent 2>/dev/null)
    list=$(printf '%s\n' "$read" | sed -n 's/^- //p')
    if ! printf '%s\n' "$list" | grep -qv '^[0-9.]*/[0-9]*$'; then
        {
            printf '*nat\n:%s - [0:0]\n' "$chain"
            for net in 169.254.0.0/16 $list; do
                printf '%s %s -d %s -m comment --comment "ip-masq-agent: local traffic is not subject to MASQUERADE" -j RETURN\n' -A "$chain" "$net"
            done
            printf '%s %s -m comment --comment "ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)" -j MASQUERADE --random-fully\nCOMMIT\n' -A "$chain"
        } | iptables-legacy-restore -w 10 --noflush && { jump -C 2>/dev/null || jump -A; }
        printf '%s' "$read" >/etc/config/.synced
    fi
    sleep 0.1
done
"#;

/// The agent's process.
#[derive(Debug)]
pub struct AgentLoop {
    child: Child,
    folder: PathBuf,
}

impl AgentLoop {
    /// Starts it in the lab's node, with a folder of the lab's as its `/etc/config`. Returns once it has written its rules.
    ///
    /// # Errors
    /// When it does not within ten seconds.
    pub fn start(lab: &Lab, folder: &Path, config: &str) -> Result<Self> {
        let etc = folder.join("etc");
        fs::create_dir_all(&etc).with_context(|| format!("make {}", etc.display()))?;
        let program = folder.join("ip-masq-agent");
        fs::write(&program, SCRIPT)?;
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )?;
        // The node's own /etc stays as it is: only this process and its children see the other one.
        let script = format!(
            "mount --make-rprivate / && mount -t tmpfs agent /etc && mkdir /etc/config && \
             mount --bind {} /etc/config && exec {} --masq-chain=IP-MASQ-AGENT",
            etc.display(),
            program.display()
        );
        let child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &lab.netns("node"),
                "unshare",
                "-m",
                "sh",
                "-c",
                &script,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("start the agent")?;
        let mut agent = Self { child, folder: etc };
        agent.edit(config)?;
        agent.synced()?;
        Ok(agent)
    }

    /// Changes its file at one blow, as the kubelet does.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn edit(&self, config: &str) -> Result<()> {
        let new = self.folder.join(".new");
        fs::write(&new, config)?;
        fs::rename(&new, self.folder.join("ip-masq-agent")).context("edit the agent's file")
    }

    /// Waits until it has written the rules that its file asks for.
    ///
    /// # Errors
    /// When it does not within ten seconds, or has ended.
    pub fn synced(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let file = fs::read_to_string(self.folder.join("ip-masq-agent"))?;
            let read = fs::read_to_string(self.folder.join(".synced")).unwrap_or_default();
            if read == file.trim_end() {
                return Ok(());
            }
            ensure!(self.child.try_wait()?.is_none(), "the agent has ended");
            if began.elapsed() > Duration::from_secs(10) {
                bail!("the agent has not written its rules within ten seconds");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Keeps it from running, as if it slept until its next resync.
    ///
    /// # Errors
    /// When it is gone.
    pub fn pause(&self) -> Result<()> {
        self.signal("-STOP")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status()?;
        ensure!(status.success(), "kill {signal} {pid}: {status}");
        Ok(())
    }

    /// Ends it; its rules stay.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn stop(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop).context("wait for the agent")
    }
}

impl Drop for AgentLoop {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
