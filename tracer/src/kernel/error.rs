//! What can go wrong between us and the kernel.

use aya::programs::ProgramError;

/// Why the kernel half could not be brought up or read. Each says which object and what to do.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The embedded object does not fit this program.
    #[error(
        "the embedded eBPF object is not of this build ({0}): rebuild with `cargo xtask build`"
    )]
    ForeignObject(String),
    /// The object could not be loaded.
    #[error("cannot load the eBPF maps: {}; {}", chain(.0), remedy(.0))]
    Load(#[source] Box<aya::EbpfError>),
    /// The verifier or the kernel's settings refused a program.
    #[error("the kernel refused program {program}: {}; {}", chain(.source), remedy(.source))]
    Program {
        /// Its name.
        program: &'static str,
        /// The refusal.
        source: Box<ProgramError>,
    },
    /// A program could not be attached.
    #[error("cannot attach to {target}: {}; {}", chain(.source), remedy(.source))]
    Attach {
        /// What to.
        target: String,
        /// The refusal.
        source: Box<ProgramError>,
    },
    /// The program that says in which namespace a packet is was refused.
    #[error(
        "the kernel refused the program of a namespace: {source}; {}",
        advice(source)
    )]
    Door {
        /// The refusal.
        source: std::io::Error,
    },
    /// That program could not be attached.
    #[error("cannot attach to {target}: {source}; {}", advice(source))]
    Link {
        /// What to.
        target: String,
        /// The refusal.
        source: std::io::Error,
    },
    /// A map could not be read or written.
    #[error("cannot use eBPF map {map}: {source}")]
    Map {
        /// Its name.
        map: &'static str,
        /// The refusal.
        source: Box<aya::maps::MapError>,
    },
}

/// An error and its causes in one line; the verifier's log, which has many, is left to `-vv`.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = first_line(&error.to_string());
    let mut cause = error.source();
    while let Some(next) = cause {
        let line = first_line(&next.to_string());
        if !text.contains(&line) {
            text = format!("{text}: {line}");
        }
        cause = next.source();
    }
    text
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .trim_end_matches(':')
        .to_owned()
}

/// What to do about it, from the error number at the end of the chain.
fn remedy(error: &(dyn std::error::Error + 'static)) -> &'static str {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(next) = cause {
        if let Some(io) = next.downcast_ref::<std::io::Error>() {
            return advice(io);
        }
        cause = next.source();
    }
    "`srctrace doctor` says what this kernel allows"
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "run it as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
        }
        Some(libc::ENOMEM) => "raise the memlock limit (`ulimit -l unlimited`)",
        Some(libc::EINVAL) => "`srctrace doctor` says what this kernel lacks",
        Some(libc::ENODEV) => "the device is gone",
        _ => "`srctrace doctor` says what this kernel allows",
    }
}
