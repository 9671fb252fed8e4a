//! A real OpenVPN server in one namespace and its client in another, with keys made for the lab.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Lab;

/// How long both ends may take to agree; an emulated machine that shares its host is slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// What OpenVPN says once its tunnel carries packets.
const UP: &str = "Initialization Sequence Completed";

/// What the server is told beside its keys. Its pings come seldom: on a slow machine one may pass while a trace is being armed.
const SERVER: &str = "--dev tun0 --topology subnet --server 10.8.0.0 255.255.255.0 --dh none \
    --keepalive 100 600 --verb 3 --disable-dco";
/// What a client is told beside its keys and whom to call.
const CLIENT: &str = "--client --dev tun0 --verb 3 --disable-dco";

/// The server, `10.8.0.1` on its `tun0`, and its clients, from `10.8.0.2` on. Dropping it ends both.
#[derive(Debug)]
pub struct OpenVpn {
    ends: Vec<End>,
    folder: Folder,
}

/// Who runs a client, and how it reaches the server.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    /// Its namespace.
    pub ns: &'a str,
    /// Its own port of the outer connection.
    pub port: u16,
    /// The server's address and port, in OpenVPN's words: `10.100.0.5 1194`.
    pub remote: &'a str,
    /// Destinations that go into the tunnel, as `ADDRESS MASK`.
    pub route: &'a str,
}

#[derive(Debug)]
struct End {
    name: String,
    child: Child,
    log: PathBuf,
}

impl OpenVpn {
    /// Starts a server in `ns` that listens on port 1194 by `proto` (`udp` or `tcp`), then the clients, one after the
    /// other, each once the one before it is connected.
    ///
    /// # Errors
    /// When `openvpn` or `openssl` is missing, or they do not agree; the message has what OpenVPN said.
    pub fn start(lab: &Lab, ns: &str, proto: &str, clients: &[Client<'_>]) -> Result<Self> {
        // What a kernel says of its own accord into a new device would go through the tunnel.
        for ns in clients.iter().map(|client| client.ns).chain([ns]) {
            lab.sysctl(ns, "ipv6/conf/default/disable_ipv6", "1")?;
        }
        let folder = Folder::make(lab)?;
        let mut vpn = Self {
            ends: Vec::new(),
            folder,
        };
        let server = vpn.key("server")?;
        let names: Vec<String> = clients.iter().map(|c| format!("client-{}", c.ns)).collect();
        let prints = names.iter().map(|name| vpn.key(name));
        let prints = prints.collect::<Result<Vec<_>>>()?;
        let role = if proto == "tcp" { "tcp-server" } else { "udp" };
        let args = format!("{SERVER} --port 1194 --proto {role}");
        vpn.run(lab, ns, "server", &args, &prints)?;
        for (client, name) in clients.iter().zip(&names) {
            let role = if proto == "tcp" { "tcp-client" } else { "udp" };
            let args = format!(
                "{CLIENT} --proto {role} --lport {} --remote {} --route {}",
                client.port, client.remote, client.route
            );
            vpn.run(lab, client.ns, name, &args, std::slice::from_ref(&server))?;
        }
        Ok(vpn)
    }

    /// A key and a certificate that it signed itself; its fingerprint is all that the other end knows.
    fn key(&self, name: &str) -> Result<String> {
        let path = |end: &str| self.folder.0.join(format!("{name}.{end}"));
        let mut make = Command::new("openssl");
        // All that it needs is said here: where there is no configuration file it would refuse to begin.
        make.env("OPENSSL_CONF", "/dev/null");
        make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
            .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"])
            .arg("-subj")
            .arg(format!("/CN={name}"))
            .arg("-keyout")
            .arg(path("key"))
            .arg("-out")
            .arg(path("crt"));
        output(&mut make)?;
        let mut read = Command::new("openssl");
        read.args(["x509", "-fingerprint", "-sha256", "-noout", "-in"])
            .arg(path("crt"));
        let said = output(&mut read)?;
        let (_, print) = said.trim().split_once('=').context("a fingerprint")?;
        Ok(print.to_owned())
    }

    /// Starts one end and waits until it says that it is up.
    fn run(&mut self, lab: &Lab, ns: &str, name: &str, args: &str, peers: &[String]) -> Result<()> {
        let path = |end: &str| self.folder.0.join(format!("{name}.{end}"));
        let log = path("log");
        let mut command = Command::new("openvpn");
        command
            .args(args.split_whitespace())
            .arg("--cert")
            .arg(path("crt"))
            .arg("--key")
            .arg(path("key"));
        for peer in peers {
            command.args(["--peer-fingerprint", peer]);
        }
        command
            .stdin(Stdio::null())
            .stdout(File::create(&log).context("OpenVPN's log")?)
            .stderr(Stdio::null());
        let child = lab
            .in_ns(ns, || command.spawn())?
            .context("start openvpn (the suite's setup installs it)")?;
        self.ends.push(End {
            name: name.to_owned(),
            child,
            log,
        });
        self.ends.last_mut().map_or(Ok(()), End::wait)
    }
}

impl End {
    fn wait(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(&self.log).context("read OpenVPN's log")?;
            if said.contains(UP) {
                return Ok(());
            }
            let ended = self.child.try_wait().context("look after openvpn")?;
            let name = &self.name;
            if let Some(status) = ended {
                bail!("openvpn ({name}) ended, {status}:\n{said}");
            }
            ensure!(
                Instant::now() < end,
                "openvpn ({name}) is not up after {PATIENCE:?}:\n{said}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keys and logs; gone when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make(lab: &Lab) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("{}openvpn", lab.prefix()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        let _ = fs::remove_dir_all(path);
    }
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("start {name} (the suite's setup installs it)"))?;
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("its output")
}
