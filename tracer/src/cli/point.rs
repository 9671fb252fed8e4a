//! `--point NAME=IFACE[@NETNS][:in|out]`.

use super::error::UsageError;
use super::parse::{self, FromRef};
use tracer_core::event::Dir;

/// Points beyond this many are a mistake.
const MOST: usize = 64;
const ACCEPTED: &str = "a point is NAME=IFACE[@NETNS][:in|out], such as tun=tun0@vpn or out=eth0@shop/vpn-0:out; NETNS is \
     a network namespace (name, process id, path) or a pod, and the node where it is left out";

/// A device that is given a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointSpec {
    /// The name.
    pub name: String,
    /// The device.
    pub ifname: String,
    /// Its namespace; `None`: the node.
    pub netns: Option<FromRef>,
    /// One direction only; `None`: both.
    pub dir: Option<Dir>,
    /// As it was given.
    pub text: String,
}

pub(super) fn parse(text: &str) -> Result<PointSpec, String> {
    let (name, place) = text.split_once('=').ok_or(ACCEPTED)?;
    let odd = |c: char| c.is_control() || c.is_whitespace();
    if name.is_empty() || name.chars().count() > 32 || name.chars().any(odd) {
        return Err(format!(
            "a point's name has 1 to 32 characters, without spaces; {ACCEPTED}"
        ));
    }
    let (place, dir) = match place.rsplit_once(':') {
        Some((place, "in")) => (place, Some(Dir::Ingress)),
        Some((place, "out")) => (place, Some(Dir::Egress)),
        // A path may have a colon in it.
        Some((_, rest)) if !rest.contains('/') => {
            return Err(format!("a direction is in or out; {ACCEPTED}"));
        }
        _ => (place, None),
    };
    let (ifname, netns) = match place.split_once('@') {
        Some((ifname, netns)) => (ifname, Some(parse::from(netns)?)),
        None => (place, None),
    };
    Ok(PointSpec {
        name: name.to_owned(),
        ifname: parse::interface(ifname)?,
        netns,
        dir,
        text: text.to_owned(),
    })
}

/// No name twice, and not too many.
pub(super) fn check(points: &[PointSpec]) -> Result<(), UsageError> {
    if points.len() > MOST {
        return Err(UsageError::new(&format!(
            "--point: {} points were given, accepted are at most {MOST}",
            points.len()
        )));
    }
    let twice = (1..points.len()).find(|at| {
        let earlier = &points[..*at];
        earlier.iter().any(|other| other.name == points[*at].name)
    });
    match twice {
        Some(at) => Err(UsageError::value(
            "--point",
            &points[at].text,
            "there is a point of that name already; give each its own",
        )),
        None => Ok(()),
    }
}
