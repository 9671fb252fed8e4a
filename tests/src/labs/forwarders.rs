//! Gateway pods without any traffic through them: by what their namespaces hold.
//!
//! ```text
//! vpn    10.12.9.4  eth0, and tun0 10.8.0.1 with a client; forwards, masquerades on eth0
//! egress 10.12.7.4  eth0 only; forwards, and masquerades what is not its own
//! stuck  10.12.8.4  eth0, and tun0 10.9.0.1; does not forward
//! pod    10.12.3.4  eth0 only; forwards, as a pod does that has the node's setting
//! ```

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::steps::{masquerade, same, same_text};
use super::{Case, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::trace::{Srctrace, binary};

pub(super) const CASES: &[Case] =
    &[Case::new("c1_gateways_without_traffic", &["C1"], known).on(NATIVE)];

const OF_THE_POOL: &str = "*nat\n-A POSTROUTING -s 10.8.0.0/24 -o eth0 -j MASQUERADE\nCOMMIT\n";
/// And a rule for itself, as container engines have one.
const OF_ALL: &str = "*nat\n:EGRESS - [0:0]\n-A POSTROUTING -s 127.0.0.11 -p udp -j SNAT --to-source :53\n\
    -A POSTROUTING -j EGRESS\n-A EGRESS ! -s 10.12.7.4 -o eth0 -j MASQUERADE\nCOMMIT\n";
const OF_ITSELF: &str =
    "*nat\n-A POSTROUTING -s 127.0.0.11 -p udp -j SNAT --to-source :53\nCOMMIT\n";

fn lab() -> Result<Lab> {
    let mut net = cast::one_pod("forwarders", RouteBack::Known);
    for (name, n) in [("vpn", 9), ("egress", 7), ("stuck", 8), ("six", 6)] {
        cast::pod(&mut net, name, n);
    }
    net.forward("vpn").forward("egress").forward("pod");
    net.veth(("vpn", "tun0"), ("client", "tun0"))
        .addr("vpn", "tun0", "10.8.0.1/24")
        .addr("client", "tun0", "10.8.0.2/24")
        .veth(("stuck", "tun0"), ("client2", "tun0"))
        .addr("stuck", "tun0", "10.9.0.1/24")
        .veth(("six", "tun0"), ("client6", "tun0"))
        .addr("six", "tun0", "fd08::1/64");
    let lab = net.up()?;
    lab.sysctl("stuck", "ipv4/ip_forward", "0")?;
    lab.sysctl("six", "ipv4/ip_forward", "0")?;
    lab.sysctl("six", "ipv6/conf/all/forwarding", "1")?;
    lab.restore("vpn", "iptables-legacy-restore", OF_THE_POOL)?;
    lab.restore("egress", "iptables-legacy-restore", OF_ALL)?;
    lab.restore("pod", "iptables-legacy-restore", OF_ITSELF)?;
    masquerade(&lab, &[])?;
    Ok(lab)
}

/// The gateways of the lab, as `doctor` tells them: names and reasons.
fn told(lab: &Lab) -> Result<Vec<(String, String)>> {
    let line = format!("{} doctor -o json", binary()?.display());
    let said = lab.run("node", &line)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().replace(lab.prefix(), "");
    let lines = said.lines().map(serde_json::from_str::<Value>);
    let objects: Vec<Value> = lines.collect::<Result<_, _>>().context(said.clone())?;
    let rows = objects.iter().map(|row| (text(&row["what"]), row));
    let gateways = rows.filter(|(what, row)| {
        what.starts_with("gateway ") && row["what"].to_string().contains(lab.prefix())
    });
    let mut found: Vec<_> = gateways
        .map(|(what, row)| (what, text(&row["why"])))
        .collect();
    found.sort();
    Ok(found)
}

fn known() -> Result<()> {
    let lab = lab()?;
    let should = [
        (
            "gateway egress",
            "forwards for others: net.ipv4.ip_forward=1 and net.ipv6.conf.all.forwarding=1 there, and its own NAT rule iptables-legacy nat/EGRESS 1",
        ),
        (
            "gateway six",
            "forwards for others, IPv6 only: net.ipv6.conf.all.forwarding=1 there, and its second device tun0",
        ),
        (
            "gateway stuck",
            "is set up to forward and does not: net.ipv4.ip_forward=0 there, in spite of its second device tun0",
        ),
        (
            "gateway vpn",
            "forwards for others: net.ipv4.ip_forward=1 and net.ipv6.conf.all.forwarding=1 there, and its second device tun0, \
             its own NAT rule iptables-legacy nat/POSTROUTING 1",
        ),
    ];
    let should = should.map(|(what, why)| (what.to_owned(), why.to_owned()));
    same("the gateways", told(&lab)?, should.to_vec())?;
    let names: Vec<String> = ["vpn", "egress", "stuck", "pod"]
        .iter()
        .flat_map(|ns| ["--netns".to_owned(), lab.netns(ns)])
        .collect();
    let mut args = vec!["explain", "10.20.30.40:443", "--proto", "tcp"];
    args.extend(names.iter().map(String::as_str));
    let report = Srctrace::new(&lab, &args).text().run_to_end()?;
    same("the status", report.status, Some(0))?;
    let lines = report.lines.join("\n").replace(lab.prefix(), "");
    let (foretold, _) = lines
        .split_once("\n\nconfiguration of")
        .context("no configuration")?;
    same_text("what is foretold", foretold, FORETOLD)
}

const FORETOLD: &str = "\
tcp to 10.20.30.40:443, by the rules as they are (nothing was sent)

pod egress 10.12.7.4 and 3 more: pod, stuck, vpn
  ▶  source 10.12.7.4 would become 10.100.0.5 on the node, netfilter POSTROUTING, iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent); it would leave by eth0
     iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent), replayed:  -A IP-MASQ -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE   [POSTROUTING 1 → IP-MASQ 1]
     egress  out by eth0 via 10.12.7.1
     node    in by veth-egress, out by eth0 via 10.100.0.1

a client that egress forwards for, in by eth0
  ▶  the client's source would become 10.12.7.4 in a gateway, netfilter POSTROUTING, iptables-legacy nat/EGRESS rule 1, then 10.100.0.5 on the node, netfilter POSTROUTING, iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent); it would leave by eth0
     iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent), replayed:  -A IP-MASQ -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE   [POSTROUTING 1 → IP-MASQ 1]
     egress  in by eth0, out by eth0 via 10.12.7.1
     node    in by veth-egress, out by eth0 via 10.100.0.1

a client 10.8.0.2 that vpn forwards for, in by tun0
  ▶  source 10.8.0.2 would become 10.12.9.4 in a gateway, netfilter POSTROUTING, iptables-legacy nat/POSTROUTING rule 1, then 10.100.0.5 on the node, netfilter POSTROUTING, iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent); it would leave by eth0
     iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent), replayed:  -A IP-MASQ -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE   [POSTROUTING 1 → IP-MASQ 1]
     vpn   in by tun0, out by eth0 via 10.12.9.1
     node  in by veth-vpn, out by eth0 via 10.100.0.1
     iptables-legacy nat/POSTROUTING rule 1 is nobody's that is known: set by hand or by a script";
