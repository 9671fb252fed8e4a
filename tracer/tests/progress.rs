//! How far `merge` has come: a line on a terminal that goes again, and nothing where nobody looks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SRCTRACE: &str = env!("CARGO_BIN_EXE_srctrace");
/// Of the file that is made for this: what cannot be read at one blow.
const SIZE: usize = 8 << 20;
const HEADER: usize = 24;

/// A recording, and a capture with a sample's packets again and again.
fn files(folder: &Path) -> [PathBuf; 2] {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let bytes = fs::read(samples.join("any_v2.pcap")).expect("a sample");
    let (header, packets) = bytes.split_at(HEADER);
    let times = SIZE / packets.len();
    let large = [header, &packets.repeat(times)].concat();
    let capture = folder.join("peer.pcap");
    fs::write(&capture, large).expect("a capture");
    [samples.join("node-a.srct"), capture]
}

fn output(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[test]
fn it_is_shown_on_a_terminal_only() {
    let folder = std::env::temp_dir().join(format!("srctrace-progress-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let [recording, capture] = files(&folder);
    let piped = output(
        Command::new(SRCTRACE)
            .arg("merge")
            .args([&recording, &capture])
            .args(["--group", "--output", "json"]),
    );
    let report = folder.join("report.json");
    // A terminal of its own: what is written to it comes out of `script`.
    let line = format!(
        "{SRCTRACE} merge {} {} --group --output json > {}",
        recording.display(),
        capture.display(),
        report.display()
    );
    let script = [
        "--quiet",
        "--return",
        "--flush",
        "--command",
        &line,
        "/dev/null",
    ];
    let terminal = output(Command::new("script").args(script));
    let told = fs::read(&report).expect("a report");
    fs::remove_dir_all(&folder).expect("the folder goes");

    assert!(piped.status.success() && terminal.status.success());
    assert_eq!(told, piped.stdout, "the report is the same");
    let quiet = String::from_utf8_lossy(&piped.stderr);
    assert!(
        quiet.lines().all(|line| line.starts_with("srctrace: ")),
        "{quiet}"
    );
    let shown = String::from_utf8_lossy(&terminal.stdout);
    for part in [" %", "MiB/s", " left"] {
        assert!(shown.contains(part), "lacks {part:?}: {shown:?}");
    }
    let (_, after) = shown.rsplit_once(" left").expect("a line of progress");
    assert!(after.contains("\u{1b}[2K"), "it does not go: {after:?}");
}
