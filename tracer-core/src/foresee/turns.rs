//! Which way a packet goes on, and what rules make of that which decides it.

use super::walk::{Carried, Walk, unspecified};
use super::{Asked, Routed};
use crate::evaluate::End;
use crate::inventory::RouteQuestion;
use std::net::IpAddr;

/// What the rules of a namespace make of that which its route is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The destination, where it is one.
    pub(super) dst: Option<IpAddr>,
    /// The mark, as far as routing rules ask for it.
    pub(super) mark: u32,
}

impl Turn {
    /// None at all.
    pub(super) fn none(dst: IpAddr) -> Self {
        Self {
            dst: Some(dst),
            mark: 0,
        }
    }
}

impl<'r> Walk<'_, 'r> {
    /// The way of a packet with that mark. To IPv4 destinations a socket asks once more when it has its source
    /// (include/net/route.h, `ip_route_connect`).
    pub(super) fn route(&mut self, at: &Carried<'r>, dst: IpAddr, mark: u32) -> Option<Routed> {
        let came = at
            .came
            .map(|dev| (at.src.or(at.neighbour).unwrap_or(unspecified(dst)), dev));
        let asked = Asked {
            way: RouteQuestion { dst, came },
            src: at.src.filter(|_| at.came.is_none() && dst.is_ipv4()),
            mark,
        };
        let routes = self.ground.routes;
        if !routes.knows(at.netns, asked) {
            self.found.needs.routes.insert((at.netns, asked));
        }
        if let Some(steering) = routes.steering(at.netns, dst.is_ipv4()) {
            for what in &steering.beyond {
                self.doubt(format!("{what}, for which a routing rule asks"));
            }
            if !steering.sources.is_empty() && at.came.is_some() && at.src.is_none() {
                self.doubt("the source, for which a routing rule asks".to_owned());
            }
        }
        routes.way(self.ground.inventory, at.netns, asked)
    }

    /// What the rules of a namespace make of that which its route is chosen by.
    pub(super) fn turn(&mut self, at: &Carried<'r>, end: &End<'r>) -> Turn {
        let routes = self.ground.routes;
        let steering = routes.steering(at.netns, at.dst.is_ipv4());
        let asked = steering.map_or(0, |steering| steering.mark);
        let mark = end.routed.masked(asked, 0).get();
        if mark.is_none() {
            self.doubt("the mark, for which a routing rule asks".to_owned());
        }
        Turn {
            dst: end.dst.0,
            mark: mark.unwrap_or(0),
        }
    }
}
