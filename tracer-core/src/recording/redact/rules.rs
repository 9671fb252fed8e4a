//! Addresses in rules: they must go on to match what they matched.

use super::Redactor;
use crate::ruleset::{Action, Condition, Nat, Rule, Ruleset, Set, Step, Test, Value, Verdict};
use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use std::net::IpAddr;

impl Redactor {
    pub(super) fn rules(&mut self, rules: &mut Ruleset) {
        let chains = rules.tables.iter_mut().flat_map(|table| &mut table.chains);
        for rule in chains.flat_map(|chain| &mut chain.rules) {
            self.rule(rule);
        }
        rules.sets.values_mut().for_each(|set| self.set(set));
        let unread = rules.unread.iter_mut();
        unread.for_each(|unread| self.text(&mut unread.why));
    }

    fn rule(&mut self, rule: &mut Rule) {
        if let Some(comment) = rule.comment.as_mut().filter(|c| !c.is_empty()) {
            let plain = comment.clone();
            self.name(comment);
            rule.text = rule.text.replace(&plain, comment);
        }
        self.text(&mut rule.text);
        for step in &mut rule.steps {
            match step {
                Step::Test(test) => self.test(test),
                Step::Do(action) => self.action(action),
            }
        }
    }

    fn set(&mut self, set: &mut Set) {
        for element in &mut set.elements {
            let values = element.key.iter_mut().chain(&mut element.data);
            values.for_each(|value| *value = self.value(value));
            element.action.iter_mut().for_each(|a| self.action(a));
            self.text(&mut element.text);
        }
    }

    fn test(&mut self, test: &mut Test) {
        match &mut test.condition {
            Condition::Compare { values, .. } => *values = self.values(values),
            Condition::AnyOf(tests) => tests.iter_mut().for_each(|test| self.test(test)),
            Condition::Chance(text) | Condition::Unknown(text) => self.text(text),
            Condition::Member { .. } => {}
        }
    }

    fn action(&mut self, action: &mut Action) {
        match action {
            Action::ChanceOf(actions) => actions.iter_mut().for_each(|a| self.action(a)),
            Action::Nat(Nat { addrs, .. }) => *addrs = self.values(addrs),
            Action::SetField { value, .. } => *value = value.as_ref().map(|v| self.value(v)),
            Action::Pass(text) | Action::Unknown(text) | Action::Verdict(Verdict::Reject(text)) => {
                self.text(text)
            }
            _ => {}
        }
    }

    /// Where one of several values is enough, a range becomes the prefixes that it consists of.
    fn values(&mut self, values: &[Value]) -> Vec<Value> {
        let mut out = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Value::Addrs(from, to) if from != to => {
                    let nets = prefixes(*from, *to).into_iter();
                    out.extend(nets.map(|net| {
                        let net = self.addresses.net(net);
                        Value::Addrs(net.network(), net.broadcast())
                    }));
                }
                value => out.push(self.value(value)),
            }
        }
        out
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Masked { addr, mask } => Value::Masked {
                addr: masked(self.addresses.replace(*addr), *mask),
                mask: *mask,
            },
            // A range that is no prefix, where only one value can stand, covers other addresses than before.
            Value::Addrs(from, to) => match prefixes(*from, *to).as_slice() {
                [net] => {
                    let net = self.addresses.net(*net);
                    Value::Addrs(net.network(), net.broadcast())
                }
                _ => {
                    let ends = [from, to].map(|addr| self.addresses.replace(*addr));
                    Value::Addrs(ends[0].min(ends[1]), ends[0].max(ends[1]))
                }
            },
            value => value.clone(),
        }
    }
}

fn prefixes(from: IpAddr, to: IpAddr) -> Vec<IpNet> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            Ipv4Subnets::new(from, to, 0).map(IpNet::V4).collect()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            Ipv6Subnets::new(from, to, 0).map(IpNet::V6).collect()
        }
        _ => Vec::new(),
    }
}

fn masked(addr: IpAddr, mask: IpAddr) -> IpAddr {
    match (addr, mask) {
        (IpAddr::V4(addr), IpAddr::V4(mask)) => (addr & mask).into(),
        (IpAddr::V6(addr), IpAddr::V6(mask)) => (addr & mask).into(),
        (addr, _) => addr,
    }
}
