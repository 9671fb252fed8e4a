//! Many flows in a few lines.

use super::super::escape;
use super::super::look::{Look, Role, name};
use super::words;
use tracer_core::report::{DeliveryCode, Group, SourceCode};

/// One line for each group, the largest first, ending with an empty line; nothing for no group.
#[must_use]
pub fn groups(groups: &[Group], look: Look) -> String {
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|g| std::cmp::Reverse(g.count));
    let width = sorted.first().map_or(0, |g| g.count.to_string().len());
    let mut text = String::new();
    for group in sorted {
        text.push_str(&line(group, width, look));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn line(group: &Group, width: usize, look: Look) -> String {
    let flows = if group.count == 1 { "flow " } else { "flows" };
    let origin = match group.origin.as_str() {
        "node" => "the node".to_owned(),
        "external" => "outside".to_owned(),
        other => name(other),
    };
    let (word, role) = words::delivery(group.delivery);
    let delivery = match group.delivery {
        DeliveryCode::Completed => String::new(),
        _ => format!(", {}", look.paint(role, word)),
    };
    format!(
        "{:>width$} {flows} from {origin}: {}{delivery}\n",
        group.count,
        look.paint(Role::Answer, &source(group))
    )
}

fn source(group: &Group) -> String {
    let wire = group.source_on_wire.map(|a| a.to_string());
    let to = |word: &str| {
        wire.as_ref()
            .map(|a| format!("{word}{a}"))
            .unwrap_or_default()
    };
    match group.source {
        SourceCode::SourcePreserved => match &wire {
            Some(addr) => format!("kept {addr}"),
            None => "kept the source".to_owned(),
        },
        SourceCode::SourceRewritten => {
            let place = group
                .place
                .map(|p| format!(" {}", words::place(p, "this machine")));
            let rule = group.rule.as_deref().map(|r| format!(" by {}", escape(r)));
            format!(
                "rewritten{}{}",
                to(" to "),
                rule.or(place).unwrap_or_default()
            )
        }
        SourceCode::SourceTerminated => "ended by a proxy".to_owned(),
        SourceCode::SourceUnknown => format!("source not known{}", to(", seen as ")),
    }
}
