//! The agent that writes masquerade rules: its process, its flags, and the files in its pod.

use super::netns::{pids, process};
use super::{Lifetime, Roots, below, netns};
use rustix::fs::{OFlags, RawDir};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use tracer_core::event::NetnsId;
use tracer_core::masqconfig::{self, Agent};

/// The agent's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProcess {
    /// Which agent.
    pub agent: Agent,
    /// Its process id.
    pub pid: u32,
    /// When it started, seconds since 1970.
    pub started: Option<i64>,
    /// Its command line, the program's name first.
    pub command: Vec<String>,
}

/// A file in its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Name and bytes.
    pub file: masqconfig::File,
    /// When it changed last, seconds since 1970.
    pub changed: i64,
}

/// Names that the agents' programs have; the kernel keeps 15 characters of a process's.
const NAMES: &[(&str, Agent)] = &[
    ("ip-masq-agent-v2", Agent::Azure),
    ("ip-masq-agent", Agent::Upstream),
    ("cilium-agent", Agent::Cilium),
];
const COMM: usize = 15;

/// Where the agents' volumes are mounted.
const FOLDER: &str = "etc/config";
const FILE: &str = "ip-masq-agent";
/// Azure's reads all that begin so.
const PREFIX: &str = "ip-masq";
/// A ConfigMap holds at most a mebibyte.
pub const LARGEST: u64 = 4 << 20;

/// The agent of a node: a process in the node's own network namespace (`hostNetwork`). One that only
/// writes rules goes before Cilium, which does much else.
pub fn find(roots: &Roots, node: NetnsId) -> Option<AgentProcess> {
    let here = pids(roots).filter(|pid| netns::id_of(roots, *pid) == Some(node));
    let mut found: Vec<AgentProcess> = here.filter_map(|pid| look(roots, pid)).collect();
    found.sort_by_key(|agent| (agent.agent == Agent::Cilium, agent.pid));
    found.into_iter().next()
}

fn look(roots: &Roots, pid: u32) -> Option<AgentProcess> {
    let comm = process(roots, pid)?.comm;
    let (name, agent) = NAMES
        .iter()
        .find(|(name, _)| comm == name[..name.len().min(COMM)])?;
    let line = std::fs::read(roots.of(pid, "cmdline")).ok()?;
    let words = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<String> = words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    // A script's line begins with what runs it.
    let is_it = |word: &String| word.rsplit('/').next() == Some(*name);
    let first = words.iter().take(2).position(is_it)?;
    Some(AgentProcess {
        agent: *agent,
        pid,
        started: started(roots, pid),
        command: words[first..].to_vec(),
    })
}

/// When a process started: ticks since boot, and when that was.
fn started(roots: &Roots, pid: u32) -> Option<i64> {
    /// What user space sees of the kernel's ticks, on every architecture that we run on.
    const USER_HZ: i64 = 100;
    let lifetime = Lifetime::of(roots, pid)?;
    let stat = std::fs::read_to_string(roots.proc().join("stat")).ok()?;
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    let boot: i64 = boot.trim().parse().ok()?;
    Some(boot + i64::try_from(lifetime.start).ok()? / USER_HZ)
}

impl AgentProcess {
    /// The files that it reads. Empty: there are none, and it takes its defaults.
    ///
    /// # Errors
    /// When its root may not be entered, or a file is there and cannot be read.
    pub fn files(&self, roots: &Roots) -> io::Result<Vec<Mounted>> {
        let root = below::root_of(roots, self.pid)?;
        let names = match self.agent {
            Agent::Azure => azures(&root)?,
            _ => vec![FILE.to_owned()],
        };
        let files = names.into_iter().map(|name| read(&root, name));
        files.filter_map(Result::transpose).collect()
    }
}

/// Names in the folder that Azure's agent takes, in the order in which Go lists them.
fn azures(root: &OwnedFd) -> io::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Some(folder) = below::open(root, FOLDER, flags)? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    let mut space = [MaybeUninit::uninit(); 8192];
    let mut entries = RawDir::new(folder, &mut space);
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn read(root: &OwnedFd, name: String) -> io::Result<Option<Mounted>> {
    let file = below::read(root, &format!("{FOLDER}/{name}"), LARGEST)?;
    Ok(file.map(|file| Mounted {
        file: masqconfig::File {
            name,
            bytes: file.bytes,
        },
        changed: file.changed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn agent(agent: Agent, pid: u32) -> AgentProcess {
        AgentProcess {
            agent,
            pid,
            started: None,
            command: Vec::new(),
        }
    }

    /// A process tree with one process, whose root is a folder.
    fn pod(test: &str) -> (Roots, std::path::PathBuf) {
        let top = std::env::temp_dir().join(format!("st-agent-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        std::fs::create_dir_all(top.join("42/root/etc/config")).unwrap();
        (Roots::at(&top, &top), top)
    }

    #[test]
    fn links_in_the_pod_lead_no_further_than_its_root() {
        let (roots, top) = pod("links");
        let config = top.join("42/root/etc/config");
        std::fs::write(top.join("secret"), "the node's").unwrap();
        for outside in [
            "../../../../secret",
            "/secret",
            top.join("secret").to_str().unwrap(),
        ] {
            let _ = std::fs::remove_file(config.join(FILE));
            symlink(outside, config.join(FILE)).unwrap();
            assert_eq!(
                agent(Agent::Upstream, 42).files(&roots).unwrap(),
                [],
                "{outside}"
            );
        }
        // As the kubelet mounts them: links inside.
        std::fs::create_dir(config.join("..data")).unwrap();
        std::fs::write(config.join("..data/ip-masq-agent"), "x: 1").unwrap();
        std::fs::remove_file(config.join(FILE)).unwrap();
        symlink("..data/ip-masq-agent", config.join(FILE)).unwrap();
        let files = agent(Agent::Upstream, 42).files(&roots).unwrap();
        assert_eq!(files[0].file.bytes, b"x: 1");
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn azures_files_are_all_that_begin_so() {
        let (roots, top) = pod("azure");
        let config = top.join("42/root/etc/config");
        assert_eq!(agent(Agent::Azure, 42).files(&roots).unwrap(), []);
        for name in ["ip-masq-agent-reconciled", "ip-masq-agent", "other"] {
            std::fs::write(config.join(name), name).unwrap();
        }
        let files = agent(Agent::Azure, 42).files(&roots).unwrap();
        let names: Vec<_> = files.iter().map(|f| f.file.name.as_str()).collect();
        assert_eq!(names, ["ip-masq-agent", "ip-masq-agent-reconciled"]);
        std::fs::remove_file(config.join("ip-masq-agent")).unwrap();
        std::fs::create_dir(config.join("ip-masq-agent")).unwrap();
        let refused = agent(Agent::Azure, 42).files(&roots).unwrap_err();
        assert_eq!(refused.to_string(), "it is no regular file");
        std::fs::remove_dir_all(top).unwrap();
    }
}
