//! The command line as its users meet it: every help text, every error line, whole results.

use super::*;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

fn line(text: &str) -> Result<Command, UsageError> {
    parse(std::iter::once("srctrace").chain(text.split_whitespace()))
}

fn trace(text: &str) -> TraceOptions {
    match line(text) {
        Ok(Command::Trace(options)) => *options,
        other => panic!("{text}: {other:?}"),
    }
}

fn shown(text: &str) -> String {
    match line(text) {
        Ok(Command::Show(text)) => anstream::adapter::strip_str(&text).to_string(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn help() {
    insta::assert_snapshot!("help-long", shown("--help"));
    insta::assert_snapshot!("help-short", shown("-h"));
    insta::assert_snapshot!("help-doctor", shown("doctor --help"));
    insta::assert_snapshot!("help-merge", shown("merge --help"));
    insta::assert_snapshot!("help-diff", shown("diff --help"));
    insta::assert_snapshot!("help-ladder", shown("ladder --help"));
    assert_eq!(
        shown("--version"),
        concat!("srctrace ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn the_plain_command_has_the_stated_defaults() {
    insta::assert_debug_snapshot!(trace("10.20.30.40"));
}

#[test]
fn every_option_arrives() {
    insta::assert_debug_snapshot!(trace(
        "10.20.30.40 [fd50::20]:443 10.20.0.0/16 db.corp.example:5432 --dest ::ffff:10.9.9.9 \
         --port 443,8000-8100 --proto tcp,icmp --src 10.12.0.0/16 --src fd00::1 --netns web --netns 4711 \
         --netns /proc/1/ns/net --pod shop/web --pod db-0 -i eth0 --node-netns node --scope a,b \
         --host node-a --point tun=tun0@vpn --point out=eth0@shop/vpn-0:out --point b=eth0 --tap tcx --observe-rules nftrace --duration 1h30m -c 5 --expect-source 10.100.0.0/24 --expect-reply \
         --peer-saw 10.100.0.5 -w a.pcapng -o json --each --each-packet -n -vv"
    ));
}

#[test]
fn durations() {
    let after = |time: &str| trace(&format!("10.0.0.1 --duration {time}")).stop.after;
    assert_eq!(after("30s"), Some(Duration::from_secs(30)));
    assert_eq!(after("500ms"), Some(Duration::from_millis(500)));
    assert_eq!(after("1h30m"), Some(Duration::from_secs(5400)));
    assert_eq!(after("0"), None);
    assert_eq!(after("0s"), None);
}

#[test]
fn a_probe_takes_its_kind_from_where_it_is_said() {
    let probe = |text: &str| trace(text).probe;
    assert_eq!(
        probe("10.20.30.40:443 --from pod --probe tcp --expect-source node"),
        Some(ProbeOptions {
            kind: ProbeKind::Tcp,
            port: Some(443),
            from: Some(FromRef::Name("pod".to_owned())),
        })
    );
    let kind = |text| probe(text).map(|p| (p.kind, p.port));
    assert_eq!(
        kind("10.0.0.1:53 --proto udp --probe"),
        Some((ProbeKind::Udp, Some(53)))
    );
    assert_eq!(
        kind("fd50::20 --port 80 --probe"),
        Some((ProbeKind::Tcp, Some(80)))
    );
    assert_eq!(kind("10.0.0.1 --probe icmp"), Some((ProbeKind::Icmp, None)));
    assert_eq!(kind("10.0.0.1"), None);
}

#[test]
fn where_a_probe_comes_from() {
    let from = |text: &str| {
        trace(&format!("10.0.0.1 --probe icmp --from {text}"))
            .probe
            .and_then(|p| p.from)
    };
    insta::assert_debug_snapshot!(["web", "shop/web", "/run/netns/web", "4711"].map(from));
}

#[test]
fn subcommands() {
    assert_eq!(line("doctor").unwrap(), Command::Doctor(DoctorOutput::Text));
    assert_eq!(
        line("doctor -o json").unwrap(),
        Command::Doctor(DoctorOutput::Json)
    );
    assert_eq!(line("schema").unwrap(), Command::Schema);
    assert_eq!(line("cleanup").unwrap(), Command::Cleanup);
    assert_eq!(line("man").unwrap(), Command::Man);
    assert_eq!(
        line("completions bash").unwrap(),
        Command::Completions(clap_complete::Shell::Bash)
    );
}

#[test]
fn rungs_are_read() {
    let line = line(
        "ladder --from shop/web 10.8.0.1 [fd50::20]:443 10.96.0.53:53/udp 10.0.0.1:53 10.0.0.1:80/tcp db.example db.example:443",
    );
    let Ok(Command::Ladder(options)) = line else {
        panic!("{line:?}");
    };
    let addr = |text: &str| text.parse().unwrap();
    let name = |port| RungTarget::Name("db.example".to_owned(), port);
    let targets: Vec<_> = options
        .rungs
        .iter()
        .map(|rung| rung.target.clone())
        .collect();
    assert_eq!(
        targets,
        [
            RungTarget::Echo(addr("10.8.0.1")),
            RungTarget::Tcp(addr("fd50::20"), 443),
            RungTarget::Resolver(addr("10.96.0.53")),
            RungTarget::Tcp(addr("10.0.0.1"), 53),
            RungTarget::Tcp(addr("10.0.0.1"), 80),
            name(None),
            name(Some(443)),
        ]
    );
}

/// What the trace of a rung looks for.
#[test]
fn a_clients_rung_is_watched_for_its_first_flow_and_a_sent_one_to_its_end() {
    use tracer_core::report::RungBy;
    let options = |text: &str| match line(text) {
        Ok(Command::Ladder(options)) => options,
        other => panic!("{text}: {other:?}"),
    };
    let to = Some("10.20.30.40".parse().unwrap());
    let watched = options("ladder --client 10.8.0.2 10.20.30.40 --wait 3s --scope a");
    let sent = options("ladder --from web 10.20.30.40");
    let both = [
        watched.trace(RungBy::Icmp, to, None),
        sent.trace(RungBy::Tcp, to, Some(443)),
    ];
    insta::assert_debug_snapshot!(both.map(|trace| (trace.filter, trace.stop, trace.scope)));
}

/// One line for each malformed command line. Nothing that is accepted belongs here.
const MALFORMED: &[&str] = &[
    "",
    "-o json",
    "--nonsense 1",
    "--dset 10.0.0.1",
    "10.20.30",
    "10.20.30.400",
    "10.20.30.40:",
    "10.20.30.40:0",
    "10.20.30.40:70000",
    "10.20.30.40:+80",
    "10.20.30.40:https",
    "10.20.30.40/33",
    "10.20.30.40/16",
    "10.20.30.40/x",
    "fd50::20::1",
    "[fd50::20",
    "[fd50::20]443",
    "[10.20.30.40]:443",
    "[db.corp]:443",
    "fe80::1%eth0",
    "0x7f000001",
    "-dash.example",
    "exa\u{1b}[31mmple",
    "a..b",
    "--dest",
    "--dest ''",
    "10.0.0.1 --port 0",
    "10.0.0.1 --port 90-80",
    "10.0.0.1 --port 80,",
    "10.0.0.1 --port http",
    "10.0.0.1 --port 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
    "10.0.0.1 --proto gre",
    "10.0.0.1:80 --proto icmp",
    "10.0.0.1 --src web",
    "10.0.0.1 --src 10.1.2.3/8",
    "10.0.0.1 --netns 0",
    "10.0.0.1 --netns 99999999999",
    "10.0.0.1 --netns ..",
    "10.0.0.1 --pod Shop/web",
    "10.0.0.1 --pod a/b/c",
    "10.0.0.1 -i an-interface-name",
    "10.0.0.1 -i eth0/1",
    "10.0.0.1 --point eth0",
    "10.0.0.1 --point =eth0",
    "10.0.0.1 --point a=",
    "10.0.0.1 --point a=eth0:up",
    "10.0.0.1 --point a=eth0@",
    "10.0.0.1 --point a=eth0@Shop/web",
    "10.0.0.1 --point a=an-interface-name",
    "10.0.0.1 --point a-name-of-more-than-thirty-two-characters=eth0",
    "10.0.0.1 --point a=eth0 --point a=eth1",
    "10.0.0.1 --tap kprobe",
    "10.0.0.1 --duration soon",
    "10.0.0.1 --duration 10x",
    "10.0.0.1 --duration=-5s",
    "10.0.0.1 --duration 9999999h",
    "10.0.0.1 -c 0",
    "10.0.0.1 -c many",
    "10.0.0.1 --group --each",
    "10.0.0.1 --group --each-packet",
    "10.0.0.1 --host a --host b",
    "10.0.0.1 --from pod",
    "10.0.0.1 --probe",
    "--probe 10.0.0.1:80",
    "10.0.0.1:80-90 --probe tcp",
    "10.0.0.1 --port 80,443 --probe udp",
    "10.0.0.0/24 --probe icmp",
    "10.0.0.1:80 10.0.0.2:80 --probe tcp",
    "--src 10.0.0.1 --probe icmp",
    "10.0.0.1:80 --probe icmp",
    "10.0.0.1:80 --proto udp --probe tcp",
    "10.0.0.1 --probe icmp --from Shop/Web",
    "10.0.0.1 --expect-source elsewhere",
    "10.0.0.1 --expect-source 10.0.0.0/99",
    "10.0.0.1 --peer-saw nobody",
    "10.0.0.1 --expect-denied firewall",
    "10.0.0.1 --expect-denied any --expect-reply",
    "10.0.0.1 --redact",
    "10.0.0.1 --record a.srct --snaplen 64",
    "10.0.0.1 --pcap",
    "10.0.0.1 -w a.pcapng --record a.srct --redact",
    "merge a.srct b.srct -w a.pcapng",
    "merge",
    "merge a.srct --dest 10.0.0.1",
    "10.0.0.1 --output yaml",
    "completions",
    "completions cmd",
    "doctor --output yaml",
    "diff a.srct",
    "diff a.srct b.srct c.srct",
    "schema now",
    "ladder 10.0.0.1",
    "ladder --from pod",
    "ladder --from pod 10.0.0.0/24",
    "ladder --from pod 10.0.0.1:80-90",
    "ladder --from pod 10.0.0.1:80/udp",
    "ladder --from pod 10.0.0.1/udp",
    "ladder --from pod 10.0.0.1/tcp",
    "ladder --from pod db.example:53/udp",
    "ladder --from pod 10.0.0.1:53/sctp",
    "ladder --from pod 10.0.0.1 -o html",
    "ladder --client 10.8.0.2 db.example:443",
    "ladder --client 10.8.0.2 fd50::20",
    "ladder --client 10.8.0.2 10.0.0.1 --wait soon",
];

#[test]
fn each_malformed_argument_gets_one_clear_line() {
    let mut all = String::new();
    for text in MALFORMED {
        let error = line(text).expect_err(text).to_string();
        assert_eq!(error.lines().count(), 1, "{text}");
        assert!(!error.chars().any(char::is_control), "{text}");
        all.push_str(&format!(
            "$ srctrace {}\n  {error}\n",
            text.escape_default()
        ));
    }
    insta::assert_snapshot!("errors", all);
}

#[test]
fn an_argument_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let bad = OsString::from_vec(vec![0xff, 0xfe]);
    let error = parse([OsString::from("srctrace"), bad]).unwrap_err();
    insta::assert_snapshot!("not-text", error.to_string());
}

fn lookup(name: &str) -> io::Result<Vec<IpAddr>> {
    let addrs: &[&str] = match name {
        "two" => &["10.0.0.2", "fd00::2", "10.0.0.2"],
        "one" => &["::ffff:10.0.0.1"],
        "none" => &[],
        _ => return Err(io::Error::other("Name or service not known")),
    };
    Ok(addrs.iter().map(|a| a.parse().unwrap()).collect())
}

#[test]
fn names_become_all_their_addresses() {
    insta::assert_debug_snapshot!(trace("two:443 10.0.0.2:443 one --port 53").resolve(lookup));
    insta::assert_debug_snapshot!(trace("one:80 --probe tcp").resolve(lookup));
}

#[test]
fn names_that_do_not_lead_to_an_address() {
    let error = |text: &str| trace(text).resolve(lookup).unwrap_err().to_string();
    insta::assert_snapshot!(
        "names",
        [
            error("nowhere.example"),
            error("none"),
            error("two:80 --probe tcp")
        ]
        .join("\n")
    );
}

#[test]
fn completions_and_manual_page_are_made() {
    use clap::ValueEnum;
    for shell in clap_complete::Shell::value_variants() {
        let script = completions(*shell);
        assert!(script.contains("expect-source"), "{shell}: {script}");
    }
    let page = man();
    assert!(page.is_ascii(), "troff reads bytes:\n{page}");
    assert!(page.contains(".TH srctrace 1"), "{page}");
    for option in [
        "expect\\-source",
        "node\\-netns",
        "srctrace\\-doctor",
        "10.20.0.0/16",
    ] {
        assert!(page.contains(option), "{option} is missing in:\n{page}");
    }
}

mod property {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_argument_makes_it_panic_or_print_two_lines(
            args in proptest::collection::vec("\\PC{0,24}|--[a-z-]{1,14}|[0-9a-f:./\\[\\]%-]{1,24}", 0..5)
        ) {
            if let Err(error) = parse(std::iter::once("srctrace".to_owned()).chain(args)) {
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }

        #[test]
        fn every_address_and_port_is_read_back(addr in any::<IpAddr>(), port in 1..=u16::MAX) {
            let text = std::net::SocketAddr::new(addr, port).to_string();
            let options = trace(&text);
            let dests = options.resolve(|_| unreachable!()).unwrap().dests;
            prop_assert_eq!(dests, vec![Dest {
                net: addr.to_canonical().into(),
                ports: vec![PortRange { first: port, last: port }],
            }]);
        }
    }
}
