//! What the far side says that it saw, beside what left here.

use super::findings::finding;
use crate::report::{Code, Finding, Flow, Severity};
use serde_json::json;
use std::net::IpAddr;

/// Adds the comparison to a flow's findings. Without a source on the wire there is none.
pub fn compare_with_peer(flow: &mut Flow, saw: IpAddr) {
    let Some(left) = flow.verdict.source_on_wire else {
        return;
    };
    let (code, severity, text) = if left == saw {
        (
            Code::PeerSawSame,
            Severity::Info,
            format!("the far side saw {saw}, as it left here"),
        )
    } else {
        (
            Code::PeerSawOther,
            Severity::Warning,
            format!("the far side saw {saw}, and {left} left here: it was rewritten on the way"),
        )
    };
    flow.findings.push(Finding {
        text,
        data: json!({ "saw": saw, "left": left }),
        ..finding(code, severity)
    });
}
