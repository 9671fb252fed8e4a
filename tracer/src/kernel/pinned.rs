//! Cilium's list of destinations that keep their source: two pinned prefix trees. They are only read.

use super::error::chain;
use crate::system::Roots;
use crate::system::pins::Pin;
use aya::maps::{LpmTrie, Map, MapData, MapError};
use ipnet::IpNet;
use std::net::IpAddr;
use std::path::Path;
use tracer_core::masqconfig::Pinned;

/// Where Cilium pins its maps, from the root of its pod or of the node.
const FOLDER: &str = "sys/fs/bpf/tc/globals";
const V4: &str = "cilium_ipmasq_v4";
const V6: &str = "cilium_ipmasq_v6";
/// Such maps have 16384 entries at most.
const MOST: usize = 1 << 16;

/// The maps, seen from the agent's pod where one is given, else from the node. `None`: there are none.
pub fn ipmasq(roots: &Roots, agent: Option<u32>) -> Option<Pinned> {
    let of_pod = agent.map(|pid| roots.of(pid, "root"));
    let mut tops = of_pod.into_iter().chain(roots.on_host(""));
    tops.find_map(|top| below(&top))
}

/// Whether Cilium masquerades IPv6: it has a map for it.
pub fn ipmasq_v6(maps: &Pinned) -> bool {
    maps.from.iter().any(|path| path.ends_with(V6))
}

fn below(top: &Path) -> Option<Pinned> {
    let mut from = Vec::new();
    let mut all = Ok(Vec::new());
    for name in [V4, V6] {
        let path = format!("{FOLDER}/{name}");
        let found = match Pin::open(top, &path) {
            Ok(None) => continue,
            Ok(Some(pin)) => read(&pin, name == V6),
            Err(error) => Err(error.to_string()),
        };
        from.push(format!("/{path}"));
        all = all.and_then(|mut nets: Vec<IpNet>| {
            nets.extend(found?);
            Ok(nets)
        });
    }
    (!from.is_empty()).then_some(Pinned { from, nets: all })
}

fn read(pin: &Pin, v6: bool) -> Result<Vec<IpNet>, String> {
    let data = MapData::from_pin(pin.path()).map_err(|error| chain(&error))?;
    let map = Map::from_map_data(data).map_err(|error| chain(&error))?;
    let nets = if v6 {
        prefixes::<16>(map)
    } else {
        prefixes::<4>(map)
    };
    nets.map_err(|error| chain(&error))
}

fn prefixes<const N: usize>(map: Map) -> Result<Vec<IpNet>, MapError>
where
    [u8; N]: aya::Pod + Into<IpAddr>,
{
    // What belongs to a prefix are flags that nobody has set yet.
    let trie: LpmTrie<_, [u8; N], u8> = LpmTrie::try_from(map)?;
    let mut nets = Vec::new();
    for key in trie.keys().take(MOST) {
        let key = key?;
        let length = u8::try_from(key.prefix_len()).unwrap_or(u8::MAX);
        nets.extend(IpNet::new(key.data().into(), length));
    }
    nets.sort();
    Ok(nets)
}
