//! Where packets are sighted.

use crate::event::{Dir, Event, NetnsId};

/// One side of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The device's namespace; 0 where it was not readable.
    pub netns: NetnsId,
    /// The device.
    pub ifindex: u32,
    /// Into the namespace or out of it.
    pub dir: Dir,
}

impl Place {
    /// Where an event was sighted.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        Self {
            netns: event.netns.unwrap_or(NetnsId(0)),
            ifindex: event.ifindex,
            dir: event.tap.dir(),
        }
    }
}
