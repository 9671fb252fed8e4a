//! Whether conntrack runs at all: in a namespace it is off until a rule asks for it, and then NAT
//! chains are not consulted either (`nf_ct_netns_get` in net/netfilter/nf_conntrack_proto.c,
//! called by nft_ct.c, nft_nat.c, nft_masq.c, nft_redir.c, nft_flow_offload.c and x_tables' NAT,
//! CT, CONNMARK and conntrack extensions; a NAT chain alone, or notrack, does not ask).

use crate::ruleset::{Action, Condition, Family, Field, Rule, Ruleset, Step};

/// Whether rules ask for conntrack, for an IP version. Where a rule is not understood, it may.
pub(super) fn is_on(ruleset: &Ruleset, version: u8) -> bool {
    let tables = ruleset.tables.iter().filter(|table| {
        let family = table.id.family;
        family.takes(version) && family != Family::Netdev
    });
    let mut rules = tables.flat_map(|t| &t.chains).flat_map(|c| &c.rules);
    !ruleset.unread.is_empty() || rules.any(asks)
}

fn asks(rule: &Rule) -> bool {
    rule.steps.iter().any(|step| match step {
        Step::Test(test) => condition(&test.condition),
        Step::Do(action) => does(action),
    })
}

fn condition(test: &Condition) -> bool {
    match test {
        Condition::Compare { field, .. } => is_conntrack(field),
        Condition::Member { fields, .. } => fields.iter().any(is_conntrack),
        Condition::AnyOf(tests) => tests.iter().any(|test| condition(&test.condition)),
        Condition::Chance(_) => false,
        Condition::Unknown(_) => true,
    }
}

fn does(action: &Action) -> bool {
    match action {
        Action::Nat(_)
        | Action::SetCtMark { .. }
        | Action::RestoreMark { .. }
        | Action::SaveMark { .. }
        | Action::SetZone(_)
        | Action::Offload
        | Action::Unknown(_) => true,
        Action::VerdictMap { fields, .. } => fields.iter().any(is_conntrack),
        Action::ChanceOf(actions) => actions.iter().any(does),
        _ => false,
    }
}

fn is_conntrack(field: &Field) -> bool {
    matches!(
        field,
        Field::CtMark { .. }
            | Field::CtState
            | Field::CtStatus
            | Field::CtDirection
            | Field::CtZone
            | Field::CtOrigSaddr
            | Field::CtOrigDaddr
            | Field::CtOrigSport
            | Field::CtOrigDport
    )
}
