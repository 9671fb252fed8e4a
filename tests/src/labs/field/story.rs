//! A field case as data: the ground, somebody's rules, one request, the far side's truth, and what srctrace must say.
//!
//! ```text
//! pod 10.77.1.10 p0 -- veth-pod 10.77.1.1  node  192.168.50.10 eth0 -- e0 192.168.50.20 peer
//!                                                192.168.60.10 eth1 -- e1 192.168.60.20 ext   (two_nics)
//! ```

use anyhow::{Context as _, Result};

use super::super::steps::{A_MOMENT, hold, same, watch};
use super::super::{EVERYWHERE, Kernel};
use crate::lab::{Lab, Topology};
use crate::traffic::{Behaviour, Outcome, Stream, StreamCall, StreamServer};

/// The port from which every request is sent.
pub(super) const SPORT: u16 = 43_210;

/// The machine's own kernel may lack IPVS and WireGuard; held on these so far.
pub(super) const VIRTUAL: &[Kernel] = &[Kernel::V6_12, Kernel::V7];

/// By which tool rules are installed, and in which namespace.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Rules {
    /// `iptables-legacy-restore`, table nat: lines of the script without `*nat` and `COMMIT`. `:NAME` lines make chains.
    Nat(&'static str),
    /// The same in a namespace that is not the node.
    NatIn(&'static str, &'static str),
    /// Any tables by `iptables-legacy-restore`, whole script.
    Legacy(&'static str),
    /// Any tables by `iptables-nft-restore`, whole script.
    IptablesNft(&'static str),
    /// `nft -f`.
    Nft(&'static str),
    /// A script for `ipset restore`.
    Ipset(&'static str),
    /// A configuration for `wg setconf wg0` in a namespace.
    Wireguard(&'static str, &'static str),
    /// A command line (split at spaces) in a namespace.
    Run(&'static str, &'static str),
    /// A sysctl below /proc/sys/net in a namespace.
    Sysctl(&'static str, &'static str, &'static str),
}

/// What the one who asked got.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Truth {
    /// The far side saw this source.
    Seen(&'static str),
    /// No answer.
    Silence,
}

/// A field case.
#[derive(Debug)]
pub(in super::super) struct Story {
    /// The lab's name and its file in `expect/`.
    pub name: &'static str,
    /// A change of the ground.
    pub ground: fn(&mut Topology),
    /// Whether `peer` knows the way back to the pods.
    pub route_back: bool,
    /// Rules and settings, in this order.
    pub rules: &'static [Rules],
    /// Who serves, at which address.
    pub server: (&'static str, &'static str),
    /// Who asks, which address.
    pub client: (&'static str, &'static str),
    /// srctrace's arguments.
    pub args: &'static [&'static str],
    /// What the one who asked got.
    pub truth: Truth,
    /// Set once the connection is open and has been used; the trace begins only then.
    pub later: &'static [Rules],
    /// Bytes of the request.
    pub size: usize,
    /// The flows' claims.
    pub claims: &'static [&'static str],
    /// Findings by flow number.
    pub findings: &'static [(usize, &'static str)],
    /// The kernels that it runs on.
    pub kernels: &'static [Kernel],
    /// Kernel modules that it needs.
    pub needs: &'static [&'static str],
}

/// The usual: a pod asks `peer`, which knows the way back.
pub(super) const FROM_POD: Story = Story {
    name: "",
    ground: |_| {},
    route_back: true,
    rules: &[],
    server: ("peer", "192.168.50.20:8080"),
    client: ("pod", "192.168.50.20:8080"),
    args: &["192.168.50.20:8080"],
    truth: Truth::Silence,
    later: &[],
    size: 5,
    claims: &[],
    findings: &[],
    kernels: EVERYWHERE,
    needs: &[],
};

/// The other way: `peer` asks the node's port 30080, and the pod serves.
pub(super) const FROM_OUTSIDE: Story = Story {
    server: ("pod", "10.77.1.10:8080"),
    client: ("peer", "192.168.50.10:30080"),
    args: &["192.168.50.10:30080"],
    ..FROM_POD
};

impl Story {
    /// Plays it.
    pub(in super::super) fn play(&self) -> Result<()> {
        let lab = self.ground()?;
        for rules in self.rules {
            install(&lab, rules)?;
        }
        let (ns, addr) = self.server;
        let _server = StreamServer::start(&lab, ns, addr, Behaviour::Answer)?;
        let older = self.older(&lab)?;
        let closes = usize::from(!matches!(self.truth, Truth::Silence));
        let report = watch(&lab, self.args, closes, || {
            let outcome = match older {
                Some(stream) => stream.finish(&self.request())?,
                None => self.call().run(&lab)?,
            };
            self.truth_holds(outcome)
        })?;
        hold(&lab, &report, self.name, self.claims, self.findings)
    }

    /// The connection that is older than the trace and than what was changed later.
    fn older(&self, lab: &Lab) -> Result<Option<Stream>> {
        if self.later.is_empty() {
            return Ok(None);
        }
        let opened = self.call().open(lab)?;
        let stream = opened.ok().context("no connection before the trace")?;
        self.truth_holds(stream.ask(b"before")?)?;
        for rules in self.later {
            install(lab, rules)?;
        }
        Ok(Some(stream))
    }

    fn call(&self) -> StreamCall {
        let (from, to) = self.client;
        StreamCall::new(from, to, SPORT)
            .payload(self.request())
            .patience(A_MOMENT)
    }

    fn request(&self) -> Vec<u8> {
        vec![b'x'; self.size]
    }

    fn ground(&self) -> Result<Lab> {
        let mut net = ground(self.name);
        (self.ground)(&mut net);
        if self.route_back {
            net.route("peer", "10.77.0.0/16 via 192.168.50.10");
        }
        net.up()
    }

    fn truth_holds(&self, outcome: Outcome) -> Result<()> {
        match self.truth {
            Truth::Seen(addr) => {
                let seen = outcome.seen().with_context(|| format!("{outcome:?}"))?;
                same(
                    "what the far side saw",
                    seen.ip().to_string(),
                    addr.to_owned(),
                )
            }
            Truth::Silence => same("what the caller got", outcome, Outcome::Silence),
        }
    }
}

fn install(lab: &Lab, rules: &Rules) -> Result<()> {
    let nat = |script: &str| format!("*nat\n{script}\nCOMMIT\n");
    match *rules {
        Rules::Nat(script) => lab.restore("node", "iptables-legacy-restore", &nat(script)),
        Rules::NatIn(ns, script) => lab.restore(ns, "iptables-legacy-restore", &nat(script)),
        Rules::Legacy(script) => lab.restore("node", "iptables-legacy-restore", script),
        Rules::IptablesNft(script) => lab.restore("node", "iptables-nft-restore", script),
        Rules::Nft(script) => lab.nft("node", script),
        Rules::Ipset(script) => lab.ipset("node", script),
        Rules::Wireguard(ns, config) => lab.wireguard(ns, config),
        Rules::Run(ns, line) => lab.run(ns, line).map(drop),
        Rules::Sysctl(ns, key, value) => lab.sysctl(ns, key, value),
    }
}

fn ground(name: &str) -> Topology {
    let mut net = Topology::new(name.get(6..9).unwrap_or(name));
    net.forward("node")
        .veth(("pod", "p0"), ("node", "veth-pod"))
        .addr("pod", "p0", "10.77.1.10/24")
        .addr("node", "veth-pod", "10.77.1.1/24")
        .route("pod", "default via 10.77.1.1")
        .veth(("peer", "e0"), ("node", "eth0"))
        .addr("node", "eth0", "192.168.50.10/24")
        .addr("peer", "e0", "192.168.50.20/24");
    net
}

/// A second way between node and outside, in another network.
pub(super) fn two_nics(net: &mut Topology) {
    net.veth(("peer", "e1"), ("node", "eth1"))
        .addr("node", "eth1", "192.168.60.10/24")
        .addr("peer", "e1", "192.168.60.20/24");
}

/// A second pod, 10.77.2.11 behind veth-pod2.
pub(super) fn two_pods(net: &mut Topology) {
    net.veth(("pod2", "p0"), ("node", "veth-pod2"))
        .addr("pod2", "p0", "10.77.2.11/24")
        .addr("node", "veth-pod2", "10.77.2.1/24")
        .route("pod2", "default via 10.77.2.1");
}
