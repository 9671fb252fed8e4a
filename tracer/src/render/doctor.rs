//! What can be observed on this machine, as a table.

use super::escape;
use super::look::{Look, Role, pad, widest};
use tracer_core::report::Capability;

/// A line for each capability; missing ones tell what that costs.
#[must_use]
pub fn doctor(capabilities: &[Capability], look: Look) -> String {
    let names: Vec<String> = capabilities
        .iter()
        .map(|c| escape(&c.what).into_owned())
        .collect();
    let width = widest(names.iter().map(String::as_str));
    let mut text = String::new();
    for (capability, what) in capabilities.iter().zip(&names) {
        let (word, role) = if capability.available {
            ("yes", Role::Good)
        } else {
            ("NO ", Role::Bad)
        };
        let line = format!(
            "{}  {}  {}",
            pad(what, width),
            look.paint(role, word),
            escape(&capability.why)
        );
        text.push_str(&format!("{}\n", line.trim_end()));
        if !capability.effect.is_empty() && (!capability.available || look.verbose > 0) {
            text.push_str(&format!(
                "{:width$}       {}\n",
                "",
                escape(&capability.effect)
            ));
        }
    }
    let missing = capabilities.iter().filter(|c| !c.available).count();
    text.push_str(&match missing {
        0 => format!("\n{}\n", look.paint(Role::Good, "nothing is missing")),
        n => format!("\n{} of {} missing\n", n, capabilities.len()),
    });
    text
}
