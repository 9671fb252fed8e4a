//! Boots on this machine: kernel, image, emulator and what came of it.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::args::VmArgs;
use super::console::Verdict;
use super::guest::{self, Job};
use super::kernels::{self, Kernel, Unpacked};
use super::labs::Results;
use super::plan::Boot;
use super::programs::Programs;
use super::qemu::{self, Patience};
use super::report::KernelRun;
use super::store::Store;
use crate::setup::{self, Mode, Need};
use crate::tools::Group;
use crate::workspace::Workspace;

/// What is the same for every boot.
pub(super) struct Host {
    store: Store,
    programs: Programs,
    patience: Patience,
    mode: Mode,
}

/// A boot that is over.
pub(super) struct Ended {
    /// How it ended.
    pub(super) verdict: Verdict,
    /// From packing the image to switching off.
    pub(super) took: Duration,
}

impl Host {
    /// Everything but the kernels, which are fetched when they are first booted.
    ///
    /// # Errors
    /// When a tool is missing and cannot, or is not to, be installed.
    pub(super) fn prepare(space: &Workspace, args: &VmArgs, mode: Mode) -> Result<Self> {
        setup::ensure(
            space,
            &[Need::Tools(Group::Lab), Need::Tools(Group::Vm)],
            mode,
        )?;
        Ok(Self {
            store: Store::open(space)?,
            programs: Programs::of(space),
            patience: args.patience(),
            mode,
        })
    }

    /// The kernel, fetched if it is not there yet.
    ///
    /// # Errors
    /// When it cannot be had.
    pub(super) fn kernel(&self, kernel: Kernel) -> Result<Unpacked> {
        kernels::ensure(kernel, &self.store, &self.programs, self.mode)
    }

    /// Runs `job` on `kernel` in the machine called `name`, giving each line that it prints to `see`.
    ///
    /// # Errors
    /// When the emulator cannot be had; how the run went is in the result.
    pub(super) fn boot(
        &self,
        kernel: &Unpacked,
        name: &str,
        job: &Job,
        see: impl FnMut(&str),
    ) -> Result<Ended> {
        let title = titled(&kernel.release, &job.boot);
        println!("== kernel {name} ({title})");
        let start = Instant::now();
        let dir = self.store.run(name)?;
        let (image, log) = (dir.join("initramfs.cpio"), dir.join("console.log"));
        guest::image(job, kernel, &self.programs)?.write(&image)?;
        let boot = qemu::Boot {
            vmlinuz: &kernel.vmlinuz,
            image: &image,
            words: &job.boot,
            nonce: &job.nonce,
            log: &log,
            patience: self.patience,
        };
        let verdict = boot.run(&self.programs, see)?;
        Ok(Ended {
            verdict,
            took: start.elapsed(),
        })
    }

    /// Runs `job`, which runs the labs of `boot`, with its output on the screen: each line with the boot's name before
    /// it, as other machines may be running beside this one.
    ///
    /// # Errors
    /// As [`Host::boot`]; failed labs are in the result.
    pub(super) fn labs(&self, kernel: &Unpacked, boot: &Boot<'_>, job: &Job) -> Result<KernelRun> {
        let mut results = Results::expecting(&boot.labs);
        let name = boot.name();
        let ended = self.boot(kernel, &name, job, |line| {
            println!("{name}  {line}");
            results.line(line);
        })?;
        let succeeded = ended.verdict == Verdict::Ended(0);
        if !succeeded {
            println!("== {name}: {}", describe(&ended.verdict));
        }
        let counts = results.counts(succeeded);
        Ok(KernelRun {
            kernel: boot.kernel,
            name,
            release: kernel.release.clone(),
            results,
            counts,
            took: ended.took,
        })
    }
}

/// A kernel's release with what else stood on its command line.
pub(super) fn titled(release: &str, boot: &str) -> String {
    [release, boot].join(" ").trim_end().to_owned()
}

/// `verdict` in words.
pub(super) fn describe(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Ended(status) => format!("exit status {status}"),
        Verdict::Broken { reason, tail } => format!(
            "{reason}; the console's last lines:\n  {}",
            tail.join("\n  ")
        ),
    }
}
