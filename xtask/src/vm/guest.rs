//! What the virtual machine's file system holds: busybox, networking tools with their libraries, kernel modules, the
//! programs to run and `/init`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::image::Image;
use super::kernels::Unpacked;
use super::libraries;
use super::programs::{LIBRARIES, Programs};
use crate::process;

/// Programs that every image has; a machine without one of them cannot run the labs.
const REQUIRED: [&str; 13] = [
    "bridge",
    "conntrack",
    "dash",
    "ethtool",
    "ip",
    "iptables",
    "kmod",
    "nft",
    "socat",
    "ss",
    "sysctl",
    "tc",
    "tcpdump",
];

/// Programs that images have where this machine has them: single labs name what they miss.
const WELCOME: [&str; 13] = [
    "bash", "bpftool", "haproxy", "ipset", "iperf3", "ipvsadm", "openssl", "openvpn", "ping",
    "setpriv", "strace", "unshare", "wg",
];

/// iptables and its kin are a few programs that look at the name they are called by.
const IPTABLES: [&str; 3] = ["iptables", "ip6tables", "ebtables"];

/// What follows those names.
const VARIANTS: [&str; 3] = ["", "-legacy", "-nft"];

/// And what follows these.
const ACTIONS: [&str; 3] = ["", "-save", "-restore"];

/// Tables of names that packages keep, where programs look for them.
const NAMES: [&str; 4] = ["protocols", "services", "ethertypes", "nsswitch.conf"];

/// What kmod is called by.
const KMOD: [&str; 6] = ["modprobe", "lsmod", "insmod", "rmmod", "depmod", "modinfo"];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";

const INIT: &str = include_str!("init.sh");

/// One boot: what to run, and with which files.
#[derive(Debug)]
pub(crate) struct Job {
    /// A shell script, run as root with the files of `programs` in the path.
    pub(crate) script: String,
    /// Name in `/usr/bin` and the file of this machine to put there.
    pub(crate) programs: Vec<(String, PathBuf)>,
    /// Words at the end of the kernel's command line.
    pub(crate) boot: String,
    /// Text that no program in the machine prints by chance; marks begin and end of the run on the console.
    pub(crate) nonce: String,
}

/// The file system for `job` on `kernel`.
///
/// # Errors
/// When a required program is missing or a file cannot be read.
pub(crate) fn image(job: &Job, kernel: &Unpacked, programs: &Programs) -> Result<Image> {
    let mut builder = Builder {
        image: Image::new(),
        programs,
    };
    builder.image.text("/init", INIT, 0o755);
    builder.image.text("/etc/vm/run", job.script.clone(), 0o755);
    builder
        .image
        .text("/etc/vm/nonce", job.nonce.clone(), 0o644);
    for (name, source) in &job.programs {
        builder.program(&format!("/usr/bin/{name}"), source)?;
    }
    builder.files();
    builder.tools()?;
    builder.image.copy_tree(
        &format!("/usr/lib/modules/{}", kernel.release),
        &kernel.modules,
    )?;
    Ok(builder.image)
}

struct Builder<'a> {
    image: Image,
    programs: &'a Programs,
}

impl Builder<'_> {
    fn files(&mut self) {
        for dir in [
            "proc", "sys", "dev", "run", "tmp", "root", "var/tmp", "var/log",
        ] {
            self.image.directory(dir);
        }
        for path in NAMES.map(|name| format!("/etc/{name}")) {
            if Path::new(&path).is_file() {
                self.image.copy(&path, Path::new(&path));
            }
        }
        for (path, text) in [
            ("/etc/passwd", PASSWD),
            ("/etc/group", GROUP),
            ("/etc/hosts", HOSTS),
        ] {
            self.image.text(path, text, 0o644);
        }
    }

    fn tools(&mut self) -> Result<()> {
        for name in REQUIRED {
            if !self.tool(name)? {
                bail!("{name} is not on this machine; the virtual machine needs it");
            }
        }
        for name in WELCOME {
            self.tool(name)?;
        }
        for name in IPTABLES {
            for variant in VARIANTS {
                for action in ACTIONS {
                    self.tool(&format!("{name}{variant}{action}"))?;
                }
            }
        }
        for name in KMOD {
            self.image.link(&format!("/usr/sbin/{name}"), "../bin/kmod");
        }
        // busybox's own shell would prefer its commands to the real ones.
        self.image.link("/usr/bin/sh", "dash");
        self.plugins()?;
        self.busybox()
    }

    /// The program `name` of this machine, at the same place in the image; false if there is none.
    fn tool(&mut self, name: &str) -> Result<bool> {
        let Some(path) = self.programs.file(name) else {
            return Ok(false);
        };
        let place = if path.parent().is_some_and(|dir| dir.ends_with("sbin")) {
            "sbin"
        } else {
            "bin"
        };
        let real = path
            .canonicalize()
            .with_context(|| format!("following {}", path.display()))?;
        let called = real.file_name().and_then(|name| name.to_str());
        let target = format!(
            "/usr/{place}/{}",
            called.context("a program's name is not UTF-8")?
        );
        self.program(&target, &real)?;
        self.image.link(&format!("/usr/{place}/{name}"), &target);
        Ok(true)
    }

    /// `source` at `target`, and the libraries it is linked to.
    fn program(&mut self, target: &str, source: &Path) -> Result<()> {
        if self.image.has(target) {
            return Ok(());
        }
        self.image.copy(target, source);
        self.libraries(source)
    }

    fn libraries(&mut self, source: &Path) -> Result<()> {
        for (target, library) in libraries::needed_by(source, self.programs)? {
            self.image.copy(&target, &library);
        }
        Ok(())
    }

    /// Libraries that iptables and ipset open by name at run time.
    fn plugins(&mut self) -> Result<()> {
        for name in ["xtables", "ipset"] {
            for dir in self.programs.plugins(name) {
                self.image.copy_tree(&format!("{LIBRARIES}/{name}"), &dir)?;
                for entry in fs::read_dir(&dir)? {
                    let path = entry?.path();
                    // Nearly all need only what the program brings; these also need libraries of connection labels.
                    if path
                        .file_name()
                        .is_some_and(|name| name == "libxt_connlabel.so")
                    {
                        self.libraries(&path)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// busybox, and its commands where the image has no better one.
    fn busybox(&mut self) -> Result<()> {
        let busybox = self
            .programs
            .file("busybox")
            .context("busybox is not here")?;
        self.image.copy("/usr/bin/busybox", &busybox);
        let mut list = self.programs.command("busybox")?;
        let commands = process::output(list.arg("--list"), "asking busybox what it can do")?;
        for name in commands.lines() {
            if !self.image.has(&format!("/usr/sbin/{name}")) {
                self.image.link(&format!("/usr/bin/{name}"), "busybox");
            }
        }
        Ok(())
    }
}
