//! What the host looks like.

use super::{arg, number};
use std::collections::BTreeMap;
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Cgroup, Inventory, Link, Namespace, Route};

/// Names of namespaces and devices.
#[derive(Default)]
pub(super) struct Names {
    netns: BTreeMap<String, NetnsId>,
    devices: BTreeMap<String, (NetnsId, u32)>,
}

impl Names {
    pub(super) fn device(&self, name: &str) -> Result<(NetnsId, u32), String> {
        let known = self.devices.get(name).copied();
        known.ok_or_else(|| format!("no device {name:?}"))
    }

    pub(super) fn netns(&self, name: &str) -> Result<NetnsId, String> {
        let known = self.netns.get(name).copied();
        known.ok_or_else(|| format!("no namespace {name:?}"))
    }

    pub(super) fn line(&mut self, inventory: &mut Inventory, words: &[&str]) -> Result<(), String> {
        match words[0] {
            "host" => inventory.host = arg(words, 1)?.into(),
            "ns" => self.namespace(inventory, words)?,
            "link" => self.link(inventory, words)?,
            "route" => self.route(inventory, words)?,
            _ => {
                let cgroup = Cgroup {
                    path: arg(words, 2)?.into(),
                    pod: words.get(3).map(|p| p.trim_start_matches("pod=").into()),
                    ..Cgroup::default()
                };
                inventory.cgroups.insert(number(arg(words, 1)?)?, cgroup);
            }
        }
        Ok(())
    }

    fn namespace(&mut self, inventory: &mut Inventory, words: &[&str]) -> Result<(), String> {
        let id = NetnsId(number(arg(words, 2)?)?);
        self.netns.insert(arg(words, 1)?.into(), id);
        let mut namespace = Namespace {
            name: Some(words[1].into()),
            ..Namespace::default()
        };
        let lo = Link {
            name: "lo".into(),
            loopback: true,
            up: true,
            ..Link::default()
        };
        namespace.links.insert(1, lo);
        self.devices.insert(format!("{}/lo", words[1]), (id, 1));
        for word in &words[3..] {
            match word.split_once('=') {
                Some(("pod", pod)) => namespace.pod = Some(pod.into()),
                _ if *word == "node" => inventory.node = Some(id),
                _ => return Err(format!("{word:?}")),
            }
        }
        inventory.namespaces.insert(id, namespace);
        Ok(())
    }

    fn link(&mut self, inventory: &mut Inventory, words: &[&str]) -> Result<(), String> {
        let netns = self.netns(arg(words, 1)?)?;
        let index = number(arg(words, 2)?)?;
        let mut link = Link {
            name: arg(words, 3)?.into(),
            up: true,
            mtu: 1500,
            ..Link::default()
        };
        for word in &words[4..] {
            match word.split_once('=') {
                Some(("peer", peer)) => {
                    let (ns, index) = peer.split_once(':').ok_or("peer=NS:INDEX")?;
                    link.peer = Some((self.netns(ns)?, number(index)?));
                    link.kind = "veth".into();
                }
                Some(("master", index)) => link.master = Some(number(index)?),
                Some(("lower", index)) => link.lower = Some(number(index)?),
                Some(("kind", kind)) => link.kind = kind.into(),
                _ => link.addrs.push(number(word)?),
            }
        }
        self.devices
            .insert(format!("{}/{}", words[1], words[3]), (netns, index));
        let namespace = inventory.namespaces.entry(netns).or_default();
        namespace.links.insert(index, link);
        Ok(())
    }

    fn route(&self, inventory: &mut Inventory, words: &[&str]) -> Result<(), String> {
        let netns = self.netns(arg(words, 1)?)?;
        let to = match arg(words, 2)? {
            "default" => "0.0.0.0/0",
            "default6" => "::/0",
            net => net,
        };
        let route = Route {
            to: number(to)?,
            via: match arg(words, 3)? {
                "-" => None,
                via => Some(number(via)?),
            },
            ifindex: number(arg(words, 4)?)?,
        };
        let namespace = inventory.namespaces.entry(netns).or_default();
        namespace.routes.push(route);
        Ok(())
    }
}
