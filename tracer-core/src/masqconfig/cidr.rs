//! Prefixes as the agents check them (Go's `net.ParseCIDR`, then alignment).

use ipnet::IpNet;
use std::net::IpAddr;

/// A prefix as an agent takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    /// What is exempt.
    pub(super) net: IpNet,
    /// Whether bits beyond the length are set.
    pub(super) misaligned: bool,
    /// Whether it is IPv4 written as IPv6: the agent takes it for IPv4, and iptables refuses the rule.
    pub(super) mapped: bool,
    /// What iptables makes of a length that begins with 0 (octal for it, decimal for the agent): another
    /// prefix, or (`Some(None)`) nothing.
    pub(super) octal: Option<Option<IpNet>>,
}

/// Reads one.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<Cidr, String> {
    let (addr, length) = text
        .split_once('/')
        .ok_or_else(|| "it has no length, such as 10.11.0.0/16".to_owned())?;
    let addr: IpAddr = addr
        .parse()
        .map_err(|_| format!("{addr:?} is no address"))?;
    let longest: u8 = if addr.is_ipv4() { 32 } else { 128 };
    let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let octal = (length.len() > 1 && length.starts_with('0')).then(|| {
        let length = u8::from_str_radix(length, 8).ok()?;
        IpNet::new(addr, length).ok().map(|net| net.trunc())
    });
    let length = length
        .parse()
        .ok()
        .filter(|length| digits && *length <= longest)
        .ok_or_else(|| format!("{length:?} is no length from 0 to {longest}"))?;
    let given = IpNet::new(addr, length).map_err(|e| e.to_string())?;
    let net = given.trunc();
    Ok(Cidr {
        octal,
        net,
        misaligned: net.addr() != addr,
        mapped: matches!(addr, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn prefixes_are_read_as_go_does() {
        let told = |text| parse(text).map(|c| (c.net.to_string(), c.misaligned, c.mapped));
        let ok = |net: &str, misaligned, mapped| Ok((net.to_owned(), misaligned, mapped));
        assert_eq!(told("10.11.0.0/16"), ok("10.11.0.0/16", false, false));
        assert_eq!(told("10.11.3.7/16"), ok("10.11.0.0/16", true, false));
        assert_eq!(told("10.11.3.7/32"), ok("10.11.3.7/32", false, false));
        assert_eq!(told("10.0.0.0/08"), ok("10.0.0.0/8", false, false));
        let octal = |text| {
            parse(text)
                .unwrap()
                .octal
                .map(|net| net.map(|n| n.to_string()))
        };
        assert_eq!(octal("10.0.0.0/08"), Some(None));
        assert_eq!(octal("10.0.0.0/016"), Some(Some("10.0.0.0/14".to_owned())));
        assert_eq!(octal("10.0.0.0/16"), None);
        assert_eq!(octal("0.0.0.0/0"), None);
        assert_eq!(told("::/0"), ok("::/0", false, false));
        assert_eq!(
            told("::ffff:10.11.0.0/112"),
            ok("::ffff:10.11.0.0/112", false, true)
        );
        let no = |why: &str| Err(why.to_owned());
        assert_eq!(
            told("10.11.3.7"),
            no("it has no length, such as 10.11.0.0/16")
        );
        assert_eq!(told(" 10.0.0.0/8"), no("\" 10.0.0.0\" is no address"));
        assert_eq!(told("10.0.0.0/ 8"), no("\" 8\" is no length from 0 to 32"));
        assert_eq!(
            told("010.011.000.000/16"),
            no("\"010.011.000.000\" is no address")
        );
        assert_eq!(told("10/8"), no("\"10\" is no address"));
        assert_eq!(told("10.0.0.0/+8"), no("\"+8\" is no length from 0 to 32"));
        assert_eq!(told("10.0.0.0/33"), no("\"33\" is no length from 0 to 32"));
        assert_eq!(
            told("10.0.0.0/255.0.0.0"),
            no("\"255.0.0.0\" is no length from 0 to 32")
        );
        assert_eq!(told("fe80::%1/64"), no("\"fe80::%1\" is no address"));
        assert_eq!(told(""), no("it has no length, such as 10.11.0.0/16"));
    }
}
