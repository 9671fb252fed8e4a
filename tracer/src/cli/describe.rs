//! What is traced, in words, for the line that says that srctrace waits.

use super::dest::{DestSpec, DestTarget};
use super::options::FilterOptions;
use super::parse::{NetnsRef, PodRef, PortRange};
use std::fmt::Display;
use std::net::SocketAddr;

/// At most so many of a kind are listed.
const MOST: usize = 4;

impl FilterOptions {
    /// `traffic to 10.20.30.40:443 from shop/web`.
    #[must_use]
    pub fn describe(&self) -> String {
        let protos: Vec<String> = self
            .protos
            .iter()
            .filter(|p| **p != tracer_core::packet::Proto::ICMPV6)
            .map(ToString::to_string)
            .collect();
        let mut text = if protos.is_empty() {
            "traffic".to_owned()
        } else {
            format!("{} traffic", protos.join(" and "))
        };
        part(&mut text, "to", self.dests.iter().map(dest));
        let port = if self.dests.is_empty() {
            "to port"
        } else {
            "port"
        };
        part(&mut text, port, self.ports.iter().map(|p| ports(*p)));
        let origins = self
            .pods
            .iter()
            .map(pod)
            .chain(self.netns.iter().map(netns));
        part(
            &mut text,
            "from",
            self.sources.iter().map(net).chain(origins),
        );
        part(&mut text, "by", self.interfaces.iter());
        text
    }
}

fn part(text: &mut String, word: &str, all: impl Iterator<Item = impl Display>) {
    let all: Vec<String> = all.map(|one| one.to_string()).collect();
    if all.is_empty() {
        return;
    }
    text.push_str(&format!(
        " {word} {}",
        all[..all.len().min(MOST)].join(", ")
    ));
    if all.len() > MOST {
        text.push_str(&format!(" and {} more", all.len() - MOST));
    }
}

/// `10.20.30.40:443`, as it would be written.
pub(super) fn dest(spec: &DestSpec) -> String {
    let port = spec.ports.first().copied();
    match (&spec.target, port) {
        (DestTarget::Name(name), None) => name.clone(),
        (DestTarget::Name(name), Some(port)) => format!("{name}:{}", ports(port)),
        (DestTarget::Net(target), None) => net(target),
        (DestTarget::Net(target), Some(port)) => match (spec.target.is_range(), port.single()) {
            (false, Some(port)) => SocketAddr::new(target.addr(), port).to_string(),
            _ => format!("{} port {}", net(target), ports(port)),
        },
    }
}

/// A prefix of full length is an address.
fn net(net: &ipnet::IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() {
        net.addr().to_string()
    } else {
        net.to_string()
    }
}

fn ports(range: PortRange) -> String {
    match range.single() {
        Some(port) => port.to_string(),
        None => format!("{}-{}", range.first, range.last),
    }
}

fn pod(pod: &PodRef) -> String {
    match &pod.namespace {
        Some(namespace) => format!("{namespace}/{}", pod.name),
        None => format!("pod {}", pod.name),
    }
}

fn netns(netns: &NetnsRef) -> String {
    match netns {
        NetnsRef::Name(name) => format!("netns {name}"),
        NetnsRef::Pid(pid) => format!("the netns of pid {pid}"),
        NetnsRef::Path(path) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, parse};

    #[test]
    fn filters_in_words() {
        let text: String = [
            "10.20.30.40",
            "10.20.30.40:443 [fd50::20]:443 10.20.0.0/16:80-90 db.corp:5432 10.0.0.1 10.0.0.2",
            "10.20.30.40 --proto tcp,icmp --port 443,8000-8100 --pod shop/web --pod web --netns 42 --src 10.0.0.0/8",
            "-i eth0",
            "--src fd00::1 --netns web --netns /run/netns/x",
        ]
        .iter()
        .map(|line| match parse(std::iter::once("srctrace").chain(line.split(' '))) {
            Ok(Command::Trace(options)) => format!("{}\n", options.filter.describe()),
            other => panic!("{other:?}"),
        })
        .collect();
        insta::assert_snapshot!("described", text);
    }
}
