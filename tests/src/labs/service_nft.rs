//! Services as kube-proxy's nftables mode has them: the Service's address, its NodePort by either policy, hairpins.

use anyhow::Result;

use super::Case;
use super::steps::{A_MOMENT, answered, hold, same, watch};
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("service_nft_by_vip", &["C3"], || {
        from_pod(VIP, "service_nft_by_vip")
    }),
    Case::new("service_nft_by_backend", &["C3"], || {
        from_pod(BACKEND, "service_nft_by_backend")
    }),
    Case::new("service_nft_node_port_cluster_by_backend", &["C4"], || {
        node_port(true, BACKEND, "service_nft_node_port_cluster_by_backend")
    }),
    Case::new("service_nft_node_port_local", &["C4"], || {
        node_port(false, NODE_PORT, "service_nft_node_port_local")
    }),
    Case::new("service_nft_node_port_local_by_backend", &["C4"], || {
        node_port(false, BACKEND, "service_nft_node_port_local_by_backend")
    }),
    Case::new("service_nft_hairpin", &["C3"], || hairpin(true)),
    Case::new("service_nft_hairpin_unmasked", &["C3"], || hairpin(false)),
];

const VIP: &str = "10.96.0.10:80";
const NODE_PORT: &str = "10.100.0.5:30080";
const BACKEND: &str = "10.12.4.4:8080";

/// What of the Service differs.
#[derive(Clone, Copy)]
struct Service {
    /// Who comes by the NodePort is marked: externalTrafficPolicy Cluster.
    cluster: bool,
    /// Whoever calls the Service's address is marked.
    all: bool,
    /// The backend's own calls are marked.
    hairpin: bool,
}

/// kube-proxy's table of one Service with one backend, in its own words: chains, then rules with their chain.
struct Table {
    objects: String,
    count: usize,
    rules: Vec<(&'static str, &'static str)>,
}

const MASQUERADE: &str = "masquerade";
const MARK: &str = "meta mark set meta mark | 0x00004000";
const DNAT: &str = "meta l4proto tcp dnat to 10.12.4.4:8080";
const EXTERNAL: &str = "external-AAAA-shop/web/tcp/http";
const SERVICE: &str = "service-AAAA-shop/web/tcp/http";
const ENDPOINT: &str = "endpoint-BBBB-shop/web/tcp/http__10.12.4.4/8080";
const MARKING: &str = "mark-for-masquerade";

/// Its chains that are not at a hook, and those that are.
const CHAINS: [&str; 6] = [
    MARKING,
    ENDPOINT,
    SERVICE,
    EXTERNAL,
    "masquerading",
    "services",
];
const HOOKS: [(&str, &str); 3] = [
    (
        "nat-prerouting",
        "type nat hook prerouting priority dstnat;",
    ),
    ("nat-output", "type nat hook output priority -100;"),
    (
        "nat-postrouting",
        "type nat hook postrouting priority srcnat;",
    ),
];
const SETS: &str = "add table ip kube-proxy
add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
add map ip kube-proxy service-nodeports { type inet_proto . inet_service : verdict; }
add set ip kube-proxy nodeport-ips { type ipv4_addr; }
";
const MEMBERS: &str = "\
add element ip kube-proxy service-ips { 10.96.0.10 . tcp . 80 : goto service-AAAA-shop/web/tcp/http }
add element ip kube-proxy service-nodeports { tcp . 30080 : goto external-AAAA-shop/web/tcp/http }
add element ip kube-proxy nodeport-ips { 10.100.0.5 }
";

impl Table {
    fn of(service: Service) -> Self {
        let mut objects = SETS.to_owned();
        for chain in CHAINS {
            objects.push_str(&format!("add chain ip kube-proxy {chain}\n"));
        }
        for (chain, hook) in HOOKS {
            objects.push_str(&format!("add chain ip kube-proxy {chain} {{ {hook} }}\n"));
        }
        objects.push_str(MEMBERS);
        Self {
            objects,
            count: 3 + CHAINS.len() + HOOKS.len(),
            rules: rules(service),
        }
    }

    fn load(&self, lab: &Lab) -> Result<()> {
        let mut script = self.objects.clone();
        for (chain, rule) in &self.rules {
            script.push_str(&format!("add rule ip kube-proxy {chain} {rule}\n"));
        }
        lab.nft("node", &script)
    }

    /// The kernel numbers maps, sets and chains, then the rules, in the order in which they are made.
    fn handle(&self, wanted: &str) -> usize {
        let at = self.rules.iter().position(|(_, rule)| *rule == wanted);
        self.count + 1 + at.unwrap_or_default()
    }

    fn translated(&self) -> String {
        format!(
            "rule nft kube-proxy/{ENDPOINT} handle {}",
            self.handle(DNAT)
        )
    }

    fn masqueraded(&self) -> String {
        format!(
            "rule nft kube-proxy/masquerading handle {}, marked by nft kube-proxy/{MARKING} handle {}",
            self.handle(MASQUERADE),
            self.handle(MARK)
        )
    }
}

/// Rules with their chain, in the order in which they are made.
fn rules(service: Service) -> Vec<(&'static str, &'static str)> {
    let marks = |wanted: bool, chain, rule| wanted.then_some((chain, rule));
    let rules = [
        Some(("nat-prerouting", "jump services")),
        Some(("nat-output", "jump services")),
        Some(("nat-postrouting", "jump masquerading")),
        Some((
            "services",
            "ip daddr . meta l4proto . th dport vmap @service-ips",
        )),
        Some((
            "services",
            "ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports",
        )),
        Some((
            "masquerading",
            "meta mark & 0x00004000 == 0x00000000 return",
        )),
        Some(("masquerading", "meta mark set meta mark ^ 0x00004000")),
        Some(("masquerading", MASQUERADE)),
        Some((MARKING, MARK)),
        marks(service.cluster, EXTERNAL, "jump mark-for-masquerade"),
        Some((EXTERNAL, "goto service-AAAA-shop/web/tcp/http")),
        marks(service.all, SERVICE, "jump mark-for-masquerade"),
        Some((
            SERVICE,
            "goto endpoint-BBBB-shop/web/tcp/http__10.12.4.4/8080",
        )),
        marks(
            service.hairpin,
            ENDPOINT,
            "ip saddr 10.12.4.4 jump mark-for-masquerade",
        ),
        Some((ENDPOINT, DNAT)),
    ];
    rules.into_iter().flatten().collect()
}

fn up(service: Service) -> Result<(Lab, Table)> {
    let lab = cast::two_pods("svcnft", RouteBack::Known).up()?;
    for setting in ["all", "veth-pod2"] {
        let key = format!("ipv4/conf/{setting}/send_redirects");
        lab.sysctl("node", &key, "0")?;
    }
    let table = Table::of(service);
    table.load(&lab)?;
    Ok((lab, table))
}

/// A pod calls the Service, which masquerades all its clients.
fn from_pod(dest: &str, name: &str) -> Result<()> {
    let (lab, table) = up(Service {
        cluster: false,
        all: true,
        hairpin: true,
    })?;
    let _backend = StreamServer::start(&lab, "pod2", BACKEND, Behaviour::Answer)?;
    let report = watch(&lab, &[dest], 1, || {
        let outcome = StreamCall::new("pod", VIP, 43_210).run(&lab)?;
        same(
            "whom the backend saw",
            outcome,
            answered("10.12.4.1:43210")?,
        )
    })?;
    let claims = format!(
        "tcp 10.12.3.4:43210 > 10.96.0.10:80 from pod pod
         request dst 10.96.0.10:80 > 10.12.4.4:8080 at service, prerouting, netfilter, by conntrack, and back
         {}
         request src 10.12.3.4:43210 > 10.12.4.1:43210 at service, postrouting, netfilter, by conntrack, and back
         {}
         source-rewritten, on the wire 10.12.4.1, completed",
        table.translated(),
        table.masqueraded()
    );
    hold(&lab, &report, name, &[&claims], &[])
}

/// A client outside calls the node's port.
fn node_port(cluster: bool, dest: &str, name: &str) -> Result<()> {
    let (lab, table) = up(Service {
        cluster,
        all: false,
        hairpin: true,
    })?;
    let seen = if cluster { "10.12.4.1" } else { "10.100.0.1" };
    let _backend = StreamServer::start(&lab, "pod2", BACKEND, Behaviour::Answer)?;
    let report = watch(&lab, &[dest], 1, || {
        let outcome = StreamCall::new("peer", NODE_PORT, 43_210).run(&lab)?;
        same(
            "whom the backend saw",
            outcome,
            answered(&format!("{seen}:43210"))?,
        )
    })?;
    let mut claims = format!(
        "tcp 10.100.0.1:43210 > 10.100.0.5:30080 from external null
         request dst 10.100.0.5:30080 > 10.12.4.4:8080 at service, prerouting, netfilter, by conntrack, and back
         {}\n",
        table.translated()
    );
    if cluster {
        claims.push_str(&format!(
            "request src 10.100.0.1:43210 > 10.12.4.1:43210 at service, postrouting, netfilter, by conntrack, and back
             {}
             source-rewritten, on the wire 10.12.4.1, completed",
            table.masqueraded()
        ));
    } else {
        claims.push_str("source-preserved, on the wire 10.100.0.1, completed");
    }
    hold(&lab, &report, name, &[&claims], &[])
}

/// The backend calls its own Service.
fn hairpin(masked: bool) -> Result<()> {
    let (lab, table) = up(Service {
        cluster: false,
        all: false,
        hairpin: masked,
    })?;
    let _backend = StreamServer::start(&lab, "pod2", BACKEND, Behaviour::Answer)?;
    let report = watch(&lab, &[VIP], 1, || {
        let outcome = StreamCall::new("pod2", VIP, 43_210)
            .patience(A_MOMENT)
            .run(&lab)?;
        let should = if masked {
            answered("10.12.4.1:43210")?
        } else {
            Outcome::Silence
        };
        same("what the backend got of itself", outcome, should)
    })?;
    let undone = if masked { ", and back" } else { "" };
    let mut claims = format!(
        "tcp 10.12.4.4:43210 > 10.96.0.10:80 from pod pod2
         request dst 10.96.0.10:80 > 10.12.4.4:8080 at service, prerouting, netfilter, by conntrack{undone}
         {}\n",
        table.translated()
    );
    if masked {
        claims.push_str(&format!(
            "request src 10.12.4.4:43210 > 10.12.4.1:43210 at service, postrouting, netfilter, by conntrack, and back
             {}
             source-rewritten, on the wire 10.12.4.1, completed",
            table.masqueraded()
        ));
        return hold(&lab, &report, "service_nft_hairpin", &[&claims], &[]);
    }
    claims.push_str(
        "dropped: IP_LOCAL_SOURCE
         source-preserved, on the wire 10.12.4.4, dropped",
    );
    let findings = &[(0, "hairpin-unmasked")];
    hold(
        &lab,
        &report,
        "service_nft_hairpin_unmasked",
        &[&claims],
        findings,
    )
}
