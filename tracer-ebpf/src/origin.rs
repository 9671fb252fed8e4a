//! Who made a packet: the task that connected its socket, or that sends it now.

use crate::memory;
use crate::state::{CONNECTORS, Work, offset};
use aya_ebpf::helpers::{
    bpf_get_current_cgroup_id, bpf_get_current_comm, bpf_get_current_pid_tgid,
};
use tracer_common::{RawProcess, ip_proto, present};

/// The running task.
#[inline(always)]
pub(crate) fn current() -> RawProcess {
    RawProcess {
        // SAFETY: the helper takes no arguments.
        cgroup: unsafe { bpf_get_current_cgroup_id() },
        pid: (bpf_get_current_pid_tgid() >> 32) as u32,
        pad: 0,
        comm: bpf_get_current_comm().unwrap_or([0; 16]),
    }
}

/// Fills in `work.event.process` for a packet made on this host.
#[inline(never)]
pub(crate) fn read(work: &mut Work) {
    let Some(sk) = memory::at::<u64>(work.at, offset!(skb_sk)).filter(|sk| *sk != 0) else {
        return;
    };
    if let Some(process) = CONNECTORS.get_ptr(sk) {
        // SAFETY: the map's value stays readable during the program run.
        work.event.process = unsafe { *process };
        work.event.present |= present::PROCESS | present::CGROUP;
        return;
    }
    let cgroup = cgroup_of(sk);
    if let Some(id) = cgroup {
        work.event.process.cgroup = id;
        work.event.present |= present::CGROUP;
    }
    // TCP's later packets are often sent by whoever serves the softirq. A datagram is sent by its
    // task, but for the one that waited for a neighbour: then the cgroups differ.
    if work.event.tuple.proto == ip_proto::TCP {
        return;
    }
    let task = current();
    if task.pid != 0 && cgroup == Some(task.cgroup) {
        work.event.process = task;
        work.event.present |= present::PROCESS;
    }
}

/// cgroup v2 id of a packet's socket.
#[inline(always)]
pub(crate) fn cgroup_of_packet(skb: u64) -> Option<u64> {
    let sk = memory::at::<u64>(skb, offset!(skb_sk)).filter(|sk| *sk != 0)?;
    cgroup_of(sk)
}

/// cgroup v2 id of a socket. Before 5.15 the pointer shares its word with flags; a set lowest bit
/// means that there is no cgroup in it (`include/linux/cgroup-defs.h`).
#[inline(always)]
pub(crate) fn cgroup_of(sk: u64) -> Option<u64> {
    let word: u64 = memory::at(sk, offset!(sk_cgroup))?;
    if word & 1 != 0 {
        return None;
    }
    let kn: u64 = memory::at(word & !3, offset!(cgroup_kn))?;
    memory::at(kn, offset!(kn_id))
}
