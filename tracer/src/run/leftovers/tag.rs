//! The name of a filter of ours says whose it is.

use crate::system::Lifetime;
use tracer_core::event::Dir;

/// What names of our filters begin with.
const OURS: &str = "srctrace_";
const CREATED: &str = "clsact";

/// Both sides of a device.
pub(super) const SIDES: [Dir; 2] = [Dir::Ingress, Dir::Egress];

/// Whose a filter is: `srctrace_egress:PID-START`, or `srctrace_egress:PID-START:clsact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The run that added it.
    pub(super) run: Lifetime,
    /// Whether the clsact qdisc is srctrace's too: who leaves last removes it.
    pub(super) qdisc: bool,
}

impl Tag {
    pub(super) fn name(self, side: Dir) -> String {
        let created = if self.qdisc {
            format!(":{CREATED}")
        } else {
            String::new()
        };
        format!("{OURS}{}:{}{created}", word(side), self.run)
    }

    /// Reads a filter's name; `None` for those of others.
    pub(super) fn read(name: &str) -> Option<Self> {
        let (_, rest) = name.strip_prefix(OURS)?.split_once(':')?;
        let (run, qdisc) = match rest.split_once(':') {
            Some((run, CREATED)) => (run, true),
            Some(_) => return None,
            None => (rest, false),
        };
        Some(Self {
            run: run.parse().ok()?,
            qdisc,
        })
    }
}

/// A side as tc writes it.
pub(super) fn word(side: Dir) -> &'static str {
    match side {
        Dir::Ingress => "ingress",
        Dir::Egress => "egress",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_those_of_others_are_not_ours() {
        for qdisc in [false, true] {
            let tag = Tag {
                run: Lifetime { pid: 7, start: 99 },
                qdisc,
            };
            assert_eq!(Tag::read(&tag.name(Dir::Egress)), Some(tag));
        }
        for other in [
            "cil_from_netdev",
            "srctrace_egress",
            "srctrace_egress:",
            "srctrace_egress:1",
            "srctrace_egress:1-2:",
            "srctrace_egress:1-2:clsact:",
            "x_srctrace_egress:1-2",
        ] {
            assert_eq!(Tag::read(other), None, "{other}");
        }
    }
}
