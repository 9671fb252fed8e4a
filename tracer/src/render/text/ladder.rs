//! `ladder`: a line and its proof for each rung, and where it ended.

use super::super::escape;
use super::super::look::{Look, Role};
use super::flow;
use tracer_core::report::{Flow, Rung, RungBy, RungCode};

/// One rung. Of one that was not answered the flows follow, as proof; with `-v` of every one.
#[must_use]
pub fn rung(rung: &Rung, flows: &[Flow], look: Look) -> String {
    let answered = rung.code == RungCode::Answered;
    let role = if answered { Role::Good } else { Role::Bad };
    let mut came = rung.code.word().to_owned();
    if let Some(layer) = rung.layer {
        came.push_str(&format!(": {}", layer.word()));
    }
    let service = if rung.service { ", a Service" } else { "" };
    let mut out = format!(
        "{:>2}  {}  ({}{service})  {}\n",
        rung.n,
        look.paint(Role::Title, &escape(&rung.target)),
        word(rung.by),
        look.paint(role, &came)
    );
    out.push_str(&sentence(&rung.text, look));
    if let Some(fix) = &rung.fix {
        out.push_str(&sentence(&format!("→ {fix}"), look));
    }
    if !answered || look.verbose > 0 {
        for one in flows {
            out.push_str(&format!("\n{}", flow(one, look)));
        }
    }
    out
}

fn sentence(text: &str, look: Look) -> String {
    format!("{}\n", look.wrap(&format!("    {}", escape(text))))
}

fn word(by: RungBy) -> &'static str {
    match by {
        RungBy::Icmp => "echo",
        RungBy::Tcp => "tcp",
        RungBy::Dns => "dns",
    }
}

/// Where it ended: `rungs` of `of` were tried.
#[must_use]
pub fn ladder(rungs: &[Rung], of: usize, look: Look) -> String {
    let failed = rungs.iter().find(|rung| rung.code != RungCode::Answered);
    let line = match failed {
        Some(rung) => {
            let layer = rung.layer.map_or("nothing proves a layer", |l| l.word());
            let line = format!(
                "The ladder ends at rung {} of {of}, {}: {layer}.",
                rung.n,
                escape(&rung.target)
            );
            look.paint(Role::Bad, &line)
        }
        None if rungs.len() < of => {
            let line = format!(
                "Ended before rung {} of {of}: those before it were answered.",
                rungs.len() + 1
            );
            look.paint(Role::Odd, &line)
        }
        None => look.paint(Role::Good, &format!("All {of} rungs were answered.")),
    };
    format!("{line}\n")
}
