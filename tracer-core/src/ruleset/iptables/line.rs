//! One rule line, taken apart into modules and their options.

use super::super::lines;

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// As printed, with its quotes.
    pub(super) raw: &'a str,
    /// What it means.
    pub(super) text: String,
}

/// An option with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opt {
    /// `!` stood before it (or, in old dumps, before its argument).
    pub(super) negated: bool,
    /// `--dport`, `-s`, …
    pub(super) name: String,
    /// What follows it.
    pub(super) args: Vec<String>,
    /// As printed.
    pub(super) raw: String,
}

impl Opt {
    /// Its first argument, empty where it has none.
    pub(super) fn arg(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }
}

/// Where options belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Module {
    /// To the rule itself (`-s`, `-p`, `-i`, …).
    Rule,
    /// To a match (`-m NAME`).
    Match(String),
    /// To the target or chain of `-j`.
    Jump(String),
    /// To the chain of `-g`.
    Goto(String),
}

/// A module with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Which.
    pub(super) module: Module,
    /// Its options in order.
    pub(super) options: Vec<Opt>,
}

impl Part {
    /// The part as printed.
    pub(super) fn raw(&self) -> String {
        let head = match &self.module {
            Module::Rule => None,
            Module::Match(name) => Some(format!("-m {name}")),
            Module::Jump(name) => Some(format!("-j {name}")),
            Module::Goto(name) => Some(format!("-g {name}")),
        };
        let options = self.options.iter().map(|o| o.raw.clone());
        head.into_iter()
            .chain(options)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The first option of a name.
    pub(super) fn option(&self, name: &str) -> Option<&Opt> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// Options that take so many words, whatever these look like: a comment may be `-j`.
const FIXED: &[(&str, usize)] = &[
    ("-s", 1),
    ("-d", 1),
    ("-p", 1),
    ("-i", 1),
    ("-o", 1),
    ("-f", 0),
    ("--comment", 1),
    ("--log-prefix", 1),
    ("--nflog-prefix", 1),
    ("--string", 1),
    ("--hex-string", 1),
    ("--name", 1),
    ("--hashlimit-name", 1),
    ("--match-set", 2),
    ("--add-set", 2),
    ("--del-set", 2),
    ("--map-set", 2),
    ("--physdev-in", 1),
    ("--physdev-out", 1),
    ("--tcp-flags", 2),
];

/// Options of a target that stand behind a later match in what some programs write.
const OF_TARGETS: &[&str] = &[
    "--to-ports",
    "--to-source",
    "--to-destination",
    "--random",
    "--random-fully",
    "--persistent",
];

/// Takes a line apart into words, quotes and backslashes as `iptables-save` writes them. A quote that
/// is never closed ends with the line.
pub(super) fn words(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        let rest = line[at..].trim_start();
        at = line.len() - rest.len();
        if rest.is_empty() {
            return words;
        }
        let quoted = rest.starts_with('"') && lines::opens(&line[..at]);
        let (length, text) = if quoted {
            quoted_word(rest)
        } else {
            plain_word(rest)
        };
        words.push(Word {
            raw: &rest[..length],
            text,
        });
        at += length;
    }
}

fn plain_word(rest: &str) -> (usize, String) {
    let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
    (length, rest[..length].to_owned())
}

/// Length of the word with its quotes, and its meaning.
fn quoted_word(rest: &str) -> (usize, String) {
    let mut text = String::new();
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            c if escaped => {
                text.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (at + 1, text),
            c => text.push(c),
        }
    }
    (rest.len(), text)
}

/// Takes the words behind `-A CHAIN` apart. Words that belong nowhere become options without
/// arguments of the module before them, so nothing is lost.
pub(super) fn parts(words: &[Word<'_>]) -> Vec<Part> {
    let mut parts = vec![Part {
        module: Module::Rule,
        options: Vec::new(),
    }];
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let (negated, name, after) = match (first.raw, after.split_first()) {
            ("!", Some((name, after))) => (true, name, after),
            _ => (false, first, after),
        };
        let module = after.first().and_then(|word| module(name.raw, &word.text));
        if let (false, Some(module)) = (negated, module) {
            parts.push(Part {
                module,
                options: Vec::new(),
            });
            rest = &after[1..];
            continue;
        }
        let (option, used) = option(negated, name, after);
        place(&mut parts, option);
        rest = &after[used..];
    }
    parts
}

fn module(option: &str, name: &str) -> Option<Module> {
    Some(match option {
        "-m" | "--match" => Module::Match(name.into()),
        "-j" | "--jump" => Module::Jump(name.into()),
        "-g" | "--goto" => Module::Goto(name.into()),
        _ => return None,
    })
}

/// An option and how many words its arguments take.
fn option(negated: bool, name: &Word<'_>, after: &[Word<'_>]) -> (Opt, usize) {
    let inner = after
        .first()
        .is_some_and(|word| word.raw == "!" && takes(name.raw));
    let (skipped, after) = if inner { (1, &after[1..]) } else { (0, after) };
    let fixed = FIXED.iter().find(|(option, _)| *option == name.raw);
    let count = match fixed {
        Some((_, count)) => (*count).min(after.len()),
        None => after
            .iter()
            .take_while(|word| word.raw != "!" && !word.raw.starts_with('-'))
            .count(),
    };
    let args = &after[..count];
    let raw = std::iter::once(name)
        .chain(args)
        .map(|word| word.raw)
        .collect::<Vec<_>>()
        .join(" ");
    let negated = negated || inner;
    let option = Opt {
        negated,
        name: name.raw.into(),
        args: args.iter().map(|word| word.text.clone()).collect(),
        raw: if negated { format!("! {raw}") } else { raw },
    };
    (option, skipped + count)
}

/// Options whose argument an old dump turned round (`-d ! 10.0.0.0/8`).
fn takes(option: &str) -> bool {
    matches!(option, "-s" | "-d" | "-p" | "-i" | "-o")
}

fn place(parts: &mut [Part], option: Opt) {
    let of_rule = matches!(
        option.name.as_str(),
        "-s" | "-d" | "-p" | "-i" | "-o" | "-f"
    );
    let of_target = OF_TARGETS.contains(&option.name.as_str());
    let home = parts.iter().rposition(|part| match part.module {
        Module::Rule => of_rule,
        Module::Jump(_) => of_target,
        _ => false,
    });
    let home = home.unwrap_or(parts.len() - 1);
    parts[home].options.push(option);
}
