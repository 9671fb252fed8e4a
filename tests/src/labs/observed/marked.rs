//! A Service as kube-proxy has it: one rule marks, another one, after the destination was
//! translated, masquerades what is marked. Both are told, with the whole way to each.

use anyhow::{Context as _, Result, bail};

use super::acts::{Told, told};
use super::forms::{Store, V4};
use super::{PROBED, PROBED_LEGACY, PROBES, TRACE, TRACED};
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::labs::Case;
use crate::labs::steps::{answered, same, watch};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

use Store::{IptablesNft, Legacy, Nft};

pub(in crate::labs) const CASES: &[Case] = &[
    Case::new("rule_traced_marked_legacy", &["C3"], || both(Legacy, TRACE)).on(TRACED),
    Case::new("rule_traced_marked_iptables_nft", &["C3"], || {
        both(IptablesNft, TRACE)
    })
    .on(TRACED),
    Case::new("rule_traced_marked_nft", &["C3"], || both(Nft, TRACE)).on(TRACED),
    Case::new("rule_probed_marked_legacy", &["C3"], || {
        both(Legacy, PROBES)
    })
    .on(PROBED_LEGACY),
    Case::new("rule_probed_marked_iptables_nft", &["C3"], || {
        both(IptablesNft, PROBES)
    })
    .on(PROBED),
    Case::new("rule_probed_marked_nft", &["C3"], || both(Nft, PROBES)).on(PROBED),
    Case::new("rule_traced_bare_accept_legacy", &["A2"], bare_accept).on(TRACED),
];

const IPTABLES: &str = "*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SVC-OLD - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-MARK-OLD - [0:0]
:KUBE-SEP-A - [0:0]
:KUBE-POSTROUTING - [0:0]
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.99.0.10/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-OLD
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-A
-A KUBE-SVC-A -s 10.99.0.0/16 -j KUBE-MARK-OLD
-A KUBE-SVC-A ! -s 10.99.0.0/16 -j KUBE-MARK-MASQ
-A KUBE-SVC-A -j KUBE-SEP-A
-A KUBE-SVC-OLD -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-MARK-OLD -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SEP-A -s 10.20.30.40/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.20.30.40:443
-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING
-A POSTROUTING -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -d 10.99.0.0/16 -j MASQUERADE
-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE
COMMIT
";

const NFTABLES: &str = "table ip kube-proxy {
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.99.0.10 . tcp . 443 : goto service-OLD, 10.96.0.10 . tcp . 443 : goto service-A }
  }
  chain mark-for-masquerade {
    meta mark set meta mark | 0x4000
  }
  chain mark-old {
    meta mark set meta mark | 0x4000
  }
  chain endpoint-A {
    ip saddr 10.20.30.40 jump mark-for-masquerade
    meta l4proto tcp dnat to 10.20.30.40:443
  }
  chain service-A {
    ip saddr 10.99.0.0/16 jump mark-old
    ip saddr != 10.99.0.0/16 jump mark-for-masquerade
    goto endpoint-A
  }
  chain service-OLD {
    jump mark-for-masquerade
  }
  chain services {
    ip daddr . meta l4proto . th dport vmap @service-ips
  }
  chain masquerading {
    meta mark & 0x4000 == 0 return
    meta mark set meta mark ^ 0x4000
    ip daddr 10.99.0.0/16 masquerade
    masquerade
  }
  chain nat-prerouting {
    type nat hook prerouting priority dstnat
    jump services
  }
  chain nat-postrouting {
    type nat hook postrouting priority srcnat
    jump masquerading
    masquerade
  }
}
";

/// The rules that a report should tell: place, and the chains on the way.
struct Should {
    translates: (&'static str, &'static [&'static str]),
    masquerades: (&'static str, &'static [&'static str]),
    marks: (&'static str, &'static [&'static str]),
}

const OF_IPTABLES: Should = Should {
    translates: (
        "nat/KUBE-SEP-A 2",
        &["PREROUTING", "KUBE-SERVICES", "KUBE-SVC-A", "KUBE-SEP-A"],
    ),
    masquerades: (
        "nat/KUBE-POSTROUTING 4",
        &["POSTROUTING", "KUBE-POSTROUTING"],
    ),
    marks: (
        "nat/KUBE-MARK-MASQ 1",
        &[
            "PREROUTING",
            "KUBE-SERVICES",
            "KUBE-SVC-A",
            "KUBE-MARK-MASQ",
        ],
    ),
};

const OF_NFTABLES: Should = Should {
    translates: (
        "kube-proxy/endpoint-A 2",
        &["nat-prerouting", "services", "service-A", "endpoint-A"],
    ),
    masquerades: (
        "kube-proxy/masquerading 4",
        &["nat-postrouting", "masquerading"],
    ),
    marks: (
        "kube-proxy/mark-for-masquerade 1",
        &[
            "nat-prerouting",
            "services",
            "service-A",
            "mark-for-masquerade",
        ],
    ),
};

fn both(store: Store, how: &str) -> Result<()> {
    let lab = cast::one_pod("marked", RouteBack::Known).up()?;
    let (should, backend) = match store {
        Nft => (OF_NFTABLES, "nft"),
        Legacy => (OF_IPTABLES, "iptables-legacy"),
        IptablesNft => (OF_IPTABLES, "iptables-nft"),
    };
    match store {
        Nft => lab.nft("node", NFTABLES)?,
        _ => lab.restore("node", &store.restores(&V4), IPTABLES)?,
    }
    // A probe on a NAT target does not see who marks.
    let marker = if how == TRACE { "observed" } else { "replayed" };
    for (how, nat, marker) in [(how, "observed", marker), ("none", "replayed", "replayed")] {
        let is = |(place, chains): (&str, &[&str]), evidence: &str| {
            let chains = chains.iter().map(|chain| (*chain).to_owned()).collect();
            (format!("{backend} {place}"), evidence.to_owned(), chains)
        };
        let should = [
            is(should.translates, nat),
            is(should.masquerades, nat),
            is(should.marks, marker),
        ];
        same("the rules in the report", rules(&lab, how)?, should)?;
    }
    Ok(())
}

/// What the report tells of one connection to the Service: by which rule its destination is
/// translated, by which its source, and which marked it for that.
fn rules(lab: &Lab, how: &str) -> Result<[Told; 3]> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let args = ["--dest", V4.vip, "--observe-rules", how];
    let report = watch(lab, &args, 1, || {
        let outcome = StreamCall::new("pod", "10.96.0.10:443", 43_210).run(lab)?;
        let should = answered("10.100.0.5:43210")?;
        same("what the far side saw", outcome, should)
    })?;
    let flow = report.only_flow()?;
    let rewrites = flow["rewrites"].as_array().into_iter().flatten();
    let requests: Vec<_> = rewrites
        .filter(|rewrite| rewrite["direction"] == "request")
        .collect();
    let [to, from] = requests.as_slice() else {
        bail!("rewrites are {:#}", flow["rewrites"]);
    };
    let chains = |rule| {
        let (place, evidence, path): Told = told(rule);
        let chain = |step: &String| step.split(' ').next().unwrap_or_default().to_owned();
        (place, evidence, path.iter().map(chain).collect())
    };
    Ok([
        chains(&to["rule"]),
        chains(&from["rule"]),
        chains(&from["marked_by"]),
    ])
}

/// The kernel's trace calls an unconditional ACCEPT of a built-in chain its policy.
fn bare_accept() -> Result<()> {
    let lab = cast::one_pod("bare", RouteBack::Known).up()?;
    for rule in ["-d 10.99.0.0/16 -j ACCEPT", "-j ACCEPT", "-j MASQUERADE"] {
        lab.iptables_legacy("node", &format!("-t nat -A POSTROUTING {rule}"))?;
    }
    for (how, evidence) in [(TRACE, "observed"), ("none", "replayed")] {
        let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
        let args = ["--dest", V4.peer, "--observe-rules", how];
        let report = watch(&lab, &args, 1, || {
            let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
            let should = answered("10.12.3.4:43210")?;
            same("what the far side saw", outcome, should)
        })?;
        let flow = report.only_flow()?;
        let findings = flow["findings"].as_array().into_iter().flatten();
        let mut kept = findings.filter(|finding| finding["code"] == "exempt-by-rule");
        let (place, is, _) = told(&kept.next().context("no exempt-by-rule")?["rule"]);
        let should = ("iptables-legacy nat/POSTROUTING 2", evidence);
        same(
            "the rule in the report",
            (place.as_str(), is.as_str()),
            should,
        )?;
    }
    Ok(())
}
