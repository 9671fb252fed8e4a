//! Rules of policy routing (`ip rule`) that are about sources.

use super::SystemError;
use super::netlink::Netlink;
use super::netns::{Netns, visit};
use ipnet::IpNet;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::IpAddr;
use std::ops::ControlFlow;
use tracer_core::inventory::PolicyRule;

/// Most rules that are read of one namespace: an address manager makes one or two for each pod.
const MOST: usize = 4096;

/// The rules of a namespace, of IPv4 or of IPv6, that name a source, in the order in which the kernel asks them. What else they ask for (a mark, a
/// device) makes them none of these.
///
/// # Errors
/// When the namespace is gone or may not be entered.
pub fn policies(netns: &Netns, v4: bool) -> Result<Vec<PolicyRule>, SystemError> {
    visit(netns, || {
        let mut socket = Netlink::open()?;
        let mut question = RuleMessage::default();
        question.header.family = match v4 {
            true => AddressFamily::Inet,
            false => AddressFamily::Inet6,
        };
        let mut found = Vec::new();
        let asked = socket.dump(RouteNetlinkMessage::GetRule(question), |answer| {
            if let RouteNetlinkMessage::NewRule(message) = answer {
                found.extend(policy(&message));
            }
            match found.len() {
                MOST.. => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        drop(asked); // what came before a refusal counts
        found.sort_by_key(|rule: &PolicyRule| rule.priority);
        Ok(found)
    })
}

fn policy(message: &RuleMessage) -> Option<PolicyRule> {
    let (mut from, mut to, mut priority) = (None, None, 0);
    let mut table = u32::from(message.header.table);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(addr) => from = net(*addr, message.header.src_len),
            RuleAttribute::Destination(addr) => to = net(*addr, message.header.dst_len),
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::FwMark(mark) if *mark != 0 => return None,
            RuleAttribute::Iifname(_)
            | RuleAttribute::Oifname(_)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_) => return None,
            _ => {}
        }
    }
    Some(PolicyRule {
        priority,
        from: from?,
        to,
        table,
    })
}

fn net(addr: IpAddr, length: u8) -> Option<IpNet> {
    IpNet::new(addr, length).ok()
}
