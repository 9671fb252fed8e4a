//! Rules that are indexed for many packets say what rules say that are walked one by one.

use super::Store::{Ipset, Legacy};
use super::properties::same;
use super::{nat, node, ruleset, tcp};
use crate::evaluate::{Bits, Owner, Packet, Rules, Way, evaluate};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const TESTS: &[&str] = &[
    "-s 10.77.1.0/24",
    "! -s 10.77.1.10/32",
    "-d 192.168.50.0/24",
    "-d 192.168.50.20/32",
    "! -d 192.168.50.20/32",
    "-d 203.0.113.0/25",
    "-i veth-pod",
    "-o eth0",
    "-p tcp -m tcp --dport 8080",
    "-m mark --mark 0x4000/0x4000",
    "-m conntrack --ctstate NEW",
    "-m u32 --u32 \"0x6&0xff=0x6\"",
    "-m iprange --src-range 10.77.1.8-10.77.1.12",
    "-m iprange --dst-range 192.168.50.9-192.168.50.19",
    "-m set --match-set keep dst",
    "-m set --match-set keep src,dst",
    "-m set ! --match-set keep src",
];

const DOES: &[&str] = &[
    "MARK --set-xmark 0x4000/0x4000",
    "RETURN",
    "ACCEPT",
    "MASQUERADE",
    "SNAT --to-source 192.168.50.60",
];

fn rule() -> impl Strategy<Value = String> {
    (subsequence(TESTS, 0..4), select(DOES))
        .prop_map(|(tests, does)| format!("-A MANY {} -j {does}\n", tests.join(" ")))
}

/// Mostly rules that cannot be met, so that some are reached behind many.
fn rules() -> impl Strategy<Value = String> {
    let other = (0..=255_u8).prop_map(|n| format!("-A MANY -d 198.51.{n}.0/24 -j MASQUERADE\n"));
    let one = prop_oneof![3 => other, 1 => rule()];
    prop::collection::vec(one, 64..160).prop_map(|lines| {
        nat(&format!(
            ":MANY - [0:0]\n-A POSTROUTING -j MANY\n{}",
            lines.concat()
        ))
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let src = select(&["10.77.1.10", "10.77.1.11", "10.77.2.10"][..]);
    let dst = select(
        &[
            "192.168.50.20",
            "192.168.50.10",
            "203.0.113.9",
            "198.51.7.1",
        ][..],
    );
    let known = any::<[bool; 2]>();
    (src, dst, known, any::<u32>()).prop_map(|(src, dst, [source, port], mark)| {
        let mut packet = Packet {
            mark: Bits::all(mark),
            uid: Owner::None,
            ..tcp(src, dst, 8080, "veth-pod", "eth0")
        };
        packet.known.src = source;
        packet.known.dport = port;
        packet
    })
}

/// A set of more networks than are looked through one by one.
fn keep() -> String {
    let many = (0..80).map(|n| format!("add keep 198.18.{n}.0/24\n"));
    let near = [
        "192.168.50.0/24",
        "192.168.50.20/32 nomatch",
        "10.77.1.8/29",
        "10.77.1.0/24 nomatch",
    ];
    let near = near.map(|net| format!("add keep {net}\n"));
    let all: String = many.chain(near).collect();
    format!("create keep hash:net family inet hashsize 1024 maxelem 65536\n{all}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Every way in which a packet may fare, with all that is told of it.
    #[test]
    fn what_is_passed_over_matters_not(text in rules(), packet in packet()) {
        let stores = ruleset(&[Ipset(&keep()), Legacy(&text)]);
        let (one_by_one, indexed) = (Rules::new(&stores), Rules::of_many(&stores));
        let plain = evaluate(&one_by_one, &packet, Way::Forwarded, &node());
        let many = evaluate(&indexed, &packet, Way::Forwarded, &node());
        prop_assert_eq!(&many.doubts, &plain.doubts);
        if packet.known.src {
            prop_assert_eq!(format!("{:#?}", many.ends), format!("{:#?}", plain.ends));
        }
        // A rule that is walked to its second test may assume a source once more, to no end.
        for (ends, others) in [(&many.ends, &plain.ends), (&plain.ends, &many.ends)] {
            for end in ends {
                prop_assert!(others.iter().any(|other| same(end, other)), "{end:#?}");
            }
        }
    }
}
