//! The kernel's own accounts of eBPF programs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};

use crate::process;

const PROG_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const ENABLE_STATS: libc::c_long = 32;

/// Where the fields lie in `struct bpf_prog_info`.
const INFO_LEN: usize = 216;
const NAME: usize = 64;
const RUN_TIME: usize = 192;
const RUN_COUNT: usize = 200;

/// What one program did so far.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Nanoseconds in it.
    pub(crate) nanoseconds: u64,
    /// Times it ran.
    pub(crate) runs: u64,
}

/// A program that does nothing at a raw tracepoint: what any program costs there. It goes when this is dropped.
pub(crate) struct Empty {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Empty {
    /// Loads and attaches it.
    fn at(tracepoint: &std::ffi::CStr) -> Result<Self> {
        // r0 = 0; exit
        let code: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        let mut attr = [0u8; 72];
        attr[..4].copy_from_slice(&RAW_TRACEPOINT.to_ne_bytes());
        attr[4..8].copy_from_slice(&2u32.to_ne_bytes());
        attr[8..16].copy_from_slice(&(code.as_ptr() as u64).to_ne_bytes());
        attr[16..24].copy_from_slice(&(c"GPL".as_ptr() as u64).to_ne_bytes());
        attr[48..48 + EMPTY.len()].copy_from_slice(EMPTY.as_bytes());
        let program = descriptor(PROG_LOAD, &attr).context("load an empty eBPF program")?;
        let mut attr = [0u8; 16];
        attr[..8].copy_from_slice(&(tracepoint.as_ptr() as u64).to_ne_bytes());
        attr[8..12].copy_from_slice(&program.as_raw_fd().to_ne_bytes());
        let link = descriptor(RAW_TRACEPOINT_OPEN, &attr).context("attach an empty program")?;
        Ok(Self {
            _program: program,
            _link: link,
        })
    }
}

/// Empty programs at the tracepoints that srctrace is based on.
pub(crate) fn base() -> Result<[Empty; 2]> {
    Ok([
        Empty::at(c"netif_receive_skb")?,
        Empty::at(c"net_dev_start_xmit")?,
    ])
}

/// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
const RAW_TRACEPOINT: u32 = 17;
/// The name of [`Empty`] in the accounts.
const EMPTY: &str = "empty";

/// Turns run-time accounts on (as `kernel.bpf_stats_enabled` does) until the descriptor is closed.
pub(crate) fn enable_accounts() -> Result<OwnedFd> {
    descriptor(ENABLE_STATS, &[0; 8]).context("turn on the run-time accounts of eBPF programs")
}

/// The accounts of all programs that a process and its children hold, by name.
pub(crate) fn accounts(pid: i32) -> Result<Vec<Account>> {
    let mut ids = BTreeSet::new();
    for pid in process::family(pid)? {
        ids.extend(program_ids(pid)?);
    }
    let mut accounts = ids.into_iter().map(account).collect::<Result<Vec<_>>>()?;
    accounts.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    Ok(accounts)
}

/// Ids of the programs behind a process's descriptors: programs and links to them.
fn program_ids(pid: i32) -> Result<Vec<u32>> {
    let folder = format!("/proc/{pid}/fdinfo");
    let entries = match fs::read_dir(&folder) {
        // A child that reads rules ends when it has.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("read {folder}"))?,
    };
    let mut ids = Vec::new();
    for entry in entries.flatten() {
        // A descriptor may be closed meanwhile.
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        ids.extend(id.and_then(|id| id.trim().parse::<u32>().ok()));
    }
    Ok(ids)
}

fn account(id: u32) -> Result<Account> {
    let program = descriptor(PROG_GET_FD_BY_ID, &id.to_ne_bytes())
        .with_context(|| format!("open eBPF program {id}"))?;
    let mut info = [0u8; INFO_LEN];
    let mut attr = [0u8; 16];
    attr[..4].copy_from_slice(&program.as_raw_fd().to_ne_bytes());
    attr[4..8].copy_from_slice(&u32::try_from(INFO_LEN)?.to_ne_bytes());
    attr[8..].copy_from_slice(&(info.as_mut_ptr() as u64).to_ne_bytes());
    bpf(OBJ_GET_INFO_BY_FD, &attr).with_context(|| format!("ask about eBPF program {id}"))?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| info[at + byte]));
    let name = info[NAME..NAME + 16].split(|byte| *byte == 0).next();
    Ok(Account {
        id,
        name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
        nanoseconds: word(RUN_TIME),
        runs: word(RUN_COUNT),
    })
}

/// A call that returns a descriptor.
fn descriptor(command: libc::c_long, fields: &[u8]) -> io::Result<OwnedFd> {
    let fd = i32::try_from(bpf(command, fields)?).map_err(io::Error::other)?;
    // SAFETY: the commands used with this return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf(command: libc::c_long, fields: &[u8]) -> io::Result<libc::c_long> {
    let mut attr = [0u8; 128];
    attr[..fields.len()].copy_from_slice(fields);
    // SAFETY: `attr` is as long as said and zero after the fields of the command; an address in it is that of a
    // buffer of the length beside it that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), attr.len()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
