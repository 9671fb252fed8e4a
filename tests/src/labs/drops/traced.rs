//! The rule that dropped, as the kernel's own trace shows it, or probes on verdicts do.

use anyhow::Result;

use super::super::steps::{A_MOMENT, same, watch};
use super::{Case, Kernel};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::traffic::{Outcome, StreamCall};

pub(in super::super) const CASES: &[Case] = &[
    Case::new("drop_traced_legacy", &["B6"], || seen(TRACE, LEGACY)).on(TRACED),
    Case::new("drop_traced_iptables_nft", &["B6"], || {
        seen(TRACE, IPTABLES_NFT)
    })
    .on(TRACED),
    Case::new("drop_traced_nft", &["B6"], || seen(TRACE, NFT)).on(TRACED),
    Case::new("drop_traced_policy", &["B6"], || seen(TRACE, POLICY)).on(TRACED),
    Case::new("drop_traced_nft_policy", &["B6"], || {
        seen(TRACE, NFT_POLICY)
    })
    .on(TRACED),
];

/// As those, by probes.
pub(in super::super) const PROBED_CASES: &[Case] = &[
    Case::new("drop_probed_iptables_nft", &["B6"], || {
        seen(PROBES, IPTABLES_NFT)
    })
    .on(PROBED),
    Case::new("drop_probed_nft", &["B6"], || seen(PROBES, NFT)).on(PROBED),
];

const TRACE: &str = "nftrace";
const PROBES: &str = "full";

/// Where a socket may own a table.
const TRACED: &[Kernel] = &[Kernel::Native, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

/// Where kprobes are.
const PROBED: &[Kernel] = &[Kernel::V6_1, Kernel::V6_12, Kernel::V7];

/// Rules one of which drops the request, and how it is named. Each has a decoy with the same effect that comes later; NAT
/// somewhere lets the trace begin.
struct Store {
    program: &'static str,
    script: &'static str,
    rule: &'static str,
}

const NAT: &str = "*nat\n-A POSTROUTING -d 10.99.0.0/16 -j MASQUERADE\nCOMMIT\n";
const FILTER: &str = "*filter\n:DENY - [0:0]\n-A FORWARD -p udp -j DROP\n-A FORWARD -d 10.20.0.0/16 -j DENY\n\
    -A FORWARD -p tcp -j DROP\n-A DENY -p udp -j DROP\n-A DENY -j DROP\nCOMMIT\n";

const LEGACY: &Store = &Store {
    program: "iptables-legacy-restore",
    script: FILTER,
    rule: "iptables-legacy filter/DENY 2",
};
const IPTABLES_NFT: &Store = &Store {
    program: "iptables-nft-restore",
    script: FILTER,
    rule: "iptables-nft filter/DENY 2",
};
const POLICY: &Store = &Store {
    program: "iptables-legacy-restore",
    script: "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p udp -j ACCEPT\nCOMMIT\n",
    rule: "iptables-legacy filter/FORWARD -",
};
const NFT: &Store = &Store {
    program: "nft",
    script: "table inet real { chain deny { meta l4proto udp drop; drop; }
        chain through { type filter hook forward priority 0
            ip daddr 10.20.0.0/16 goto deny
            drop
        }; }",
    rule: "nft real/deny 2",
};
const NFT_POLICY: &Store = &Store {
    program: "nft",
    script: "table inet real { chain through { type filter hook forward priority 0; policy drop
        meta l4proto udp accept
        }; }",
    rule: "nft real/through -",
};

/// The rule that dropped is seen running; where that is not observed the same rule is replayed.
fn seen(observer: &str, store: &Store) -> Result<()> {
    let lab = cast::one_pod("b6trace", RouteBack::Known).up()?;
    if store.program == "nft" {
        lab.restore("node", "iptables-nft-restore", NAT)?;
        lab.nft("node", store.script)?;
    } else {
        lab.restore("node", store.program, NAT)?;
        lab.restore("node", store.program, store.script)?;
    }
    for (how, evidence) in [(observer, "observed"), ("none", "replayed")] {
        let args = ["--dest", PEER, "--observe-rules", how];
        let report = watch(&lab, &args, 1, || {
            let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
            same("the request", call.run(&lab)?, Outcome::Silence)
        })?;
        let flow = report.only_flow()?;
        let rule = &flow["drops"][0]["rule"];
        let text = |key: &str| rule[key].as_str().unwrap_or("-").to_owned();
        let index = rule["index"]
            .as_u64()
            .map_or("-".to_owned(), |n| n.to_string());
        let named = format!(
            "{} {}/{} {index}",
            text("backend"),
            text("table"),
            text("chain")
        );
        same("what dropped it", named, store.rule.to_owned())?;
        same("how it is known", text("evidence"), evidence.to_owned())?;
        same("the finding's rule", &flow["findings"][0]["rule"], rule)?;
    }
    Ok(())
}
