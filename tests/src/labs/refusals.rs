//! What it cannot do here is one clear line and status 3, with nothing attached: rights, the kernel's types, /proc.

use anyhow::{Context as _, Result};

use super::steps::{
    MASQUERADED, answered, hold, masquerade, masqueraded_by, same, same_text, wait_for, watch_with,
};
use super::{Case, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{DEADLINE, Report, Srctrace, state};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("e2_capabilities", &["E2"], capabilities),
    Case::new("e2_optional_capabilities", &["E2"], optional_capabilities),
    Case::new("e2_hidden_processes", &["E2"], hidden_processes),
    Case::new("e2_as_the_readme_says", &["E2"], as_the_readme_says).on(NATIVE),
    Case::new("e2_rules_take_too_long", &["E2"], rules_take_too_long),
    Case::new("e2_no_types", &["E2"], no_types),
    Case::new("e2_no_proc", &["E2"], no_proc),
];

const REMEDY: &str =
    "; run as root, or give the container securityContext.privileged or these capabilities";

/// Runs it behind the script: status 3, this one line, and a node as before.
fn refused(lab: &Lab, script: &str, line: &str) -> Result<()> {
    let before = state(lab, "node")?;
    let report = Srctrace::new(lab, &["--dest", PEER])
        .around(script)
        .run_to_end()?;
    let at = || format!("after: {script}");
    same("what it says", report.stderr.as_str(), line).with_context(at)?;
    same("exit status", report.status, Some(3)).with_context(at)?;
    same("lines printed", report.lines.len(), 0).with_context(at)?;
    same_text("the node's state", &state(lab, "node")?, &before)
}

/// Root without some of its capabilities.
fn without(capabilities: &str) -> String {
    format!("exec setpriv --bounding-set {capabilities} \"$@\"")
}

fn capabilities() -> Result<()> {
    let lab = cast::one_pod("caps", RouteBack::Known).up()?;
    for (dropped, line) in [
        (
            "-net_admin",
            "CAP_NET_ADMIN (to attach to interfaces and read rules and conntrack)",
        ),
        ("-sys_admin", "CAP_SYS_ADMIN (to enter network namespaces)"),
        (
            "-sys_admin,-bpf",
            "CAP_BPF, CAP_SYS_ADMIN (to load the programs; enter network namespaces)",
        ),
        (
            "-sys_admin,-perfmon",
            "CAP_PERFMON, CAP_SYS_ADMIN (to attach to tracepoints and read kernel memory; enter network namespaces)",
        ),
    ] {
        let line = format!("srctrace: cannot trace without {line}{REMEDY}");
        refused(&lab, &without(dropped), &line)?;
    }
    Ok(())
}

/// Root without what is only good to have, and whose CAP_SYS_ADMIN includes two that are gone: it traces, and says what it
/// may not look at.
fn optional_capabilities() -> Result<()> {
    degraded(
        "e2_optional_capabilities",
        &without("-bpf,-perfmon,-sys_ptrace,-net_raw,-net_broadcast,-sys_nice"),
        // iptables-save needs CAP_NET_RAW.
        &masqueraded_by(&[]),
        &[(0, "rules-unread")],
    )
}

/// A /proc that hides the processes of others: the same.
fn hidden_processes() -> Result<()> {
    let script = format!(
        "mount -t proc -o hidepid=2 proc /proc\n{}",
        without("-sys_ptrace")
    );
    degraded("e2_hidden_processes", &script, MASQUERADED, &[])
}

/// Nobody with just the capabilities that the README names: everything works.
fn as_the_readme_says() -> Result<()> {
    const README: &str = include_str!("../../../README.md");
    let named = README
        .split_once("- Root, or ")
        .and_then(|(_, rest)| rest.split_once(';'))
        .context("the README's line of capabilities")?;
    let words = named
        .0
        .split(|c: char| !c.is_ascii_alphabetic() && c != '_');
    let names = words.filter_map(|word| word.strip_prefix("CAP_"));
    let capabilities: String = names
        .map(|name| format!(",+{}", name.to_ascii_lowercase()))
        .collect();
    let script = format!(
        "mkdir -p /mnt\n\
         mount -t tmpfs none /mnt\n\
         cp \"$1\" /mnt/srctrace\n\
         shift\n\
         exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all{capabilities} \
         --ambient-caps=-all{capabilities} --bounding-set=-all{capabilities} /mnt/srctrace \"$@\""
    );
    let (lab, report) = traced_behind(&script)?;
    hold(&lab, &report, "e2_as_the_readme_says", &[MASQUERADED], &[])
}

/// The program that prints rules hangs: the flow is told in the end, with the reason why it has no rule, and nothing is
/// left of the program.
fn rules_take_too_long() -> Result<()> {
    let script = "mkdir -p /mnt\n\
        mount -t tmpfs none /mnt\n\
        printf '#!/bin/sh\\nexec sleep 60.125\\n' > /mnt/iptables-legacy-save\n\
        chmod +x /mnt/iptables-legacy-save\n\
        export PATH=/mnt:$PATH";
    let (lab, report) = traced_behind(script)?;
    let findings = &[(0, "rules-unread")];
    let claims = masqueraded_by(&[]);
    hold(
        &lab,
        &report,
        "e2_rules_take_too_long",
        &[&claims],
        findings,
    )?;
    let ended = || lab.run("node", "pgrep -f ^sleep.60.125").is_err();
    wait_for("the program's end", DEADLINE, ended).map(drop)
}

fn degraded(name: &str, script: &str, claims: &str, findings: &[(usize, &str)]) -> Result<()> {
    let (lab, report) = traced_behind(script)?;
    let summary = report.summary()?;
    let unavailable = summary["observed_by"]["unavailable"].as_array();
    let told = unavailable
        .into_iter()
        .flatten()
        .filter(|one| one["what"] == "CAP_SYS_PTRACE");
    same("rows about it", told.count(), 1).context(summary.to_string())?;
    hold(&lab, &report, name, &[claims], findings)
}

/// A masqueraded flow, traced behind a script.
fn traced_behind(script: &str) -> Result<(Lab, Report)> {
    let lab = cast::one_pod("degraded", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let srctrace = Srctrace::new(&lab, &["--dest", PEER]).around(script);
    let report = watch_with(&srctrace, 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    Ok((lab, report))
}

/// The kernel's own description of its types is not there, or is nothing.
fn no_types() -> Result<()> {
    let lab = cast::one_pod("btf", RouteBack::Known).up()?;
    refused(
        &lab,
        "mount -t tmpfs none /sys/kernel/btf",
        "srctrace: cannot read /sys/kernel/btf/vmlinux: No such file or directory (os error 2); srctrace needs a kernel \
         built with CONFIG_DEBUG_INFO_BTF=y, and /sys mounted",
    )?;
    refused(
        &lab,
        "mount -o bind /dev/null /sys/kernel/btf/vmlinux",
        "srctrace: cannot understand /sys/kernel/btf/vmlinux: BTF is cut short: the header lies outside of it",
    )
}

fn no_proc() -> Result<()> {
    let lab = cast::one_pod("proc", RouteBack::Known).up()?;
    refused(
        &lab,
        "mount -t tmpfs none /proc",
        "srctrace: cannot read /proc/self/ns/net: No such file or directory (os error 2); srctrace needs /proc mounted \
         (mount -t proc proc /proc)",
    )
}
