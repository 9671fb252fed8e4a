//! Running other programs: one place for environment hygiene and error texts.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// A command without the library path that `cargo run` adds for its own children: system programs would otherwise
/// load the toolchain's libraries.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// The cargo that runs this xtask, at the top of the checkout and with the documented target directory.
pub(crate) fn cargo(space: &Workspace) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = command(program);
    cargo
        .current_dir(space.root())
        .env("CARGO_TARGET_DIR", space.target());
    cargo
}

/// Runs `command` with its output on the screen.
///
/// # Errors
/// When it cannot be started or does not exit with 0; `what` says what it was for.
pub(crate) fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| cannot_start(command, what))?;
    if !status.success() {
        bail!("{what}: {} failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs `command` quietly and returns what it wrote to stdout.
///
/// # Errors
/// As [`run`]; the text includes what the program wrote to stderr.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| cannot_start(command, what))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{what}: {} failed ({}): {}",
            describe(command),
            output.status,
            stderr.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `command`, shows its stdout line by line and gives each line to `see` as well. True if it exited with 0.
///
/// # Errors
/// When it cannot be started or its output cannot be read.
pub(crate) fn tee(command: &mut Command, what: &str, mut see: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| cannot_start(command, what))?;
    let stdout = child.stdout.take().context("child has no stdout")?;
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        see(text.trim_end());
        line.clear();
    }
    Ok(child.wait()?.success())
}

fn cannot_start(command: &Command, what: &str) -> String {
    format!(
        "{what}: cannot start {}",
        command.get_program().to_string_lossy()
    )
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ");
    format!("`{line}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_purpose_command_and_stderr() {
        let error = output(command("sh").args(["-c", "echo no >&2; exit 3"]), "trying")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "trying: `sh -c echo no >&2; exit 3` failed (exit status: 3): no"
        );
        let error = run(&mut command("/nonexistent/x"), "trying")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "trying: cannot start /nonexistent/x");
    }

    #[test]
    fn tee_sees_every_line_and_the_status() {
        let mut lines = Vec::new();
        let ok = tee(
            command("sh").args(["-c", "printf 'a\\nb'; exit 1"]),
            "t",
            |l| lines.push(l.to_owned()),
        );
        assert!(!ok.unwrap());
        assert_eq!(lines, ["a", "b"]);
    }

    #[test]
    fn the_library_path_of_cargo_run_is_not_passed_on() {
        let removed = command("true")
            .get_envs()
            .any(|(k, v)| k == "LD_LIBRARY_PATH" && v.is_none());
        assert!(removed);
    }
}
