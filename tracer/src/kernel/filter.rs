//! The user's filter in the kernel half's form.

use ipnet::IpNet;
use tracer_common::{
    Config, InlineDest, MAX_INLINE_DESTS, MAX_PORT_RANGES, config_flags, proto_bit,
};

/// What the kernel half is asked to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Destination prefixes, each with the ports asked for there (both ends included); no ports:
    /// every port.
    pub dests: Vec<(IpNet, Vec<(u16, u16)>)>,
    /// Source prefixes; empty: every source.
    pub sources: Vec<IpNet>,
    /// Destination ports where no destination is given; empty: every port.
    pub ports: Vec<(u16, u16)>,
    /// IP protocols; empty: every protocol.
    pub protos: Vec<u8>,
    /// Namespaces to look at; `None`: all.
    pub scope: Option<Vec<u32>>,
    /// Tell every packet.
    pub each_packet: bool,
}

impl Filter {
    /// The `.rodata` part.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = Config::EVERYTHING;
        let table = self.port_table();
        for (slot, (low, high)) in config.ports.iter_mut().zip(&table) {
            *slot = [*low, *high];
        }
        config.port_mask = mask(&table, &self.ports);
        for proto in &self.protos {
            let (word, bit) = proto_bit(*proto);
            config.protos[word] |= bit;
        }
        let dests = self.destinations();
        let inline = !dests.is_empty() && dests.len() <= MAX_INLINE_DESTS;
        if inline {
            config.dests = inline_dests(dests);
        }
        let flags = [
            (inline, config_flags::INLINE_DESTS),
            (!self.dests.is_empty(), config_flags::DEST),
            (!self.sources.is_empty(), config_flags::SRC),
            (self.scope.is_some(), config_flags::SCOPE),
            (!self.protos.is_empty(), config_flags::PROTO),
            (self.each_packet, config_flags::EACH_PACKET),
        ];
        config.flags = flags.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
        config
    }

    /// Destination prefixes with their port masks. A prefix inside another one also allows the
    /// outer one's ports, because the trie answers with the longest only.
    #[must_use]
    pub fn destinations(&self) -> Vec<(IpNet, u32)> {
        let table = self.port_table();
        self.dests
            .iter()
            .map(|(net, _)| {
                let around = || self.dests.iter().filter(|(outer, _)| outer.contains(net));
                let any_port = around().any(|(_, ports)| ports.is_empty());
                let masks = around().map(|(_, ports)| mask(&table, ports));
                (
                    *net,
                    if any_port {
                        0
                    } else {
                        masks.fold(0, |all, one| all | one)
                    },
                )
            })
            .collect()
    }

    /// Every range that is asked for anywhere, once. The command line allows at most
    /// [`MAX_PORT_RANGES`]; what is beyond is not representable and left out.
    fn port_table(&self) -> Vec<(u16, u16)> {
        let mut table: Vec<_> = self
            .dests
            .iter()
            .flat_map(|(_, ports)| ports)
            .chain(&self.ports)
            .copied()
            .collect();
        table.sort_unstable();
        table.dedup();
        table.truncate(MAX_PORT_RANGES);
        table
    }
}

/// Few destinations in the form that is compared in place: the longest prefix first, as the trie
/// would answer.
fn inline_dests(mut dests: Vec<(IpNet, u32)>) -> [InlineDest; MAX_INLINE_DESTS] {
    dests.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
    let mut inline = [InlineDest::default(); MAX_INLINE_DESTS];
    for (slot, (net, ports)) in inline.iter_mut().zip(dests) {
        *slot = InlineDest::new(net.network(), net.prefix_len(), ports);
    }
    inline
}

fn mask(table: &[(u16, u16)], ports: &[(u16, u16)]) -> u32 {
    table
        .iter()
        .enumerate()
        .filter(|(_, range)| ports.contains(range))
        .map(|(i, _)| 1 << i)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn each_destination_has_its_own_ports() {
        let filter = Filter {
            dests: vec![
                (net("10.20.0.0/16"), vec![(443, 443)]),
                (net("10.20.30.40/32"), vec![(80, 80)]),
                (net("10.30.0.0/16"), vec![]),
            ],
            ..Filter::default()
        };
        assert_eq!(
            filter.destinations(),
            vec![
                (net("10.20.0.0/16"), 2),
                (net("10.20.30.40/32"), 3),
                (net("10.30.0.0/16"), 0)
            ]
        );
        assert_eq!(filter.config().ports[..2], [[80, 80], [443, 443]]);
        assert_eq!(
            filter.config().flags,
            config_flags::DEST | config_flags::INLINE_DESTS
        );
        let lengths = filter.config().dests.map(|d| d.mask[0].count_ones());
        assert_eq!(lengths, [32, 16, 16, 0]);
    }

    #[test]
    fn ports_alone_are_a_filter() {
        let filter = Filter {
            ports: vec![(53, 53)],
            protos: vec![17, 132],
            ..Filter::default()
        };
        let config = filter.config();
        assert_eq!((config.port_mask, config.ports[0]), (1, [53, 53]));
        assert_eq!(config.protos, [1 << 17, 0, 0, 0, 1 << 4, 0, 0, 0]);
    }
}
