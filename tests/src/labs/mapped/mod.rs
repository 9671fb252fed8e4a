//! `map`: every destination from rules alone, by whole outputs, and held against what is seen.

mod gateway;
mod others;
mod seen;
mod ways;

use anyhow::{Context as _, Result};

use super::steps::{masquerade, same, same_text};
use super::{Case, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::trace::expect::compare;
use crate::trace::{Files, Names, Report, Srctrace};

pub(super) const CASES: &[Case] = &[
    Case::new("a17_map_of_every_destination", &["A17"], mapped).on(NATIVE),
    Case::new("a17_map_against_an_older_one", &["A17"], mapped_again).on(NATIVE),
    Case::new("a17_map_is_what_is_seen", &["A17"], seen::is_what_is_seen).on(NATIVE),
    Case::new(
        "a17_map_of_other_routing_tables",
        &["A17"],
        ways::other_tables,
    )
    .on(NATIVE),
    Case::new("a17_map_of_refused_destinations", &["A17"], ways::refused).on(NATIVE),
    Case::new(
        "a17_map_of_a_gateways_clients",
        &["A17", "C1"],
        gateway::clients,
    )
    .on(NATIVE),
    Case::new("a17_map_from_a_recording", &["A17"], others::recorded).on(NATIVE),
    Case::new(
        "a17_map_against_another_host",
        &["A17"],
        others::another_host,
    )
    .on(NATIVE),
    Case::new("a17_map_after_an_upgrade", &["A17"], others::upgraded).on(NATIVE),
];

/// A map as JSON lines.
fn map(lab: &Lab, args: &[&str]) -> Result<Report> {
    let args: Vec<&str> = [&["map"], args].concat();
    let report = Srctrace::new(lab, &args).run_to_end()?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    Ok(report)
}

/// The same in a file.
fn map_file(lab: &Lab, files: &Files, name: &str) -> Result<String> {
    let lines = map(lab, &[])?.lines;
    files.write(name, (lines.join("\n") + "\n").as_bytes())
}

/// What people read of a run with that status, and what it says besides, with the lab's names in place of the
/// namespaces'.
fn text(lab: &Lab, args: &[&str], status: i32) -> Result<String> {
    let args: Vec<&str> = [&["map"], args].concat();
    let report = Srctrace::new(lab, &args).text().run_to_end()?;
    let whole = [report.stderr.trim_end(), &report.lines.join("\n")].join("\n");
    same("exit status", report.status, Some(status)).context(whole.clone())?;
    Ok(whole.trim_start().replace(lab.prefix(), ""))
}

fn mapped() -> Result<()> {
    let lab = cast::two_pods("mapall", RouteBack::Known).up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    lab.restore("node", "ip6tables-legacy-restore", SIX)?;
    let report = map(&lab, &[])?;
    compare("a17_map", &report, &Names::of(&[(&lab, "")]))?;
    let told = text(&lab, &["--netns", &lab.netns("pod")], 0)?;
    same_text("map as text", &told, MAPPED)
}

const SIX: &str = "*nat\n:IP-MASQ - [0:0]\n-A POSTROUTING -j IP-MASQ\n-A IP-MASQ -d fd50::/64 -j RETURN\n\
    -A IP-MASQ -j MASQUERADE\nCOMMIT\n";

const MAPPED: &str = "\
pod pod 10.12.3.4
  0.0.0.0/0      10.100.0.5 (the node)                 iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.12.3.0/24   no way                                nobody there
  10.12.3.1/32   kept, delivered here
  10.12.4.0/24   no way                                nobody there
  10.12.4.1/32   kept, delivered here
  10.12.4.4/32   10.12.4.1 (the node), delivered here  iptables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  10.20.0.0/16   kept                                  iptables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)
  10.100.0.5/32  kept, delivered here

pod pod fd12:3::4
  ::/0             fd10:100::5 (the node)                ip6tables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  fd10:100::5/128  kept, delivered here
  fd12:3::/64      no way                                nobody there
  fd12:3::1/128    kept, delivered here
  fd12:4::/64      no way                                nobody there
  fd12:4::1/128    kept, delivered here
  fd12:4::4/128    fd12:4::1 (the node), delivered here  ip6tables-legacy nat/IP-MASQ rule 2 (ip-masq-agent)
  fd50::/64        kept                                  ip6tables-legacy nat/IP-MASQ rule 1 (ip-masq-agent)

The longest prefix that holds a destination counts.";

/// An exemption is narrowed: which destinations get another source, and nothing where nothing changed.
fn mapped_again() -> Result<()> {
    let lab = cast::two_pods("mapdiff", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    let old = map_file(&lab, &files, "old.json")?;
    let same_again = Srctrace::new(&lab, &["map", "--diff", &old]).run_to_end()?;
    same("exit status", same_again.status, Some(0)).context(same_again.stderr.clone())?;
    same("lines", same_again.lines.len(), 1)?;
    lab.run(
        "node",
        "iptables-legacy -t nat -R IP-MASQ 1 -d 10.20.30.0/24 -j RETURN",
    )?;
    let report = Srctrace::new(&lab, &["map", "--diff", &old]).run_to_end()?;
    same("exit status", report.status, Some(1)).context(report.stderr.clone())?;
    compare("a17_map_diff", &report, &Names::of(&[(&lab, "")]))?;
    let bad = files.write("bad.json", b"{\"type\":\"map\"}\n")?;
    let refused = Srctrace::new(&lab, &["map", "--diff", &bad]).run_to_end()?;
    same("exit status", refused.status, Some(2))?;
    let said = format!(
        "srctrace: {bad}, line 1: not a line of `srctrace map --output json`: missing field `schema`"
    );
    same("what it says", refused.stderr.as_str(), said.as_str())
}
