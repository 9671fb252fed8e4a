//! The emulator: one boot with its console captured and a deadline.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::console::{Console, Cut, Verdict};
use super::programs::Programs;

/// What the kernel is told. A fault ends the machine (`-no-reboot` makes it end, not start again); mitigations would only
/// slow the emulation.
const CMDLINE: &str = "console=ttyS0 rdinit=/init loglevel=4 panic=-1 oops=panic mitigations=off random.trust_cpu=on \
                       nowatchdog apparmor=0 audit=0";

/// All that the emulator can do, but one instruction: bookworm's qemu 7.2 spoils registers in CMPXCHG16B with more than one
/// processor, and the kernel's allocator, which uses it where it is there, then faults in nine boots of ten.
const CPU: &str = "max,cx16=off";

/// How long the machine may take to switch off after its run has ended.
const POWER_OFF: Duration = Duration::from_secs(20);

/// How long a boot may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Boot and run together.
    pub(crate) whole: Duration,
    /// Without a line on the console.
    pub(crate) silence: Duration,
}

/// One boot.
pub(crate) struct Boot<'a> {
    /// The compressed kernel.
    pub(crate) vmlinuz: &'a Path,
    /// The initial file system.
    pub(crate) image: &'a Path,
    /// Words at the end of the kernel's command line.
    pub(crate) words: &'a str,
    /// Marks begin and end of the run on the console.
    pub(crate) nonce: &'a str,
    /// Receives all that the console shows.
    pub(crate) log: &'a Path,
    /// How long it may take.
    pub(crate) patience: Patience,
}

impl Boot<'_> {
    /// Boots, gives each line of the run's output to `see`, and returns how it ended.
    ///
    /// # Errors
    /// When the emulator cannot be started or the log not be written.
    pub(crate) fn run(&self, programs: &Programs, mut see: impl FnMut(&str)) -> Result<Verdict> {
        let mut log =
            File::create(self.log).with_context(|| format!("creating {}", self.log.display()))?;
        let machine = Machine::start(&mut self.command(programs)?)?;
        let end = Instant::now() + self.patience.whole;
        let mut console = Console::new(self.nonce);
        while console.status().is_none() && console.cut_short().is_none() {
            let patience = end.min(Instant::now() + self.patience.silence);
            match machine.line(patience) {
                Ok(line) => {
                    writeln!(log, "{line}")
                        .with_context(|| format!("writing {}", self.log.display()))?;
                    if let Some(output) = console.line(&line) {
                        see(output);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => console.cut(Cut::SwitchedOff),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => console.cut(Cut::Late),
                Err(RecvTimeoutError::Timeout) => console.cut(Cut::Silent),
            }
        }
        if console.status().is_some() {
            let end = Instant::now() + POWER_OFF;
            while machine.line(end).is_ok() {}
        }
        Ok(console.verdict())
    }

    fn command(&self, programs: &Programs) -> Result<Command> {
        // The kernel ends it if this process is killed: nobody else would.
        let mut qemu = programs.command("setpriv")?;
        qemu.args(["--pdeathsig", "KILL"])
            .arg(programs.executable("qemu-system-x86_64")?);
        qemu.args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-serial",
            "stdio",
        ])
        .args([
            "-M",
            "q35",
            "-cpu",
            CPU,
            "-smp",
            "2",
            "-m",
            "2G",
            // Both processors on one host thread: with a thread each, one of them now and then runs an
            // int3 of the kernel's self-patching (static keys, tracepoints, tcx) that the other has
            // already taken back, and the kernel takes it for a stray one: "Oops: int3".
            "-accel",
            "tcg,thread=single",
        ])
        .arg("-kernel")
        .arg(self.vmlinuz)
        .arg("-initrd")
        .arg(self.image)
        .args(["-append", &format!("{CMDLINE} {}", self.words)]);
        Ok(qemu)
    }
}

/// A running emulator; ends with this value.
struct Machine {
    child: Child,
    lines: Receiver<String>,
}

impl Machine {
    fn start(qemu: &mut Command) -> Result<Self> {
        let mut child = qemu
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting qemu-system-x86_64")?;
        let stdout = child.stdout.take().context("the emulator has no output")?;
        let (send, lines) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(&line)
                    .trim_end_matches(['\r', '\n'])
                    .to_owned();
                line.clear();
                if send.send(text).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// The next line, waiting until `end`.
    fn line(&self, end: Instant) -> Result<String, RecvTimeoutError> {
        let patience = end.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(patience)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It has ended by itself, or it is to end now; neither call can fail in a way that matters.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
