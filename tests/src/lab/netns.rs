//! Named network namespaces: creating, entering and removing them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::thread;

use anyhow::{Context as _, Result, bail};
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns};

/// Every namespace of every lab begins with this, followed by the pid of the process that owns it.
pub const PREFIX: &str = "stlab-";

const RUN_NETNS: &str = "/run/netns";

/// The path under which a named namespace is mounted.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    Path::new(RUN_NETNS).join(name)
}

/// Creates all the named namespaces with one run of `ip`.
///
/// # Errors
/// When `ip` is missing or refuses, for example without CAP_SYS_ADMIN.
pub fn create(names: &[String]) -> Result<()> {
    sweep_once();
    let script: String = names
        .iter()
        .map(|name| format!("netns add {name}\n"))
        .collect();
    ip_batch(&script).context("create the lab's namespaces (this needs root)")
}

/// Removes a named namespace. One that is already gone is fine: labs delete pods while they run.
pub fn delete(name: &str) {
    let path = path(name);
    // Both fail only when there is nothing to remove.
    let _ = umount2(&path, MntFlags::MNT_DETACH);
    let _ = fs::remove_file(&path);
}

/// Runs `f` on a thread of its own that has entered the named namespace, and returns what it returned.
/// Sockets made and processes started by `f` stay in that namespace.
///
/// # Errors
/// When the namespace does not exist or cannot be entered.
///
/// # Panics
/// When `f` panics, with its panic.
pub fn enter<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> Result<T> {
    let path = path(name);
    let file = File::open(&path).with_context(|| format!("open namespace {}", path.display()))?;
    thread::scope(|scope| {
        let inside = scope.spawn(move || -> Result<T> {
            setns(&file, CloneFlags::CLONE_NEWNET).context("setns into the namespace")?;
            drop(file);
            Ok(f())
        });
        inside
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
    .with_context(|| format!("enter namespace {name}"))
}

/// Feeds `script` to `ip -batch -` in the calling thread's namespace.
///
/// # Errors
/// When a line fails; the message has what `ip` said and the script.
pub fn ip_batch(script: &str) -> Result<()> {
    run_with_input(Command::new("ip").args(["-batch", "-"]), script)
}

/// Runs a command with `input` on its standard input; anything but success is an error with its output.
///
/// # Errors
/// When the program is missing or exits with a failure.
pub fn run_with_input(command: &mut Command, input: &str) -> Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {:?}", command.get_program()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(input.as_bytes())
            .context("write the script")?;
    }
    let output = child.wait_with_output().context("wait for the command")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{command:?} failed ({}): {said}\nits input was:\n{input}",
            output.status
        );
    }
    Ok(())
}

/// Removes the namespaces of lab processes that no longer run (killed before they could clean up).
fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        let Ok(entries) = fs::read_dir(RUN_NETNS) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if owner(&name).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                delete(&name);
            }
        }
    });
}

/// The pid in a lab's namespace name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}
