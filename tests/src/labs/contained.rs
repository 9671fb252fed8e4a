//! Row C5 in containers: the proxy's process is in a container's cgroup, which names its pod where the node's log folders can
//! be seen, and else itself.

use anyhow::Result;

use super::Case;
use super::kubelet::{LOGS, PROXY, WEB};
use super::proxies::{BACKEND, TCX, ask};
use super::steps::{hold, same, watch_with};
use crate::lab::cast::{self, RouteBack};
use crate::lab::{Container, Service};
use crate::trace::{Files, Srctrace};
use crate::traffic::{Behaviour, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("c5_proxy_in_a_pod", &["C5"], || {
        proxied(&Proxied {
            name: "c5_proxy_in_a_pod",
            container: WEB,
            ns: "pod2",
            addr: "10.12.4.4",
            script: LOGS,
            named: "shop/web-7d9f",
        })
    })
    .on(TCX),
    Case::new("c5_proxy_in_a_named_container", &["C5"], || {
        proxied(&Proxied {
            name: "c5_proxy_in_a_named_container",
            container: PROXY,
            ns: "node",
            addr: "10.100.0.5",
            script: LOGS,
            named: "kube-system/proxy-x2x",
        })
    })
    .on(TCX),
    Case::new("c5_proxy_in_a_container", &["C5"], || {
        proxied(&Proxied {
            name: "c5_proxy_in_a_container",
            container: PROXY,
            ns: "node",
            addr: "10.100.0.5",
            script: "",
            named: PROXY.id,
        })
    })
    .on(TCX),
];

/// Where the proxy runs, and by what it should be called.
struct Proxied {
    name: &'static str,
    container: Container,
    ns: &'static str,
    addr: &'static str,
    /// What the node has.
    script: &'static str,
    named: &'static str,
}

fn proxied(at: &Proxied) -> Result<()> {
    let Proxied { ns, addr, .. } = at;
    let lab = cast::two_pods(&at.name.replace('_', ""), RouteBack::Known).up()?;
    let _backend = StreamServer::start(&lab, "peer", BACKEND, Behaviour::Answer)?;
    let container = at.container.start(&lab, ns)?;
    let (listen, from) = (format!("{addr}:8443"), format!("{addr}:41000"));
    // In the cgroup before it has a socket, as a container's process is.
    let files = Files::new(&lab)?;
    let script = format!(
        "{}\nexec socat TCP-LISTEN:8443,bind={addr},reuseaddr,fork TCP:{BACKEND},bind={from},reuseaddr\n",
        container.entrance()
    );
    let script = files.write("proxy.sh", script.as_bytes())?;
    let _proxy = Service::start(&lab, ns, &format!("sh {script}"), &listen)?;
    let srctrace = Srctrace::new(&lab, &["--dest", &listen]).around(at.script);
    let report = watch_with(&srctrace, 2, || ask(&lab, "pod", &listen, 43_210, &from))?;
    for flow in report.flows()? {
        let container = flow["proxy"]["container"].as_str();
        same("the proxy's container", container, Some(at.named))?;
    }
    let kind = if *ns == "node" { "node" } else { "pod" };
    let [opened, ended] = [
        format!("tcp {from} > {BACKEND} from {kind} {ns}"),
        format!("tcp 10.12.3.4:43210 > {listen} from pod pod"),
    ]
    .map(|flow| {
        format!(
            "{flow}
             request src 10.12.3.4:43210 > {from} at proxy, null, proxy, by between
             proxy socat at {listen} by payload
             source-terminated, on the wire {addr}, completed"
        )
    });
    let mut flows = [opened.as_str(), &ended];
    if *ns != "node" {
        flows.reverse();
    }
    hold(&lab, &report, at.name, &flows, &[])
}
