//! What the routing rules of a namespace (`ip rule`) ask for besides destinations and devices.

use super::SystemError;
use super::netlink::Netlink;
use super::netns::{Netns, visit};
use ipnet::IpNet;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::ops::ControlFlow;
use tracer_core::foresee::Steering;

/// Asks for it, of IPv4 and of IPv6.
///
/// # Errors
/// When the namespace is gone or may not be entered.
pub fn steering(netns: &Netns) -> Result<[Steering; 2], SystemError> {
    visit(netns, || {
        let mut both = [Steering::default(), Steering::default()];
        let families = [AddressFamily::Inet, AddressFamily::Inet6];
        for (found, family) in both.iter_mut().zip(families) {
            let mut question = RuleMessage::default();
            question.header.family = family;
            let mut socket = Netlink::open()?;
            // A family that the kernel lacks has no rules.
            let _ = socket.dump(RouteNetlinkMessage::GetRule(question), |answer| {
                if let RouteNetlinkMessage::NewRule(rule) = answer {
                    note(found, &rule);
                }
                ControlFlow::Continue(())
            });
        }
        Ok(both)
    })
}

fn note(found: &mut Steering, rule: &RuleMessage) {
    // A mark without a mask is compared as a whole (net/core/fib_rules.c, `fib_nl2rule`).
    let (mut mark, mut mask) = (0, None);
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::FwMark(number) => mark = *number,
            RuleAttribute::FwMask(bits) => mask = Some(*bits),
            RuleAttribute::Source(addr) => {
                let net = IpNet::new(*addr, rule.header.src_len);
                found.sources.extend(net);
            }
            RuleAttribute::Iifname(name) => {
                found.devices.insert(name.clone());
            }
            _ => {
                let what = beyond(attribute).map(str::to_owned);
                found.beyond.extend(what);
            }
        }
    }
    found.mark |= mask.unwrap_or(if mark == 0 { 0 } else { u32::MAX });
    if rule.header.tos != 0 {
        found.beyond.insert("the type of service".to_owned());
    }
}

/// What no forecast has.
fn beyond(attribute: &RuleAttribute) -> Option<&'static str> {
    match attribute {
        RuleAttribute::IpProtocol(_) => Some("the protocol"),
        RuleAttribute::SourcePortRange(_) => Some("the source port"),
        RuleAttribute::DestinationPortRange(_) => Some("the destination port"),
        RuleAttribute::UidRange(_) => Some("the user"),
        RuleAttribute::TunId(id) if *id != 0 => Some("the tunnel"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::TestNetns;

    #[test]
    fn what_rules_ask_for_is_told() {
        let here = TestNetns::new("steering");
        let path = format!("/run/netns/{}", here.0);
        let netns = Netns::at(std::path::Path::new(&path)).unwrap();
        let none = Steering::default;
        assert_eq!(steering(&netns).unwrap(), [none(), none()]);
        here.ip("rule add to 10.20.0.0/16 lookup 100");
        assert_eq!(steering(&netns).unwrap(), [none(), none()]);
        here.ip("rule add fwmark 0x10/0xf0 lookup 100");
        here.ip("-6 rule add fwmark 0/0x100 lookup 100");
        here.ip("rule add from 10.12.0.0/16 iif eth0 lookup 100");
        here.ip("rule add ipproto tcp dport 25 lookup 100");
        here.ip("rule add tos 0x10 lookup 100");
        let beyond = [
            "the destination port",
            "the protocol",
            "the type of service",
        ];
        let v4 = Steering {
            mark: 0xf0,
            sources: ["10.12.0.0/16".parse().unwrap()].into(),
            devices: ["eth0".to_owned()].into(),
            beyond: beyond.map(str::to_owned).into(),
        };
        let v6 = Steering {
            mark: 0x100,
            ..none()
        };
        assert_eq!(steering(&netns).unwrap(), [v4.clone(), v6.clone()]);
        here.ip("rule add fwmark 7 lookup 100");
        let mark = u32::MAX;
        assert_eq!(steering(&netns).unwrap(), [Steering { mark, ..v4 }, v6]);
    }
}
