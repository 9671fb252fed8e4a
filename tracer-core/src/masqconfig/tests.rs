//! Every row of the field's table of configurations, the whole reading compared.

use super::{Agent, Config, File, Flags, Given, Reading, Refusal, read, recognise};

const PRIVATE: &str = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16";

/// All that a reading says: `[prefixes] limit link-locals interval`, or why nothing is taken; then the
/// traps, each with its line.
pub(super) fn told(reading: &Reading) -> String {
    let outcome = match &reading.config {
        Ok(config) => of_config(config),
        Err(invalid) => match invalid.by {
            Refusal::Agent => format!("refused: {invalid}"),
            Refusal::Iptables => format!("not installed: {invalid}"),
        },
    };
    let traps = reading.traps.iter().map(|trap| {
        let line = trap
            .line
            .map_or_else(|| "-".to_owned(), |line| line.to_string());
        format!("{}@{line}", trap.kind.word())
    });
    std::iter::once(outcome)
        .chain(traps)
        .collect::<Vec<_>>()
        .join(" | ")
}

fn of_config(config: &Config) -> String {
    let nets: Vec<String> = config.entries.iter().map(|e| e.net.to_string()).collect();
    let own = config
        .entries
        .iter()
        .filter(|entry| entry.line.is_none())
        .count();
    assert_eq!(
        own == config.entries.len() && own > 0,
        config.defaults,
        "{config:?}"
    );
    let word = |is: bool, word: &'static str| if is { word } else { "" };
    let resync = config
        .resync
        .map_or_else(|| "on change".to_owned(), |span| span.to_string());
    format!(
        "{}[{}] limit {} {}{}every {resync}",
        word(config.defaults, "defaults "),
        nets.join(" "),
        config.cidr_limit,
        word(config.masq_link_local, "masq-local "),
        word(config.masq_link_local_v6, "masq-local-v6 "),
    )
}

fn file(text: &str) -> Vec<File> {
    vec![File {
        name: "ip-masq-agent".into(),
        bytes: text.as_bytes().to_vec(),
    }]
}

fn upstream(text: &str, flags: &Flags) -> String {
    told(&read(Agent::Upstream, &file(text), flags))
}

fn usual(nets: &str) -> String {
    format!("[{nets}] limit 64 every 60s")
}

#[track_caller]
fn rows(rows: &[(&str, &str, String)]) {
    for (id, text, wanted) in rows {
        assert_eq!(upstream(text, &Flags::default()), *wanted, "{id}: {text}");
    }
}

#[test]
fn k01_to_k08_what_is_there_and_what_is_not() {
    let defaults = format!("defaults {}", usual(PRIVATE));
    rows(&[
        (
            "K01",
            "nonMasqueradeCIDRs:\n - 10.11.0.0/16\n - 172.19.0.0/16\nmasqLinkLocal: true\nresyncInterval: 30s\n",
            "[10.11.0.0/16 172.19.0.0/16] limit 64 masq-local every 30s".into(),
        ),
        (
            "K02",
            r#"{"nonMasqueradeCIDRs":["10.11.0.0/16"],"masqLinkLocal":false,"resyncInterval":"1m30s"}"#,
            "[10.11.0.0/16] limit 64 every 90s".into(),
        ),
        ("K03", "masqLinkLocal: false\n", defaults.clone()),
        (
            "K04",
            "nonMasqueradeCIDRs:\nresyncInterval: 30s\n",
            "[] limit 64 every 30s | empty-list@1".into(),
        ),
        (
            "K04",
            "nonMasqueradeCIDRs: null\n",
            format!("{} | empty-list@1", usual("")),
        ),
        (
            "K05",
            "nonMasqueradeCIDRs: []\n",
            format!("{} | empty-list@1", usual("")),
        ),
        ("K06", "", defaults.clone()),
        ("K06", "# only a comment\n", defaults),
        (
            "K07",
            "---\nnonMasqueradeCIDRs: [10.11.0.0/16]\n",
            usual("10.11.0.0/16"),
        ),
        (
            "K08",
            "nonMasqueradeCIDRs: [10.11.0.0/16]\n---\nnonMasqueradeCIDRs: [10.12.0.0/16]\n",
            format!("{} | second-document@3", usual("10.11.0.0/16")),
        ),
        (
            "K08",
            "nonMasqueradeCIDRs: [10.11.0.0/16]\n---\n{ no yaml\n",
            format!("{} | second-document@3", usual("10.11.0.0/16")),
        ),
    ]);
}

#[test]
fn k09_to_k14_prefixes() {
    let one = |cidr: &str| format!("nonMasqueradeCIDRs:\n - {cidr}\n");
    let texts: Vec<String> = [
        "10.11.3.7/16",
        "10.11.3.7",
        "10.11.3.7/32",
        "0.0.0.0/0",
        "fd77:0:1::/48",
        "'::/0'",
        "'::ffff:10.11.0.0/112'",
    ]
    .map(one)
    .to_vec();
    let why = [
        "refused: line 2: nonMasqueradeCIDRs: \"10.11.3.7/16\" is not aligned; its network is 10.11.0.0/16".into(),
        "refused: line 2: nonMasqueradeCIDRs: \"10.11.3.7\" is no prefix: it has no length, such as 10.11.0.0/16".into(),
        usual("10.11.3.7/32"),
        usual("0.0.0.0/0"),
        "refused: line 2: nonMasqueradeCIDRs: \"fd77:0:1::/48\" is IPv6, and the agent runs without --enable-ipv6".into(),
        "refused: line 2: nonMasqueradeCIDRs: \"::/0\" is IPv6, and the agent runs without --enable-ipv6".into(),
        "not installed: line 2: nonMasqueradeCIDRs: \"::ffff:10.11.0.0/112\" is IPv4 written as IPv6: the agent takes it, and iptables refuses the rule".into(),
    ];
    for (text, wanted) in texts.iter().zip(why) {
        assert_eq!(upstream(text, &Flags::default()), wanted, "{text}");
    }
    let v6 = Flags {
        ipv6: true,
        ..Flags::default()
    };
    assert_eq!(upstream(&texts[4], &v6), usual("fd77:0:1::/48"));
    assert_eq!(upstream(&texts[5], &v6), usual("::/0"));
    let all = "masqLinkLocal: true\nnonMasqueradeCIDRs: [0.0.0.0/0]\n";
    assert_eq!(
        upstream(all, &Flags::default()),
        "[0.0.0.0/0] limit 64 masq-local every 60s | link-local@2"
    );
}

#[test]
fn k15_to_k22_keys_and_switches() {
    let defaults = format!("defaults {}", usual(PRIVATE));
    let local = |word: &str| format!("defaults [{PRIVATE}] limit 64 {word}every 60s");
    let typed = "masqLinkLocal: true or false without quotes is wanted, and it is";
    rows(&[
        ("K15", "masqueradeCIDRs: [10.1.0.0/16]\n", format!("{defaults} | foreign-key@1")),
        ("K15", "forceMasqueradeCIDRs: [10.1.0.0/16]\n", format!("{defaults} | foreign-key@1")),
        ("K16", "nonMasqueradeCIDR:\n - 10.11.0.0/16\n", format!("{defaults} | unknown-key@1")),
        (
            "K17",
            "NonMasqueradeCidrs: [10.11.0.0/16]\nMASQLINKLOCAL: true\nResyncInterval: 30s\n",
            "[10.11.0.0/16] limit 64 masq-local every 30s".into(),
        ),
        (
            "K18",
            "nonMasqueradeCIDRs:\n - 10.1.0.0/16\nnonMasqueradeCIDRs:\n - 10.2.0.0/16\n",
            format!("{} | duplicate-key@3", usual("10.2.0.0/16")),
        ),
        (
            "K18 in two spellings",
            "nonMasqueradeCIDRs: [10.1.0.0/16]\nNonMasqueradeCIDRs: [10.2.0.0/16]\n",
            format!("{} | duplicate-key@2", usual("10.1.0.0/16")),
        ),
        (
            "K19",
            "nonMasqueradeCIDRs: 10.11.0.0/16\n",
            "refused: line 1: nonMasqueradeCIDRs: a list of prefixes is wanted, and it is text".into(),
        ),
        (
            "K19",
            "nonMasqueradeCIDRs: [\"10.11.0.0/16,10.12.0.0/16\"]\n",
            "refused: line 1: nonMasqueradeCIDRs: \"10.11.0.0/16,10.12.0.0/16\" is no prefix: \"16,10.12.0.0/16\" is no length from 0 to 32".into(),
        ),
        ("K20", "masqLinkLocal: yes\n", local("masq-local ")),
        ("K20", "masqLinkLocal: On\n", local("masq-local ")),
        ("K21", "masqLinkLocal: \"true\"\n", format!("refused: line 1: {typed} text")),
        ("K21", "masqLinkLocal: 1\n", format!("refused: line 1: {typed} a number without quotes")),
        ("K22", "masqLinkLocal:\n", defaults.clone()),
        ("both switches", "masqLinkLocalIPv6: true\n", local("masq-local-v6 ")),
    ]);
    let typo = read(
        Agent::Upstream,
        &file("nonMasqueradeCIDR: [10.11.0.0/16]\n"),
        &Flags::default(),
    );
    assert_eq!(
        (typo.traps[0].text.as_str(), typo.traps[0].fix.as_deref()),
        (
            "nonMasqueradeCIDR is ignored: ip-masq-agent does not know this key",
            Some("write nonMasqueradeCIDRs")
        )
    );
}

#[test]
fn k23_to_k26_lists() {
    let many = |n: usize, more: &str| {
        let list: Vec<String> = (0..n).map(|i| format!("10.{i}.0.0/16")).collect();
        format!("nonMasqueradeCIDRs: [{}]\n{more}", list.join(", "))
    };
    let (many64, many65) = (many(64, ""), many(65, ""));
    let raised = many(65, "cidrLimit: 100\n");
    let flags = Flags::default();
    assert!(upstream(&many64, &flags).starts_with("[10.0.0.0/16 10.1.0.0/16 "));
    assert!(upstream(&raised, &flags).ends_with("10.64.0.0/16] limit 100 every 60s"));
    let item = |item: &str| format!("nonMasqueradeCIDRs: [{item}]\n");
    let bad = |what: &str, why: &str| {
        format!("refused: line 1: nonMasqueradeCIDRs: {what:?} is no prefix: {why}")
    };
    let items = [
        "' 10.0.0.0/8'",
        "010.011.000.000/16",
        "10/8",
        "10.0.0.0/255.0.0.0",
        "10",
        "1.0.0.0/8, 2.0.0.0/8, 3.0.0.0/8, ~",
        "~",
    ]
    .map(item);
    rows(&[
        (
            "K23",
            &many65,
            "refused: line 1: nonMasqueradeCIDRs: 65 entries, and at most 64 are taken".into(),
        ),
        (
            "K24",
            "cidrLimit: 0\nnonMasqueradeCIDRs: []\n",
            "[] limit 0 every 60s | empty-list@2".into(),
        ),
        (
            "K24",
            "cidrLimit: 0\nnonMasqueradeCIDRs: [10.0.0.0/8]\n",
            "refused: line 2: nonMasqueradeCIDRs: 1 entries, and at most 0 are taken".into(),
        ),
        (
            "K24 with the defaults",
            "cidrLimit: 0\n",
            "refused: nonMasqueradeCIDRs: 3 entries, and at most 0 are taken".into(),
        ),
        (
            "K24",
            "cidrLimit: \"64\"\n",
            "refused: line 1: cidrLimit: a whole number without quotes is wanted, and it is text".into(),
        ),
        ("K25", &items[0], bad(" 10.0.0.0/8", "\" 10.0.0.0\" is no address")),
        ("K25", &items[1], bad("010.011.000.000/16", "\"010.011.000.000\" is no address")),
        ("K25", &items[2], bad("10/8", "\"10\" is no address")),
        ("K25", &items[3], bad("10.0.0.0/255.0.0.0", "\"255.0.0.0\" is no length from 0 to 32")),
        (
            "K25",
            &items[4],
            "refused: line 1: nonMasqueradeCIDRs: an entry is a number without quotes; a prefix such as 10.11.0.0/16 is wanted".into(),
        ),
        ("K25", &items[5], bad("", "it has no length, such as 10.11.0.0/16")),
        (
            "an empty entry in the place of a default one, as Go 1.19 decodes it",
            &items[6],
            format!("{} | realigned@1", usual("10.0.0.0/8")),
        ),
        (
            "K26",
            "nonMasqueradeCIDRs: [10.0.0.0/8, 10.11.0.0/16, 0.0.0.0/0, 10.0.0.0/8]\n",
            format!("{} | covered-entry@1 | covered-entry@1", usual("10.0.0.0/8 10.11.0.0/16 0.0.0.0/0 10.0.0.0/8")),
        ),
        (
            "octal for iptables only",
            "nonMasqueradeCIDRs: [10.0.0.0/016]\n",
            format!("{} | realigned@1", usual("10.0.0.0/14")),
        ),
        (
            "octal that is none",
            "nonMasqueradeCIDRs: [10.0.0.0/08]\n",
            "not installed: line 1: nonMasqueradeCIDRs: \"10.0.0.0/08\" has a length that begins with 0: the agent takes it, and iptables refuses the rule".into(),
        ),
    ]);
}

#[test]
fn k27_to_k33_forms_of_the_text() {
    let defaults = format!("defaults {}", usual(PRIVATE));
    let good = usual("10.11.0.0/16");
    rows(&[
        (
            "K27",
            "{\n\t\"nonMasqueradeCIDRs\": [\n\t\t\"10.11.0.0/16\"\n\t]\n}\n",
            good.clone(),
        ),
        (
            "K28",
            "\u{feff}nonMasqueradeCIDRs:\r\n - 10.11.0.0/16\r\n",
            good.clone(),
        ),
        (
            "K29",
            "x: &a [10.11.0.0/16]\nnonMasqueradeCIDRs: *a\n",
            format!("{good} | unknown-key@1"),
        ),
        (
            "K29",
            "{nonMasqueradeCIDRs: [10.11.0.0/16]}\n",
            good.clone(),
        ),
        (
            "K30",
            "{\"nonMasqueradeCIDRs\": [\"10.11.0.0/16\",],}\n",
            good,
        ),
        (
            "what follows the first document is no error",
            "{\"nonMasqueradeCIDRs\": [\"10.11.0.0/16\"]} // why\n",
            format!("{} | second-document@1", usual("10.11.0.0/16")),
        ),
        (
            "K31",
            "- 10.11.0.0/16\n",
            "refused: line 1: keys are wanted here, and it is a list".into(),
        ),
        (
            "K31",
            "plain text\n",
            "refused: line 1: keys are wanted here, and it is text".into(),
        ),
        (
            "K32",
            "config:\n  nonMasqueradeCIDRs: [10.11.0.0/16]\n",
            format!("{defaults} | nested-config@1"),
        ),
        (
            "K32",
            "config: |\n  nonMasqueradeCIDRs: [10.11.0.0/16]\n",
            format!("{defaults} | nested-config@1"),
        ),
        (
            "K33",
            "nonMasqueradeCIDRs: [169.254.0.0/16]\nmasqLinkLocal: true\n",
            "[169.254.0.0/16] limit 64 masq-local every 60s | link-local@1".into(),
        ),
    ]);
    for (id, text) in [
        ("K27", "nonMasqueradeCIDRs:\n\t- 10.11.0.0/16\n"),
        (
            "K30",
            "{\n// why\n\"nonMasqueradeCIDRs\": [\"10.11.0.0/16\"]}\n",
        ),
    ] {
        let refused = upstream(text, &Flags::default());
        assert!(refused.starts_with("refused: line "), "{id}: {refused}");
        assert!(refused.contains("it is no YAML"), "{id}: {refused}");
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n  namespace: SPACE\ndata:\n  KEY: |\n    nonMasqueradeCIDRs:\n    - 10.11.0.0/16\n";

fn map(name: &str, space: &str, key: &str) -> String {
    MAP.replace("NAME", name)
        .replace("SPACE", space)
        .replace("KEY", key)
}

fn from_map(text: &str, agent: Option<Agent>) -> String {
    let given = recognise(text.as_bytes());
    assert!(matches!(given, Given::ConfigMaps(_)), "{text}");
    let agent = agent.or(given.agent()).unwrap_or_default();
    let (files, mut traps) = given.files(agent);
    let mut reading = read(agent, &files, &Flags::default());
    traps.append(&mut reading.traps);
    told(&Reading { traps, ..reading })
}

#[test]
fn k34_to_k36_configmaps() {
    let defaults = format!("defaults {}", usual(PRIVATE));
    let good = usual("10.11.0.0/16");
    let right = map("ip-masq-agent", "kube-system", "config");
    assert_eq!(from_map(&right, None), good);
    let rows = [
        (
            map("ip-masq-agent", "kube-system", "ip-masq-agent"),
            "wrong-key",
        ),
        (
            map("ip-masq-agent", "kube-system", "config.yaml"),
            "wrong-key",
        ),
        (map("ip-masq-agent", "default", "config"), "wrong-place"),
        (map("masq", "kube-system", "config"), "wrong-place"),
    ];
    for (text, trap) in rows {
        assert_eq!(
            from_map(&text, None),
            format!("{defaults} | {trap}@-"),
            "{text}"
        );
    }
    // The same key is the right one for Azure's.
    let key = map("ip-masq-agent", "kube-system", "ip-masq-agent");
    assert_eq!(from_map(&key, Some(Agent::Azure)), good);
    let azure = map("azure-ip-masq-agent-config", "kube-system", "ip-masq-agent");
    assert_eq!(from_map(&azure, None), good);
    let json = r#"{"apiVersion":"v1","kind":"List","items":[
        {"kind":"ConfigMap","metadata":{"name":"other","namespace":"kube-system"},"data":{"config":"x"}},
        {"kind":"ConfigMap","metadata":{"name":"ip-masq-agent","namespace":"kube-system"},
         "data":{"config":"nonMasqueradeCIDRs: [10.11.0.0/16]  \n\n"}}]}"#;
    assert_eq!(from_map(json, None), good);
    let binary = "kind: ConfigMap\nmetadata: {name: ip-masq-agent}\nbinaryData:\n  config: bm9uTWFzcXVlcmFkZUNJRFJzOiBbMTAuMTEuMC4wLzE2XQo=\n";
    assert_eq!(from_map(binary, None), good);
}

#[test]
fn spellings_of_the_interval() {
    let text = |value: &str| format!("resyncInterval: {value}\n");
    let told = |value: &str| upstream(&text(value), &Flags::default());
    let ok = |span: &str| format!("defaults [{PRIVATE}] limit 64 every {span}");
    for (value, span) in [
        ("60s", "60s"),
        ("\"60s\"", "60s"),
        ("1m", "60s"),
        ("1m0s", "60s"),
        ("60000ms", "60s"),
        ("+30s", "30s"),
        (".5m", "30s"),
        ("1.5m", "90s"),
        ("1h30m", "1h30m"),
        ("\"\\u0036\\u0030s\"", "60s"),
    ] {
        assert_eq!(told(value), ok(span), "{value}");
    }
    let trapped = |span: &str, trap: &str| format!("{} | {trap}@1", ok(span));
    assert_eq!(told("\"0\""), trapped("0s", "busy-loop"));
    assert_eq!(told("0s"), trapped("0s", "busy-loop"));
    assert_eq!(told("-5s"), trapped("-5s", "busy-loop"));
    assert_eq!(
        told("9223372036854775807ns"),
        trapped("292 years", "never-reread")
    );
    for value in [
        "\"60\"", "60sec", "1d", "300y", "1M", "60S", "60 s", "1m 30s", "PT60S", "1:00", "1_0s",
        "", "~",
    ] {
        let told = told(value);
        let why = "refused: line 1: resyncInterval: \"";
        assert!(
            told.starts_with(why) && told.contains("is no duration such as"),
            "{value}: {told}"
        );
    }
    for value in ["60", "0"] {
        let why = "refused: line 1: resyncInterval: text such as \"60s\" is wanted, and it is a number without quotes";
        assert_eq!(told(value), why, "{value}");
    }
}

#[test]
fn azure_joins_its_files_and_has_no_defaults_beside_one() {
    let files = |texts: &[&str]| -> Vec<File> {
        let named = |(n, text): (usize, &&str)| File {
            name: format!("ip-masq-{n}"),
            bytes: text.as_bytes().to_vec(),
        };
        texts.iter().enumerate().map(named).collect()
    };
    let azure = |texts: &[&str]| told(&read(Agent::Azure, &files(texts), &Flags::default()));
    assert_eq!(azure(&[]), format!("defaults {}", usual(PRIVATE)));
    assert_eq!(
        azure(&[
            "nonMasqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]\n",
            "nonMasqueradeCIDRs: [10.2.0.0/16, 10.3.0.0/16]\nmasqLinkLocal: true\n"
        ]),
        "[10.1.0.0/16 10.2.0.0/16 10.3.0.0/16] limit 64 masq-local every 60s"
    );
    assert_eq!(
        azure(&["masqLinkLocal: true\n"]),
        "[] limit 64 masq-local every 60s | empty-list@-"
    );
    assert_eq!(
        azure(&["nonMasqueradeCIDRs: [10.1.0.0/16]\nresyncInterval: 60\ncidrLimit: 1\n"]),
        format!("{} | foreign-key@3 | foreign-key@2", usual("10.1.0.0/16"))
    );
    assert_eq!(
        azure(&[
            "nonMasqueradeCIDRs: [10.1.0.0/16]\n",
            "nonMasqueradeCIDRs: [10.1.2.0/16]\n"
        ]),
        "refused: line 1: nonMasqueradeCIDRs: \"10.1.2.0/16\" is not aligned; its network is 10.1.0.0/16 (in ip-masq-1)"
    );
}

#[test]
fn cilium_aligns_and_takes_an_empty_file_for_none() {
    let cilium = |text: &str| told(&read(Agent::Cilium, &file(text), &Flags::default()));
    let own = format!(
        "defaults [{PRIVATE} 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4] limit 64 every on change"
    );
    assert_eq!(told(&read(Agent::Cilium, &[], &Flags::default())), own);
    assert_eq!(cilium(""), own);
    assert_eq!(
        cilium("# nothing\n"),
        "[] limit 64 every on change | empty-list@-"
    );
    assert_eq!(
        cilium("nonMasqueradeCIDRs: [10.1.2.3/16, 'fd77::/48']\nresyncInterval: 60s\n"),
        "[10.1.0.0/16 fd77::/48] limit 64 every on change | foreign-key@2 | realigned@1"
    );
    assert_eq!(
        cilium("nonMasqueradeCIDRs: [10.1.2.3]\n"),
        "refused: line 1: nonMasqueradeCIDRs: \"10.1.2.3\" is no prefix: it has no length, such as 10.11.0.0/16"
    );
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let texts: [&[u8]; 6] = [
        b"\xff\xfe",
        b"\xff\xfea",
        b"\xc3\x28",
        b"&a [*a]",
        b"? [1]: 2",
        b"\x00",
    ];
    for bytes in texts {
        let bytes = bytes.to_vec();
        let files = [File {
            name: "x".into(),
            bytes,
        }];
        for agent in [Agent::Upstream, Agent::Azure, Agent::Cilium] {
            let _ = told(&read(agent, &files, &Flags::default()));
        }
    }
}
