//! Other agents, other halves, other ways to give a configuration, and configurations that no agent takes.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::super::steps::same;
use super::{BOOT, LOCAL, config, config_map, folder, held, written};
use crate::lab::cast::{self, RouteBack};
use crate::lab::{AgentLoop, Which, bpf};
use crate::trace::expect::compare;
use crate::trace::{Files, Names, Srctrace};

/// Azure's agent joins all files that begin so, and its ConfigMap has another name and key.
pub(super) fn azure() -> Result<()> {
    let lab = cast::one_pod("cfgazure", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let own = config(&["10.30.0.0/16"]);
    let more = config(&["10.20.0.0/16"]);
    let _agent = AgentLoop::start_as(
        &lab,
        Path::new(&folder(&files)),
        Which::Azure,
        &[
            ("ip-masq-agent", own.as_str()),
            ("ip-masq-agent-reconciled", more.as_str()),
        ],
    )?;
    let asked = ["10.20.30.40:443", "--proto", "tcp"];
    held(
        &lab,
        "config_azure",
        0,
        &[&asked[..], &["--strict"]].concat(),
    )?;
    // Without the list this agent has no defaults, where upstream's has.
    let empty = files.write(
        "azure.yaml",
        b"kind: ConfigMap\nmetadata: {name: azure-ip-masq-agent-config, namespace: kube-system}\n\
          data:\n  ip-masq-agent: 'masqLinkLocal: false'\n",
    )?;
    held(
        &lab,
        "config_azure_without_a_list",
        1,
        &["--config", &empty, "--strict"],
    )
}

/// Cilium's list is a map that its data path asks: no rule of iptables tells it.
pub(super) fn cilium() -> Result<()> {
    let lab = cast::one_pod("cfgcilium", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let text = config(&["10.30.0.0/16"]);
    let agent = AgentLoop::start_as(
        &lab,
        Path::new(&folder(&files)),
        Which::Cilium,
        &[("ip-masq-agent", text.as_str())],
    )?;
    held(&lab, "config_cilium_without_a_map", 0, &["--strict"])?;
    let map = agent.path("sys/fs/bpf/tc/globals/cilium_ipmasq_v4");
    bpf::pin_prefixes(&map, &[LOCAL.parse()?, "10.30.0.0/16".parse()?])?;
    held(&lab, "config_cilium_agrees", 0, &["--strict"])?;
    let new = files.write(
        "new.yaml",
        config_map(&["10.20.0.0/16", "10.30.0.0/16"]).as_bytes(),
    )?;
    held(
        &lab,
        "config_cilium_differs",
        1,
        &["--config", &new, "--strict"],
    )?;
    held(
        &lab,
        "config_cilium_want",
        0,
        &["--want", "pod", "--dest", "10.20.0.0/16"],
    )
}

/// The agent is told to write both families, and one half is not there.
pub(super) fn ipv6_half() -> Result<()> {
    let lab = cast::one_pod("cfgsix", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let text = config(&["10.30.0.0/16"]);
    let _agent = AgentLoop::start_as(
        &lab,
        Path::new(&folder(&files)),
        Which::WithIpv6,
        &[("ip-masq-agent", text.as_str())],
    )?;
    held(&lab, "config_ipv6_half_missing", 1, &["--strict"])
}

/// No agent is not no chain: the node's boot script has written one.
pub(super) fn boot_script() -> Result<()> {
    let lab = cast::one_pod("cfgboot", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    lab.restore("node", "iptables-legacy-restore", BOOT)?;
    let asked = ["10.20.30.40:443", "--proto", "tcp"];
    held(&lab, "config_boot_script", 0, &asked)?;
    let file = files.write("a.yaml", config(&["10.20.0.0/16"]).as_bytes())?;
    held(
        &lab,
        "config_boot_script_and_no_agent",
        1,
        &["--config", &file, "--strict"],
    )
}

/// As `kubectl … | srctrace explain --config -`, in YAML and in JSON, alone and in a list.
pub(super) fn standard_input() -> Result<()> {
    let lab = cast::one_pod("cfgpipe", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    written(&lab, "iptables-legacy-restore", &["10.20.0.0/16"])?;
    let json = r#"{"kind":"ConfigMap","metadata":{"name":"ip-masq-agent","namespace":"kube-system","managedFields":[{"time":"2026-01-02T03:04:05Z"}]},"data":{"config":"nonMasqueradeCIDRs: [10.20.0.0/16]\n"}}"#;
    let list = format!(r#"{{"kind":"List","apiVersion":"v1","items":[{json}]}}"#);
    for (name, text) in [
        ("config_piped_yaml", config_map(&["10.20.0.0/16"])),
        ("config_piped_json", json.to_owned()),
        ("config_piped_list", list),
    ] {
        let file = files.write("piped", text.as_bytes())?;
        let report = Srctrace::new(&lab, &["explain", "--config", "-", "--strict"])
            .around(&format!("exec <{file}"))
            .run_to_end()?;
        same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
        compare(name, &report, &Names::of(&[(&lab, "")]))?;
    }
    Ok(())
}

/// One line with file, line and key; what was compared is told all the same.
pub(super) fn no_good() -> Result<()> {
    let lab = cast::one_pod("cfgnogood", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    written(&lab, "iptables-legacy-restore", &["10.20.0.0/16"])?;
    let rows = [
        (
            "nonMasqueradeCIDRs:\n- 10.20.0.0/16\n- 10.20.3.4/16\n",
            "line 3: nonMasqueradeCIDRs: \"10.20.3.4/16\" is not aligned; its network is 10.20.0.0/16",
        ),
        (
            "resyncInterval: 60\n",
            "line 1: resyncInterval: text such as \"60s\" is wanted, and it is a number without quotes",
        ),
        (
            "masqLinkLocal: \"true\"\n",
            "line 1: masqLinkLocal: true or false without quotes is wanted, and it is text",
        ),
        (
            "- 10.20.0.0/16\n",
            "line 1: keys are wanted here, and it is a list",
        ),
    ];
    for (text, why) in rows {
        let file = files.write("bad.yaml", text.as_bytes())?;
        let report = Srctrace::new(&lab, &["explain", "--config", &file]).run_to_end()?;
        same("exit status", report.status, Some(2)).context(report.stderr.clone())?;
        let said = format!("srctrace: --config {file}: {why}");
        same("what it says", report.stderr.as_str(), said.as_str())?;
    }
    let file = files.write("bad.yaml", rows[0].0.as_bytes())?;
    held(&lab, "config_no_good", 2, &["--config", &file, "--strict"])
}
