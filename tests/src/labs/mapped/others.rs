//! Maps against those of another machine, of a recording, and of the time before an upgrade.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};

use super::seen::Walk;
use super::{map, map_file, text};
use crate::lab::Lab;
use crate::lab::cast::{self, EXEMPT, PEER, RouteBack};
use crate::labs::steps::{masquerade, same, same_text, watch};
use crate::trace::expect::compare;
use crate::trace::{Files, Names, Srctrace, srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

const NOT_EXACT: &str =
    "srctrace: the map is not exact: a recording has the main routing tables only";

const NARROWED: &str = "iptables-legacy -t nat -R IP-MASQ 1 -d 10.20.30.0/24 -j RETURN";

/// Traffic of both pods, recorded.
fn record(lab: &Lab, file: &str, host: Option<&str>) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", "0.0.0.0:443", Behaviour::Answer)?;
    let mut args = vec!["--dest", PEER, "--dest", EXEMPT, "--record", file];
    args.extend(host.into_iter().flat_map(|host| ["--host", host]));
    let report = watch(lab, &args, 3, || {
        for (from, to) in [("pod", PEER), ("pod2", EXEMPT), ("node", EXEMPT)] {
            StreamCall::new(from, &format!("{to}:443"), 0).run(lab)?;
        }
        Ok(())
    })?;
    same("exit status", report.status, Some(0)).context(report.stderr)
}

/// The map of a recording is that of its machine at the time, and maps are compared with it.
pub(super) fn recorded() -> Result<()> {
    let lab = cast::two_pods("maprec", RouteBack::Known).up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    let files = Files::new(&lab)?;
    let file = files.path("a.srct");
    record(&lab, &file, None)?;
    let live = map(&lab, &[])?;
    lab.run("node", NARROWED)?;
    let told = srctrace(&["map", "--from-report", &file, "-o", "json"])?;
    same("exit status", told.status, Some(0)).context(told.stderr.clone())?;
    same("what it says besides", told.stderr.as_str(), NOT_EXACT)?;
    let maps = |lines: &[String]| -> Vec<String> {
        let map = |line: &&String| line.starts_with("{\"type\":\"map\"");
        lines.iter().filter(map).cloned().collect()
    };
    same_text(
        "the recording's map",
        &maps(&told.lines).join("\n"),
        &maps(&live.lines).join("\n"),
    )?;
    let told = text(&lab, &["--diff", &file], 1)?;
    same_text(
        "against the recording",
        &told,
        &format!("{NOT_EXACT}\n{CHANGED}"),
    )?;
    let again = srctrace(&["map", "--from-report", &file, "--diff", &file])?;
    same("exit status", again.status, Some(0)).context(again.stderr.clone())?;
    same_text("against itself", &again.lines.join("\n"), NOTHING)
}

const NOTHING: &str = "no destination gets another source than before";

const CHANGED: &str = "\
pod pod 10.12.3.4 and 1 more: pod2
  10.20.0.0/16, but for 10.20.30.0/24  was kept by iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent), is 10.100.0.5 (the node) by iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)";

/// The same cluster's other node: its own addresses.
fn other_node() -> Result<Lab> {
    let lab = cast::two_pods("mapnode", RouteBack::Known).up()?;
    lab.ip(
        "node",
        "addr del 10.100.0.5/24 dev eth0\naddr add 10.100.0.6/24 dev eth0\n\
         route add default via 10.100.0.1",
    )?;
    lab.run("peer", "ip route replace 10.12.0.0/16 via 10.100.0.6")?;
    Ok(lab)
}

/// Whose address it is counts between two nodes, and not which.
pub(super) fn another_host() -> Result<()> {
    let here = cast::two_pods("maphost", RouteBack::Known).up()?;
    masquerade(&here, &["10.20.0.0/16"])?;
    let files = Files::new(&here)?;
    let recording = files.path("a.srct");
    record(&here, &recording, Some("node-a"))?;
    let json = srctrace(&["map", "--from-report", &recording, "-o", "json"])?;
    let json = files.write("a.json", (json.lines.join("\n") + "\n").as_bytes())?;
    drop(here);

    let other = other_node()?;
    masquerade(&other, &["10.20.0.0/16"])?;
    let doubt = format!("{NOT_EXACT}\n");
    for (old, besides) in [(&json, ""), (&recording, &doubt)] {
        let told = text(&other, &["--diff", old], 0)?;
        same_text("nothing is another", &told, &format!("{besides}{NOTHING}"))?;
    }
    other.run("node", NARROWED)?;
    // That node's own address in the place of this one's.
    let changed = CHANGED.replace("10.100.0.5", "10.100.0.6");
    for (old, besides) in [(&json, ""), (&recording, &doubt)] {
        let told = text(&other, &["--diff", old], 1)?;
        same_text("the other node", &told, &format!("{besides}{changed}"))?;
    }
    let report = Srctrace::new(&other, &["map", "--diff", &json]).run_to_end()?;
    same("exit status", report.status, Some(1))?;
    compare(
        "a17_map_of_another_host",
        &report,
        &Names::of(&[(&other, "")]),
    )
}

/// What the agent of the older version wrote: the networks of 10.64.0.0/11 see the node.
const OLD: &str = "*nat\n:IP-MASQ - [0:0]\n-A POSTROUTING -j IP-MASQ\n\
    -A IP-MASQ -d 10.64.0.0/11 -j MASQUERADE\n-A IP-MASQ -d 10.0.0.0/8 -j RETURN\n-A IP-MASQ -j MASQUERADE\nCOMMIT\n";
/// The newer one, in another store, has lost that.
const NEW: &str = "table ip masq {\n chain post {\n  type nat hook postrouting priority srcnat; policy accept;\n\
    \x20 ip daddr 10.0.0.0/8 return\n  masquerade\n }\n}\n";

pub(super) fn upgraded() -> Result<()> {
    let lab = cast::one_pod("mapupgrade", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    lab.restore("node", "iptables-legacy-restore", OLD)?;
    let old = map_file(&lab, &files, "before.json")?;
    let walk = Walk {
        from: "pod",
        netns: "pod",
        kind: "pod",
        fixed: &["10.63.255.255", "10.64.0.0", "10.95.255.255", "10.96.0.0"],
        nets: &[[10, 70, 0, 0], [10, 200, 0, 0], [203, 0, 0, 0]].map(Ipv4Addr::from),
    };
    walk.run(&lab)?;
    lab.run("node", "iptables-legacy -t nat -F")?;
    lab.nft("node", NEW)?;
    walk.run(&lab)?;
    let told = text(&lab, &["--diff", &old], 1)?;
    same_text("the upgrade", &told, UPGRADED)?;
    let report = Srctrace::new(&lab, &["map", "--diff", &old]).run_to_end()?;
    same("exit status", report.status, Some(1))?;
    compare(
        "a17_map_after_an_upgrade",
        &report,
        &Names::of(&[(&lab, "")]),
    )?;
    // srctrace is upgraded, too: older ones do not say why there is no way.
    let lines = std::fs::read_to_string(&old).context("the older map")?;
    let older: String = ["null", "\"no-route\"", "\"nobody\""]
        .iter()
        .fold(lines, |text, why| {
            text.replace(&format!("\"no_way\":{why},"), "")
        });
    ensure!(!older.contains("no_way"), "{older}");
    let older = files.write("older.json", older.as_bytes())?;
    let told = text(&lab, &["--diff", &older], 1)?;
    same_text("against an older srctrace", &told, UPGRADED)
}

const UPGRADED: &str = "\
pod pod 10.12.3.4
  10.64.0.0/11  was 10.100.0.5 (the node) by iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent), is kept by nft ip masq/post handle 2";
