//! The clients of a pod that forwards, by its own rules and the node's.
//!
//! ```text
//! peer-client 10.8.0.2 -- tun0 10.8.0.1 vpn 10.12.9.4 eth0 -- veth-vpn node 10.100.0.5
//! ```

use std::net::Ipv4Addr;

use anyhow::Result;

use super::seen::Walk;
use super::{map, text};
use crate::lab::Lab;
use crate::labs::gateways::vpn;
use crate::labs::steps::{masquerade, same, same_text};
use crate::trace::Names;
use crate::trace::expect::compare;

const OF_THE_POD: &str = "*nat\n-A POSTROUTING -s 10.8.0.0/24 -d 10.20.0.0/16 -j RETURN\n\
    -A POSTROUTING -s 10.8.0.0/24 -o eth0 -j MASQUERADE\nCOMMIT\n";

fn lab() -> Result<Lab> {
    let mut net = vpn("mapgate");
    net.forward("vpn")
        .route("node", "10.8.0.0/24 via 10.12.9.4")
        .ip("vpn", "rule add from 10.8.0.0/24 to 10.66.0.0/16 prohibit");
    let lab = net.up()?;
    lab.restore("vpn", "iptables-legacy-restore", OF_THE_POD)?;
    masquerade(&lab, &["10.20.128.0/17", "10.30.0.0/16"])?;
    Ok(lab)
}

/// What the pod keeps and what the node keeps are told apart, and what only the clients are denied.
pub(super) fn clients() -> Result<()> {
    let lab = lab()?;
    let netns = lab.netns("vpn");
    let report = map(&lab, &["--netns", &netns])?;
    same("what it says besides", report.stderr.as_str(), "")?;
    compare("a17_map_of_clients", &report, &Names::of(&[(&lab, "")]))?;
    let told = text(&lab, &["--netns", &netns], 0)?;
    same_text("map as text", &told, CLIENTS)?;
    let nets = [[10, 20, 0, 0], [10, 30, 0, 0], [203, 0, 0, 0]].map(Ipv4Addr::from);
    let client = Walk {
        from: "peer-client",
        netns: "vpn",
        kind: "gateway",
        fixed: &["10.20.127.255", "10.20.128.0", "10.30.0.10"],
        nets: &nets,
    };
    client.run(&lab)?;
    let pod = Walk {
        from: "vpn",
        kind: "pod",
        fixed: &["10.66.0.1", "10.20.128.0"],
        ..client
    };
    pod.run(&lab)
}

const CLIENTS: &str = "\
pod vpn 10.12.9.4
  0.0.0.0/0       10.100.0.5 (the node)                 iptables-legacy nat/IP-MASQ rule 3 (ip-masq-agent)
  10.8.0.0/24     kept
  10.12.3.0/24    no way                                nobody there
  10.12.3.1/32    kept, delivered here
  10.12.3.4/32    10.12.3.1 (the node), delivered here  iptables-legacy nat/IP-MASQ rule 3 (ip-masq-agent)
  10.12.9.0/24    no way                                nobody there
  10.12.9.1/32    kept, delivered here
  10.20.128.0/17  kept                                  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.30.0.0/16    kept                                  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.100.0.5/32   kept, delivered here

a client 10.8.0.2 that vpn forwards for, in by tun0
  0.0.0.0/0       10.100.0.5 (the node)                 iptables-legacy nat/IP-MASQ rule 3 (ip-masq-agent)
  10.8.0.0/24     kept
  10.12.3.0/24    no way                                nobody there
  10.12.3.1/32    10.12.9.4, delivered here             iptables-legacy nat/POSTROUTING rule 2
  10.12.3.4/32    10.12.3.1 (the node), delivered here  iptables-legacy nat/IP-MASQ rule 3 (ip-masq-agent)
  10.12.9.0/24    no way                                nobody there
  10.12.9.1/32    10.12.9.4, delivered here             iptables-legacy nat/POSTROUTING rule 2
  10.20.128.0/17  kept                                  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.30.0.0/16    10.12.9.4                             iptables-legacy nat/POSTROUTING rule 2
  10.66.0.0/16    no way                                prohibited
  10.100.0.5/32   10.12.9.4, delivered here             iptables-legacy nat/POSTROUTING rule 2

pod vpn fd12:9::4
  ::/0             kept
  fd10:100::5/128  kept, delivered here
  fd12:3::/64      no way                nobody there
  fd12:3::1/128    kept, delivered here
  fd12:3::4/128    kept, delivered here
  fd12:9::/64      no way                nobody there
  fd12:9::1/128    kept, delivered here

The longest prefix that holds a destination counts.";
