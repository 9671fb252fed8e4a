//! Containers as a kubelet and its runtime set them up: a process in the pod's network namespace, in a cgroup that names
//! pod and container, with a host name of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::Lab;

/// Where version 2 of the cgroup tree may be mounted.
const TREES: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// What a container is called.
#[derive(Debug, Clone, Copy)]
pub struct Container {
    /// Its pod's uid.
    pub uid: &'static str,
    /// Its own id: 64 hexadecimal digits.
    pub id: &'static str,
    /// Its host name; `None` for a pod on the node's network, which has the node's.
    pub hostname: Option<&'static str>,
}

impl Container {
    /// Starts a shell as the container's only process in namespace `ns`.
    ///
    /// # Errors
    /// When this machine does not let us, for example for want of a cgroup tree of version 2.
    pub fn start(&self, lab: &Lab, ns: &str) -> Result<Running> {
        let group = Group::make(lab, self)?;
        let mut command = match self.hostname {
            Some(_) => Command::new("unshare"),
            None => Command::new("sh"),
        };
        if self.hostname.is_some() {
            command.args(["--uts", "sh"]);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut shell = lab
            .in_ns(ns, || command.spawn())?
            .context("start a container's shell")?;
        let said = shell.stdout.take().context("the shell's output")?;
        let mut running = Running {
            shell,
            said: BufReader::new(said),
            group,
        };
        let procs = running.group.path.join("cgroup.procs");
        running.ask(&format!("echo $$ > {} && echo in", procs.display()))?;
        if let Some(name) = self.hostname {
            running.ask(&format!(
                "echo {name} > /proc/sys/kernel/hostname && echo named"
            ))?;
        }
        Ok(running)
    }
}

/// A container that runs until it is dropped.
#[derive(Debug)]
pub struct Running {
    shell: Child,
    said: BufReader<ChildStdout>,
    group: Group,
}

impl Running {
    /// Its cgroup, below the tree's mount.
    #[must_use]
    pub fn cgroup(&self) -> String {
        self.group.name()
    }

    /// Its first process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.shell.id()
    }

    /// A line of shell by which a process makes itself one of the container's, as far as its cgroup tells. It must have
    /// ended when the container goes.
    #[must_use]
    pub fn entrance(&self) -> String {
        format!(
            "echo $$ > {}",
            self.group.path.join("cgroup.procs").display()
        )
    }

    /// Makes a TCP request from inside, from port `sport`, and returns the far side's answer: `seen ADDRESS:PORT`.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn call(&mut self, to: &str, sport: u16) -> Result<String> {
        self.ask(&format!(
            "answer=$(printf hello | socat -t 5 - TCP:{to},sourceport={sport},reuseaddr); echo \"$answer\""
        ))
    }

    /// Makes a TCP request as [`Running::call`] does, which must have no answer. The caller goes on waiting until the
    /// container ends: a slow machine is still tracing when it would have given up.
    ///
    /// # Errors
    /// When there is one.
    pub fn call_in_vain(&mut self, to: &str, sport: u16) -> Result<()> {
        let said = self.ask(&format!(
            "file=$(mktemp); printf hello | socat - TCP:{to},sourceport={sport},reuseaddr >$file 2>/dev/null & \
             sleep 1.5; echo \"answer: $(cat $file)\"; rm $file"
        ))?;
        ensure!(said == "answer:", "{said}");
        Ok(())
    }

    /// The folder of its pod's cgroup, the one above its own.
    #[must_use]
    pub fn pods_folder(&self) -> &Path {
        self.group.path.parent().unwrap_or(&self.group.path)
    }

    /// Runs a line of shell and returns the line that it prints.
    fn ask(&mut self, line: &str) -> Result<String> {
        let stdin = self.shell.stdin.as_mut().context("the shell's input")?;
        writeln!(stdin, "{line}").context("speak to the container's shell")?;
        let mut said = String::new();
        self.said
            .read_line(&mut said)
            .context("hear the container's shell")?;
        ensure!(
            said.trim() != "",
            "the container's shell gave nothing for: {line}"
        );
        Ok(said.trim().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends with its input, after what it has in the background; then its cgroup is empty.
        if let Some(stdin) = &mut self.shell.stdin {
            let _ = writeln!(stdin, "kill $! 2>/dev/null; wait");
        }
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A cgroup of ours, removed with all above it that is ours too.
#[derive(Debug)]
struct Group {
    tree: PathBuf,
    path: PathBuf,
}

impl Group {
    fn make(lab: &Lab, container: &Container) -> Result<Self> {
        let tree = TREES
            .iter()
            .map(Path::new)
            .find(|tree| tree.join("cgroup.controllers").exists())
            .context("no cgroup tree of version 2 is mounted")?;
        let pod = container.uid.replace('-', "_");
        let path = tree.join(lab.prefix()).join(format!(
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod}.slice/cri-containerd-{}.scope",
            container.id
        ));
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self {
            tree: tree.to_owned(),
            path,
        })
    }

    fn name(&self) -> String {
        let below = self.path.strip_prefix(&self.tree).unwrap_or(&self.path);
        format!("/{}", below.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What another container of the lab is still in stays for it to remove.
        for folder in self
            .path
            .ancestors()
            .take_while(|folder| *folder != self.tree)
        {
            let _ = fs::remove_dir(folder);
        }
    }
}
