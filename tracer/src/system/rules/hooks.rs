//! What the kernel calls at its hooks, in its own order.

use crate::system::attributes::{attribute, list, put};
use crate::system::netlink::Netlink;
use netlink_packet_core::NLM_F_DUMP;
use std::io;
use tracer_core::ruleset::{Called, Callee, Family, Hook};

/// `NFNL_SUBSYS_HOOK << 8 | NFNL_MSG_HOOK_GET` (uapi linux/netfilter/nfnetlink_hook.h).
const GET_HOOK: u16 = 12 << 8;

/// `NFNLA_HOOK_*`.
const HOOKNUM: u16 = 1;
const PRIORITY: u16 = 2;
const FUNCTION: u16 = 4;
const CHAIN_INFO: u16 = 6;

/// `NFNLA_HOOK_INFO_DESC`, and in it `NFNLA_CHAIN_*`.
const DESCRIPTION: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_FAMILY: u16 = 2;
const CHAIN_NAME: u16 = 3;

/// Hooks by their numbers (`enum nf_inet_hooks`).
const HOOKS: [Hook; 5] = [
    Hook::Prerouting,
    Hook::Input,
    Hook::Forward,
    Hook::Output,
    Hook::Postrouting,
];

/// Asks for all hooks of IPv4 and IPv6 in the calling thread's namespace. Only where nfnetlink_hook is
/// in the kernel: asking would load it.
///
/// # Errors
/// When the kernel does not answer.
pub(super) fn called() -> io::Result<Vec<Called>> {
    let mut netlink = Netlink::open_netfilter().map_err(io::Error::other)?;
    let mut calls = Vec::new();
    for (family, number) in [(Family::Ip, libc::AF_INET), (Family::Ip6, libc::AF_INET6)] {
        for (hook, hooknum) in HOOKS.into_iter().zip(0_u32..) {
            let mut question = vec![u8::try_from(number).unwrap_or_default(), 0, 0, 0];
            put(&mut question, HOOKNUM, &hooknum.to_be_bytes());
            let take = |_, body: &[u8]| calls.extend(call(body, family, hook));
            netlink.raw(GET_HOOK, NLM_F_DUMP, &question, take)?;
        }
    }
    Ok(calls)
}

fn call(body: &[u8], family: Family, hook: Hook) -> Option<Called> {
    let of = |kind| attribute(list(body.get(super::present::GENERIC..)?), kind);
    let priority = i32::from_be_bytes(*of(PRIORITY)?.first_chunk()?);
    let what = match of(CHAIN_INFO).and_then(chain) {
        Some(chain) => chain,
        None => Callee::Function(text(of(FUNCTION)?)),
    };
    Some(Called {
        family,
        hook,
        priority,
        what,
    })
}

fn chain(info: &[u8]) -> Option<Callee> {
    let description = attribute(list(info), DESCRIPTION)?;
    let of = |kind| attribute(list(description), kind);
    let family = super::present::family(*of(CHAIN_FAMILY)?.first()?)?;
    Some(Callee::Chain(
        family,
        text(of(CHAIN_TABLE)?),
        text(of(CHAIN_NAME)?),
    ))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Family, Hook, call};

    proptest::proptest! {
        #[test]
        fn any_answer_is_read_without_harm(body: Vec<u8>) {
            let _ = call(&body, Family::Ip, Hook::Forward);
        }
    }
}
