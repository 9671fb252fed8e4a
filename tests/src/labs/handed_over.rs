//! Row B1: a text for the other side's team, and what their answer says beside a recording.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::merged::machines;
use super::steps::{A_MOMENT, answered, hold, masquerade, same, same_text};
use super::{Case, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::digest::findings;
use crate::trace::{Files, Srctrace, Trace, merge, srctrace};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

// The command that the text names is run as it stands: small machines do not have all of its tools.
pub(super) const CASES: &[Case] = &[
    Case::new("b1_handed_over", &["B1"], handed_over).on(NATIVE),
    Case::new("b1_handed_over_and_lost", &["B1"], handed_over_and_lost).on(NATIVE),
];

/// A request that nobody answers, the text about it, and the command in that text, run where it says.
fn handed_over() -> Result<()> {
    let lab = cast::one_pod("handed", RouteBack::Missing).up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    let files = Files::new(&lab)?;
    let recording = files.path("run.srct");
    let args = [PEER, "--host", "node-a", "--record", &recording];
    let trace = Srctrace::new(&lab, &args).start()?;
    let ask = || {
        StreamCall::new("pod", "10.20.30.40:443", 43_210)
            .patience(A_MOMENT)
            .run(&lab)
    };
    same("the request", ask()?, Outcome::Silence)?;
    let live = trace.stop()?;
    let json = files.write("run.json", live.lines.join("\n").as_bytes())?;
    let time = live.only_flow()?["first_seen"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let text = |file: &str| -> Result<String> {
        let report = srctrace(&["handover", file])?;
        same("the status", report.status, Some(0)).context(report.stderr.clone())?;
        Ok(report
            .lines
            .join("\n")
            .replace(&time, "TIME")
            .replace(&files.path(""), ""))
    };
    let told = text(&recording)?;
    same_text("the text", &told, HANDOVER)?;
    same_text("the text of the report", &text(&json)?, HANDOVER)?;
    sent_again(&lab, &files, &told, ask)
}

/// The far side's team runs the command of the text, the request is sent again and recorded, and their capture says where
/// it got lost.
fn sent_again(
    lab: &Lab,
    files: &Files,
    told: &str,
    ask: impl Fn() -> Result<Outcome>,
) -> Result<()> {
    let again = files.path("again.srct");
    let trace = Srctrace::new(lab, &[PEER, "--host", "node-a", "--record", &again]).start()?;
    let capture = Capture::start(lab, command_in(told)?, files)?;
    same("the second request", ask()?, Outcome::Silence)?;
    trace.wait_flows(1)?;
    let alone = trace.stop()?.only_flow()?;
    same(
        "what is suspected here alone",
        findings(&alone),
        ["peer-route-suspected", "exempt-by-rule"]
            .map(str::to_owned)
            .to_vec(),
    )?;
    let packets = capture.stop(lab, files)?;
    ensure!(
        packets.contains("10.12.3.4.43210 > 10.20.30.40.443"),
        "what the command captured there:\n{packets}"
    );
    let report = merge(&[&again, &files.path("answer.pcap")])?;
    hold(
        lab,
        &report,
        "b1_handed_over",
        &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
             exempt-by-rule: iptables-legacy nat/IP-MASQ 1
             source-preserved, on the wire 10.12.3.4, no-reply"],
        &[(0, "seen-not-answered")],
    )
}

/// The line for the far side's team.
fn command_in(told: &str) -> Result<&str> {
    let mut lines = told.lines().map(str::trim);
    let command = lines.find(|line| line.starts_with("tcpdump "));
    command.context("no command in the text")
}

/// A router on the way that stops it.
const LOST: &str =
    "table ip lost { chain through { type filter hook forward priority 0; tcp dport 443 drop; }; }";

/// A request that is lost on the way there. While the far side captures, one gets through, and then no other does: their
/// capture shows the one, and that it went on looking.
fn handed_over_and_lost() -> Result<()> {
    let lab = machines("handedlost")?;
    let _server = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let files = Files::new(&lab)?;
    let call = |sport| StreamCall::new("pod", "10.20.30.40:443", sport).patience(A_MOMENT);
    let record = |name: &str| -> Result<(String, Trace)> {
        let file = files.path(name);
        let args = [PEER, "--host", "node-a", "--record", &file];
        let trace = Srctrace::new(&lab, &args)
            .within(&["node", "pod"])
            .start()?;
        Ok((file, trace))
    };
    lab.nft("peerway", LOST)?;
    let (first, trace) = record("run.srct")?;
    same("the request", call(43_210).run(&lab)?, Outcome::Silence)?;
    trace.stop()?;
    let told = srctrace(&["handover", &first])?.lines.join("\n");

    let (again, trace) = record("again.srct")?;
    let capture = Capture::start(&lab, command_in(&told)?, &files)?;
    lab.run("peerway", "nft delete table ip lost")?;
    let outcome = call(43_211).run(&lab)?;
    same(
        "the one that gets through",
        outcome,
        answered("10.20.0.1:43211")?,
    )?;
    lab.nft("peerway", LOST)?;
    same(
        "the second request",
        call(43_210).run(&lab)?,
        Outcome::Silence,
    )?;
    trace.wait_flows(2)?;
    // What shows that the capture covers the time of the request.
    let outcome = StreamCall::new("peerway", "10.20.30.40:443", 45_000).run(&lab)?;
    same("from nearby", outcome, answered("10.20.0.1:45000")?)?;
    trace.stop()?;
    capture.stop(&lab, &files)?;
    let report = merge(&[&again, &files.path("answer.pcap")])?;
    hold(
        &lab,
        &report,
        "b1_handed_over_and_lost",
        &[
            "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
             request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack
             rule iptables-legacy nat/IP-MASQ 1
             source-rewritten, on the wire 10.100.0.5, no-reply",
            "tcp 10.12.3.4:43211 > 10.20.30.40:443 from pod pod
             request src 10.12.3.4:43211 > 10.100.0.5:43211 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             request src 10.100.0.5:43211 > 10.20.0.1:43211 at downstream, null, unknown, by between, and back
             source-rewritten, on the wire 10.20.0.1, completed",
        ],
        &[(0, "not-seen-at-peer")],
    )
}

const HANDOVER: &str = "\
To the team of 10.20.30.40

What left here (times are UTC)
  1 request at TIME
  tcp 10.12.3.4:43210 → 10.20.30.40:443, left node-a by eth0; the source 10.12.3.4 is the sender's own address
  what came of it here: nothing came back

What your side needs
  a route back to 10.12.3.0/24 toward us (known by: the node's own route by veth-pod)
  or, if we masquerade instead: a route back to 10.100.0.5; you would then see all of our pods as their node

Please run this where 10.20.30.40 lives, while we send again (both directions, headers only)
  tcpdump -n -i any -s 128 -c 1000 -w answer.pcap '(host 10.20.30.40 and tcp port 443) or (icmp[icmptype] == icmp-unreach)'

What each outcome means
  no packet to 10.20.30.40: it is lost between us: tunnel selectors, routes or firewalls that do not know 10.12.3.4
  packets from 10.12.3.4, no answer leaves: it is dropped on that machine: its firewall, its reverse-path check, or no route to 10.12.3.4 (`ip route get 10.12.3.4` there)
  packets from 10.12.3.4, answers leave: they get lost on the way back: the route to 10.12.3.0/24 leads elsewhere, or a tunnel or firewall does not let it through
  packets from another address: the source is translated between us: tell us that address
  answers from another address than 10.20.30.40: a translation on your side is not taken back
  a reset, or ICMP unreachable: who sends it refuses: a policy, or nobody listens

How your answer is used here
  while you capture, we record what we send again: `srctrace 10.20.30.40:443 --record again.srct`
  answer.pcap: `srctrace merge again.srct answer.pcap`
  the address that you saw: `srctrace 10.20.30.40:443 --peer-saw ADDR`";

/// tcpdump where the far side's team would run it.
struct Capture(Child);

impl Capture {
    fn start(lab: &Lab, command: &str, files: &Files) -> Result<Self> {
        // As root tcpdump would write as another user.
        let command = format!(
            "cd {} && exec {} -Z root",
            files.path(""),
            command.replacen("tcpdump ", "tcpdump -U --immediate-mode ", 1)
        );
        let spawn = || {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", &command])
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
        };
        let mut child = lab.in_ns("peer", spawn)?.context("start tcpdump")?;
        let said = child.stderr.take().context("its standard error")?;
        let listens = BufReader::new(said)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("listening on"));
        ensure!(listens, "tcpdump does not listen: {command}");
        Ok(Self(child))
    }

    /// The packets in words.
    fn stop(mut self, lab: &Lab, files: &Files) -> Result<String> {
        let pid = i32::try_from(self.0.id()).context("its number")?;
        kill(Pid::from_raw(pid), Signal::SIGINT).context("stop tcpdump")?;
        self.0.wait().context("wait for tcpdump")?;
        lab.run(
            "peer",
            &format!("tcpdump -n -r {}", files.path("answer.pcap")),
        )
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
