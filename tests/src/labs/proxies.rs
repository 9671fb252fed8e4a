//! Proxies: a connection that ends in a process and goes on as a new one, with real socat, HAProxy and nginx.

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context as _, Result};

use super::steps::{answered, hold, same, watch};
use super::{Case, Kernel, NATIVE};
use crate::lab::cast::{self, RouteBack};
use crate::lab::{Lab, Service};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("c5_proxy_on_the_node", &["C5"], proxy_on_the_node).on(TCX),
    Case::new("c5_proxy_without_taps", &["C5"], without_taps),
    Case::new("c5_the_backend_of_a_proxy", &["C5"], the_backend).on(TCX),
    Case::new("c5_haproxy_header_1", &["C5"], || {
        haproxy("c5_haproxy_header_1", "send-proxy")
    })
    .on(NATIVE),
    Case::new("c5_haproxy_header_2", &["C5"], || {
        haproxy("c5_haproxy_header_2", "send-proxy-v2")
    })
    .on(NATIVE),
    Case::new("c5_nginx_passed_by", &["C5"], nginx).on(NATIVE),
    Case::new("c5_forged_header", &["C5"], forged).on(TCX),
    Case::new("c5_redirected_to_a_sidecar", &["C5"], sidecar).on(TCX),
    Case::new("c5_two_clients_of_a_proxy", &["C5"], two_clients).on(NATIVE),
];

/// With clsact, which every kernel in a virtual machine has.
pub(super) const CLSACT_CASES: &[Case] =
    &[Case::new("c5_proxy_by_clsact", &["C5"], by_clsact).on(VIRTUAL)];

/// Kernels with tcx.
pub(super) const TCX: &[Kernel] = &[Kernel::Native, Kernel::V6_12, Kernel::V7];
const VIRTUAL: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

pub(super) const BACKEND: &str = "10.20.30.40:443";
const PAYLOAD: &[u8] = b"GET /first HTTP/1.0 from the client\r\n\r\n";

/// A proxy's configuration, gone when dropped.
struct Config(PathBuf);

impl Config {
    fn new(lab: &Lab, text: &str) -> Result<Self> {
        let path = env::temp_dir().join(format!("{}proxy.conf", lab.prefix()));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// socat, with a process for each connection.
fn socat(lab: &Lab, ns: &str, at: &str, options: &str, to: &str, from: &str) -> Result<Service> {
    let (addr, port) = at.rsplit_once(':').context("an address with a port")?;
    let bind = if addr.is_empty() {
        String::new()
    } else {
        format!(",bind={addr}")
    };
    let line = format!(
        "socat TCP-LISTEN:{port}{bind},reuseaddr,fork{options} TCP:{to},bind={from},reuseaddr"
    );
    Service::start(lab, ns, &line, at)
}

pub(super) fn ask(lab: &Lab, from: &str, to: &str, sport: u16, seen: &str) -> Result<()> {
    let call = StreamCall::new(from, to, sport).payload(PAYLOAD);
    same("what the far side saw", call.run(lab)?, answered(seen)?)
}

/// Asks a server that answers at the end, whatever header comes first.
fn ask_once(lab: &Lab, from: &str, to: &str, sport: u16) -> Result<Outcome> {
    let call = StreamCall::new(from, to, sport);
    call.open(lab)?.map_or_else(Ok, |stream| stream.bulk(40))
}

/// On the node's network, asked for by the proxy's own address: both connections are told.
fn proxy_on_the_node() -> Result<()> {
    node("c5_proxy_on_the_node", "c5n", &[], "payload", "")
}

/// The same where no traffic-control tap can read the first bytes.
fn without_taps() -> Result<()> {
    let tap = &["--tap", "tracepoint"];
    node("c5_proxy_without_taps", "c5w", tap, "process", " ?")
}

/// The same with clsact.
fn by_clsact() -> Result<()> {
    let tap = &["--tap", "clsact"];
    node("c5_proxy_by_clsact", "c5k", tap, "payload", "")
}

fn node(name: &str, net: &str, more: &[&str], evidence: &str, doubt: &str) -> Result<()> {
    let lab = cast::one_pod(net, RouteBack::Known).up()?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::Answer)?;
    let _proxy = socat(
        &lab,
        "node",
        "10.100.0.5:8443",
        "",
        BACKEND,
        "10.100.0.5:41000",
    )?;
    let args = [&["--dest", "10.100.0.5:8443"], more].concat();
    let report = watch(&lab, &args, 2, || {
        ask(&lab, "pod", "10.100.0.5:8443", 43_210, "10.100.0.5:41000")
    })?;
    let [opened, ended] = [
        "tcp 10.100.0.5:41000 > 10.20.30.40:443 from node node",
        "tcp 10.12.3.4:43210 > 10.100.0.5:8443 from pod pod",
    ]
    .map(|flow| {
        format!(
            "{flow}
             request src 10.12.3.4:43210 > 10.100.0.5:41000 at proxy, null, proxy, by between
             proxy socat at 10.100.0.5:8443 by {evidence}
             source-terminated, on the wire 10.100.0.5, completed{doubt}"
        )
    });
    hold(&lab, &report, name, &[&opened, &ended], &[])
}

/// The same, asked for by the backend's address: the client's connection was not asked for.
fn the_backend() -> Result<()> {
    let name = "c5_the_backend_of_a_proxy";
    let lab = cast::one_pod("c5b", RouteBack::Known).up()?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::Answer)?;
    let _proxy = socat(
        &lab,
        "node",
        "10.100.0.5:8443",
        "",
        BACKEND,
        "10.100.0.5:41000",
    )?;
    let report = watch(&lab, &["--dest", BACKEND], 1, || {
        ask(&lab, "pod", "10.100.0.5:8443", 43_210, "10.100.0.5:41000")
    })?;
    hold(
        &lab,
        &report,
        name,
        &["tcp 10.100.0.5:41000 > 10.20.30.40:443 from node node
         request src 10.12.3.4:43210 > 10.100.0.5:41000 at proxy, null, proxy, by between
         proxy socat at 10.100.0.5:8443 by process
         source-terminated, on the wire 10.100.0.5, completed"],
        &[],
    )
}

/// HAProxy in a pod, which sends its backend a PROXY header.
fn haproxy(name: &str, how: &str) -> Result<()> {
    let lab = cast::two_pods(
        if how == "send-proxy" { "c5h1" } else { "c5h2" },
        RouteBack::Known,
    )
    .up()?;
    let config = Config::new(
        &lab,
        &format!(
            "global\n maxconn 20\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend f\n bind 10.12.4.4:8443\n default_backend b\n\
         backend b\n source 10.12.4.4:41000\n server s {BACKEND} {how}\n"
        ),
    )?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::AnswerAtEnd)?;
    let line = format!("haproxy -db -f {}", config.0.display());
    let _proxy = Service::start(&lab, "pod2", &line, "10.12.4.4:8443")?;
    let report = watch(&lab, &["--dest", "10.12.4.4:8443"], 2, || {
        let outcome = ask_once(&lab, "pod", "10.12.4.4:8443", 43_210)?;
        same(
            "what the far side saw",
            outcome,
            answered("10.12.4.4:41000")?,
        )
    })?;
    let version = if how == "send-proxy" { 1 } else { 2 };
    let [ended, opened] = [
        "tcp 10.12.3.4:43210 > 10.12.4.4:8443 from pod pod",
        "tcp 10.12.4.4:41000 > 10.20.30.40:443 from pod pod2",
    ]
    .map(|flow| {
        format!(
            "{flow}
             request src 10.12.3.4:43210 > 10.12.4.4:41000 at proxy, null, proxy, by between
             proxy haproxy at 10.12.4.4:8443 by payload, header {version} names 10.12.3.4:43210 (true)
             source-terminated, on the wire 10.12.4.4, completed"
        )
    });
    hold(&lab, &report, name, &[&ended, &opened], &[])
}

/// nginx on the node sends a true header, and a client reaches the backend past it.
fn nginx() -> Result<()> {
    let name = "c5_nginx_passed_by";
    let lab = cast::two_pods("c5x", RouteBack::Known).up()?;
    let config = Config::new(
        &lab,
        &format!(
            "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\ndaemon off;\nworker_processes 1;\n\
         pid /dev/null;\nerror_log stderr;\nevents {{ worker_connections 64; }}\n\
         stream {{ server {{ listen 10.100.0.5:8443; proxy_pass {BACKEND}; proxy_protocol on; proxy_half_close on; \
         proxy_bind 10.100.0.5:41000; }} }}\n"
        ),
    )?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::AnswerAtEnd)?;
    let line = format!("nginx -c {}", config.0.display());
    let _proxy = Service::start(&lab, "node", &line, "10.100.0.5:8443")?;
    let report = watch(&lab, &["--dest", BACKEND], 2, || {
        let past = ask_once(&lab, "pod2", BACKEND, 43_211)?;
        same("whom the far side saw", past, answered("10.12.4.4:43211")?)?;
        let through = ask_once(&lab, "pod", "10.100.0.5:8443", 43_210)?;
        same("whom it saw", through, answered("10.100.0.5:41000")?)
    })?;
    hold(
        &lab,
        &report,
        name,
        &[
            "tcp 10.100.0.5:41000 > 10.20.30.40:443 from node node
         request src 10.12.3.4:43210 > 10.100.0.5:41000 at proxy, null, proxy, by between
         proxy nginx at 10.100.0.5:8443 by payload, header 1 names 10.12.3.4:43210 (true)
         source-terminated, on the wire 10.100.0.5, completed",
            "tcp 10.12.4.4:43211 > 10.20.30.40:443 from pod pod2
         source-preserved, on the wire 10.12.4.4, completed",
        ],
        &[(0, "proxy-header-untrusted"), (1, "no-rule-matches")],
    )
}

/// A client that writes a header itself.
fn forged() -> Result<()> {
    let name = "c5_forged_header";
    let lab = cast::one_pod("c5f", RouteBack::Known).up()?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", BACKEND], 1, || {
        let header = b"PROXY TCP4 192.0.2.66 10.20.30.40 5555 443\r\nGET / HTTP/1.0\r\n\r\n";
        let call = StreamCall::new("pod", BACKEND, 43_210).payload(&header[..]);
        same(
            "what the far side saw",
            call.run(&lab)?,
            answered("10.12.3.4:43210")?,
        )
    })?;
    hold(
        &lab,
        &report,
        name,
        &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
         source-preserved, on the wire 10.12.3.4, completed"],
        &[(0, "proxy-header-untrusted"), (0, "no-rule-matches")],
    )
}

/// What the pod sends is redirected to a process in it, as a service mesh does: that one's own requests are exempt.
fn sidecar() -> Result<()> {
    let name = "c5_redirected_to_a_sidecar";
    let lab = cast::one_pod("c5s", RouteBack::Known).up()?;
    lab.restore(
        "pod",
        "iptables-legacy-restore",
        "*nat\n-A OUTPUT -p tcp -m owner ! --uid-owner nobody -j REDIRECT --to-ports 15001\nCOMMIT\n",
    )?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::Answer)?;
    let line = format!(
        "socat TCP-LISTEN:15001,reuseaddr,fork,su=nobody TCP:{BACKEND},bind=10.12.3.4:41000,reuseaddr"
    );
    let _proxy = Service::start(&lab, "pod", &line, ":15001")?;
    let report = watch(&lab, &["--dest", BACKEND], 2, || {
        ask(&lab, "pod", BACKEND, 43_210, "10.12.3.4:41000")
    })?;
    hold(
        &lab,
        &report,
        name,
        &[
            "tcp 10.12.3.4:41000 > 10.20.30.40:443 from pod pod
             request sport 10.12.3.4:43210 > 10.12.3.4:41000 at proxy, null, proxy, by between
             proxy socat at 127.0.0.1:15001 by process
             source-terminated, on the wire 10.12.3.4, completed",
            "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
             request dst 10.20.30.40:443 > 127.0.0.1:15001 at pod, output, netfilter, by conntrack, and back
             rule iptables-legacy nat/OUTPUT 1
             request sport 10.12.3.4:43210 > 10.12.3.4:41000 at proxy, null, proxy, by between
             proxy socat at 127.0.0.1:15001 by process
             source-terminated, on the wire 10.12.3.4, completed",
        ],
        &[],
    )
}

/// Two clients whose first bytes are the same: which of the two new connections is whose is not guessed.
fn two_clients() -> Result<()> {
    let name = "c5_two_clients_of_a_proxy";
    let lab = cast::two_pods("c52", RouteBack::Known).up()?;
    let config = Config::new(
        &lab,
        &format!(
            "global\n maxconn 20\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend f\n bind 10.100.0.5:8443\n default_backend b\n\
         backend b\n server s {BACKEND} source 10.100.0.5:41000-41001\n"
        ),
    )?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::Answer)?;
    let line = format!("haproxy -db -f {}", config.0.display());
    let _proxy = Service::start(&lab, "node", &line, "10.100.0.5:8443")?;
    let report = watch(&lab, &["--dest", "10.100.0.5:8443"], 2, || {
        let open = |from, sport| -> Result<_> {
            let call = StreamCall::new(from, "10.100.0.5:8443", sport);
            call.open(&lab)?
                .map_err(|outcome| anyhow::anyhow!("{outcome:?}"))
        };
        let (first, second) = (open("pod", 43_210)?, open("pod2", 43_211)?);
        for stream in [&first, &second] {
            let outcome = stream.ask(PAYLOAD)?;
            same("an answer", matches!(outcome, Outcome::Answered(_)), true)?;
        }
        first.close()?;
        second.close()
    })?;
    let [first, second] = ["10.12.3.4:43210", "10.12.4.4:43211"].map(|client| {
        let pod = if client.contains(".3.") {
            "pod"
        } else {
            "pod2"
        };
        let addr = client.split(':').next().unwrap_or_default();
        format!(
            "tcp {client} > 10.100.0.5:8443 from pod {pod}
             source-preserved, on the wire {addr}, completed"
        )
    });
    let findings = [(0, "proxy-ambiguous"), (1, "proxy-ambiguous")];
    hold(&lab, &report, name, &[&first, &second], &findings)
}
