//! Destinations that are translated: Services, published ports, and clients from outside.

use anyhow::Result;

use super::Case;
use super::steps::{answered, hold, same, watch};
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("inbound_client_to_pod", &["C4"], inbound_client),
    Case::new("service_followed_from_its_address", &["C3"], || {
        service(VIP, "service_by_vip")
    }),
    Case::new("service_followed_from_the_backend", &["C3"], || {
        service("10.12.4.4", "service_by_backend")
    }),
    Case::new("service_kept_source", &["C4"], service_kept_source),
];

const VIP: &str = "10.96.0.10";

/// A client outside calls a port of the node that is handed to a pod; nobody touches its source.
fn inbound_client() -> Result<()> {
    let lab = cast::one_pod("inbound", RouteBack::Known).up()?;
    let rule = "-t nat -A PREROUTING -p tcp -d 10.100.0.5 --dport 8080 -j DNAT --to-destination 10.12.3.4:80";
    lab.iptables_legacy("node", rule)?;
    let _pod = StreamServer::start(&lab, "pod", "10.12.3.4:80", Behaviour::Answer)?;
    let report = watch(&lab, &["10.100.0.5:8080"], 1, || {
        same(
            "whom the pod saw",
            StreamCall::new("peer", "10.100.0.5:8080", 43_210).run(&lab)?,
            answered("10.100.0.1:43210")?,
        )
    })?;
    hold(&lab, &report, "inbound_client_to_pod", &["tcp 10.100.0.1:43210 > 10.100.0.5:8080 from external null
                  request dst 10.100.0.5:8080 > 10.12.3.4:80 at node, prerouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/PREROUTING 1
                  source-preserved, on the wire 10.100.0.1, completed"], &[])
}

/// kube-proxy's chains for one Service with one backend, in its own words. `marked` masquerades what comes from outside the
/// cluster's pods and, here, from everywhere.
fn kube_proxy(lab: &Lab, marked: bool) -> Result<()> {
    let mark = if marked {
        "-A KUBE-SVC-SHOPWEB -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 \
         -j KUBE-MARK-MASQ\n"
    } else {
        ""
    };
    let rules = format!(
        "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-SVC-SHOPWEB - [0:0]\n\
         :KUBE-SEP-SHOPWEB1 - [0:0]\n\
         -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
         -A OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
         -A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
         -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE\n\
         -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 \
         -j KUBE-SVC-SHOPWEB\n\
         {mark}\
         -A KUBE-SVC-SHOPWEB -m comment --comment \"shop/web:http -> 10.12.4.4:8080\" -j KUBE-SEP-SHOPWEB1\n\
         -A KUBE-SEP-SHOPWEB1 -s 10.12.4.4/32 -m comment --comment \"shop/web:http\" -j KUBE-MARK-MASQ\n\
         -A KUBE-SEP-SHOPWEB1 -p tcp -m comment --comment \"shop/web:http\" -m tcp -j DNAT --to-destination \
         10.12.4.4:8080\nCOMMIT\n"
    );
    lab.restore("node", "iptables-legacy-restore", &rules)
}

/// A pod calls a Service whose Service chains also rewrite the source. Named by the Service's address or by the backend's, it
/// is the same flow.
fn service(dest: &str, name: &str) -> Result<()> {
    let lab = cast::two_pods("svc", RouteBack::Known).up()?;
    kube_proxy(&lab, true)?;
    let _backend = StreamServer::start(&lab, "pod2", "10.12.4.4:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", dest], 1, || {
        same(
            "whom the backend saw",
            StreamCall::new("pod", "10.96.0.10:80", 43_210).run(&lab)?,
            answered("10.12.4.1:43210")?,
        )
    })?;
    hold(&lab, &report, name, &["tcp 10.12.3.4:43210 > 10.96.0.10:80 from pod pod
                  request dst 10.96.0.10:80 > 10.12.4.4:8080 at service, prerouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/KUBE-SEP-SHOPWEB1 2
                  request src 10.12.3.4:43210 > 10.12.4.1:43210 at service, postrouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/KUBE-POSTROUTING 3, marked by iptables-legacy nat/KUBE-MARK-MASQ 1
                  source-rewritten, on the wire 10.12.4.1, completed"], &[])
}

fn service_kept_source() -> Result<()> {
    let lab = cast::two_pods("svckept", RouteBack::Known).up()?;
    kube_proxy(&lab, false)?;
    let _backend = StreamServer::start(&lab, "pod2", "10.12.4.4:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["10.96.0.10:80"], 1, || {
        same(
            "whom the backend saw",
            StreamCall::new("pod", "10.96.0.10:80", 43_210).run(&lab)?,
            answered("10.12.3.4:43210")?,
        )
    })?;
    hold(&lab, &report, "service_kept_source", &["tcp 10.12.3.4:43210 > 10.96.0.10:80 from pod pod
                  request dst 10.96.0.10:80 > 10.12.4.4:8080 at service, prerouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/KUBE-SEP-SHOPWEB1 2
                  source-preserved, on the wire 10.12.3.4, completed"], &[])
}
