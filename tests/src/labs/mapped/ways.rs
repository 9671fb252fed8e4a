//! Maps of nodes with routing rules, other tables and routes that refuse.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::seen::Walk;
use super::text;
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::labs::steps::{masquerade, same, same_text};

/// A second way out, to which routing rules lead.
fn two_ways_out() -> Result<Lab> {
    let mut net = cast::two_pods("maptables", RouteBack::Known);
    cast::pod(&mut net, "pod3", 5);
    net.veth(("peer", "eth1"), ("node", "eth1"))
        .addr("node", "eth1", "10.101.0.5/24")
        .addr("peer", "eth1", "10.101.0.1/24");
    for line in [
        "route add default via 10.101.0.1 table 100",
        "route add blackhole 10.77.0.0/16 table 101",
        "route add default via 10.101.0.1 table 101",
        "rule add from 10.12.4.4 lookup 100",
        "rule add fwmark 0x7/0xff lookup 100",
        "rule add iif veth-pod3 lookup 101",
        "rule add from 10.100.0.5 to 10.68.0.0/16 lookup 100",
    ] {
        net.ip("node", line);
    }
    let lab = net.up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    lab.restore("node", "iptables-legacy-restore", MARKS)?;
    Ok(lab)
}

/// The last comes when the way is chosen.
const MARKS: &str = "*mangle\n-A PREROUTING -d 10.66.0.0/16 -j MARK --set-xmark 0x107/0x1ff\n\
    -A OUTPUT -d 10.66.0.0/16 -j MARK --set-xmark 0x107/0x1ff\nCOMMIT\n\
    *filter\n-A OUTPUT -d 10.67.0.0/16 -j MARK --set-xmark 0x7/0xff\nCOMMIT\n";

/// By source, by mark, by device, of pods and of the node.
pub(super) fn other_tables() -> Result<()> {
    let lab = two_ways_out()?;
    same_text("map as text", &text(&lab, &[], 0)?, OTHER_TABLES)?;
    let nets: Vec<Ipv4Addr> = [20, 66, 67, 68, 99]
        .map(|second| [10, second, 0, 0].into())
        .to_vec();
    for from in ["pod", "pod2", "pod3", "node"] {
        let walk = Walk {
            from,
            netns: from,
            kind: if from == "node" { "node" } else { "pod" },
            fixed: &["203.0.113.9"],
            nets: &nets,
        };
        walk.run(&lab)?;
    }
    Ok(())
}

const OTHER_TABLES: &str = "\
pod pod 10.12.3.4
  0.0.0.0/0      10.100.0.5 (the node)                 iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.3.0/24   no way                                nobody there
  10.12.3.1/32   kept, delivered here
  10.12.4.0/23   no way                                nobody there
  10.12.4.1/32   kept, delivered here
  10.12.4.4/32   10.12.4.1 (the node), delivered here  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.5.1/32   kept, delivered here
  10.12.5.4/32   10.12.5.1 (the node), delivered here  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.20.0.0/16   kept                                  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.66.0.0/16   10.101.0.5 (the node)                 iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.100.0.5/32  kept, delivered here
  10.101.0.0/24  10.101.0.5 (the node)                 iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.101.0.5/32  kept, delivered here

pod pod2 10.12.4.4
  0.0.0.0/0      10.101.0.5 (the node)  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.3.1/32   kept, delivered here
  10.12.4.1/32   kept, delivered here
  10.12.5.1/32   kept, delivered here
  10.20.0.0/16   kept                   iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.100.0.5/32  kept, delivered here
  10.101.0.5/32  kept, delivered here

pod pod3 10.12.5.4
  0.0.0.0/0      10.101.0.5 (the node)  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.3.1/32   kept, delivered here
  10.12.4.1/32   kept, delivered here
  10.12.5.1/32   kept, delivered here
  10.20.0.0/16   kept                   iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.77.0.0/16   no way                 blackhole
  10.100.0.5/32  kept, delivered here
  10.101.0.5/32  kept, delivered here

the node 10.100.0.5
  0.0.0.0/0      kept                   iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.3.0/24   no way                 nobody there
  10.12.3.4/32   kept, delivered here   iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.4.0/23   no way                 nobody there
  10.12.4.4/32   kept, delivered here   iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.5.4/32   kept, delivered here   iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.20.0.0/16   kept                   iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.66.0.0/16   10.101.0.5 (the node)  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.68.0.0/16   10.101.0.5 (the node)  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.101.0.0/24  kept                   iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)

pod pod fd12:3::4
  ::/0             kept
  fd10:100::5/128  kept, delivered here
  fd12:3::/64      no way                nobody there
  fd12:3::1/128    kept, delivered here
  fd12:4::/64      no way                nobody there
  fd12:4::1/128    kept, delivered here
  fd12:4::4/128    kept, delivered here
  fd12:5::/64      no way                nobody there
  fd12:5::1/128    kept, delivered here
  fd12:5::4/128    kept, delivered here

pod pod2 fd12:4::4
  ::/0             kept
  fd10:100::5/128  kept, delivered here
  fd12:3::/64      no way                nobody there
  fd12:3::1/128    kept, delivered here
  fd12:3::4/128    kept, delivered here
  fd12:4::/64      no way                nobody there
  fd12:4::1/128    kept, delivered here
  fd12:5::/64      no way                nobody there
  fd12:5::1/128    kept, delivered here
  fd12:5::4/128    kept, delivered here

pod pod3 fd12:5::4
  ::/0             kept
  fd10:100::5/128  kept, delivered here
  fd12:3::/64      no way                nobody there
  fd12:3::1/128    kept, delivered here
  fd12:3::4/128    kept, delivered here
  fd12:4::/64      no way                nobody there
  fd12:4::1/128    kept, delivered here
  fd12:4::4/128    kept, delivered here
  fd12:5::/64      no way                nobody there
  fd12:5::1/128    kept, delivered here

the node fd10:100::5
  ::/0           kept
  fd12:3::/64    no way                nobody there
  fd12:3::4/128  kept, delivered here
  fd12:4::/64    no way                nobody there
  fd12:4::4/128  kept, delivered here
  fd12:5::/64    no way                nobody there
  fd12:5::4/128  kept, delivered here

The longest prefix that holds a destination counts.";

/// Routes of each kind that refuses, in the main table and in another, and a rule that does.
fn refusing() -> Result<Lab> {
    let mut net = cast::one_pod("maprefuse", RouteBack::Known);
    for line in [
        "route add unreachable 10.66.0.0/16",
        "route add blackhole 10.67.0.0/16",
        "route add prohibit 10.68.0.0/16",
        "route add throw 10.69.0.0/16",
        "rule add to 10.70.0.0/16 lookup 100",
        "route add unreachable 10.70.1.0/24 table 100",
        "route add throw 10.70.2.0/24 table 100",
        "route add blackhole 10.70.3.0/24 table 100",
        "rule add to 10.71.0.0/16 prohibit",
        "route add unreachable fd66::/32",
        "route add blackhole fd67::/32",
        "route add prohibit fd68::/32",
    ] {
        net.ip("node", line);
    }
    net.ip("pod", "route add blackhole 10.72.0.0/16");
    let lab = net.up()?;
    masquerade(&lab, &[])?;
    Ok(lab)
}

pub(super) fn refused() -> Result<()> {
    let lab = refusing()?;
    same_text("map as text", &text(&lab, &[], 0)?, REFUSED)?;
    // What the kernel says to those who try: of a blackhole a pod hears nothing. It shall say so as often as it is asked.
    lab.sysctl("node", "ipv4/icmp_ratelimit", "0")?;
    let heard = [
        ("10.66.1.1", libc::EHOSTUNREACH, libc::EHOSTUNREACH),
        ("10.67.1.1", libc::EINVAL, 0),
        ("10.68.1.1", libc::EACCES, libc::EHOSTUNREACH),
        ("10.69.1.1", libc::ENETUNREACH, libc::ENETUNREACH),
        ("10.70.1.1", libc::EHOSTUNREACH, libc::EHOSTUNREACH),
        ("10.70.3.1", libc::EINVAL, 0),
        ("10.71.1.1", libc::EACCES, libc::EHOSTUNREACH),
    ];
    for (dst, node, pod) in heard {
        for (from, errno) in [("node", node), ("pod", pod)] {
            same(
                &format!("{dst} from {from}"),
                attempt(&lab, from, dst)?,
                errno,
            )?;
        }
    }
    same(
        "its own blackhole",
        attempt(&lab, "pod", "10.72.1.1")?,
        libc::EINVAL,
    )?;
    let walk = Walk {
        from: "pod",
        netns: "pod",
        kind: "pod",
        fixed: &["10.70.2.9", "10.70.4.1", "10.65.255.255", "10.73.0.0"],
        nets: &[[203, 0, 0, 0].into()],
    };
    walk.run(&lab)
}

/// The number of the error that a connection meets; 0: silence.
fn attempt(lab: &Lab, from: &str, dst: &str) -> Result<i32> {
    let to = SocketAddr::new(dst.parse().context("an address")?, 443);
    let moment = Duration::from_millis(300);
    let tried = lab.in_ns(from, || TcpStream::connect_timeout(&to, moment))?;
    let error = tried.err().context("a connection")?;
    Ok(error.raw_os_error().unwrap_or(0))
}

const REFUSED: &str = "\
pod pod 10.12.3.4
  0.0.0.0/0      10.100.0.5 (the node)  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.12.3.0/24   no way                 nobody there
  10.12.3.1/32   kept, delivered here
  10.66.0.0/15   no way                 blackhole
  10.66.0.0/16   no way                 unreachable
  10.68.0.0/14   no way                 prohibited
  10.69.0.0/16   no way                 no route
  10.70.0.0/16   10.100.0.5 (the node)  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.70.1.0/24   no way                 unreachable
  10.70.3.0/24   no way                 blackhole
  10.72.0.0/16   no way                 blackhole
  10.100.0.5/32  kept, delivered here

the node 10.100.0.5
  0.0.0.0/0     kept                  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.12.3.0/24  no way                nobody there
  10.12.3.4/32  kept, delivered here  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.66.0.0/15  no way                unreachable
  10.67.0.0/16  no way                blackhole
  10.68.0.0/14  no way                prohibited
  10.69.0.0/16  no way                no route
  10.70.0.0/16  kept                  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.70.1.0/24  no way                unreachable
  10.70.3.0/24  no way                blackhole

pod pod fd12:3::4
  ::/0             kept
  fd10:100::5/128  kept, delivered here
  fd12:3::/64      no way                nobody there
  fd12:3::1/128    kept, delivered here
  fd66::/32        no way                unreachable
  fd67::/32        no way                blackhole
  fd68::/32        no way                prohibited

the node fd10:100::5
  ::/0           kept
  fd12:3::/64    no way                nobody there
  fd12:3::4/128  kept, delivered here
  fd66::/32      no way                unreachable
  fd67::/32      no way                blackhole
  fd68::/32      no way                prohibited

The longest prefix that holds a destination counts.";
