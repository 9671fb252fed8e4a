//! Capture files that srctrace writes, read by the real tshark.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::points::{BY_POD, lab, points};
use super::steps::{A_MOMENT, answered, same, same_text};
use super::{Case, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, PEER6, RouteBack};
use crate::trace::{Files, Srctrace, merge};
use crate::traffic::{Behaviour, StreamCall, StreamServer, UdpCall, ping};

pub(super) const CASES: &[Case] = &[
    Case::new("pcap_is_what_tshark_reads", &[], read_by_tshark).on(NATIVE),
    Case::new("pcap_of_every_protocol", &[], protocols).on(NATIVE),
    Case::new("pcap_on_a_full_disk", &[], full).on(NATIVE),
];

/// What tshark shows of a file, a line for each packet: number of the interface, its name, direction, lengths, addresses, hop limit,
/// whether the header's checksum is right, and the comment.
fn tshark(lab: &Lab, file: &str, filter: &str) -> Result<String> {
    const FIELDS: &[&str] = &[
        "frame.interface_id",
        "frame.interface_name",
        "frame.interface_description",
        "frame.packet_flags_direction",
        "frame.len",
        "frame.cap_len",
        "_ws.col.Protocol",
        "_ws.col.Source",
        "_ws.col.Destination",
        "ip.ttl",
        "ipv6.hlim",
        "ip.checksum.status",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.len",
        "udp.srcport",
        "udp.dstport",
        "udp.length",
        "icmp.ident",
        "icmpv6.echo.identifier",
        "frame.comment",
    ];
    let fields = FIELDS.iter().flat_map(|field| ["-e", field]);
    let args = [
        "-r",
        file,
        "-Y",
        filter,
        "-T",
        "fields",
        "-E",
        "separator=,",
    ];
    let args = args
        .into_iter()
        .chain(["-o", "ip.check_checksum:TRUE"])
        .chain(fields);
    let output = Command::new("tshark").args(args).output();
    let output = output.context("start tshark")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tshark: {stderr}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = crate::trace::Names::of(&[(lab, "")]);
    let value = crate::trace::normal::normal("text", text.into(), &names);
    let text = value.as_str().unwrap_or_default().trim_end();
    Ok(text
        .lines()
        .map(without_flow)
        .collect::<Vec<_>>()
        .join("\n"))
}

/// A line without the flow's number, which is another one in each run.
fn without_flow(line: &str) -> &str {
    line.rsplit_once("; flow ").map_or(line, |(front, _)| front)
}

/// No packet of a file is one that tshark finds fault with.
fn sound(lab: &Lab, file: &str) -> Result<()> {
    same_text(
        "malformed packets",
        &tshark(lab, file, "_ws.malformed")?,
        "",
    )?;
    let mode = fs::metadata(file).context("the file")?.permissions().mode();
    same("the file's mode", mode & 0o777, 0o600)
}

const HANDSHAKE: &str = include_str!("../../expect/pcap_handshake.txt");

/// A connection through the gateway pod, at the three points and the devices between them.
fn read_by_tshark() -> Result<()> {
    let lab = lab("pcap")?;
    lab.iptables_legacy("vpn", BY_POD)?;
    let _backend = StreamServer::start(&lab, "backend", "10.12.5.4:443", Behaviour::Answer)?;
    let files = Files::new(&lab)?;
    let (file, record) = (files.path("a.pcapng"), files.path("a.srct"));
    let points = points(&lab);
    let mut args = vec![
        "--dest",
        "10.12.5.4",
        "-w",
        &file,
        "--record",
        &record,
        "--host",
        "node-a",
    ];
    points
        .iter()
        .for_each(|point| args.extend(["--point", point]));
    let trace = Srctrace::new(&lab, &args).start()?;
    let outcome = StreamCall::new("peer-client", "10.12.5.4:443", 43_210).run(&lab)?;
    same(
        "what the far side saw",
        outcome,
        answered("10.12.9.4:43210")?,
    )?;
    trace.wait_flows(1)?;
    same("the status", trace.stop()?.status, Some(0))?;
    sound(&lab, &file)?;
    let handshake = tshark(&lab, &file, "tcp.flags.syn == 1")?;
    same_text("the handshake", &handshake, HANDSHAKE.trim())?;
    let data = tshark(&lab, &file, "tcp.len > 0 && ip.src == 10.8.0.2")?;
    ensure!(data.lines().count() == 1, "the first data at tun0: {data}");

    let again = files.path("b.pcapng");
    same(
        "the status of merge",
        merge(&[&record, "-w", &again])?.status,
        Some(0),
    )?;
    let same_bytes =
        fs::read(&file).context("a.pcapng")? == fs::read(&again).context("b.pcapng")?;
    ensure!(
        same_bytes,
        "the recording's packets are others than the live ones"
    );
    Ok(())
}

const PROTOCOLS: &str = include_str!("../../expect/pcap_protocols.txt");

/// UDP, ICMP, and ICMPv6 through a node that masquerades IPv4.
fn protocols() -> Result<()> {
    let lab = super::steps::masqueraded_pod("pcapall", RouteBack::Known)?;
    let _server = crate::traffic::UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let files = Files::new(&lab)?;
    let file = files.path("a.pcapng");
    let args = [
        "--dest", PEER, "--dest", PEER6, "-w", &file, "--host", "node-a",
    ];
    let trace = Srctrace::new(&lab, &args).start()?;
    let udp = UdpCall::new("pod", 1003, "10.20.30.40:53").run(&lab)?;
    ensure!(udp.seen().is_some(), "{udp:?}");
    for (to, id) in [(PEER, 4711), (PEER6, 4712)] {
        ensure!(ping(&lab, "pod", to, id, A_MOMENT)?, "no answer from {to}");
    }
    let report = trace.stop()?;
    same("the status", report.status, Some(0))?;
    same("flows", report.flows()?.len(), 3)?;
    sound(&lab, &file)?;
    let mut lines: Vec<String> = tshark(&lab, &file, "frame")?
        .lines()
        .map(str::to_owned)
        .collect();
    // Flows are told in no order.
    lines.sort();
    same_text("the packets", &lines.join("\n"), PROTOCOLS.trim())
}

/// A file that cannot be written ends the run with its status.
fn full() -> Result<()> {
    let lab = cast::one_pod("pcapfull", RouteBack::Known).up()?;
    let report = Srctrace::new(&lab, &["--dest", PEER, "-w", "/dev/full"]).run_to_end()?;
    same("the status", report.status, Some(6))?;
    let said = &report.stderr;
    ensure!(
        said.contains("--pcap /dev/full: No space left on device") && said.lines().count() == 1,
        "{said}"
    );
    Ok(())
}
