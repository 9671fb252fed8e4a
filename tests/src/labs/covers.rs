//! What labs exercise of srctrace that may differ from kernel to kernel: taps, structure layouts,
//! rule stores, ways of leaving. In CI every kernel runs labs that together cover all of it once.

/// The parts that a lab exercises; a lab that is not here exercises none that another does not.
const COVERS: &[(&str, &[&str])] = &[
    (
        "a1_masquerade_legacy",
        &[
            "tap:tracepoint",
            "layout:sk_buff",
            "layout:nf_conn",
            "store:legacy",
            "v4",
            "tcp",
        ],
    ),
    ("a1_masquerade_iptables_nft", &["store:iptables-nft"]),
    ("a1_masquerade_nft", &["store:nft"]),
    ("a4_node_answered_pod_not", &["layout:sock", "tap:sockets"]),
    ("ipv6_masquerade", &["v6", "layout:nf_conn-v6"]),
    ("udp_fragments", &["fragments"]),
    ("icmp_masquerade", &["icmp"]),
    ("sctp_masquerade", &["sctp"]),
    ("vlan_on_the_way_out", &["vlan"]),
    ("service_followed_from_its_address", &["follow:conntrack"]),
    ("b5_refused_by_icmp", &["icmp-error"]),
    ("counts_are_those_of_the_far_side", &["counts"]),
    ("bulk_with_offloads", &["gso"]),
    ("tap_tcx_only", &["tap:tcx"]),
    ("e7_kill_9_leaves_nothing", &["leaves-nothing"]),
];

/// What the lab of this name exercises.
#[must_use]
pub fn covers(name: &str) -> &'static [&'static str] {
    COVERS
        .iter()
        .find(|(lab, _)| *lab == name)
        .map_or(&[], |(_, parts)| parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_lab() {
        for (name, _) in COVERS {
            assert!(
                super::super::all().any(|case| case.name == *name),
                "no lab {name}"
            );
        }
    }
}
