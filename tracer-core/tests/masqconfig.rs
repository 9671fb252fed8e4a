//! Configurations against rules: those that the real agent wrote, and what goes wrong in the field.

use std::fmt::Write as _;
use std::path::Path;
use tracer_core::inventory::Namespace;
use tracer_core::masqconfig::{
    Agent, Comparison, File, Flags, Half, Held, Kernel, Pinned, Ranges, Reading, Running, Scene,
    Timing, Want, Wire, compare, edit, edited, read, tell, yaml,
};
use tracer_core::report::{AgentProcess, ConfigReport, ConfigState};
use tracer_core::ruleset::{Dumps, Family, Ruleset, assemble};

fn fixture(name: &str) -> String {
    let folder = if name.ends_with(".yaml") {
        "agent"
    } else {
        "rules"
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(folder)
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn named(text: &str) -> File {
    File {
        name: "ip-masq-agent".into(),
        bytes: text.as_bytes().to_vec(),
    }
}

fn reading(text: &str, flags: &Flags) -> Reading {
    read(Agent::Upstream, &[named(text)], flags)
}

fn judged<'r>(reading: &Reading, flags: &Flags, rules: &'r Ruleset) -> Comparison<'r> {
    let kernel = Kernel {
        rules,
        here: &Namespace::default(),
        pods: &[],
    };
    compare(reading, flags, &kernel, &Timing::default())
}

/// Each file that was given to the real agent, and the rules that it then installed.
#[test]
fn the_real_agents_rules_are_those_that_its_file_asks_for() {
    use ConfigState::{Agrees, Invalid};
    let pairs = [
        ("K01-as-written", "agent", Agrees),
        ("K04-null-list", "agent", Agrees),
        ("K06-empty-file", "agent", Agrees),
        ("K09-misaligned", "agent", Invalid),
        ("K12-zero", "agent", Agrees),
        ("K13-ipv6", "agent --enable-ipv6", Agrees),
        ("K16-typo", "agent", Agrees),
        ("K18-duplicate-key", "agent", Agrees),
        (
            "flag-reserved",
            "agent --nomasq-all-reserved-ranges",
            Agrees,
        ),
    ];
    for (name, flags, state) in pairs {
        let flags = Flags::of(Agent::Upstream, flags.split(' '));
        let reading = reading(&fixture(&format!("{name}.yaml")), &flags);
        let rules = assemble(&Dumps {
            nft_save: vec![
                (Family::Ip, fixture(&format!("{name}.iptables-nft-save"))),
                (Family::Ip6, fixture(&format!("{name}.ip6tables-nft-save"))),
            ],
            ..Dumps::default()
        });
        let comparison = judged(&reading, &flags, &rules);
        assert_eq!(comparison.state, state, "{name}");
        let Ok(config) = &reading.config else {
            assert!(
                comparison.halves.iter().all(|half| half.chains.is_empty()),
                "{name}"
            );
            continue;
        };
        for half in &comparison.halves {
            let installed = half.chain().map(|chain| chain.nets()).unwrap_or_default();
            assert_eq!(
                installed,
                config.exempt(half.v6),
                "{name}, IPv6: {}",
                half.v6
            );
            assert!(
                half.chain()
                    .is_some_and(|c| c.masquerades && c.foreign.is_empty()),
                "{name}"
            );
        }
        // Written anew they are the same, word for word.
        let again = edited(&rules, config, &flags);
        assert_eq!(again, rules, "{name}");
    }
}

const JUMP: &str = "-A POSTROUTING -m comment --comment \"ip-masq-agent: jump\" -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n";
const MASQ: &str =
    "-A IP-MASQ-AGENT -m comment --comment \"ip-masq-agent: last\" -j MASQUERADE --random-fully\n";

fn exempt(net: &str) -> String {
    format!("-A IP-MASQ-AGENT -d {net} -m comment --comment \"ip-masq-agent: local\" -j RETURN\n")
}

fn dump(chains: &str, rules: &str) -> String {
    format!(
        "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n{chains}{rules}COMMIT\n"
    )
}

fn chain(rules: &str) -> String {
    dump(":IP-MASQ-AGENT - [0:0]\n", rules)
}

/// The agent's chain as it should be for `nets`.
fn installed(nets: &[&str]) -> String {
    let entries: String = nets.iter().map(|net| exempt(net)).collect();
    chain(&format!("{JUMP}{entries}{MASQ}"))
}

fn legacy(dump: String) -> Ruleset {
    assemble(&Dumps {
        legacy: vec![(Family::Ip, dump)],
        ..Dumps::default()
    })
}

fn maps(nets: Result<&[&str], &str>) -> Pinned {
    let parsed = nets.map(|nets| nets.iter().map(|net| net.parse().unwrap()).collect());
    Pinned {
        from: vec!["/sys/fs/bpf/tc/globals/cilium_ipmasq_v4".into()],
        nets: parsed.map_err(str::to_owned),
    }
}

/// What a case is about.
struct Case {
    name: &'static str,
    config: Option<&'static str>,
    mounted: Option<&'static str>,
    flags: &'static str,
    rules: Ruleset,
    running: bool,
    /// Seconds since the file changed.
    age: Option<i64>,
    wire: Option<Wire>,
    pinned: Option<Pinned>,
    onprem: &'static str,
    agent: Agent,
}

impl Case {
    fn new(name: &'static str, config: &'static str, rules: Ruleset) -> Self {
        Self {
            name,
            config: Some(config),
            mounted: None,
            flags: "agent",
            rules,
            running: true,
            age: None,
            wire: None,
            pinned: None,
            onprem: "",
            agent: Agent::Upstream,
        }
    }

    fn report(&self) -> Option<ConfigReport> {
        let flags = Flags::of(Agent::Upstream, self.flags.split(' '));
        let now = 1_796_140_800;
        let held = |from: &str, text: &str| Held {
            from: from.into(),
            reading: read(self.agent, &[named(text)], &flags),
            changed: self.age.map(|age| now - age),
        };
        let nets = |text: &str| {
            text.split_whitespace()
                .map(|n| n.parse().unwrap())
                .collect()
        };
        let running = match self.running {
            true => Running::Yes(AgentProcess {
                pid: 42,
                started: Some("2026-12-01T00:00:00Z".into()),
                command: self.flags.split(' ').map(str::to_owned).collect(),
            }),
            false => Running::No,
        };
        let given = self.config.map(|text| held("the ConfigMap", text));
        let mounted = self
            .mounted
            .map(|text| held("/etc/config/ip-masq-agent of process 42", text));
        tell(&Scene {
            agent: self.agent,
            flags: &flags,
            running: &running,
            given: given.as_ref(),
            mounted: mounted.as_ref(),
            kernel: Kernel {
                rules: &self.rules,
                here: &Namespace::default(),
                pods: &[],
            },
            pinned: self.pinned.as_ref(),
            wire: self.wire.as_ref(),
            ranges: &Ranges {
                pods: nets(if self.onprem.is_empty() {
                    ""
                } else {
                    "10.12.3.0/24"
                }),
                nodes: nets(if self.onprem.is_empty() {
                    ""
                } else {
                    "10.100.0.0/24"
                }),
                onprem: nets(self.onprem),
            },
            now,
            utc: &|time| format!("now{:+}", time - now),
        })
    }
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn cases() -> Vec<Case> {
    const CONFIG: &str = "nonMasqueradeCIDRs: [10.11.0.0/16, 172.19.0.0/16]\n";
    const LOCAL: &str = "169.254.0.0/16";
    let good = || installed(&[LOCAL, "10.11.0.0/16", "172.19.0.0/16"]);
    let defaults = || installed(&[LOCAL, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]);
    let nft = |dump: String| Dumps {
        nft_save: vec![(Family::Ip, dump)],
        ..Dumps::default()
    };
    let boot = ":IP-MASQ - [0:0]\n:IP-MASQ-AGENT - [0:0]\n";
    let boot_rules = "-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ\n-A IP-MASQ -d 10.0.0.0/8 -m comment --comment \"ip-masq: local\" -j RETURN\n-A IP-MASQ -m comment --comment \"ip-masq: outbound\" -j MASQUERADE\n";
    vec![
        Case::new("agrees", CONFIG, legacy(good())),
        Case::new(
            "agrees in another order",
            CONFIG,
            legacy(installed(&["172.19.0.0/16", "10.11.0.0/16", LOCAL])),
        ),
        Case::new(
            "agrees in other words",
            "nonMasqueradeCIDRs: [10.0.0.0/8, 10.11.0.0/16]\n",
            legacy(installed(&[LOCAL, "10.0.0.0/8"])),
        ),
        Case::new(
            "differs",
            CONFIG,
            legacy(installed(&[LOCAL, "10.11.0.0/16", "192.168.0.0/16"])),
        ),
        Case {
            age: Some(20),
            ..Case::new("lagging", CONFIG, legacy(defaults()))
        },
        Case::new("not read", CONFIG, legacy(defaults())),
        Case::new(
            "invalid",
            "nonMasqueradeCIDRs:\n- 10.11.0.0/16\n- 10.12.3.4/16\n",
            legacy(good()),
        ),
        Case {
            running: false,
            ..Case::new("no agent, no chain", CONFIG, Ruleset::default())
        },
        Case::new("agent without a chain", CONFIG, Ruleset::default()),
        Case {
            running: false,
            ..Case::new("left over", CONFIG, legacy(good()))
        },
        Case {
            running: false,
            config: None,
            ..Case::new("left over, nothing known", CONFIG, legacy(good()))
        },
        Case::new(
            "no jump",
            CONFIG,
            legacy(chain(&format!(
                "{}{}{}{MASQ}",
                exempt(LOCAL),
                exempt("10.11.0.0/16"),
                exempt("172.19.0.0/16")
            ))),
        ),
        Case::new(
            "shadowed by a glue rule",
            CONFIG,
            legacy(chain(&format!(
                "-A POSTROUTING -m comment --comment OLD-GLUE -j MASQUERADE\n{JUMP}{}{}{}{MASQ}",
                exempt(LOCAL),
                exempt("10.11.0.0/16"),
                exempt("172.19.0.0/16")
            ))),
        ),
        Case::new(
            "shadowed by the boot script",
            CONFIG,
            legacy(dump(
                boot,
                &format!(
                    "{boot_rules}{JUMP}{}{}{}{MASQ}",
                    exempt(LOCAL),
                    exempt("10.11.0.0/16"),
                    exempt("172.19.0.0/16")
                ),
            )),
        ),
        Case::new(
            "a rule by hand",
            CONFIG,
            legacy(chain(&format!(
                "{JUMP}{}-A IP-MASQ-AGENT -d 203.0.113.0/24 -j RETURN\n{}{}{MASQ}",
                exempt(LOCAL),
                exempt("10.11.0.0/16"),
                exempt("172.19.0.0/16")
            ))),
        ),
        Case::new(
            "two stores",
            CONFIG,
            assemble(&Dumps {
                legacy: vec![(Family::Ip, good())],
                ..nft(good())
            }),
        ),
        Case {
            flags: "agent --enable-ipv6",
            ..Case::new(
                "the IPv6 half is missing",
                "nonMasqueradeCIDRs: [10.11.0.0/16, 172.19.0.0/16, \"fd77::/48\"]\n",
                legacy(good()),
            )
        },
        Case::new(
            "nothing is masqueraded",
            "nonMasqueradeCIDRs: [0.0.0.0/0]\n",
            legacy(chain(&format!(
                "{JUMP}{}-A IP-MASQ-AGENT -m comment --comment \"ip-masq-agent: local\" -j RETURN\n{MASQ}",
                exempt(LOCAL)
            ))),
        ),
        Case::new(
            "everything is masqueraded",
            "nonMasqueradeCIDRs:\n",
            legacy(installed(&[LOCAL])),
        ),
        Case {
            onprem: "10.20.0.0/16 192.168.7.0/24",
            ..Case::new(
                "too wide and too narrow",
                "nonMasqueradeCIDRs: [10.12.0.0/16, 10.20.0.0/16]\n",
                legacy(installed(&[LOCAL, "10.12.0.0/16", "10.20.0.0/16"])),
            )
        },
        Case::new(
            "public addresses are exempt",
            "nonMasqueradeCIDRs: [10.11.0.0/16, 8.8.8.0/24]\n",
            legacy(installed(&[LOCAL, "10.11.0.0/16", "8.8.8.0/24"])),
        ),
        Case {
            mounted: Some("nonMasqueradeCIDRs: [10.11.0.0/16]\n"),
            ..Case::new(
                "the file is behind",
                CONFIG,
                legacy(installed(&[LOCAL, "10.11.0.0/16"])),
            )
        },
        Case {
            wire: Some(Wire {
                from: "flows.json".into(),
                flows: 4,
                other: vec!["10.12.3.4 to 10.11.0.9 left as 10.100.0.5".into()],
            }),
            mounted: Some(CONFIG),
            ..Case::new("the wire differs", CONFIG, legacy(good()))
        },
        Case {
            agent: Agent::Cilium,
            ..Case::new("Cilium's", CONFIG, legacy(good()))
        },
        Case {
            agent: Agent::Cilium,
            pinned: Some(maps(Ok(&[LOCAL, "10.11.0.0/16", "172.19.0.0/16"]))),
            ..Case::new("Cilium's map agrees", CONFIG, Ruleset::default())
        },
        Case {
            agent: Agent::Cilium,
            pinned: Some(maps(Ok(&[LOCAL, "10.11.0.0/16", "10.20.0.0/16"]))),
            ..Case::new("Cilium's map differs", CONFIG, Ruleset::default())
        },
        Case {
            agent: Agent::Cilium,
            pinned: Some(maps(Ok(&[LOCAL, "10.11.0.0/16"]))),
            mounted: Some("nonMasqueradeCIDRs: [10.11.0.0/16]\n"),
            age: Some(30),
            ..Case::new("Cilium's file is behind", CONFIG, Ruleset::default())
        },
        Case {
            agent: Agent::Cilium,
            pinned: Some(maps(Ok(&[LOCAL, "10.11.0.0/16"]))),
            running: false,
            config: None,
            ..Case::new("Cilium's map is left over", CONFIG, Ruleset::default())
        },
        Case {
            agent: Agent::Cilium,
            pinned: Some(maps(Err("Operation not permitted (os error 1)"))),
            ..Case::new("Cilium's map cannot be read", CONFIG, Ruleset::default())
        },
        Case {
            agent: Agent::Cilium,
            pinned: Some(maps(Ok(&[LOCAL, "10.11.0.0/16"]))),
            ..Case::new(
                "Cilium refuses its file",
                "nonMasqueradeCIDRs: [10.11.0.0]\n",
                Ruleset::default(),
            )
        },
        Case {
            running: false,
            ..Case::new(
                "only the boot script's chain",
                CONFIG,
                legacy(dump(":IP-MASQ - [0:0]\n", boot_rules)),
            )
        },
        Case::new(
            "refused at the first start",
            "nonMasqueradeCIDRs: [10.11.0.1/16]\n",
            Ruleset::default(),
        ),
        Case {
            flags: "agent --to-ports=1024-20000",
            ..Case::new(
                "to some ports",
                CONFIG,
                legacy(chain(&format!(
                    "{JUMP}{}{}{}-A IP-MASQ-AGENT -p tcp -m comment --comment \"ip-masq-agent: ports\" -j MASQUERADE --to-ports 1024-20000\n{MASQ}",
                    exempt(LOCAL),
                    exempt("10.11.0.0/16"),
                    exempt("172.19.0.0/16")
                ))),
            )
        },
    ]
}

#[test]
fn what_goes_wrong_in_the_field_is_told() {
    let mut told = String::new();
    for case in cases() {
        writeln!(told, "== {}", case.name).unwrap();
        let Some(report) = case.report() else {
            writeln!(told, "nothing to tell").unwrap();
            continue;
        };
        let state = report.config_state.map_or("-", ConfigState::word);
        let drift = if report.is_drift() { ", drift" } else { "" };
        writeln!(told, "{state}{drift}: {}", report.text).unwrap();
        for stage in &report.stages {
            let exempt = stage.exempt.as_ref().map(|nets| nets.join(" "));
            writeln!(
                told,
                "  {} ({}): {} agrees {:?} {}",
                stage.stage,
                stage.from,
                exempt.unwrap_or_else(|| "-".into()),
                stage.agrees,
                stage.why.as_deref().unwrap_or("")
            )
            .unwrap();
        }
        if let Some(next) = &report.next_resync {
            writeln!(told, "  next look by {next}").unwrap();
        }
        for entry in report
            .entries
            .iter()
            .filter(|e| e.differs || e.wanted != Some(e.rule.is_some()))
        {
            let rule = entry
                .rule
                .as_ref()
                .map_or("no rule".into(), |rule| rule.name());
            writeln!(
                told,
                "  {} wanted {:?} {rule} differs {}",
                entry.prefix, entry.wanted, entry.differs
            )
            .unwrap();
        }
        for finding in &report.findings {
            let code = serde_json::to_string(&finding.code).unwrap();
            writeln!(told, "  {code} {:?}: {}", finding.severity, finding.text).unwrap();
            if let Some(fix) = &finding.fix {
                writeln!(told, "      fix: {fix}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(told);
}

#[test]
fn the_smallest_edit_gives_what_is_wanted_and_reads_back() {
    let flags = Flags::default();
    let rows = [
        (
            "nonMasqueradeCIDRs: [10.0.0.0/8]\n",
            "10.20.30.40/32",
            Want::Pod,
            "",
        ),
        (
            "nonMasqueradeCIDRs: [10.11.0.0/16]\n",
            "10.20.0.0/16",
            Want::Pod,
            "+ 10.20.0.0/16",
        ),
        (
            "masqLinkLocal: false\n",
            "100.64.0.0/10",
            Want::Pod,
            "+ 100.64.0.0/10",
        ),
        (
            "nonMasqueradeCIDRs: [10.0.0.0/14, 172.16.0.0/12]\n",
            "10.2.0.0/16",
            Want::Node,
            "- 10.0.0.0/14, + 10.0.0.0/15, + 10.3.0.0/16",
        ),
        (
            "nonMasqueradeCIDRs: [10.2.1.0/24, 10.2.2.0/24]\nresyncInterval: 30s\n",
            "10.2.0.0/16",
            Want::Node,
            "- 10.2.1.0/24, - 10.2.2.0/24",
        ),
        (
            "nonMasqueradeCIDRs: []\n",
            "169.254.169.254/32",
            Want::Node,
            "masqLinkLocal: true",
        ),
        (
            "nonMasqueradeCIDRs: [10.11.0.0/16]\ncidrLimit: 1\n",
            "10.20.0.0/16",
            Want::Pod,
            "+ 10.20.0.0/16, cidrLimit: 2",
        ),
    ];
    for (text, dest, want, changes) in rows {
        let before = reading(text, &flags).config.unwrap();
        let dest = dest.parse().unwrap();
        let edit = edit(&before, &flags, dest, want).unwrap();
        let told: Vec<String> = edit.changes.iter().map(ToString::to_string).collect();
        assert_eq!(told.join(", "), changes, "{text}");
        // The agent reads the edited file, and the old one again, as they are meant.
        for config in [&edit.after, &before] {
            let again = reading(&yaml(config), &flags).config.unwrap();
            assert_eq!(
                again.exempt(false),
                config.exempt(false),
                "{}",
                yaml(config)
            );
            assert_eq!(
                (again.resync, again.cidr_limit),
                (config.resync, config.cidr_limit)
            );
        }
        // And it is the smallest that does: a second one changes nothing.
        assert_eq!(
            self::edit(&edit.after, &flags, dest, want).unwrap().changes,
            []
        );
    }
    let v6 = edit(
        &reading("", &flags).config.unwrap(),
        &flags,
        "fd77::/48".parse().unwrap(),
        Want::Pod,
    );
    assert_eq!(
        v6.unwrap_err(),
        "the agent runs without --enable-ipv6: it writes no IPv6 rules, and refuses a list with IPv6 prefixes"
    );
}

/// An agent's chain where there was none: in the store that is there, with its jump.
#[test]
fn rules_after_an_edit_have_the_chain_and_the_jump() {
    let flags = Flags::default();
    let read = reading("nonMasqueradeCIDRs: [10.11.0.0/16]\n", &flags);
    let config = read.config.clone().unwrap();
    for rules in [Ruleset::default(), legacy(dump("", ""))] {
        let after = edited(&rules, &config, &flags);
        assert_eq!(judged(&read, &flags, &after).state, ConfigState::Agrees);
        let chains = judged(&read, &flags, &after);
        let jumps: Vec<usize> = chains
            .halves
            .iter()
            .filter_map(Half::chain)
            .map(|c| c.jumps.len())
            .collect();
        assert_eq!(jumps, [1]);
    }
}
