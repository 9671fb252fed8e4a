//! How soon a pod that is born during the trace is known. The time is printed, not judged: it is a figure of the machine.

use std::net::UdpSocket;
use std::time::Instant;

use anyhow::{Context as _, Result};

use super::Case;
use super::steps::{same, wait_for};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{DEADLINE, Srctrace, Trace};

pub(super) const CASES: &[Case] = &[Case::new("pod_known_soon", &["C7"], pod_known_soon)];

/// How many pods are born.
const BIRTHS: u8 = 10;

/// Each packet is told with the names that are known at that moment: datagrams are sent until one has the new ones. A
/// namespace can speak to itself at once. A veth pair cannot speak before the kernel has noticed its carrier, up to a second
/// later; there it counts how long packets were told without its name.
fn pod_known_soon() -> Result<()> {
    let mut lab = cast::one_pod("newborn", RouteBack::Known).up()?;
    let trace = Srctrace::new(&lab, &["--dest", PEER, "--each-packet"])
        .whole_machine()
        .text()
        .start()?;
    let (mut namespace, mut veth) = (Vec::new(), Vec::new());
    for n in 0..BIRTHS {
        let name = format!("late{n}");
        let began = Instant::now();
        lab.add_ns(&name)?;
        lab.ip(&name, &format!("addr add {PEER}/32 dev lo"))?;
        namespace.push(until_told(&lab, &trace, &name, &lab.netns(&name), began)?);
        lab.ip(&name, &format!("addr del {PEER}/32 dev lo"))?;
        connect(&lab, &name, n)?;
        let sees = format!("10.12.{}.4:", 100 + n);
        until_told(&lab, &trace, &name, &sees, Instant::now())?;
        let device = format!("veth-{name}");
        veth.push(until_told(&lab, &trace, &name, &device, Instant::now())?);
    }
    println!("new namespace known by name, ms after its making began: {namespace:?}");
    println!("new veth known by name, ms after its first packet was told: {veth:?}");
    same("exit status", trace.stop()?.status, Some(0))
}

/// Sends datagrams from the namespace until a line with this text is printed; milliseconds since `began`.
fn until_told(lab: &Lab, trace: &Trace, ns: &str, text: &str, began: Instant) -> Result<u128> {
    let socket = lab.in_ns(ns, || UdpSocket::bind(("0.0.0.0", 43_210)))??;
    wait_for(text, DEADLINE, || {
        // One that cannot be sent is not seen; the wait ends by its deadline.
        let _ = socket.send_to(b"who am I", (PEER, 53));
        trace.has_printed(text)
    })?;
    Ok(began.elapsed().as_millis())
}

/// What a CNI plugin adds: veth pair, address, route.
fn connect(lab: &Lab, name: &str, n: u8) -> Result<()> {
    let (full, subnet) = (lab.netns(name), 100 + n);
    lab.ip(
        "node",
        &format!(
            "link add veth-{name} type veth peer name eth0 netns {full}\nlink set veth-{name} up\n\
             addr add 10.12.{subnet}.1/24 dev veth-{name}"
        ),
    )?;
    lab.ip(
        name,
        &format!(
            "link set eth0 up\naddr add 10.12.{subnet}.4/24 dev eth0\nroute add default via 10.12.{subnet}.1"
        ),
    )
    .context("the newborn's side")
}
