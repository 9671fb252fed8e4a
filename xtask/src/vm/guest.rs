//! What the virtual machine's file system holds: busybox, networking tools with their libraries, kernel modules, the
//! programs to run and `/init`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::image::Image;
use super::kernels::Unpacked;
use super::tools::Tools;
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
const WELCOME: [&str; 9] = [
    "bash", "bpftool", "ipset", "iperf3", "ipvsadm", "ping", "strace", "unshare", "wg",
];

/// Programs that look at the name they are called by.
const FAMILIES: [&str; 6] = [
    "iptables",
    "ip6tables",
    "xtables",
    "ebtables",
    "arptables",
    "nsenter",
];

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const INIT: &str = include_str!("init.sh");

/// One boot: what to run, and with which files.
#[derive(Debug)]
pub(crate) struct Job {
    /// A shell script, run as root with the files of `programs` in the path.
    pub(crate) script: String,
    /// Name in `/usr/bin` and the file of this machine to put there.
    pub(crate) programs: Vec<(String, PathBuf)>,
    /// Directories of this machine that appear at the same path.
    pub(crate) directories: Vec<PathBuf>,
    /// Text that no program in the machine prints by chance; marks begin and end of the run on the console.
    pub(crate) nonce: String,
}

/// The file system for `job` on `kernel`.
///
/// # Errors
/// When a required program is missing or a file cannot be read.
pub(crate) fn image(job: &Job, kernel: &Unpacked, tools: &Tools) -> Result<Image> {
    let mut builder = Builder {
        image: Image::new(),
        tools,
    };
    builder.image.text("/init", INIT, 0o755);
    builder.image.text("/etc/vm/run", job.script.clone(), 0o755);
    builder
        .image
        .text("/etc/vm/nonce", job.nonce.clone(), 0o644);
    for (name, source) in &job.programs {
        builder.program(&format!("/usr/bin/{name}"), source)?;
    }
    for dir in &job.directories {
        builder
            .image
            .copy_tree(dir.to_str().context("a path is not UTF-8")?, dir)?;
    }
    builder.system()?;
    builder.image.copy_tree(
        &format!("/usr/lib/modules/{}", kernel.release),
        &kernel.modules,
    )?;
    Ok(builder.image)
}

struct Builder<'a> {
    image: Image,
    tools: &'a Tools,
}

impl Builder<'_> {
    fn system(&mut self) -> Result<()> {
        for dir in [
            "proc", "sys", "dev", "run", "tmp", "root", "var/tmp", "var/log", "var/run",
        ] {
            self.image.directory(dir);
        }
        for file in ["protocols", "services", "ethertypes", "nsswitch.conf"]
            .map(|name| format!("/etc/{name}"))
        {
            if Path::new(&file).is_file() {
                self.image.copy(&file, Path::new(&file));
            }
        }
        self.image.text(
            "/etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
            0o644,
        );
        self.image
            .text("/etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o644);
        self.image
            .text("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n", 0o644);
        for name in REQUIRED {
            if !self.tool(name)? {
                bail!(
                    "{name} is neither installed on this machine nor unpacked; remove target/vm/cache/tools to fetch it"
                );
            }
        }
        for name in WELCOME {
            self.tool(name)?;
        }
        for name in self
            .tools
            .matching(|name| FAMILIES.iter().any(|family| name.starts_with(family)))?
        {
            self.tool(&name)?;
        }
        for applet in ["modprobe", "lsmod", "insmod", "rmmod", "depmod", "modinfo"] {
            self.image
                .link(&format!("/usr/sbin/{applet}"), "../bin/kmod");
        }
        // busybox's own shell would prefer its commands to the real ones.
        self.image.link("/usr/bin/sh", "dash");
        self.extensions()?;
        self.busybox()
    }

    /// The program `name` of this machine at the same place in the image; false if there is none.
    fn tool(&mut self, name: &str) -> Result<bool> {
        let Some(path) = self.tools.find(name) else {
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
        let real_name = real
            .file_name()
            .and_then(|name| name.to_str())
            .context("a program's name is not UTF-8")?;
        let target = format!("/usr/{place}/{real_name}");
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
        let mut ldd = self.tools.with_libraries("ldd");
        let output = ldd.arg(source).output().context("starting ldd")?;
        if !output.status.success() {
            // Statically linked, or a script.
            return Ok(());
        }
        for (name, path) in parse_ldd(&String::from_utf8_lossy(&output.stdout))? {
            let target = if name.starts_with('/') {
                name
            } else {
                format!("{LIBRARIES}/{name}")
            };
            self.image.copy(&target, Path::new(&path));
        }
        Ok(())
    }

    /// Plug-ins that are opened by name at run time.
    fn extensions(&mut self) -> Result<()> {
        let places = [
            "usr/lib/x86_64-linux-gnu/xtables",
            "usr/lib/x86_64-linux-gnu/ipset",
            "usr/lib/tc",
        ];
        let system = places
            .iter()
            .map(|place| Path::new("/").join(place))
            .filter(|dir| dir.is_dir());
        for dir in self.tools.directories(&places).into_iter().chain(system) {
            let place = places
                .iter()
                .find(|place| dir.ends_with(place))
                .context("an unknown place")?;
            self.image.copy_tree(&format!("/{place}"), &dir)?;
            // One stands for all: they link the C library and those of the program that opens them.
            if let Some(one) = std::fs::read_dir(&dir)?
                .flatten()
                .find(|entry| entry.path().extension() == Some("so".as_ref()))
            {
                self.libraries(&one.path())?;
            }
        }
        Ok(())
    }

    /// busybox, and its commands where the image has no better one.
    fn busybox(&mut self) -> Result<()> {
        let busybox = self
            .tools
            .find("busybox")
            .context("busybox-static is neither installed nor unpacked")?;
        self.image.copy("/usr/bin/busybox", &busybox);
        let applets = process::output(
            self.tools.command("busybox")?.arg("--list"),
            "asking busybox what it can do",
        )?;
        for applet in applets.lines() {
            if !self.image.has(&format!("/usr/sbin/{applet}")) {
                self.image.link(&format!("/usr/bin/{applet}"), "busybox");
            }
        }
        Ok(())
    }
}

/// Names of libraries with the files found for them. The program loader has its path as name.
fn parse_ldd(text: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some((what, _address)) = line.rsplit_once(" (0x") else {
            if line.contains("not found") {
                bail!("a library is missing: {line}");
            }
            continue;
        };
        match what.split_once(" => ") {
            Some((name, path)) => found.push((name.to_owned(), path.to_owned())),
            None if what.starts_with('/') => found.push((what.to_owned(), what.to_owned())),
            None => {} // the kernel's own, linux-vdso
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_output_gives_names_and_files() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd1e3f2000)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f2a)\n";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            parse_ldd(text).unwrap(),
            [
                pair("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
                pair("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
            ]
        );
        assert_eq!(parse_ldd("\tstatically linked\n").unwrap(), []);
        let error = parse_ldd("\tlibx.so.1 => not found\n")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "a library is missing: libx.so.1 => not found");
    }
}
