//! An agent's configuration against its file, the rules and the wire; what an edit would change. By whole outputs.

mod agents;
mod edits;
mod peered;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::steps::{same, same_text, watch};
use super::{Case, NATIVE};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Agent, AgentLoop, Lab};
use crate::trace::expect::compare;
use crate::trace::normal::without_moments;
use crate::trace::{Files, Names, Srctrace};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "config_of_an_agent_that_runs_and_stops",
        &["A5", "A6", "A11", "A16"],
        runs_and_stops,
    )
    .on(NATIVE),
    Case::new("config_refused_by_a_running_agent", &["A5", "A16"], refused).on(NATIVE),
    Case::new("config_not_there_yet", &["A16"], not_there_yet).on(NATIVE),
    Case::new(
        "config_that_masquerades_nothing_or_everything",
        &["A7", "A8"],
        nothing_or_everything,
    )
    .on(NATIVE),
    Case::new(
        "config_too_wide_or_too_narrow",
        &["A9", "A15"],
        wide_or_narrow,
    )
    .on(NATIVE),
    Case::new(
        "config_chain_without_a_jump_or_behind_another",
        &["A6"],
        missing_or_shadowed,
    )
    .on(NATIVE),
    Case::new("config_rule_by_hand", &["C9"], by_hand).on(NATIVE),
    Case::new("config_plan_before_an_edit", &["A10"], edits::plan).on(NATIVE),
    Case::new("config_smallest_edit", &["A10"], edits::smallest_edit).on(NATIVE),
    Case::new("config_of_azures_agent", &["A5"], agents::azure).on(NATIVE),
    Case::new("config_of_cilium", &["A5", "A6", "A16"], agents::cilium).on(NATIVE),
    Case::new("config_ipv6_half_missing", &["A6"], agents::ipv6_half).on(NATIVE),
    Case::new("config_boot_script_only", &["A6"], agents::boot_script).on(NATIVE),
    Case::new("config_of_standard_input", &["A5"], agents::standard_input).on(NATIVE),
    Case::new("config_no_agent_takes", &["A5"], agents::no_good).on(NATIVE),
    Case::new(
        "field_c39_peered_network_as_configured",
        &["A2"],
        peered::as_configured,
    )
    .on(NATIVE),
    Case::new("config_wrong_usage", &[], wrong_usage).on(NATIVE),
];

const LOCAL: &str = "169.254.0.0/16";

fn config(nets: &[&str]) -> String {
    let items: String = nets.iter().map(|net| format!("- {net}\n")).collect();
    format!("nonMasqueradeCIDRs:\n{items}")
}

/// As `kubectl get configmap -n kube-system ip-masq-agent -o yaml` prints it.
fn config_map(nets: &[&str]) -> String {
    let text = config(nets);
    let text: String = text.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "apiVersion: v1\ndata:\n  config: |\n{text}kind: ConfigMap\nmetadata:\n  name: ip-masq-agent\n  namespace: kube-system\n"
    )
}

/// Rules as the agent would have written them, without an agent.
fn written(lab: &Lab, program: &str, nets: &[&str]) -> Result<()> {
    let exempt = [&[LOCAL], nets].concat();
    let agent = Agent {
        chain: "IP-MASQ-AGENT",
        exempt: &exempt,
    };
    lab.restore("node", program, &agent.restore_script())
}

/// The whole output of one run, which ends with this status.
fn held(lab: &Lab, name: &str, status: i32, args: &[&str]) -> Result<()> {
    let args: Vec<&str> = [&["explain"], args].concat();
    let report = Srctrace::new(lab, &args).run_to_end()?;
    same("exit status", report.status, Some(status))
        .context(report.stderr.clone())
        .context(report.lines.join("\n"))?;
    compare(name, &report, &Names::of(&[(lab, "")]))
}

/// As people read it, with the lab's names in place of the namespaces', and neither processes nor times.
fn text(lab: &Lab, args: &[&str]) -> Result<String> {
    let args: Vec<&str> = [&["explain"], args].concat();
    let report = Srctrace::new(lab, &args).text().run_to_end()?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    let mut spaces = lab.spaces().to_vec();
    spaces.sort_by_key(|ns| std::cmp::Reverse(ns.len()));
    let named = |text: String, ns: &String| text.replace(&lab.netns(ns), ns);
    let whole = spaces.iter().fold(report.lines.join("\n"), named);
    Ok(without_moments(&whole).replace(lab.prefix(), "<lab>"))
}

fn folder(files: &Files) -> String {
    files.path("")
}

/// An agent writes what its file says; then it is gone, and an edit reaches the file and not the rules.
fn runs_and_stops() -> Result<()> {
    let lab = cast::one_pod("cfgrun", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let agent = AgentLoop::start(&lab, Path::new(&folder(&files)), &config(&["10.30.0.0/16"]))?;
    let old = files.write("old.yaml", config_map(&["10.30.0.0/16"]).as_bytes())?;
    let new = files.write(
        "new.yaml",
        config_map(&["10.20.0.0/16", "10.30.0.0/16"]).as_bytes(),
    )?;
    let asked = ["10.20.30.40:443", "--proto", "tcp"];
    held(
        &lab,
        "config_agent_runs",
        0,
        &[&asked[..], &["--config", &old, "--strict"]].concat(),
    )?;
    same_text(
        "as text",
        &text(&lab, &["--config", &old])?,
        RUNS.trim_end(),
    )?;

    agent.stop()?;
    held(&lab, "config_agent_stopped", 0, &asked)?;
    held(
        &lab,
        "config_agent_stopped_before_an_edit",
        1,
        &["--config", &new, "--strict"],
    )?;
    same_text(
        "drift as text",
        &text(&lab, &["--config", &new])?,
        STOPPED.trim_end(),
    )?;

    // The wire shows what the rules are, not what the ConfigMap says.
    let file = files.path("a.srct");
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    watch(&lab, &["--dest", PEER, "--record", &file], 1, || {
        masqueraded(&lab, "10.20.30.40:443")
    })?;
    held(
        &lab,
        "config_wire_differs",
        1,
        &["--config", &new, "--flows", &file, "--strict"],
    )
}

/// The pod asks, and the far side sees the node's address. Its port is chosen anew: the agent's rule says --random-fully.
fn masqueraded(lab: &Lab, to: &str) -> Result<()> {
    match StreamCall::new("pod", to, 43_210).run(lab)? {
        Outcome::Answered(addr) => same(
            "what the far side saw",
            addr.ip().to_string().as_str(),
            cast::NODE,
        ),
        other => bail!("{other:?}"),
    }
}

const RUNS: &str = include_str!("runs.txt");
const STOPPED: &str = include_str!("stopped.txt");

/// One bad entry: the agent takes nothing of the file, its rules of before stay.
fn refused() -> Result<()> {
    let lab = cast::one_pod("cfgbad", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let agent = AgentLoop::start(&lab, Path::new(&folder(&files)), &config(&["10.30.0.0/16"]))?;
    agent.edit(&config(&["10.30.0.0/16", "10.20.3.4/16"]))?;
    agent.pause()?;
    held(
        &lab,
        "config_refused",
        1,
        &["10.20.30.40:443", "--proto", "tcp", "--strict"],
    )
}

/// The ConfigMap is newer than the file in the pod, and the file newer than the rules.
fn not_there_yet() -> Result<()> {
    let lab = cast::one_pod("cfgstage", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let agent = AgentLoop::start(&lab, Path::new(&folder(&files)), &config(&["10.30.0.0/16"]))?;
    let new = files.write("new.yaml", config_map(&["10.20.0.0/16"]).as_bytes())?;
    held(
        &lab,
        "config_file_behind_the_configmap",
        0,
        &["--config", &new],
    )?;
    // The agent sleeps until its next look, and has not seen the file that the kubelet has written.
    agent.pause()?;
    agent.edit(&config(&["10.20.0.0/16"]))?;
    held(
        &lab,
        "config_rules_behind_the_file",
        0,
        &["--config", &new, "--strict"],
    )
}

fn nothing_or_everything() -> Result<()> {
    let lab = cast::one_pod("cfgall", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    written(&lab, "iptables-legacy-restore", &["0.0.0.0/0"])?;
    let nothing = files.write("nothing.yaml", b"nonMasqueradeCIDRs:\n- 0.0.0.0/0\n")?;
    held(
        &lab,
        "config_masquerade_nothing",
        0,
        &["10.20.30.40:443", "--proto", "tcp", "--config", &nothing],
    )?;
    let everything = files.write(
        "everything.yaml",
        b"nonMasqueradeCIDRs:\nmasqLinkLocal: true\n",
    )?;
    held(
        &lab,
        "config_masquerade_everything",
        0,
        &["--config", &everything],
    )
}

fn wide_or_narrow() -> Result<()> {
    let lab = cast::one_pod("cfgwide", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    written(&lab, "iptables-nft-restore", &["10.0.0.0/8"])?;
    let wide = files.write("wide.yaml", config(&["10.0.0.0/8"]).as_bytes())?;
    let known = ["--onprem", "10.20.0.0/16", "--onprem", "192.168.0.0/16"];
    held(
        &lab,
        "config_wide",
        0,
        &[&["--config", &wide], &known[..]].concat(),
    )?;
    let narrow = files.write("narrow.yaml", config(&["10.20.0.0/17"]).as_bytes())?;
    held(
        &lab,
        "config_narrow",
        0,
        &[&["--config", &narrow], &known[..]].concat(),
    )
}

fn missing_or_shadowed() -> Result<()> {
    let lab = cast::one_pod("cfgshadow", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let file = files.write("a.yaml", config(&["10.20.0.0/16"]).as_bytes())?;
    held(
        &lab,
        "config_chain_missing",
        1,
        &["--config", &file, "--strict"],
    )?;
    // The boot script's chain stands before the agent's, and masquerades what that exempts.
    lab.restore("node", "iptables-legacy-restore", BOOT)?;
    written(&lab, "iptables-legacy-restore", &["10.20.0.0/16"])?;
    held(
        &lab,
        "config_shadowed",
        1,
        &[
            "10.20.30.40:443",
            "--proto",
            "tcp",
            "--config",
            &file,
            "--strict",
        ],
    )?;
    lab.run("node", "iptables-legacy -w 10 -t nat -F POSTROUTING")?;
    held(
        &lab,
        "config_jump_missing",
        1,
        &["--config", &file, "--strict"],
    )
}

const BOOT: &str = "*nat\n:IP-MASQ - [0:0]\n\
    -A POSTROUTING -m comment --comment \"ip-masq: jump\" -m addrtype ! --dst-type LOCAL -j IP-MASQ\n\
    -A IP-MASQ -d 10.30.0.0/16 -m comment --comment \"ip-masq: local traffic\" -j RETURN\n\
    -A IP-MASQ -m comment --comment \"ip-masq: outbound traffic\" -j MASQUERADE\nCOMMIT\n";

/// A rule that somebody set by hand in the agent's chain.
fn by_hand() -> Result<()> {
    let lab = cast::one_pod("cfghand", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    written(&lab, "iptables-nft-restore", &["10.30.0.0/16"])?;
    lab.iptables_nft(
        "node",
        "-t nat -I IP-MASQ-AGENT 2 -d 10.20.0.0/16 -j RETURN",
    )?;
    let file = files.write("a.yaml", config(&["10.30.0.0/16"]).as_bytes())?;
    held(
        &lab,
        "config_rule_by_hand",
        1,
        &[
            "10.20.30.40:443",
            "--proto",
            "tcp",
            "--config",
            &file,
            "--strict",
        ],
    )
}

fn wrong_usage() -> Result<()> {
    let lab = cast::one_pod("cfgusage", RouteBack::Known).up()?;
    let files = Files::new(&lab)?;
    let config = files.write("a.yaml", b"nonMasqueradeCIDRs: []\n")?;
    let flows = files.write("a.json", b"{\"type\":\"flow\"\n")?;
    let text = files.write("a.txt", b"hello")?;
    let missing = files.path("none.yaml");
    for (args, said) in [
        (
            &["--config", &missing][..],
            format!("--config {missing}: cannot be read: No such file or directory (os error 2); give a file, or - for standard input"),
        ),
        (
            &["--config", &config, "--flows", &flows],
            format!("--flows {flows}: line 1: no line of a report: EOF while parsing an object at line 1 column 14; give what -o json printed"),
        ),
        (
            &["--config", &config, "--flows", &text],
            format!("{text}: neither a recording of srctrace (.srct) nor a packet capture (pcap, pcapng), by its first bytes"),
        ),
        (
            &["--want", "pod"],
            "--want needs the destination as an address or a prefix: --want pod --dest 10.20.0.0/16".to_owned(),
        ),
        (
            &["--config", &config, "--onprem", "10.20.3.0/16"],
            "--onprem '10.20.3.0/16': there are bits set beyond /16; did you mean 10.20.0.0/16 or 10.20.3.0?".to_owned(),
        ),
    ] {
        let args: Vec<&str> = [&["explain"], args].concat();
        let report = Srctrace::new(&lab, &args).run_to_end()?;
        same("exit status", report.status, Some(2)).context(report.stderr.clone())?;
        same("what it says", report.stderr.as_str(), format!("srctrace: {said}").as_str())?;
    }
    Ok(())
}
