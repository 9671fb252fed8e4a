//! An agent's configuration against the rules, and what an edit would change, for people.

use crate::render::escape;
use crate::render::look::{Look, Role, name, pad, widest};
use tracer_core::report::{
    ConfigReport, ConfigState, EditReport, Finding, PlanReport, PlannedSource, SourceCode, Stage,
};

/// The comparison.
#[must_use]
pub fn config(report: &ConfigReport, look: Look) -> String {
    let is_known = report.stages.iter().any(|stage| stage.stage != "kernel");
    let state = match report.config_state {
        Some(state) => state.word(),
        None if is_known => "not compared",
        None => "none is known",
    };
    let title = format!("configuration of {}: {state}", escape(&report.agent));
    let mut out = format!("{}\n", look.paint(Role::Title, &title));
    let role = match report.config_state {
        Some(ConfigState::Agrees) if report.differs_at.is_none() => Role::Good,
        Some(ConfigState::Lagging) | None => Role::Odd,
        Some(_) => Role::Bad,
    };
    let answer = look.wrap(&format!("  ▶  {}", escape(&report.text)));
    out.push_str(&format!("{}\n", look.paint(role, &answer)));
    out.push_str(&stages(report, look));
    for entry in report.entries.iter().filter(|entry| entry.differs) {
        let what = match (entry.wanted, &entry.rule) {
            (Some(true), _) => "asked for, and not exempt".to_owned(),
            (_, Some(rule)) => format!("exempt by {}, and not asked for", escape(&rule.name())),
            (_, None) => "not asked for".to_owned(),
        };
        out.push_str(&format!(
            "     {}  {what}\n",
            pad(&escape(&entry.prefix), 18)
        ));
    }
    if let Some(process) = &report.process {
        let since = process
            .started
            .as_ref()
            .map_or(String::new(), |at| format!(" since {}", escape(at)));
        let line = format!(
            "     {} runs as process {}{since}",
            escape(&report.agent),
            process.pid
        );
        let next = report.next_resync.as_ref().map_or(String::new(), |at| {
            format!(", looks again by {}", escape(at))
        });
        out.push_str(&format!(
            "{}\n",
            look.paint(Role::Faint, &format!("{line}{next}"))
        ));
    }
    out.push_str(&findings(&report.findings, look));
    out
}

fn stages(report: &ConfigReport, look: Look) -> String {
    let width = widest(report.stages.iter().map(|stage| stage.stage.as_str()));
    let line = |stage: &Stage| {
        let mark = match stage.agrees {
            Some(true) => "=",
            Some(false) => "≠",
            None => " ",
        };
        let changed = stage
            .changed
            .as_ref()
            .map_or(String::new(), |at| format!(" of {}", escape(at)));
        let what = match (&stage.exempt, &stage.why) {
            (_, Some(why)) => escape(why).into_owned(),
            (Some(nets), None) if nets.is_empty() => "nothing is exempt".to_owned(),
            (Some(nets), None) => shortened(nets),
            (None, None) => String::new(),
        };
        let what = if what.is_empty() {
            what
        } else {
            format!(":  {what}")
        };
        let text = format!(
            "  {mark}  {}  {}{changed}{what}",
            pad(&escape(&stage.stage), width),
            escape(&stage.from)
        );
        format!("{}\n", look.wrap(&text))
    };
    report.stages.iter().map(line).collect()
}

fn shortened(nets: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = escape(&nets[..nets.len().min(SHOWN)].join(" ")).into_owned();
    match nets.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

fn findings(findings: &[Finding], look: Look) -> String {
    let one = |finding: &Finding| {
        let text = look.wrap(&format!("     {}", escape(&finding.text)));
        let fix = finding.fix.as_ref().map_or(String::new(), |fix| {
            format!("{}\n", look.wrap(&format!("     → {}", escape(fix))))
        });
        format!("{}\n{fix}", look.paint(finding.severity.into(), &text))
    };
    findings.iter().map(one).collect()
}

/// What an edit would change: the paths whose source changes, and how many keep it.
#[must_use]
pub fn plans(plans: &[PlanReport], look: Look) -> String {
    if plans.is_empty() {
        return String::new();
    }
    let (changed, kept): (Vec<_>, Vec<_>) = plans.iter().partition(|plan| plan.changes());
    let title = match changed.len() {
        0 => "what it would change: no source of a path that was asked about".to_owned(),
        1 => "what it would change: the source of 1 path (nothing was applied)".to_owned(),
        n => format!("what it would change: the source of {n} paths (nothing was applied)"),
    };
    let mut out = format!("{}\n", look.paint(Role::Title, &title));
    for plan in &changed {
        let text = format!(
            "  ▶  {}: {} ⇒ {}{}",
            path(plan),
            source(&plan.from),
            source(&plan.to),
            flows(plan.count)
        );
        out.push_str(&format!(
            "{}\n",
            look.paint(Role::Answer, &look.wrap(&text))
        ));
    }
    if look.verbose > 0 {
        for plan in &kept {
            let text = format!(
                "     {}: stays {}{}",
                path(plan),
                source(&plan.from),
                flows(plan.count)
            );
            out.push_str(&format!("{}\n", look.wrap(&text)));
        }
    } else if !kept.is_empty() {
        let s = if kept.len() == 1 { "" } else { "s" };
        out.push_str(&format!(
            "     {} path{s} would keep the source that they have\n",
            kept.len()
        ));
    }
    if !changed.is_empty() {
        let note = "     Allow-lists, firewalls and logs at these destinations will see the other address. Entries match \
                    destinations: a source (a VPN's client pool) cannot be excluded in this list.";
        out.push_str(&format!("{}\n", look.paint(Role::Faint, &look.wrap(note))));
    }
    out
}

fn path(plan: &PlanReport) -> String {
    let path = &plan.path;
    let src = path.src.map_or(String::new(), |src| format!(" {src}"));
    let more = match path.others {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let except = match path.except.as_slice() {
        [] => String::new(),
        nets => format!(" but {}", shortened(nets)),
    };
    let dest = escape(&path.dest);
    format!("{}{src}{more} → {dest}{except}", name(&path.sender))
}

fn source(planned: &PlannedSource) -> String {
    let addr = planned.source_on_wire.map(|addr| addr.to_string());
    let rule = planned
        .rule
        .as_ref()
        .map_or(String::new(), |rule| format!(", {}", escape(&rule.name())));
    match planned.source {
        SourceCode::SourcePreserved => {
            format!("{} (kept{rule})", addr.as_deref().unwrap_or("its own"))
        }
        SourceCode::SourceRewritten => {
            format!("{} (rewritten{rule})", addr.as_deref().unwrap_or("another"))
        }
        _ => "not known".to_owned(),
    }
}

fn flows(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => "; 1 flow seen".to_owned(),
        n => format!("; {n} flows seen"),
    }
}

/// The smallest edit.
#[must_use]
pub fn edit(report: &EditReport, look: Look) -> String {
    let title = format!(
        "{}'s address wanted at {}",
        escape(&report.want),
        escape(&report.dest)
    );
    let mut out = format!("{}\n", look.paint(Role::Title, &title));
    let answer = look.wrap(&format!("  ▶  {}", escape(&report.text)));
    out.push_str(&format!("{}\n", look.paint(Role::Answer, &answer)));
    for change in &report.changes {
        out.push_str(&format!("     {}\n", escape(change)));
    }
    for (what, text) in [
        ("the file then", &report.config),
        ("to go back", &report.rollback),
    ] {
        let Some(text) = text else { continue };
        out.push_str(&format!("     {what}:\n"));
        let shown = if text.is_empty() {
            "# empty: the agent's defaults\n"
        } else {
            text.as_str()
        };
        for line in shown.lines() {
            out.push_str(&format!("       {}\n", escape(line)));
        }
    }
    if let Some(verify) = &report.verify {
        out.push_str(&format!("     verify:  {}\n", escape(verify)));
    }
    out
}
