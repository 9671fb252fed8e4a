//! Packets and bytes of a report against the far side's own counters.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Case;
use super::steps::{answered, masqueraded_pod, same, watch};
use crate::lab::Lab;
use crate::lab::cast::{PEER, RouteBack};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[Case::new(
    "counts_are_those_of_the_far_side",
    &[],
    counts_agree,
)];

/// How many connections are compared.
const CALLS: u16 = 20;

/// Counts in the peer's own input and output, without switching its conntrack on.
const COUNTERS: &str = "table ip lab {
    counter request { }
    counter reply { }
    chain input { type filter hook input priority 0; ip daddr 10.20.30.40 counter name request; }
    chain output { type filter hook output priority 0; ip saddr 10.20.30.40 counter name reply; }
}";

fn counts_agree() -> Result<()> {
    let lab = masqueraded_pod("counts", RouteBack::Known)?;
    lab.nft("peer", COUNTERS)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], CALLS.into(), || {
        for port in 43_210..43_210 + CALLS {
            let call = StreamCall::new("pod", "10.20.30.40:443", port);
            same(
                "the call",
                call.run(&lab)?,
                answered(&format!("10.100.0.5:{port}"))?,
            )?;
        }
        Ok(())
    })?;
    let flows = report.flows()?;
    same("flows", flows.len(), CALLS.into())?;
    for (name, packets, bytes) in [
        ("request", "request", "request_bytes"),
        ("reply", "reply", "reply_bytes"),
    ] {
        let sum = |key: &str| -> u64 {
            flows
                .iter()
                .filter_map(|f| f["packets"][key].as_u64())
                .sum()
        };
        same(name, (sum(packets), sum(bytes)), counted(&lab, name)?)?;
    }
    Ok(())
}

/// Packets and bytes of one of the peer's counters.
fn counted(lab: &Lab, name: &str) -> Result<(u64, u64)> {
    let text = lab.run("peer", &format!("nft -j list counter ip lab {name}"))?;
    let said: Value = serde_json::from_str(&text).context("nft's answer is not JSON")?;
    let list = said["nftables"]
        .as_array()
        .context("nft's answer has no list")?;
    let counter = list
        .iter()
        .find_map(|o| o.get("counter"))
        .context("no counter")?;
    let number = |key: &str| counter[key].as_u64().context("a counter without a number");
    Ok((number("packets")?, number("bytes")?))
}
