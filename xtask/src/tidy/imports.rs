//! Who may use what: the room table of the design as data.

use super::Finding;
use super::paths;
use super::source::Source;

/// Paths that a part of the tree may not name.
struct Rule {
    /// The files it is about, by the beginning of their path.
    within: &'static str,
    /// Parts of `within` that are exempt.
    except: &'static [&'static str],
    /// A path is forbidden if it is one of these or begins with one.
    forbidden: &'static [&'static str],
    /// The sentence of the design that it keeps.
    because: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        within: "tracer-core/src/",
        except: &[],
        forbidden: &[
            "std::fs",
            "std::env",
            "std::process",
            "std::thread",
            "std::os",
            "std::net::TcpStream",
            "std::net::TcpListener",
            "std::net::UdpSocket",
            "std::net::ToSocketAddrs",
            "std::time::Instant",
            "std::time::SystemTime",
            "tokio",
            "nix",
            "rustix",
            "libc",
            "aya",
            "rtnetlink",
        ],
        because: "tracer-core is pure: bytes and values in, values out; no sockets, files, clocks, async",
    },
    Rule {
        within: "tracer/src/",
        except: &["tracer/src/kernel/", "tracer/src/kernel.rs"],
        forbidden: &["aya", "aya_log", "aya_obj"],
        because: "tracer/src/kernel is the only user of aya",
    },
    Rule {
        within: "tracer/src/",
        except: &["tracer/src/system/", "tracer/src/system.rs"],
        forbidden: &[
            "rtnetlink",
            "netlink_packet_route",
            "netlink_packet_core",
            "netlink_sys",
        ],
        because: "tracer/src/system is the only user of netlink",
    },
    Rule {
        within: "tracer/src/render/",
        except: &[],
        forbidden: &[
            "crate::kernel",
            "crate::system",
            "crate::source",
            "crate::sink",
            "crate::run",
            "crate::cli",
            "std::fs",
        ],
        because: "render sees only the report",
    },
];

/// The folder whose files alone may name files of /proc.
const PROC_READER: &str = "tracer/src/system";

/// Imports of `source` that the room table forbids; tests are exempt.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for named in paths::named_in(&source.code) {
        if source.is_test_line(named.line) {
            continue;
        }
        let broken = RULES
            .iter()
            .filter(|rule| rule.covers(&source.path) && rule.forbids(&named.path));
        let messages = broken
            .map(|rule| rule.because)
            .chain(render_sees_more(&source.path, &named.path));
        findings.extend(messages.map(|because| {
            Finding::error(
                &source.path,
                named.line,
                format!("uses {}, but {because}", named.path),
            )
        }));
    }
    findings.extend(proc_outside_system(source));
    findings
}

impl Rule {
    fn covers(&self, file: &str) -> bool {
        file.starts_with(self.within) && !self.except.iter().any(|part| file.starts_with(part))
    }

    fn forbids(&self, path: &str) -> bool {
        self.forbidden
            .iter()
            .any(|forbidden| is_or_below(path, forbidden))
    }
}

fn is_or_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn render_sees_more(file: &str, path: &str) -> Option<&'static str> {
    let more = file.starts_with("tracer/src/render/")
        && is_or_below(path, "tracer_core")
        && !is_or_below(path, "tracer_core::report");
    more.then_some("render sees only tracer_core::report")
}

fn proc_outside_system(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("tracer/src/") || source.path.starts_with(PROC_READER) {
        return Vec::new();
    }
    let lines = source
        .with_strings
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    lines
        .filter(|(number, line)| line.contains("\"/proc/") && !source.is_test_line(*number))
        .map(|(number, _)| {
            Finding::error(
                &source.path,
                number,
                "names a file of /proc, but tracer/src/system is its only reader",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_core_is_kept_pure_however_the_import_is_written() {
        let because = "tracer-core is pure: bytes and values in, values out; no sockets, files, clocks, async";
        assert_eq!(
            messages(
                "tracer-core/src/a.rs",
                "use std::{collections::BTreeMap, fs};\nfn f() { tokio::spawn(x) }"
            ),
            [
                format!("tracer-core/src/a.rs:1: error: uses std::fs, but {because}"),
                format!("tracer-core/src/a.rs:2: error: uses tokio::spawn, but {because}"),
            ]
        );
        let fine = "// std::fs\nuse std::net::IpAddr;\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert!(messages("tracer-core/src/a.rs", fine).is_empty());
        assert!(messages("tracer-core/tests/a.rs", "use std::fs;").is_empty());
    }

    #[test]
    fn aya_and_netlink_have_one_room_each() {
        assert!(messages("tracer/src/kernel/attach.rs", "use aya::Ebpf;").is_empty());
        assert_eq!(
            messages("tracer/src/run/trace.rs", "use aya::Ebpf;"),
            [
                "tracer/src/run/trace.rs:1: error: uses aya::Ebpf, but tracer/src/kernel is the only user of aya"
            ]
        );
        assert_eq!(
            messages("tracer/src/kernel/attach.rs", "use rtnetlink::Handle;").len(),
            1
        );
        assert!(messages("tracer/src/run/a.rs", "use ayah::x;").is_empty());
    }

    #[test]
    fn rendering_sees_the_report_only() {
        assert!(
            messages(
                "tracer/src/render/text.rs",
                "use tracer_core::report::{Report, Hop};"
            )
            .is_empty()
        );
        assert_eq!(
            messages(
                "tracer/src/render/text.rs",
                "use tracer_core::{report, journey::Journey};"
            ),
            [
                "tracer/src/render/text.rs:1: error: uses tracer_core::journey::Journey, but render sees only tracer_core::report"
            ]
        );
        assert_eq!(
            messages("tracer/src/render/json.rs", "use crate::system::Names;").len(),
            1
        );
    }

    #[test]
    fn proc_is_read_in_one_room() {
        let text = "//! reads /proc\nlet p = \"/proc/net/route\";\n";
        assert_eq!(
            messages("tracer/src/cli/a.rs", text),
            [
                "tracer/src/cli/a.rs:2: error: names a file of /proc, but tracer/src/system is its only reader"
            ]
        );
        assert!(messages("tracer/src/system/a.rs", text).is_empty());
        assert!(messages("tracer/src/cli/a.rs", "\"cannot read /proc/net\"").is_empty());
    }
}
