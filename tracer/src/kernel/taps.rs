//! The tap table: which program goes where, and what its absence costs.

use super::{KernelError, Programs};
use aya::Ebpf;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, ProgramError, RawTracePoint, SchedClassifier, TcAttachType};
use std::os::fd::{AsFd, BorrowedFd};
use tracer_core::event::{Dir, NetnsId};

/// A raw tracepoint of the tap table.
#[derive(Clone, Copy)]
pub(super) struct Tracepoint {
    pub(super) program: &'static str,
    pub(super) tracepoint: &'static str,
    /// Without it there is no trace.
    pub(super) needed: bool,
    /// What its absence costs.
    pub(super) effect: &'static str,
}

/// The base, on every kernel: two links for the whole host, and the sockets.
pub(super) const TRACEPOINTS: [Tracepoint; 4] = [
    Tracepoint {
        program: "srctrace_receive",
        tracepoint: "netif_receive_skb",
        needed: true,
        effect: "packets coming in are not seen",
    },
    Tracepoint {
        program: "srctrace_transmit",
        tracepoint: "net_dev_start_xmit",
        needed: true,
        effect: "packets going out are not seen",
    },
    Tracepoint {
        program: "srctrace_sockets",
        tracepoint: "inet_sock_set_state",
        needed: false,
        effect: "processes behind the node's own TCP connections are not named",
    },
    Tracepoint {
        program: "srctrace_reads",
        tracepoint: "tcp_rcv_space_adjust",
        needed: false,
        effect: "the process of an accepted connection is known only once it closes it",
    },
];

/// A side of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Packets coming in.
    Ingress,
    /// Packets going out.
    Egress,
}

impl Side {
    fn program(self) -> &'static str {
        match self {
            Self::Ingress => "srctrace_ingress",
            Self::Egress => "srctrace_egress",
        }
    }

    /// The direction that a packet takes there.
    #[must_use]
    pub fn dir(self) -> Dir {
        match self {
            Self::Ingress => Dir::Ingress,
            Self::Egress => Dir::Egress,
        }
    }

    fn attach_type(self) -> TcAttachType {
        match self {
            Self::Ingress => TcAttachType::Ingress,
            Self::Egress => TcAttachType::Egress,
        }
    }
}

/// How much is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Raw tracepoints.
    pub tracepoints: u32,
    /// tcx links.
    pub tcx: u32,
    /// clsact filters.
    pub clsact: u32,
    /// kprobes.
    pub kprobes: u32,
    /// What could not be attached: what, why, effect.
    pub unavailable: Vec<(String, String, String)>,
}

impl Programs {
    /// How much is attached now.
    #[must_use]
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    pub(super) fn load_tracepoints(&mut self) -> Result<(), KernelError> {
        for tap in self.tracepoints.clone() {
            if let Err(error) = load_tracepoint(&mut self.ebpf, tap.program) {
                self.give_up(&tap, error)?;
            }
        }
        Ok(())
    }

    /// Attaches the tracepoints: from then on packets are seen.
    ///
    /// # Errors
    /// When a tracepoint that is needed cannot be attached. Others are noted in
    /// [`Attached::unavailable`].
    pub fn attach_tracepoints(&mut self) -> Result<(), KernelError> {
        for tap in self.tracepoints.clone() {
            match attach_tracepoint(&mut self.ebpf, &tap) {
                Ok(()) => self.attached.tracepoints += 1,
                Err(error) => self.give_up(&tap, error)?,
            }
        }
        Ok(())
    }

    fn give_up(&mut self, tap: &Tracepoint, error: KernelError) -> Result<(), KernelError> {
        if tap.needed {
            return Err(error);
        }
        self.tracepoints.retain(|one| one.program != tap.program);
        self.attached.unavailable.push((
            format!("tracepoint {}", tap.tracepoint),
            error.to_string(),
            tap.effect.to_owned(),
        ));
        Ok(())
    }

    /// Loads the traffic-control programs, unless they are all that is loaded anyway.
    ///
    /// # Errors
    /// When the kernel refuses them.
    pub fn load_tc(&mut self) -> Result<(), KernelError> {
        if self.direct {
            return Ok(());
        }
        for side in [Side::Ingress, Side::Egress] {
            let program = side.program();
            let loaded = classifier(&mut self.ebpf, program)?.load();
            loaded.map_err(|source| KernelError::Program {
                program,
                source: Box::new(source),
            })?;
        }
        Ok(())
    }

    /// Attaches our program to one side of a device of the calling thread's namespace, which is
    /// `netns`, by a tcx link. It goes with the process. Where it is not the only tap it is the first
    /// in order, to show what others do.
    ///
    /// # Errors
    /// When the device is gone or the kernel refuses.
    pub fn attach_tcx(
        &mut self,
        netns: NetnsId,
        (ifindex, device): (u32, &str),
        side: Side,
    ) -> Result<(), KernelError> {
        if self.direct {
            return self.attach_door(netns, (ifindex, device), side);
        }
        let first = TcAttachOptions::TcxOrder(LinkOrder::first());
        classifier(&mut self.ebpf, side.program())?
            .attach_with_options(device, side.attach_type(), first)
            .map_err(|source| attach_error(&format!("device {device}"), source))?;
        self.attached.tcx += 1;
        Ok(())
    }

    /// The loaded program of a side, for a filter that is added elsewhere, in this namespace.
    ///
    /// # Errors
    /// When it is not loaded.
    pub fn tc_program(
        &mut self,
        netns: NetnsId,
        side: Side,
    ) -> Result<BorrowedFd<'_>, KernelError> {
        if self.direct {
            return self.door(netns, side);
        }
        let program = side.program();
        let loaded = classifier(&mut self.ebpf, program)?.fd();
        loaded
            .map(AsFd::as_fd)
            .map_err(|source| KernelError::Program {
                program,
                source: Box::new(source),
            })
    }

    /// One of our programs was added as a clsact filter.
    pub fn count_clsact(&mut self) {
        self.attached.clsact += 1;
    }
}

pub(super) fn attach_error(target: &str, source: ProgramError) -> KernelError {
    KernelError::Attach {
        target: target.to_owned(),
        source: Box::new(source),
    }
}

pub(super) fn classifier<'a>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut SchedClassifier, KernelError> {
    program(ebpf, name)?
        .try_into()
        .map_err(|_| KernelError::ForeignObject(format!("{name} is no tc program")))
}

fn load_tracepoint(ebpf: &mut Ebpf, name: &'static str) -> Result<(), KernelError> {
    tracepoint(ebpf, name)?
        .load()
        .map_err(|source| KernelError::Program {
            program: name,
            source: Box::new(source),
        })
}

fn attach_tracepoint(ebpf: &mut Ebpf, tap: &Tracepoint) -> Result<(), KernelError> {
    let attached = tracepoint(ebpf, tap.program)?.attach(tap.tracepoint);
    attached
        .map(|_| ())
        .map_err(|source| attach_error(&format!("tracepoint {}", tap.tracepoint), source))
}

fn tracepoint<'a>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut RawTracePoint, KernelError> {
    program(ebpf, name)?
        .try_into()
        .map_err(|_| KernelError::ForeignObject(format!("{name} is no raw tracepoint program")))
}

pub(super) fn program<'a>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut aya::programs::Program, KernelError> {
    ebpf.program_mut(name)
        .ok_or_else(|| KernelError::ForeignObject(format!("no program {name}")))
}
