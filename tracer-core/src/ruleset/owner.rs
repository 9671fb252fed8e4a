//! Who manages a rule, as far as its chain, the chain it calls, its table or its comment tell.

use serde::{Deserialize, Deserializer};

/// What names an owner.
#[derive(Clone, Copy)]
enum Sign {
    /// A chain's name, or its beginning.
    Chain(&'static str),
    /// A comment's beginning.
    Comment(&'static str),
    /// An nftables table's name, or its beginning.
    Table(&'static str),
}

use Sign::{Chain, Comment, Table};

/// What the script that boots a node of GCE or GKE writes on its rules. Its chain has the name that the agent's may have too.
const BOOT: &str = "ip-masq: ";

/// Signs, the more telling ones first.
const SIGNS: &[(Sign, &str)] = &[
    (Chain("IP-MASQ"), "ip-masq-agent"),
    (Comment("ip-masq-agent"), "ip-masq-agent"),
    (Comment(BOOT), "node boot script"),
    (Chain("KUBE-KUBELET-CANARY"), "kubelet"),
    (Chain("KUBE-FIREWALL"), "kubelet"),
    (Chain("KUBE-NWPLCY"), "kube-router"),
    (Chain("KUBE-POD-FW"), "kube-router"),
    (Chain("KUBE-ROUTER"), "kube-router"),
    (Chain("KUBE-"), "kube-proxy"),
    (Comment("kubernetes "), "kube-proxy"),
    (Table("kube-proxy"), "kube-proxy"),
    (Chain("cali-"), "Calico"),
    (Comment("cali:"), "Calico"),
    (Table("calico"), "Calico"),
    (Chain("FLANNEL-"), "Flannel"),
    (Comment("flanneld "), "Flannel"),
    (Table("flannel-"), "Flannel"),
    (Chain("CILIUM_"), "Cilium"),
    (Chain("OLD_CILIUM_"), "Cilium"),
    (Comment("cilium"), "Cilium"),
    (Chain("AWS-"), "AWS VPC CNI"),
    (Comment("AWS"), "AWS VPC CNI"),
    (Chain("CNI-HOSTPORT-"), "CNI portmap"),
    (Chain("CNI-DN-"), "CNI portmap"),
    (Chain("CNI-SN-"), "CNI portmap"),
    (Comment("dnat name: "), "CNI portmap"),
    (Table("cni_hostport"), "CNI portmap"),
    (Chain("CNI-FORWARD"), "CNI firewall"),
    (Chain("CNI-ADMIN"), "CNI firewall"),
    (Chain("CNI-"), "CNI"),
    (Comment("name: "), "CNI"),
    (Table("cni_plugins_masquerade"), "CNI"),
    (Chain("DOCKER"), "Docker"),
    (Table("docker-bridges"), "Docker"),
    (Chain("NETAVARK"), "netavark (podman)"),
    (Comment("netavark "), "netavark (podman)"),
    (Table("netavark"), "netavark (podman)"),
    (Chain("LIBVIRT_"), "libvirt"),
    (Table("libvirt_network"), "libvirt"),
    (Chain("OVN-KUBE-"), "OVN-Kubernetes"),
    (Table("ovn-kubernetes"), "OVN-Kubernetes"),
    (Chain("ISTIO_"), "Istio"),
    (Chain("LINKERD_"), "Linkerd"),
    (Chain("PROXY_INIT_"), "Linkerd"),
    (Comment("proxy-init/"), "Linkerd"),
    (Chain("WEAVE"), "Weave"),
    (Chain("KUBEVIRT_"), "KubeVirt"),
    (Chain("ANTREA-"), "Antrea"),
    (Comment("Antrea:"), "Antrea"),
    (Comment("generated for LXD"), "LXD"),
    (Comment("generated for Incus"), "Incus"),
    (Table("lxd"), "LXD"),
    (Table("incus"), "Incus"),
    (Chain("ts-"), "Tailscale"),
    (Comment("!fw4: "), "fw4 (OpenWrt)"),
    (Table("fw4"), "fw4 (OpenWrt)"),
    (Comment("!fw3"), "fw3 (OpenWrt)"),
    (Table("firewalld"), "firewalld"),
    (Chain("POSTROUTING_direct"), "firewalld"),
    (Chain("POSTROUTING_ZONES"), "firewalld"),
    (Chain("POST_"), "firewalld"),
    (Chain("ufw-"), "ufw"),
    (Chain("ufw6-"), "ufw"),
    (Chain("f2b-"), "fail2ban"),
    (Table("f2b-table"), "fail2ban"),
    (Chain("EGRESSGATEWAY-"), "egressgateway"),
    (Table("wg-quick-"), "wg-quick"),
    (Comment("wg-quick(8)"), "wg-quick"),
    (Chain("NOMAD-ADMIN"), "Nomad"),
    (Chain("SWARM"), "Docker"),
];

/// Reads an owner's name out of a recording: one that this version does not know is nobody's.
pub(super) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'static str>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    let owners = SIGNS.iter().map(|(_, owner)| *owner);
    Ok(name.and_then(|name| owners.into_iter().find(|owner| *owner == name)))
}

/// The owner of a rule of an x_tables chain; a rule of a built-in chain belongs to whom its comment
/// names, or to the owner of the chain that it calls. `None`: unowned.
pub(super) fn of<'a>(
    chain: &str,
    comment: Option<&str>,
    callees: impl Iterator<Item = &'a str>,
) -> Option<&'static str> {
    let of_boot = comment.filter(|text| text.starts_with(BOOT));
    of_boot
        .and_then(by_comment)
        .or_else(|| by_chain(chain))
        .or_else(|| comment.and_then(by_comment))
        .or_else(|| callees.filter_map(by_chain).next())
}

/// The owner of a rule of an nftables table: whole tables belong to one program.
pub(super) fn of_nft(table: &str, chain: &str, comment: Option<&str>) -> Option<&'static str> {
    let by_table = |sign| matches!(sign, Table(name) if table.starts_with(name));
    find(by_table).or_else(|| of(chain, comment, std::iter::empty()))
}

fn by_chain(chain: &str) -> Option<&'static str> {
    find(|sign| matches!(sign, Chain(name) if chain.starts_with(name)))
}

fn by_comment(comment: &str) -> Option<&'static str> {
    find(|sign| matches!(sign, Comment(name) if comment.starts_with(name)))
}

fn find(fits: impl Fn(Sign) -> bool) -> Option<&'static str> {
    SIGNS
        .iter()
        .find(|(sign, _)| fits(*sign))
        .map(|(_, owner)| *owner)
}

#[cfg(test)]
mod tests {
    use super::{of, of_nft};

    #[test]
    fn chain_comment_and_callee_name_the_owner() {
        let rows = [
            ("IP-MASQ", None, None, Some("ip-masq-agent")),
            (
                "IP-MASQ",
                Some("ip-masq-agent: outbound traffic"),
                None,
                Some("ip-masq-agent"),
            ),
            (
                "IP-MASQ",
                Some("ip-masq: outbound traffic"),
                None,
                Some("node boot script"),
            ),
            (
                "POSTROUTING",
                Some("ip-masq-agent: jump"),
                None,
                Some("ip-masq-agent"),
            ),
            (
                "POSTROUTING",
                None,
                Some("KUBE-POSTROUTING"),
                Some("kube-proxy"),
            ),
            ("cali-nat-outgoing", Some("cali:AbCd"), None, Some("Calico")),
            (
                "POSTROUTING",
                Some("AWS SNAT CHAIN"),
                None,
                Some("AWS VPC CNI"),
            ),
            ("POSTROUTING", Some("OLD-GLUE"), None, None),
            ("POSTROUTING", None, None, None),
            ("MASQUERADE-LAB", None, None, None),
        ];
        for (chain, comment, callee, owner) in rows {
            assert_eq!(
                of(chain, comment, callee.into_iter()),
                owner,
                "{chain} {comment:?}"
            );
        }
    }

    #[test]
    fn a_table_of_nftables_names_the_owner_of_all_its_chains() {
        assert_eq!(of_nft("kube-proxy", "services", None), Some("kube-proxy"));
        assert_eq!(
            of_nft("firewalld", "nat_POST_labzone_allow", None),
            Some("firewalld")
        );
        assert_eq!(
            of_nft("filter", "x", Some("!fw4: y")),
            Some("fw4 (OpenWrt)")
        );
        assert_eq!(of_nft("lab", "post", None), None);
    }
}
