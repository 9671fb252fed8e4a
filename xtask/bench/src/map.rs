//! How long a map of every destination takes where there are many rules.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use srctrace_tests::lab::Lab;
use srctrace_tests::trace::binary;

use crate::{lab, merge};

/// Rules of a node.
const RULES: u32 = 20_000;
/// Rules of one Service with one endpoint, as kube-proxy writes them.
const PER_SERVICE: u32 = 5;

/// One set of rules.
#[derive(Debug, Serialize)]
pub(crate) struct Mapped {
    pub(crate) rules: String,
    pub(crate) lines: usize,
    pub(crate) seconds: f64,
    pub(crate) resident_kib: u64,
}

/// Measures each: an agent's exemptions of both families, and Services.
///
/// # Errors
/// When the lab or the program fails.
pub(crate) fn measure(quick: bool) -> Result<Vec<Mapped>> {
    let rules = if quick { RULES / 10 } else { RULES };
    let lab = lab::up("map", 2)?;
    let mut found = Vec::new();
    for (program, v4) in [("iptables-legacy", true), ("ip6tables-legacy", false)] {
        lab.restore(
            "node",
            &format!("{program}-restore"),
            &exemptions(rules, v4),
        )?;
        let family = if v4 { "IPv4" } else { "IPv6" };
        let of = format!("{rules} exemptions of ip-masq-agent, {family}");
        found.push(one(&lab, of)?);
        lab.run("node", &format!("{program} -t nat -F"))?;
    }
    lab.restore("node", "iptables-legacy-restore", &services(rules))?;
    let services = rules / PER_SERVICE;
    let of = format!("{rules} rules of kube-proxy: {services} Services");
    found.push(one(&lab, of)?);
    Ok(found)
}

fn one(lab: &Lab, rules: String) -> Result<Mapped> {
    let scope: Vec<String> = lab.spaces().iter().map(|ns| lab.netns(ns)).collect();
    let began = Instant::now();
    let mut map = Command::new(binary()?)
        .args(["map", "--output", "json", "--node-netns"])
        .arg(lab.netns("node"))
        .args(["--scope", &scope.join(",")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("start srctrace map")?;
    let out = map.stdout.take().context("no output")?;
    let reader = std::thread::spawn(move || std::io::read_to_string(out));
    let resident_kib = merge::watch(&mut map)?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(map.wait()?.success(), "srctrace map failed");
    let text = reader.join().ok().context("reading the map")??;
    Ok(Mapped {
        rules,
        lines: text.lines().count() - 1,
        seconds,
        resident_kib,
    })
}

/// One prefix each, of which no two touch.
fn exemptions(rules: u32, v4: bool) -> String {
    let lines = (1..rules).map(|n| {
        let [_, high, low, _] = (n << 9).to_be_bytes();
        let first = 11 + (n >> 15);
        let to = match v4 {
            true => format!("{first}.{high}.{low}.0/24"),
            false => format!("fd50:{:x}::/47", n << 1),
        };
        format!("-A IP-MASQ-AGENT -d {to} -j RETURN\n")
    });
    let lines: String = lines.collect();
    format!(
        "*nat\n:IP-MASQ-AGENT - [0:0]\n-A POSTROUTING -j IP-MASQ-AGENT\n{lines}-A IP-MASQ-AGENT -j MASQUERADE\nCOMMIT\n"
    )
}

/// Services with one endpoint each, that anybody may ask.
fn services(rules: u32) -> String {
    let (mut chains, mut lines) = (String::new(), String::new());
    for n in 0..rules / PER_SERVICE {
        let [_, _, high, low] = n.to_be_bytes();
        let (svc, sep) = (format!("KUBE-SVC-{n}"), format!("KUBE-SEP-{n}"));
        let to = format!("10.96.{high}.{low}/32 -p tcp -m tcp --dport 80");
        chains.push_str(&format!(":{svc} - [0:0]\n:{sep} - [0:0]\n"));
        lines.push_str(&format!(
            "-A KUBE-SERVICES -d {to} -j {svc}\n\
             -A {svc} ! -s 10.12.0.0/16 -d {to} -j KUBE-MARK-MASQ\n\
             -A {svc} -j {sep}\n\
             -A {sep} -s 10.13.{high}.{low}/32 -j KUBE-MARK-MASQ\n\
             -A {sep} -p tcp -m tcp -j DNAT --to-destination 10.13.{high}.{low}:8080\n"
        ));
    }
    format!(
        "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n{chains}\
         -A PREROUTING -j KUBE-SERVICES\n-A OUTPUT -j KUBE-SERVICES\n-A POSTROUTING -j KUBE-POSTROUTING\n{lines}\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MASQUERADE\nCOMMIT\n"
    )
}
