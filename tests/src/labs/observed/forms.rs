//! One deciding rule in each rule store, among decoys that would do the same.

use anyhow::Result;

use super::handle;
use crate::lab::{Lab, cast};

/// Where the rules are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    Legacy,
    IptablesNft,
    Nft,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Masquerade,
    Snat,
    Dnat,
    Redirect,
    /// Keeps the source by going back from the chain.
    Return,
    /// Keeps the source by ending the walk.
    Accept,
}

/// The addresses of a lab, IPv4 or IPv6.
#[derive(Debug)]
pub(super) struct Addrs {
    pub(super) pod: &'static str,
    pub(super) node: &'static str,
    pub(super) peer: &'static str,
    /// An address that nobody has.
    pub(super) vip: &'static str,
    /// Prefixes that hold none of them, and one that holds all.
    elsewhere: [&'static str; 2],
    wide: &'static str,
    /// nft's word for the family, and its way to write an address before a port.
    nft: &'static str,
}

pub(super) const V4: Addrs = Addrs {
    pod: cast::POD,
    node: cast::NODE,
    peer: cast::PEER,
    vip: "10.96.0.10",
    elsewhere: ["10.98.0.0/16", "10.99.0.0/16"],
    wide: "10.0.0.0/8",
    nft: "ip",
};
pub(super) const V6: Addrs = Addrs {
    pod: cast::POD6,
    node: cast::NODE6,
    peer: cast::PEER6,
    vip: "fd96::10",
    elsewhere: ["fd98::/16", "fd99::/16"],
    wide: "fc00::/7",
    nft: "ip6",
};

/// The port to which a redirected connection goes.
pub(super) const REDIRECTED: u16 = 8443;

impl Addrs {
    /// An address with a port, as sockets write it.
    pub(super) fn socket(addr: &str, port: u16) -> String {
        if addr.contains(':') {
            format!("[{addr}]:{port}")
        } else {
            format!("{addr}:{port}")
        }
    }

    /// Whom the pod asks.
    pub(super) fn asked(&self, act: Act) -> &'static str {
        if act.is_of_destination() {
            self.vip
        } else {
            self.peer
        }
    }
}

impl Act {
    pub(super) fn is_of_destination(self) -> bool {
        matches!(self, Self::Dnat | Self::Redirect)
    }

    pub(super) fn keeps(self) -> bool {
        matches!(self, Self::Return | Self::Accept)
    }

    fn hook(self) -> &'static str {
        if self.is_of_destination() {
            "PREROUTING"
        } else {
            "POSTROUTING"
        }
    }

    fn iptables(self, addrs: &Addrs) -> String {
        match self {
            Self::Masquerade => "-j MASQUERADE".to_owned(),
            Self::Snat => format!("-j SNAT --to-source {}", addrs.node),
            Self::Dnat => format!("-j DNAT --to-destination {}", addrs.peer),
            Self::Redirect => format!("-j REDIRECT --to-ports {REDIRECTED}"),
            Self::Return => "-j RETURN".to_owned(),
            Self::Accept => "-j ACCEPT".to_owned(),
        }
    }

    fn nft(self, addrs: &Addrs) -> String {
        match self {
            Self::Masquerade => "masquerade".to_owned(),
            Self::Snat => format!("snat {} to {}", addrs.nft, addrs.node),
            Self::Dnat => format!("dnat {} to {}", addrs.nft, addrs.peer),
            Self::Redirect => format!("redirect to :{REDIRECTED}"),
            Self::Return => "return".to_owned(),
            Self::Accept => "accept".to_owned(),
        }
    }
}

impl Store {
    /// The deciding rule as reports name it.
    pub(super) fn decides(self) -> &'static str {
        match self {
            Self::Legacy => "iptables-legacy nat/DECIDES 2",
            Self::IptablesNft => "iptables-nft nat/DECIDES 2",
            Self::Nft => "nft real/DECIDES 2",
        }
    }

    /// The way to it, which reports tell by numbers, of nftables by handles.
    pub(super) fn path(self, lab: &Lab, act: Act, addrs: &Addrs) -> Result<Vec<String>> {
        if self != Self::Nft {
            return Ok(vec![format!("{} 2", act.hook()), "DECIDES 2".to_owned()]);
        }
        let decides = format!("{} daddr {} ", addrs.nft, addrs.asked(act));
        let jump = handle(lab, "inet real base", "meta l4proto tcp jump DECIDES")?;
        let decides = handle(lab, "inet real DECIDES", &decides)?;
        Ok(vec![
            format!("base handle {jump}"),
            format!("DECIDES handle {decides}"),
        ])
    }

    /// Loads the deciding rule, with decoys before it, behind it and where nobody jumps to.
    pub(super) fn load(self, lab: &Lab, act: Act, addrs: &Addrs) -> Result<()> {
        match self {
            Self::Nft => lab.nft("node", &nft(act, addrs)),
            _ => lab.restore("node", &self.restores(addrs), &iptables(act, addrs)),
        }
    }

    /// The program that restores iptables' rules.
    pub(super) fn restores(self, addrs: &Addrs) -> String {
        let program = if addrs.nft == "ip" {
            "iptables"
        } else {
            "ip6tables"
        };
        let backend = if self == Self::Legacy {
            "legacy"
        } else {
            "nft"
        };
        format!("{program}-{backend}-restore")
    }
}

fn iptables(act: Act, addrs: &Addrs) -> String {
    let [first, second] = addrs.elsewhere;
    let (hook, target, asked) = (act.hook(), act.iptables(addrs), addrs.asked(act));
    let exempts_from = if act.keeps() {
        "-A DECIDES -j MASQUERADE\n"
    } else {
        ""
    };
    format!(
        "*nat\n:DECIDES - [0:0]\n:OLD - [0:0]\n\
         -A {hook} -d {first} -p tcp {target}\n\
         -A {hook} -p tcp -j DECIDES\n\
         -A DECIDES -d {second} -p tcp {target}\n\
         -A DECIDES -d {asked} -p tcp {target}\n\
         -A DECIDES -d {wide} -p tcp {target}\n\
         {exempts_from}\
         -A OLD -p tcp {target}\nCOMMIT\n",
        wide = addrs.wide
    )
}

fn nft(act: Act, addrs: &Addrs) -> String {
    let [first, second] = addrs.elsewhere;
    let (hook, target, asked) = (act.hook().to_lowercase(), act.nft(addrs), addrs.asked(act));
    let exempts_from = if act.keeps() { "masquerade" } else { "" };
    let to = |dest: &str| format!("{} daddr {dest} meta l4proto tcp {target}", addrs.nft);
    format!(
        "table inet real {{
            chain DECIDES {{
                {}
                {}
                {}
                {exempts_from}
            }}
            chain OLD {{
                meta l4proto tcp {target}
            }}
            chain base {{
                type nat hook {hook} priority 0
                {}
                meta l4proto tcp jump DECIDES
            }}
        }}",
        to(second),
        to(asked),
        to(addrs.wide),
        to(first)
    )
}
