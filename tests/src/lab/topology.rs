//! The description of a lab's network, and bringing it up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::netkit::{Mode, Netkit};
use super::{Lab, netns};

/// How long links may take to come up; a bond or bridge takes a second or two.
const SETTLING: Duration = Duration::from_secs(10);

/// One end of a veth pair: the lab's short name of the namespace, and the interface's name there.
pub type End<'a> = (&'a str, &'a str);

/// A network to be built. Namespaces come to be by being mentioned; nothing exists before [`Topology::up`].
///
/// Everywhere: `lo` is up, `rp_filter` is 0, IPv6 duplicate address detection is off (it would delay the first packet).
#[derive(Debug)]
pub struct Topology {
    prefix: String,
    links: String,
    netkits: Vec<Netkit>,
    spaces: BTreeMap<String, Space>,
}

#[derive(Debug, Default)]
struct Space {
    /// Interfaces with an address, besides `lo`.
    addressed: BTreeSet<String>,
    sysctls: Vec<(String, String)>,
    script: String,
}

impl Topology {
    /// An empty network. `name` is for people who look at `ip netns` while the lab runs.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{}{}-{count}-{name}-", netns::PREFIX, std::process::id());
        Self {
            prefix,
            links: String::new(),
            netkits: Vec::new(),
            spaces: BTreeMap::new(),
        }
    }

    /// A namespace (one that only has `lo`, or to be explicit).
    pub fn ns(&mut self, ns: &str) -> &mut Self {
        self.space(ns);
        self
    }

    /// A veth pair, both ends up.
    pub fn veth(&mut self, a: End<'_>, b: End<'_>) -> &mut Self {
        let line = format!(
            "link add {} netns {} type veth peer name {} netns {}\n",
            a.1,
            self.full(a.0),
            b.1,
            self.full(b.0)
        );
        self.links.push_str(&line);
        for (ns, ifname) in [a, b] {
            self.ip(ns, &format!("link set {ifname} up"));
        }
        self
    }

    /// A netkit pair, both ends up. Programs may be attached to `a`.
    pub fn netkit(&mut self, mode: Mode, a: End<'_>, b: End<'_>) -> &mut Self {
        let [first, second] = [a, b].map(|(ns, ifname)| {
            self.ip(ns, &format!("link set {ifname} up"));
            (self.full(ns), ifname.to_owned())
        });
        self.netkits.push(Netkit {
            mode,
            first,
            second,
        });
        self
    }

    /// An address with its prefix length, IPv4 or IPv6.
    pub fn addr(&mut self, ns: &str, ifname: &str, addr: &str) -> &mut Self {
        if ifname != "lo" {
            self.space(ns).addressed.insert(ifname.to_owned());
        }
        let nodad = if addr.contains(':') { " nodad" } else { "" };
        self.ip(ns, &format!("addr add {addr} dev {ifname}{nodad}"))
    }

    /// A route in `ip route add` words, IPv4 or IPv6.
    pub fn route(&mut self, ns: &str, route: &str) -> &mut Self {
        self.ip(ns, &format!("route add {route}"))
    }

    /// Any other line for `ip -batch` in that namespace, run in the order given.
    pub fn ip(&mut self, ns: &str, line: &str) -> &mut Self {
        let space = self.space(ns);
        space.script.push_str(line);
        space.script.push('\n');
        self
    }

    /// A sysctl below /proc/sys/net, for example `ipv4/ip_forward`; set before any interface exists.
    pub fn sysctl(&mut self, ns: &str, key: &str, value: &str) -> &mut Self {
        self.space(ns)
            .sysctls
            .push((key.to_owned(), value.to_owned()));
        self
    }

    /// Forwards IPv4 and IPv6 in that namespace.
    pub fn forward(&mut self, ns: &str) -> &mut Self {
        self.sysctl(ns, "ipv4/ip_forward", "1")
            .sysctl(ns, "ipv6/conf/all/forwarding", "1")
    }

    /// Builds it.
    ///
    /// # Errors
    /// When a namespace, link, address, route or sysctl is refused; what was built is removed again.
    pub fn up(&self) -> Result<Lab> {
        let spaces: Vec<String> = self.spaces.keys().cloned().collect();
        let mut lab = Lab::of(self.prefix.clone(), spaces.clone());
        lab.create(&spaces)?;
        for (ns, space) in &self.spaces {
            netns::enter(&self.full(ns), || space.write_sysctls())?
                .with_context(|| format!("sysctls of {ns}"))?;
        }
        netns::ip_batch(&self.links).context("create the lab's links")?;
        self.netkits.iter().try_for_each(Netkit::create)?;
        for (ns, space) in &self.spaces {
            let script = format!("link set lo up\n{}", space.script);
            netns::enter(&self.full(ns), || netns::ip_batch(&script))?
                .with_context(|| format!("set up {ns}"))?;
        }
        for (ns, space) in &self.spaces {
            netns::enter(&self.full(ns), || space.settle())?
                .with_context(|| format!("wait for the links of {ns}"))?;
        }
        Ok(lab)
    }

    fn full(&self, ns: &str) -> String {
        format!("{}{ns}", self.prefix)
    }

    fn space(&mut self, ns: &str) -> &mut Space {
        self.spaces.entry(ns.to_owned()).or_default()
    }
}

impl Space {
    fn settle(&self) -> Result<()> {
        let names: Vec<&str> = self.addressed.iter().map(String::as_str).collect();
        settle(&names)
    }

    /// Writes the sysctls of the calling thread's namespace.
    fn write_sysctls(&self) -> Result<()> {
        let everywhere = [
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
            ("ipv6/conf/default/accept_dad", "0"),
        ];
        let own = self
            .sysctls
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        for (key, value) in everywhere.into_iter().chain(own) {
            write_sysctl(key, value)?;
        }
        Ok(())
    }
}

/// Waits until the kernel has noticed that these links of the calling thread's namespace are up, which it does a little
/// after both ends are: then it gives them link-local addresses, takes "linkdown" from their routes and no longer drops
/// what they send. Addresses are "tentative" for a moment even where nobody looks for duplicates.
pub(super) fn settle(ifnames: &[&str]) -> Result<()> {
    let end = Instant::now() + SETTLING;
    loop {
        let table =
            fs::read_to_string("/proc/thread-self/net/if_inet6").context("list IPv6 addresses")?;
        let late: Vec<_> = ifnames.iter().filter(|n| !is_settled(&table, n)).collect();
        if late.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < end, "not up after {SETTLING:?}: {late:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the kernel has given the interface its link-local address, and none of its addresses is tentative, by a table
/// like /proc/net/if_inet6: address, index, prefix length, scope, flags (in hex), name.
fn is_settled(table: &str, ifname: &str) -> bool {
    let rows = table.lines().map(|line| line.split_whitespace().collect());
    let own: Vec<Vec<&str>> = rows
        .filter(|row: &Vec<&str>| row.last() == Some(&ifname))
        .collect();
    let tentative = |row: &Vec<&str>| {
        let flags = row.get(4).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        flags.is_none_or(|flags| flags & IFA_F_TENTATIVE != 0)
    };
    own.iter().any(|row| row[0].starts_with("fe80")) && !own.iter().any(tentative)
}

/// uapi linux/if_addr.h
const IFA_F_TENTATIVE: u8 = 0x40;

/// Writes one sysctl below /proc/sys/net in the calling thread's namespace.
pub(super) fn write_sysctl(key: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/net/{key}");
    fs::write(&path, value).with_context(|| format!("write {value} to {path}"))
}

#[cfg(test)]
mod tests {
    use super::is_settled;

    #[test]
    fn a_link_is_settled_with_its_link_local_address_and_none_that_is_tentative() {
        let table = "fd120003000000000000000000000004 0b 40 00 80 eth0\n\
            fe80000000000000001122fffe334455 0b 40 20 80 eth0\n\
            fe80000000000000001122fffe334456 0c 40 20 c0 eth1\n\
            fd120003000000000000000000000005 0d 40 00 80 eth2\n";
        assert!(is_settled(table, "eth0"));
        assert!(!is_settled(table, "eth1"), "tentative");
        assert!(!is_settled(table, "eth2"), "no link-local address");
        assert!(!is_settled(table, "eth"));
    }
}
