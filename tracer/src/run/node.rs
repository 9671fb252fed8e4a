//! Is "the node" the node? A debug pod without hostNetwork has a network namespace of its own.

use super::plan::Plan;
use crate::cli::TraceOptions;
use crate::render::escape;
use crate::sink;
use crate::system::Survey;
use crate::system::netns::Netns;
use tracer_core::event::NetnsId;
use tracer_core::inventory::NotTheNode;
use tracer_core::report::Unavailable;

/// Says on stderr when srctrace was hardly started in the node's namespace. What is then told as
/// the node's doing is not, and each report must say so: that is what comes back.
pub(super) fn doubt(options: &TraceOptions, plan: &Plan, survey: &Survey) -> Option<Unavailable> {
    if options.node_netns.is_some() {
        return None;
    }
    let first = Netns::at(&plan.roots.of(1, "ns/net")).ok().map(|n| n.id);
    let doubt = survey.inventory().not_the_node(first)?;
    let (why, remedy, sure) = match doubt {
        NotTheNode::PodOf(node) => (
            "srctrace was started in a pod's network namespace",
            format!("give --node-netns {}", call(node, first, survey)),
            true,
        ),
        NotTheNode::Beside(node) => (
            "srctrace was started in a network namespace without pods, beside the node's",
            format!("give --node-netns {}", call(node, first, survey)),
            true,
        ),
        NotTheNode::PodOfUnseen => (
            "this looks like a pod's network namespace, and the node's is not to be seen from here",
            "start it with hostNetwork, or with hostPID and --node-netns 1".to_owned(),
            false,
        ),
    };
    let line = format!("srctrace: warning: not on the node: {why}; {remedy}");
    sink::note(&format!("{}\n", escape(&line)));
    sure.then(|| Unavailable {
        what: "the node".to_owned(),
        why: format!("{why} ({remedy})"),
        effect: "\"the node\" is that namespace in this report".to_owned(),
    })
}

/// How `--node-netns` is told a namespace.
fn call(netns: NetnsId, first: Option<NetnsId>, survey: &Survey) -> String {
    if first == Some(netns) {
        return "1".to_owned();
    }
    let found = survey.discovery().found.get(&netns);
    let name = found.and_then(|f| f.name.clone());
    let pid = || found.and_then(|f| f.pids.first()).map(u32::to_string);
    name.or_else(pid).unwrap_or_else(|| netns.0.to_string())
}
