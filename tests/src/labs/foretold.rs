//! What `explain` foretells of a flow, held against what became of it: in every lab that holds a report of the machine's own
//! kernel, for every flow of which the report itself is certain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::lab::Lab;
use crate::trace::{Report, Srctrace};

/// Flows that were compared, those of them that had one certain answer, flows that were not compared, and flows that were
/// looked up on a map.
static COUNTS: [AtomicUsize; 4] = [
    AtomicUsize::new(0),
    AtomicUsize::new(0),
    AtomicUsize::new(0),
    AtomicUsize::new(0),
];

/// A line for the end of the run; `None` where nothing was compared.
pub fn told() -> Option<String> {
    let [compared, certain, left, mapped] =
        [0, 1, 2, 3].map(|at: usize| COUNTS[at].load(Ordering::Relaxed));
    (compared + left > 0).then(|| {
        format!(
            "explain foretold {compared} flows as they were seen ({certain} with one answer), map {mapped}; {left} could not be compared"
        )
    })
}

/// Whether the lab runs on the machine's own kernel: elsewhere a run of the program takes seconds.
fn is_native() -> bool {
    std::env::var("SRCTRACE_LAB_KERNEL").map_or(true, |kernel| kernel == "native")
}

/// Compares the report of a lab whose rules still stand with what `explain` says now.
pub(super) fn agrees(lab: &Lab, report: &Report) -> Result<()> {
    if !is_native() {
        return Ok(());
    }
    let mut asked = BTreeSet::new();
    let mut maps = BTreeMap::new();
    for flow in report.flows()? {
        if !is_certain(&flow) {
            COUNTS[2].fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if asked.insert(question(&flow)) {
            one(lab, &flow).with_context(|| format!("explain against the flow {flow}"))?;
            on_map(lab, &flow, &mut maps)
                .with_context(|| format!("map against the flow {flow}"))?;
        }
    }
    Ok(())
}

/// Findings that say that the rules of now are not (all of) what made the flow.
const OTHERWISE: &[&str] = &[
    "mapping-predates-trace",
    "no-rule-explains",
    "rule-uncertain",
    "rules-unread",
    "rewriter-uncertain",
    "flow-offloaded",
    "invalid-not-translated",
    "events-lost",
    "point-unavailable",
    "ambiguous-match",
    "socket-lb",
    "joined-across-hosts",
    "forwarding-lost",
];

fn is_certain(flow: &Value) -> bool {
    let code = &flow["verdict"]["source"];
    let findings = flow["findings"].as_array().into_iter().flatten();
    let mut codes = findings.map(|finding| finding["code"].as_str().unwrap_or_default());
    let rewrites = flow["rewrites"].as_array().into_iter().flatten();
    let mut requests = rewrites.filter(|rewrite| rewrite["direction"] == "request");
    (code == "source-preserved" || code == "source-rewritten")
        && flow["delivery"]["code"] != "dropped"
        && flow["origin"]["netns_name"].as_str().is_some_and(is_there)
        // Foretold is what this node's pods, itself and clients of either may send, and not who lies beyond.
        && flow["origin"]["kind"] != "external"
        && !codes.any(|code| OTHERWISE.contains(&code))
        && requests.all(|rewrite| rewrite["agent"] == "netfilter" && !rewrite["rule"].is_null())
}

/// A lab's namespace that was deleted meanwhile cannot be asked about.
fn is_there(netns: &str) -> bool {
    !netns.starts_with("stlab-") || Path::new("/run/netns").join(netns).exists()
}

/// What is asked for a flow: the arguments.
fn question(flow: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tuple = &flow["flow"];
    let proto = text(&tuple["proto"]);
    let mut args = vec![
        "explain".to_owned(),
        "--dest".to_owned(),
        text(&tuple["dst"]),
        "--proto".to_owned(),
        proto.replace("icmpv6", "icmp"),
        "--src".to_owned(),
        text(&tuple["src"]),
        "--netns".to_owned(),
        text(&flow["origin"]["netns_name"]),
    ];
    if !proto.starts_with("icmp") {
        args.extend(["--port".to_owned(), tuple["dport"].to_string()]);
    }
    args
}

fn one(lab: &Lab, flow: &Value) -> Result<()> {
    let args = question(flow);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let report = Srctrace::new(lab, &args).run_to_end()?;
    ensure!(report.status == Some(0), "{args:?}: {}", report.stderr);
    let lines = report.objects()?;
    let of_kind = |line: &&Value| {
        line["type"] == "explain" && line["origin"]["kind"] == flow["origin"]["kind"]
    };
    let line = lines.iter().find(of_kind);
    let line = line.with_context(|| format!("{args:?}: no such sender in {lines:?}"))?;
    let certain = line["candidates"].as_array().is_none_or(Vec::is_empty);
    let answers: Vec<&Value> = match line["candidates"].as_array() {
        Some(several) if !certain => several.iter().collect(),
        _ => vec![line],
    };
    let seen = outcome(flow);
    ensure!(
        answers.iter().any(|answer| foretells(answer, &seen)),
        "{args:?}: seen {seen:?}, foretold {line}"
    );
    COUNTS[0].fetch_add(1, Ordering::Relaxed);
    COUNTS[1].fetch_add(usize::from(certain), Ordering::Relaxed);
    Ok(())
}

/// Looks a flow up on the map of its sender: the answer for its destination is what became of it.
fn on_map(lab: &Lab, flow: &Value, maps: &mut BTreeMap<String, Vec<Value>>) -> Result<()> {
    let origin = &flow["origin"];
    let netns = origin["netns_name"].as_str().unwrap_or_default();
    let dst: IpAddr = flow["flow"]["dst"].as_str().unwrap_or_default().parse()?;
    // Loopback addresses are on no map.
    if dst.is_loopback() {
        return Ok(());
    }
    if !maps.contains_key(netns) {
        let report = Srctrace::new(lab, &["map", "--netns", netns]).run_to_end()?;
        ensure!(report.status == Some(0), "{}", report.stderr);
        maps.insert(netns.to_owned(), report.objects()?);
    }
    let lines = maps.get(netns).map_or(&[][..], Vec::as_slice);
    let of = lines
        .iter()
        .filter(|line| line["origin"]["kind"] == origin["kind"]);
    let of: Vec<&Value> = of.collect();
    let line = longest(&of, dst)?;
    let seen = outcome(flow);
    // A sender of several addresses has its map with one of them.
    let other = line["origin"]["addr"] != flow["flow"]["src"];
    let fits = |answer: &Value| match other {
        true => answer["source"] == seen.source,
        false => foretells(answer, &seen),
    };
    let several = line["candidates"].as_array();
    let answers: Vec<&Value> = match several {
        Some(several) if !several.is_empty() => several.iter().collect(),
        _ => vec![line],
    };
    ensure!(
        answers.into_iter().any(fits),
        "seen {seen:?}, on the map {line}"
    );
    COUNTS[3].fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// The line of a map with the longest prefix that holds a destination.
pub(super) fn longest<'l>(lines: &[&'l Value], dst: IpAddr) -> Result<&'l Value> {
    let prefix = |line: &Value| -> Option<(IpAddr, u32)> {
        let (addr, len) = line["prefix"].as_str()?.split_once('/')?;
        Some((addr.parse().ok()?, len.parse().ok()?))
    };
    let holds = |(net, len): (IpAddr, u32)| match (net, dst) {
        (IpAddr::V4(net), IpAddr::V4(dst)) => {
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            net.to_bits() == dst.to_bits() & mask
        }
        (IpAddr::V6(net), IpAddr::V6(dst)) => {
            let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
            net.to_bits() == dst.to_bits() & mask
        }
        _ => false,
    };
    let holding = lines.iter().filter(|line| prefix(line).is_some_and(holds));
    let longest = holding.max_by_key(|line| prefix(line).map(|(_, len)| len));
    longest
        .copied()
        .with_context(|| format!("the map says nothing of {dst}"))
}

/// What became of a flow: its source, and the rule that decided, where the report names one.
#[derive(Debug)]
struct Seen {
    source: Value,
    wire: Value,
    rule: Option<String>,
}

fn outcome(flow: &Value) -> Seen {
    let rewrites = flow["rewrites"].as_array().into_iter().flatten();
    let mut sources = rewrites
        .filter(|rewrite| rewrite["direction"] == "request" && rewrite["field"] == "src")
        .map(|rewrite| &rewrite["rule"]);
    let findings = flow["findings"].as_array().into_iter().flatten();
    let exempting = |finding: &&Value| {
        finding["code"] == "exempt-by-rule" || finding["code"] == "exempt-by-set"
    };
    let kept = findings
        .into_iter()
        .find(exempting)
        .map(|finding| &finding["rule"]);
    Seen {
        source: flow["verdict"]["source"].clone(),
        wire: flow["verdict"]["source_on_wire"].clone(),
        rule: sources.next_back().or(kept).map(place),
    }
}

fn place(rule: &Value) -> String {
    format!(
        "{} {} {}/{} {}",
        rule["backend"], rule["family"], rule["table"], rule["chain"], rule["index"]
    )
}

fn foretells(answer: &Value, seen: &Seen) -> bool {
    // One of several addresses is none that is foretold.
    let open = answer["source"] == "source-rewritten" && answer["source_on_wire"].is_null();
    answer["source"] == seen.source
        && (answer["source_on_wire"] == seen.wire || open)
        && seen
            .rule
            .as_ref()
            .is_none_or(|rule| *rule == place(&answer["rule"]))
}
