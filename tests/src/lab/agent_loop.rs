//! A small agent: a loop that reads its mounted files and writes the chain IP-MASQ-AGENT, as the real ones do. It has a real
//! one's name, runs in the node's network namespace, and sees its files in a mount namespace of its own.

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
# Azure's writes the quotes of a shell into its comment.
case $0 in *-v2) quote='"' ;; *) quote= ;; esac
jump() {
    iptables-legacy -w 10 -t nat "$1" POSTROUTING -m comment \
        --comment "${quote}ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom $chain chain$quote" \
        -m addrtype ! --dst-type LOCAL -j "$chain"
}
while :; do
    read=$(cat /etc/config/ip-masq* 2>/dev/null)
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

/// Cilium's only reads: what it writes are maps, and a lab does that for it.
const CILIUM: &str = r#"#!/bin/sh
while :; do
    printf '%s' "$(cat /etc/config/ip-masq-agent 2>/dev/null)" >/etc/config/.synced
    sleep 0.1
done
"#;

/// Which agent.
#[derive(Debug, Clone, Copy)]
pub enum Which {
    /// kubernetes-sigs/ip-masq-agent.
    Upstream,
    /// That one, told to write IPv6 rules. The loop does not.
    WithIpv6,
    /// Azure/ip-masq-agent-v2.
    Azure,
    /// Cilium, with a BPF file system of its own.
    Cilium,
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Self::Upstream | Self::WithIpv6 => "ip-masq-agent",
            Self::Azure => "ip-masq-agent-v2",
            Self::Cilium => "cilium-agent",
        }
    }

    fn flags(self) -> &'static str {
        match self {
            Self::Upstream => "--masq-chain=IP-MASQ-AGENT",
            Self::WithIpv6 => "--masq-chain=IP-MASQ-AGENT --enable-ipv6",
            Self::Azure => "--resync-interval=30",
            Self::Cilium => "--config-dir=/tmp/cilium/config-map",
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::Cilium => CILIUM,
            _ => SCRIPT,
        }
    }

    /// What its pod has mounted beside its files.
    fn mounts(self) -> &'static str {
        match self {
            Self::Cilium => "mount -t bpf bpf /sys/fs/bpf && mkdir -p /sys/fs/bpf/tc/globals && ",
            _ => "",
        }
    }
}

/// The agent's process.
#[derive(Debug)]
pub struct AgentLoop {
    child: Child,
    folder: PathBuf,
}

impl AgentLoop {
    /// Upstream's, with one file.
    ///
    /// # Errors
    /// When it does not write its rules within ten seconds.
    pub fn start(lab: &Lab, folder: &Path, config: &str) -> Result<Self> {
        Self::start_as(lab, folder, Which::Upstream, &[("ip-masq-agent", config)])
    }

    /// Starts it in the lab's node, with a folder of the lab's as its `/etc/config`. Returns once it has written its rules.
    ///
    /// # Errors
    /// When it does not within ten seconds.
    pub fn start_as(
        lab: &Lab,
        folder: &Path,
        which: Which,
        files: &[(&str, &str)],
    ) -> Result<Self> {
        let etc = folder.join("etc");
        fs::create_dir_all(&etc).with_context(|| format!("make {}", etc.display()))?;
        for (name, text) in files {
            fs::write(etc.join(name), text)?;
        }
        let program = folder.join(which.name());
        fs::write(&program, which.script())?;
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )?;
        // The node's own /etc stays as it is: only this process and its children see the other one.
        let script = format!(
            "mount --make-rprivate / && mount -t tmpfs agent /etc && mkdir /etc/config && {}\
             mount --bind {} /etc/config && exec {} {}",
            which.mounts(),
            etc.display(),
            program.display(),
            which.flags()
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
        agent.synced()?;
        Ok(agent)
    }

    /// A path of its pod, as we see it.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/{path}", self.child.id()))
    }

    /// All that is in its files.
    fn told(&self) -> Result<String> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?;
        let is_file = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.as_encoded_bytes().starts_with(b"ip-masq")
        };
        files.retain(is_file);
        files.sort();
        let texts = files.iter().map(fs::read_to_string);
        let all: String = texts.collect::<std::io::Result<_>>()?;
        Ok(all.trim_end().to_owned())
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
            let read = fs::read_to_string(self.folder.join(".synced")).unwrap_or_default();
            if read == self.told()? {
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
