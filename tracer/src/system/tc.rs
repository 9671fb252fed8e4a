//! Traffic control by rtnetlink: the clsact qdisc of a device and the filters on it. Answers are
//! read as bytes: a filter of a kind that nobody here knows is still a filter.

use super::SystemError;
use super::attributes::{attribute, list, put, word};
use super::netlink::Netlink;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use tracer_core::event::Dir;

/// Size of `struct tcmsg`, bytes.
const TCMSG: usize = 20;
/// The handle of a clsact or ingress qdisc, and the parent it is added under.
const CLSACT_HANDLE: u32 = 0xffff_0000;
const CLSACT: u32 = 0xffff_fff1;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_CHAIN: u16 = 11;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_ID: u16 = 11;
/// The program itself says what becomes of the packet.
const DIRECT_ACTION: u32 = 1;

/// One entry of a device's filter list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its chain; packets begin in 0.
    pub chain: u32,
    /// Lower ones run first.
    pub priority: u16,
    /// EtherType, as a number of the host.
    pub protocol: u16,
    /// Which one of that priority; 0 stands for the list of that priority itself.
    pub handle: u32,
    /// `bpf`, `u32`, `matchall`, …
    pub kind: String,
    /// The name that its maker gave a program.
    pub name: Option<String>,
    /// The id of a program that is loaded.
    pub program: Option<u32>,
}

/// Traffic control of one network namespace, that of the thread that opened it.
pub struct Tc {
    netlink: Netlink,
}

impl Tc {
    /// Opens a socket in the calling thread's namespace. Close it soon.
    ///
    /// # Errors
    /// When the kernel has no rtnetlink for us.
    pub fn open() -> Result<Self, SystemError> {
        Ok(Self {
            netlink: Netlink::open()?,
        })
    }

    /// The devices with a clsact (or ingress) qdisc, by index, and its kind.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn hooked(&mut self) -> io::Result<Vec<(u32, String)>> {
        let mut found = Vec::new();
        let body = message(0, 0, 0, 0);
        self.netlink
            .raw(libc::RTM_GETQDISC, NLM_F_DUMP, &body, |kind, body| {
                if kind == libc::RTM_NEWQDISC
                    && word(body, 8) == CLSACT_HANDLE
                    && let Some(kind) = attribute(attributes(body), TCA_KIND)
                {
                    found.push((word(body, 4), text(kind)));
                }
            })?;
        Ok(found)
    }

    /// Adds a clsact qdisc to a device; `false` when there is one already, or an ingress qdisc in
    /// its place.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn add_clsact(&mut self, ifindex: u32) -> io::Result<bool> {
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        match self.qdisc(libc::RTM_NEWQDISC, flags, ifindex) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Removes a device's clsact qdisc and all filters on it. One that is gone is fine.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn delete_clsact(&mut self, ifindex: u32) -> io::Result<()> {
        gone_is_fine(self.qdisc(libc::RTM_DELQDISC, NLM_F_ACK, ifindex))
    }

    fn qdisc(&mut self, kind: u16, flags: u16, ifindex: u32) -> io::Result<()> {
        let mut body = message(ifindex, CLSACT_HANDLE, CLSACT, 0);
        put(&mut body, TCA_KIND, b"clsact\0");
        self.netlink.raw(kind, flags, &body, |_, _| {})
    }

    /// All filters of one side of a device, in all chains; none when it has no such qdisc.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn filters(&mut self, ifindex: u32, side: Dir) -> io::Result<Vec<Filter>> {
        let mut found = Vec::new();
        let body = message(ifindex, 0, parent(side), 0);
        self.netlink
            .raw(libc::RTM_GETTFILTER, NLM_F_DUMP, &body, |kind, body| {
                if kind == libc::RTM_NEWTFILTER {
                    found.push(read_filter(body));
                }
            })?;
        Ok(found)
    }

    /// Adds a program as a filter that gives the verdict itself. `name` is at most 255 bytes.
    ///
    /// # Errors
    /// The kernel's refusal: no clsact qdisc, priority and handle taken, no CONFIG_NET_CLS_BPF.
    pub fn add_program(
        &mut self,
        ifindex: u32,
        side: Dir,
        filter: &Filter,
        program: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut name = filter.name.clone().unwrap_or_default().into_bytes();
        name.push(0);
        let mut options = Vec::new();
        put(&mut options, TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes());
        put(&mut options, TCA_BPF_NAME, &name);
        put(&mut options, TCA_BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes());
        let mut body = about(ifindex, side, filter);
        put(&mut body, TCA_OPTIONS, &options);
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.netlink
            .raw(libc::RTM_NEWTFILTER, flags, &body, |_, _| {})
    }

    /// Removes one filter. One that is gone is fine.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn delete_filter(&mut self, ifindex: u32, side: Dir, filter: &Filter) -> io::Result<()> {
        let body = about(ifindex, side, filter);
        gone_is_fine(
            self.netlink
                .raw(libc::RTM_DELTFILTER, NLM_F_ACK, &body, |_, _| {}),
        )
    }
}

/// The name of a device of the calling thread's namespace, or its number if it has gone.
pub fn device_name(ifindex: u32) -> String {
    rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| rustix::net::netdevice::index_to_name(socket, ifindex))
        .unwrap_or_else(|_| format!("device {ifindex}"))
}

fn parent(side: Dir) -> u32 {
    match side {
        Dir::Ingress => 0xffff_fff2,
        Dir::Egress => 0xffff_fff3,
    }
}

/// `struct tcmsg`.
fn message(ifindex: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let words = [0, ifindex, handle, parent, info];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// A message about one filter.
fn about(ifindex: u32, side: Dir, filter: &Filter) -> Vec<u8> {
    let info = u32::from(filter.priority) << 16 | u32::from(filter.protocol.to_be());
    let mut body = message(ifindex, filter.handle, parent(side), info);
    put(&mut body, TCA_KIND, format!("{}\0", filter.kind).as_bytes());
    if filter.chain != 0 {
        put(&mut body, TCA_CHAIN, &filter.chain.to_ne_bytes());
    }
    body
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ENODEV | libc::EINVAL)
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

fn read_filter(body: &[u8]) -> Filter {
    let info = word(body, 16);
    let all = || attributes(body);
    let options = attribute(all(), TCA_OPTIONS).unwrap_or_default();
    let [_, _, high, low] = info.to_be_bytes();
    Filter {
        chain: attribute(all(), TCA_CHAIN).map_or(0, |chain| word(chain, 0)),
        priority: u16::try_from(info >> 16).unwrap_or_default(),
        protocol: u16::from_be(u16::from_be_bytes([high, low])),
        handle: word(body, 8),
        kind: attribute(all(), TCA_KIND).map(text).unwrap_or_default(),
        name: attribute(list(options), TCA_BPF_NAME).map(text),
        program: attribute(list(options), TCA_BPF_ID).map(|id| word(id, 0)),
    }
}

fn attributes(body: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    list(body.get(TCMSG..).unwrap_or_default())
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_back_as_written_and_nonsense_does_no_harm() {
        let filter = Filter {
            chain: 7,
            priority: 49152,
            protocol: 3,
            handle: 0x5c00_0001,
            kind: "bpf".to_owned(),
            name: Some("srctrace_ingress 1-2".to_owned()),
            program: None,
        };
        let mut body = about(5, Dir::Ingress, &filter);
        let mut options = Vec::new();
        put(&mut options, TCA_BPF_NAME, b"srctrace_ingress 1-2\0");
        put(&mut body, TCA_OPTIONS | 0x8000, &options);
        assert_eq!(read_filter(&body), filter);
        for cut in 0..body.len() {
            let _ = read_filter(&body[..cut]);
        }
        for at in TCMSG..body.len() {
            let mut lie = body.clone();
            lie[at] = 0xff;
            let _ = read_filter(&lie);
            lie[at] = 0;
            let _ = read_filter(&lie);
        }
    }
}
