//! Connections that end in a process here, and those that such a process opens: the two sides of a
//! proxy. Who reads from an accepted connection, or shuts it, is its process; told are connections of
//! flows that were asked for, and of processes that open such flows.
//!
//! What a proxy opens is followed although nobody asked for it, and what it accepts likewise. Which
//! processes are proxies is not known before they act, so those of a container in a namespace that
//! ended (or opened) a followed connection lately are taken for one: user space tells those flows
//! whose two sides are proven to have the same process.

use crate::memory;
use crate::state::{CONNECTORS, SCOPE, config, count, learned_any, offset};
use crate::{emit, filter, follow, in_use, origin};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::LruHashMap;
use tracer_common::{
    Accepted, GroupKey, MAX_RECENT, RawSocket, RecentSockets, config_flags, counter, event_kind,
    family, ip_proto, socket_event, socket_follow,
};

const ESTABLISHED: i32 = 1;
const SYN_SENT: i32 = 2;
const SYN_RECV: i32 = 3;
const FIN_WAIT1: i32 = 4;
const CLOSE: i32 = 7;
const LAST_ACK: i32 = 9;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// The second word of an IPv4 address in IPv6's form, `::ffff:0:0/96`, in its lower half.
const MAPPED: u32 = 0x0000_ffff_u32.to_be();

/// A group is taken for a proxy this long after its last followed connection did anything.
const GROUP_NS: u64 = 10_000_000_000;

/// Accepted connections, by the address of their `struct sock`.
#[map]
static ACCEPTED: LruHashMap<u64, Accepted> = LruHashMap::with_max_entries(16_384, 0);
/// The accepted connections of a process, by its id.
#[map]
static RECENT: LruHashMap<u32, RecentSockets> = LruHashMap::with_max_entries(1024, 0);
/// Processes that opened a flow that was asked for.
#[map]
static OPENERS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(1024, 0);
/// Groups with such a process, and when it last opened one.
#[map]
static OPENING: LruHashMap<GroupKey, u64> = LruHashMap::with_max_entries(1024, 0);
/// Groups that ended a flow that was asked for, and when that last did anything.
#[map]
static ENDING: LruHashMap<GroupKey, u64> = LruHashMap::with_max_entries(1024, 0);
/// Sockets of such groups that connect: where they lead to was not asked for.
#[map]
static LEADING: LruHashMap<u64, u32> = LruHashMap::with_max_entries(4096, 0);

/// A TCP socket changes its state.
#[inline(always)]
pub(crate) fn changes(sk: u64, old: i32, new: i32) {
    if new == SYN_SENT {
        opens(sk);
    } else if new == ESTABLISHED && old == SYN_RECV {
        accepted(sk);
    } else if new == FIN_WAIT1 || new == LAST_ACK {
        used(sk); // by `close` or `shutdown`
    } else if new == CLOSE {
        over(sk);
    }
}

/// Whether a packet of this socket opens a connection of a proxy's.
#[inline(always)]
pub(crate) fn leads(skb: u64) -> bool {
    memory::at::<u64>(skb, offset!(skb_sk)).is_some_and(|sk| LEADING.get_ptr(sk).is_some())
}

/// A task connects.
#[inline(never)]
fn opens(sk: u64) {
    let process = origin::current();
    let _ = CONNECTORS.insert(sk, process, 0);
    let mut end = Accepted::default();
    if read(sk, &mut end).is_none() {
        return;
    }
    let own = group(sk, end.netns);
    if filter::forward(&end.tuple.reversed(), false) {
        let now = time();
        let _ = OPENERS.insert(process.pid, now, 0);
        let _ = OPENING.insert(own, now, 0);
        tell_recent(process.pid);
    } else {
        let by_task = GroupKey {
            cgroup: process.cgroup,
            ..own
        };
        if lately(&ENDING, &own) || lately(&ENDING, &by_task) {
            crate::state::learned_some();
            let _ = LEADING.insert(sk, 1, 0);
        }
    }
}

/// A connection was accepted (by the kernel: the process will learn it).
#[inline(never)]
fn accepted(sk: u64) {
    let mut end = Accepted::default();
    if read(sk, &mut end).is_none() {
        return;
    }
    end.since_ns = time();
    let own = group(sk, end.netns);
    if filter::forward(&end.tuple, false) || learned_any() && follow::learned(&end.tuple, end.netns)
    {
        end.followed = socket_follow::ASKED;
        let _ = ENDING.insert(own, end.since_ns, 0);
    } else if lately(&OPENING, &own) {
        end.followed = socket_follow::RELATED;
        follow::learn_both(&end.tuple, end.netns);
    }
    let _ = ACCEPTED.insert(sk, end, 0);
    in_use::forget(sk);
}

/// A task uses a connection: reads from it, or shuts it. Reading is what happens most: of what was used a moment
/// ago nothing is new.
#[inline(always)]
pub(crate) fn used(sk: u64) {
    if in_use::lately(sk) {
        return;
    }
    let pid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if pid == 0 {
        return;
    }
    if let Some(accepted) = ACCEPTED.get_ptr_mut(sk) {
        // SAFETY: the map's value stays in place during the program run.
        let accepted = unsafe { &mut *accepted };
        if accepted.process.pid == 0 || accepted.followed != socket_follow::NOT {
            use_of(sk, accepted, pid);
        }
    }
    in_use::note(sk);
}

#[inline(never)]
fn use_of(sk: u64, accepted: &mut Accepted, pid: u32) {
    if accepted.process.pid == 0 {
        accepted.process = origin::current();
        remember(pid, sk);
        if accepted.followed == socket_follow::NOT && OPENERS.get_ptr(pid).is_some() {
            accepted.followed = socket_follow::RELATED;
            follow::learn_both(&accepted.tuple, accepted.netns);
        }
        if accepted.followed != socket_follow::NOT {
            tell(sk, accepted, socket_event::USED, 0);
        }
    }
    if accepted.followed == socket_follow::ASKED {
        let group = GroupKey {
            cgroup: accepted.process.cgroup,
            netns: accepted.netns,
            pad: 0,
        };
        let _ = ENDING.insert(group, time(), 0);
    }
}

/// A socket is closed.
#[inline(never)]
fn over(sk: u64) {
    let Some(accepted) = ACCEPTED.get_ptr_mut(sk) else {
        return;
    };
    // SAFETY: as above.
    let accepted = unsafe { &mut *accepted };
    if accepted.told != 0 {
        tell(sk, accepted, socket_event::OVER, 0);
    }
    let _ = ACCEPTED.remove(sk);
}

/// Remembers that a process used a connection.
#[inline(always)]
fn remember(pid: u32, sk: u64) {
    if RECENT.get_ptr(pid).is_none() {
        let _ = RECENT.insert(pid, RecentSockets::default(), 0);
    }
    if let Some(recent) = RECENT.get_ptr_mut(pid) {
        // SAFETY: as above; of two CPUs that write at once one is not remembered.
        let recent = unsafe { &mut *recent };
        recent.sockets[recent.count as usize % MAX_RECENT] = sk;
        recent.count += 1;
    }
}

/// Tells which accepted connections a process has used before it opened a flow that was asked for.
#[inline(never)]
fn tell_recent(pid: u32) {
    let Some(recent) = RECENT.get_ptr(pid) else {
        return;
    };
    // SAFETY: as above.
    let recent = unsafe { &*recent };
    let more = u8::from(recent.count > MAX_RECENT as u64);
    let mut i = 0;
    while i < MAX_RECENT {
        tell_one(recent.sockets[i], more);
        i += 1;
    }
}

#[inline(never)]
fn tell_one(sk: u64, more: u8) {
    if let Some(accepted) = ACCEPTED.get_ptr_mut(sk) {
        // SAFETY: as above.
        let accepted = unsafe { &mut *accepted };
        if accepted.told != 0 {
            return;
        }
        if accepted.followed == socket_follow::NOT {
            accepted.followed = socket_follow::RELATED;
            follow::learn_both(&accepted.tuple, accepted.netns);
        }
        tell(sk, accepted, socket_event::USED, more);
    }
}

#[inline(never)]
fn tell(sk: u64, accepted: &mut Accepted, what: u8, more: u8) {
    accepted.told = 1;
    let told = RawSocket {
        kind: event_kind::SOCKET,
        what,
        followed: accepted.followed,
        more,
        netns: accepted.netns,
        time_ns: time(),
        since_ns: accepted.since_ns,
        sk,
        tuple: accepted.tuple,
        process: accepted.process,
    };
    match crate::state::EVENTS.output::<RawSocket>(&told, emit::flags()) {
        Ok(()) => count(counter::TOLD),
        Err(_) => count(counter::LOST),
    }
}

#[inline(always)]
fn time() -> u64 {
    // SAFETY: the helper takes no arguments.
    unsafe { bpf_ktime_get_ns() }
}

#[inline(always)]
fn group(sk: u64, netns: u32) -> GroupKey {
    GroupKey {
        cgroup: origin::cgroup_of(sk).unwrap_or(0),
        netns,
        pad: 0,
    }
}

/// Whether a group did so lately.
#[inline(always)]
fn lately(groups: &LruHashMap<GroupKey, u64>, group: &GroupKey) -> bool {
    // SAFETY: the map's value stays readable during the program run.
    groups
        .get_ptr(*group)
        .is_some_and(|at| time().wrapping_sub(unsafe { *at }) < GROUP_NS)
}

/// Reads a socket's namespace, and its tuple as packets from the other side have it. `None` where
/// that cannot be read, or outside the scope.
#[inline(never)]
fn read(sk: u64, to: &mut Accepted) -> Option<()> {
    let net = memory::at::<u64>(sk, offset!(sk_net))?;
    to.netns = memory::at(net, offset!(net_inum))?;
    if config!(flags) & config_flags::SCOPE != 0 && SCOPE.get_ptr(to.netns).is_none() {
        return None;
    }
    let tuple = &mut to.tuple;
    tuple.proto = ip_proto::TCP;
    tuple.sport = memory::at(sk, offset!(sk_dport))?;
    tuple.dport = memory::at::<u16>(sk, offset!(sk_num))?.to_be_bytes();
    match memory::at::<u16>(sk, offset!(sk_family))? {
        AF_INET => v4(sk, to),
        AF_INET6 => {
            let there: [u32; 4] = memory::at(sk, offset!(sk_v6_daddr))?;
            if there[0] == 0 && there[1] == 0 && there[2] == MAPPED {
                return v4(sk, to);
            }
            to.tuple.family = family::V6;
            to.tuple.src = memory::at(sk, offset!(sk_v6_daddr))?;
            to.tuple.dst = memory::at(sk, offset!(sk_v6_saddr))?;
            Some(())
        }
        _ => None,
    }
}

#[inline(always)]
fn v4(sk: u64, to: &mut Accepted) -> Option<()> {
    let there: [u8; 4] = memory::at(sk, offset!(sk_daddr))?;
    let here: [u8; 4] = memory::at(sk, offset!(sk_saddr))?;
    to.tuple.family = family::V4;
    [
        to.tuple.src[0],
        to.tuple.src[1],
        to.tuple.src[2],
        to.tuple.src[3],
    ] = there;
    [
        to.tuple.dst[0],
        to.tuple.dst[1],
        to.tuple.dst[2],
        to.tuple.dst[3],
    ] = here;
    Some(())
}
