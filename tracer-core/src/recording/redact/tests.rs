use super::*;
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn redactor() -> Redactor {
    Redactor::new(*b"a secret of ours")
}

fn shared(a: IpAddr, b: IpAddr) -> u32 {
    let bits = |addr: IpAddr| match addr {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    (bits(a) ^ bits(b)).leading_zeros()
}

#[test]
fn texts_lose_their_addresses_and_nothing_else() {
    let mut redactor = redactor();
    let replaced = |r: &mut Redactor, a: &str| r.addresses.replace(a.parse().unwrap()).to_string();
    let net = |r: &mut Redactor, n: &str| r.addresses.net(n.parse().unwrap()).to_string();
    let mut text = "-A X -d 10.20.0.0/16 -s 10.1.2.3 -j DNAT --to 10.9.8.7:80 # 12:30:45 fd00::7 cafe 127.0.0.1".to_owned();
    redactor.text(&mut text);
    let should = format!(
        "-A X -d {} -s {} -j DNAT --to {}:80 # 12:30:45 {} cafe 127.0.0.1",
        net(&mut redactor, "10.20.0.0/16"),
        replaced(&mut redactor, "10.1.2.3"),
        replaced(&mut redactor, "10.9.8.7"),
        replaced(&mut redactor, "fd00::7"),
    );
    assert_eq!(text, should);
    assert!(!text.contains("10.1.2.3"));
}

#[test]
fn pods_of_one_set_stay_that() {
    let redactor = redactor();
    let pod = |name: &str| {
        let mut pod = name.to_owned();
        redactor.pod(&mut pod);
        pod
    };
    let set = |pod: &str| pod.rsplit_once('-').unwrap().0.to_owned();
    assert_eq!(set(&pod("shop/web-1")), set(&pod("shop/web-2")));
    assert_ne!(pod("shop/web-1"), pod("shop/web-2"));
    assert_ne!(set(&pod("shop/web-1")), set(&pod("shop/db-1")));
}

proptest! {
    #[test]
    fn prefixes_are_kept_and_no_two_become_one(a: u32, b: u32) {
        let mut redactor = redactor();
        let (a, b) = (IpAddr::from(Ipv4Addr::from(a)), IpAddr::from(Ipv4Addr::from(b)));
        let (x, y) = (redactor.addresses.replace(a), redactor.addresses.replace(b));
        prop_assert_eq!(shared(a, b), shared(x, y));
        let private = |addr: IpAddr| matches!(addr, IpAddr::V4(v4) if v4.is_private());
        prop_assert_eq!(private(a), private(x));
        prop_assert_eq!(a.is_multicast(), x.is_multicast());
        prop_assert_eq!(a.is_loopback(), x.is_loopback());
    }

    #[test]
    fn prefixes_are_kept_in_ipv6_too(a: u128, b: u128, len in 0u8..=128) {
        let mut redactor = redactor();
        let (a, b) = (IpAddr::from(Ipv6Addr::from(a)), IpAddr::from(Ipv6Addr::from(b)));
        let (x, y) = (redactor.addresses.replace(a), redactor.addresses.replace(b));
        prop_assert_eq!(shared(a, b), shared(x, y));
        let net = IpNet::new(a, len).unwrap().trunc();
        let to = redactor.addresses.net(net);
        prop_assert_eq!(net.contains(&b), to.contains(&y));
    }

    #[test]
    fn any_text_is_taken(text in ".{0,80}") {
        let mut text = text;
        redactor().text(&mut text);
    }
}
