//! Findings: what a person on call should know, each with a code that programs read.

use super::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What it is.
    pub code: Code,
    /// How bad.
    pub severity: Severity,
    /// One sentence for a person on call.
    pub text: String,
    /// The command or setting to look at.
    pub fix: Option<String>,
    /// The rule it is about.
    pub rule: Option<Rule>,
    /// The hop it is about.
    pub hop: Option<u32>,
    /// Whatever else a program may want.
    pub data: serde_json::Value,
}

/// How bad a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// May be the cause.
    Warning,
    /// Is the cause, or makes the answer uncertain.
    Error,
}

/// The codes that this build can report. Each is documented in `docs/verdicts.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The flow was open before the trace (or the rules) began; it keeps its old binding.
    MappingPredatesTrace,
    /// No answer came back: is there a route to that source?
    PeerRouteSuspected,
    /// A program on the way sends packets past the rules, or may.
    ProgramDecides,
    /// The far side closed right after the first data.
    PeerClosedEarly,
    /// A rule kept the source as it was.
    ExemptByRule,
    /// A member of a set kept the source as it was.
    ExemptBySet,
    /// No rule of any store would have rewritten the source.
    NoRuleMatches,
    /// Today's rules do not give what was seen.
    NoRuleExplains,
    /// Which rule it was depends on something that is not known.
    RuleUncertain,
    /// Rules could not be read.
    RulesUnread,
    /// Nobody that is known manages the rule.
    UnownedRule,
    /// A rule that would have translated too is never reached.
    RuleShadowed,
    /// Two rule stores translate side by side.
    TwoBackends,
    /// The rule names an address that no interface has.
    StaleNatAddress,
    /// A route's next hop is a pod, whose address moves when it is rescheduled.
    UnstableNextHop,
    /// A source's own routing rule (`ip rule`) leaves the destination out.
    PolicyRouteMissed,
    /// Rules for routed packets acted on one that a bridge passed on.
    BridgedThroughNetfilter,
    /// Only the port changed.
    PortRewritten,
    /// The source was rewritten twice.
    DoubleRewrite,
    /// What carries the flow on a part of its way: a tunnel's packets, or a process that speaks one.
    CarriedInside,
    /// The packet around it was rewritten; the flow's own source was not by that.
    OuterRewritten,
    /// The flow is a tunnel's own: it carries others.
    CarriesFlows,
    /// Who rewrote it is one of several.
    RewriterUncertain,
    /// nftables' flowtable forwards the flow past the rules.
    FlowOffloaded,
    /// The destination is rewritten at the socket, before there is a packet.
    SocketLb,
    /// Between which of the points that were named the source changed.
    ChangedBetweenPoints,
    /// A PROXY header that need not be believed.
    ProxyHeaderUntrusted,
    /// More than one connection of a proxy fits; none was chosen.
    ProxyAmbiguous,
    /// Two packets or flows fit; neither was chosen.
    AmbiguousMatch,
    /// The kernel had no room for some events.
    EventsLost,
    /// A tap or a point that was wanted could not be observed.
    PointUnavailable,
    /// The reply went past the translation of the request: it arrived from the translated address.
    ReplyBypassedConntrack,
    /// The reply arrived from another address than was asked, and no translation here explains it.
    ReplyRewrittenWrong,
    /// An expectation given on the command line does not hold for this flow.
    ExpectationViolated,
    /// The contract has no entry for this sender.
    OutsideContract,
    /// Forwarding is off, in that namespace or for that device.
    ForwardingDisabled,
    /// Forwarding is off in a namespace whose predecessor had it on.
    ForwardingLost,
    /// The reverse-path check refused a source.
    RpFilter,
    /// A netfilter rule or policy dropped it.
    PolicyDrop,
    /// No route, or one that refuses.
    NoRoute,
    /// A BPF program or traffic-control filter dropped it.
    DroppedByProgram,
    /// Translated back to its sender and not masqueraded.
    HairpinUnmasked,
    /// A source that may not come from there.
    MartianSource,
    /// The next hop does not answer.
    NeighbourFailed,
    /// No conntrack entry could be made for it.
    ConntrackFailed,
    /// TTL or hop limit used up.
    HopLimit,
    /// Packets of full size do not get through.
    MtuSuspected,
    /// A packet was too big for a link beyond, and its sender was told so.
    PathMtuTold,
    /// It left untranslated because conntrack had no entry for it.
    InvalidNotTranslated,
    /// Several hosts' recordings were joined: by what, and how sure that is.
    JoinedAcrossHosts,
    /// It left here, and the host that has the destination never saw it.
    NotSeenAtPeer,
    /// It left here, and a capture of the far side does not show it, which proves nothing.
    CaptureInconclusive,
    /// It was seen at the far side, and not answered there.
    SeenNotAnswered,
    /// It was answered at the far side, and the answer did not come back here.
    LostOnTheWayBack,
    /// What the far side says it saw is not what left here.
    PeerSawOther,
    /// What the far side says it saw is what left here.
    PeerSawSame,
    /// What an agent was told and the rules that are installed differ.
    ConfigDrift,
    /// An agent refuses its configuration as a whole: the rules of before stay.
    ConfigInvalid,
    /// An agent does not read the configuration that is meant for it.
    ConfigNotRead,
    /// The agent does silently otherwise than its configuration looks.
    ConfigTrap,
    /// No rules of the agent are in force, and its configuration asks for some.
    AgentMissing,
    /// Rules of an agent are there, and no agent runs.
    AgentNotRunning,
    /// Another rule decides before the agent's chain.
    AgentShadowed,
    /// The list is empty: every destination is masqueraded.
    MasqueradeEverything,
    /// Every destination is exempt: nothing is masqueraded.
    MasqueradeNothing,
    /// An entry exempts more than pods, nodes and the prefixes that were named.
    WideExemption,
    /// A prefix that should keep its source is not exempt.
    MissingExemption,
}
