//! Which programs the suite uses.

use super::{Group, Place, Tool, Wrap};

const PLAIN: Wrap = Wrap {
    environment: "",
    arguments: "",
};

const QEMU: Wrap = Wrap {
    environment: "QEMU_MODULE_DIR=\"$root/usr/lib/x86_64-linux-gnu/qemu\"",
    arguments: "-L \"$root/usr/share/qemu\" -L \"$root/usr/share/seabios\" -L \"$root/usr/lib/ipxe/qemu\"",
};

const fn lab(program: &'static str, package: &'static str, why: &'static str) -> Tool {
    Tool {
        program,
        package,
        group: Group::Lab,
        place: Place::Anywhere,
        why,
        wrap: PLAIN,
    }
}

const fn vm(program: &'static str, package: &'static str, why: &'static str) -> Tool {
    Tool {
        program,
        package,
        group: Group::Vm,
        place: Place::Anywhere,
        why,
        wrap: PLAIN,
    }
}

/// Every tool that the suite uses.
pub(crate) const TABLE: &[Tool] = &[
    lab(
        "ip",
        "iproute2",
        "builds the labs' namespaces, links and routes",
    ),
    lab("iptables-legacy", "iptables", "the labs' legacy rules"),
    lab(
        "iptables-nft",
        "iptables",
        "the labs' iptables rules on nf_tables",
    ),
    lab("nft", "nftables", "the labs' native nf_tables rules"),
    lab(
        "conntrack",
        "conntrack",
        "reads the kernel's bindings to compare reports with",
    ),
    lab(
        "tcpdump",
        "tcpdump",
        "captures what really left, to compare reports with",
    ),
    lab(
        "tshark",
        "tshark",
        "reads the capture files that srctrace writes",
    ),
    lab(
        "dumpcap",
        "wireshark-common",
        "captures in pcapng, of several interfaces",
    ),
    lab("iperf3", "iperf3", "bulk traffic"),
    lab("socat", "socat", "single connections and datagrams"),
    lab("openvpn", "openvpn", "a VPN in user space, both ends"),
    lab("openssl", "openssl", "the VPN's keys"),
    lab("haproxy", "haproxy", "a proxy that sends PROXY headers"),
    lab("nginx", "libnginx-mod-stream", "another one"),
    lab(
        "dnsmasq",
        "dnsmasq-base",
        "a resolver, as a cluster has one",
    ),
    lab("ethtool", "ethtool", "switches offloads of lab interfaces"),
    lab(
        "sysctl",
        "procps",
        "forwarding and netfilter switches inside lab namespaces",
    ),
    Tool {
        wrap: QEMU,
        ..vm(
            "qemu-system-x86_64",
            "qemu-system-x86",
            "boots other kernels",
        )
    },
    Tool {
        place: Place::Private,
        ..vm(
            "busybox",
            "busybox-static",
            "the virtual machines' user space",
        )
    },
    vm("kmod", "kmod", "loads modules in the virtual machines"),
    vm("xz", "xz-utils", "unpacks kernel modules"),
    vm("ipset", "ipset", "rules that match sets"),
    vm("ipvsadm", "ipvsadm", "IPVS services"),
    vm("wg", "wireguard-tools", "WireGuard tunnels"),
    vm("ping", "iputils-ping", "echo requests with chosen fields"),
];
