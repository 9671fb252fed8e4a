//! The calls of bpf(2) that aya has no way for: a program that is made here, not compiled, its tcx
//! link, and an array of programs beside the compiled object's maps.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// One instruction, as linux/bpf.h has it.
pub(super) type Instruction = [u8; 8];

/// Commands of linux/bpf.h.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const PROG_QUERY: libc::c_long = 16;
const LINK_CREATE: libc::c_long = 28;
/// `BPF_PROG_TYPE_SCHED_CLS`.
const CLASSIFIER: u32 = 3;
/// `BPF_MAP_TYPE_PROG_ARRAY`.
const PROGRAM_ARRAY: u32 = 3;
const LICENSE: &CStr = c"Dual MIT/GPL";

/// The beginning of `union bpf_attr` for loading a program; the rest is zero.
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

/// The same for a map.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// The same for one of its elements.
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The same for a tcx link.
#[repr(C)]
#[derive(Default)]
struct TcxLink {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    pad: u32,
    expected_revision: u64,
}

/// Makes an array of programs for tail calls.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn program_array(programs: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        map_type: PROGRAM_ARRAY,
        key_size: 4,
        value_size: 4,
        max_entries: u32::try_from(programs.len()).map_err(io::Error::other)?,
    };
    // SAFETY: nothing in the attributes is a pointer.
    let array = unsafe { descriptor(MAP_CREATE, &attributes) }?;
    for (index, program) in (0u32..).zip(programs) {
        let value = program.as_raw_fd();
        let attributes = MapUpdate {
            map_fd: u32::try_from(array.as_raw_fd()).map_err(io::Error::other)?,
            pad: 0,
            key: &raw const index as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        // SAFETY: index and value outlive the call and have the map's sizes.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }?;
    }
    Ok(array)
}

/// Where among a device's programs a link goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// `BPF_F_BEFORE` all others.
    First = 1 << 3,
    /// `BPF_F_AFTER` all others.
    Last = 1 << 4,
}

/// Loads a traffic-control program.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn load_classifier(name: &str, code: &[Instruction]) -> io::Result<OwnedFd> {
    let mut attributes = ProgLoad {
        prog_type: CLASSIFIER,
        insn_cnt: u32::try_from(code.len()).map_err(io::Error::other)?,
        insns: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        ..ProgLoad::default()
    };
    // The last byte stays zero.
    let names = attributes.prog_name.iter_mut().take(15);
    names.zip(name.bytes()).for_each(|(to, from)| *to = from);
    // SAFETY: the code and the licence outlive the call.
    unsafe { descriptor(PROG_LOAD, &attributes) }
}

/// Attaches a program to a device of the calling thread's namespace. `attach_type`:
/// `BPF_TCX_INGRESS` or `BPF_TCX_EGRESS`. It is detached when the descriptor is closed.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn link_tcx(
    program: BorrowedFd<'_>,
    ifindex: u32,
    attach_type: u32,
    order: Order,
) -> io::Result<OwnedFd> {
    let attributes = TcxLink {
        prog_fd: u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?,
        target_ifindex: ifindex,
        attach_type,
        flags: order as u32,
        ..TcxLink::default()
    };
    // SAFETY: nothing in the attributes is a pointer.
    unsafe { descriptor(LINK_CREATE, &attributes) }
}

/// The same for the list of programs that are attached somewhere: `target_fd` or `target_ifindex`.
#[repr(C)]
struct ProgQuery {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    pad: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// `BPF_F_QUERY_EFFECTIVE`: what runs there, the parents' programs included.
const EFFECTIVE: u32 = 1;
/// Most programs of a cgroup that are listed (`BPF_CGROUP_MAX_PROGS`).
const PROGRAMS: usize = 64;

/// Ids of the programs on the packets of a cgroup's sockets, those that they send (egress) or get.
///
/// # Errors
/// The kernel's refusal; also where there are more than [`PROGRAMS`].
pub(super) fn cgroup_programs(folder: BorrowedFd<'_>, egress: bool) -> io::Result<Vec<u32>> {
    let target = u32::try_from(folder.as_raw_fd()).map_err(io::Error::other)?;
    // BPF_CGROUP_INET_INGRESS, BPF_CGROUP_INET_EGRESS
    attached(target, u32::from(egress), EFFECTIVE)
}

/// Ids of the programs on the packets of a netkit pair (6.7), by the index of its first end in the calling thread's
/// namespace: those that this end sends, or that the other one does.
///
/// # Errors
/// The kernel's refusal; also for a device that is no first end.
pub(super) fn netkit_programs(ifindex: u32, other_end: bool) -> io::Result<Vec<u32>> {
    const BPF_NETKIT_PRIMARY: u32 = 54;
    attached(ifindex, BPF_NETKIT_PRIMARY + u32::from(other_end), 0)
}

/// Ids of programs, in the order in which they run.
fn attached(target: u32, attach_type: u32, query_flags: u32) -> io::Result<Vec<u32>> {
    let mut ids = [0u32; PROGRAMS];
    let mut attributes = ProgQuery {
        target_fd: target,
        attach_type,
        query_flags,
        attach_flags: 0,
        prog_ids: ids.as_mut_ptr() as u64,
        prog_cnt: PROGRAMS as u32,
        pad: 0,
        prog_attach_flags: 0,
        link_ids: 0,
        link_attach_flags: 0,
        revision: 0,
    };
    // SAFETY: the kernel writes at most `prog_cnt` ids to `ids`, and counts into the attributes.
    unsafe {
        call(
            PROG_QUERY,
            (&raw mut attributes).cast(),
            size_of::<ProgQuery>(),
        )
    }?;
    // No program has the id 0, so the list ends with the first.
    Ok(ids.into_iter().take_while(|id| *id != 0).collect())
}

/// A command that returns a descriptor, which is close-on-exec.
///
/// # Safety
/// As for [`bpf`].
unsafe fn descriptor<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the command made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A command; what it returns is not negative.
///
/// # Safety
/// `attributes` must be the beginning of `union bpf_attr` for the command, without padding, and its
/// pointers must be valid.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    let at = std::ptr::from_ref(attributes).cast();
    // SAFETY: the caller's.
    unsafe { call(command, at, size_of::<T>()) }
}

/// As [`bpf`], for commands that may write to their attributes, too.
///
/// # Safety
/// `at` must point to `size` bytes as [`bpf`] asks for them, writable where the command writes there.
unsafe fn call(command: libc::c_long, at: *const libc::c_void, size: usize) -> io::Result<i32> {
    // SAFETY: the kernel reads `size` bytes there.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, at, size) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(done).map_err(io::Error::other)
}
