//! Matches as tests.

use super::super::{AddrTypeOf, Condition, Field, Op, Set, SetId, Test, Value, words};
use super::line::{Module, Opt, Part};
use super::{Origin, rows, rule};

/// Matches that are true now and then: a branch that nobody can predict.
const CHANCE: &[&str] = &[
    "statistic",
    "limit",
    "hashlimit",
    "recent",
    "connlimit",
    "connbytes",
    "quota",
    "random",
    "nth",
    "rateest",
    "cluster",
    "cpu",
];

/// Matches that always hold.
const ALWAYS: &[&str] = &["comment", "nfacct"];

/// The tests of a part; all must hold.
pub(super) fn read(part: &Part, origin: &Origin<'_>) -> Vec<Test> {
    let Module::Match(name) = &part.module else {
        return options(part, "", origin);
    };
    match name.as_str() {
        name if ALWAYS.contains(&name) => Vec::new(),
        "recent" if remembers_only(part) => Vec::new(),
        name if CHANCE.contains(&name) => vec![plain(Condition::Chance(part.raw()))],
        "set" => whole(part, member(part, origin)),
        "addrtype" => whole(part, addr_types(part)),
        "conntrack" | "state" => options(part, "conntrack", origin),
        name => options(part, name, origin),
    }
}

/// `recent --set` only writes down the address, and holds.
fn remembers_only(part: &Part) -> bool {
    let asks = |name: &&str| part.option(name).is_some();
    part.option("--set").is_some_and(|set| !set.negated)
        && !["--rcheck", "--update", "--remove"].iter().any(asks)
}

/// Every option by its row in the table; those without one are kept as unknown, and so is a match
/// without any row, as a whole.
fn options(part: &Part, module: &str, origin: &Origin<'_>) -> Vec<Test> {
    if !rows::knows(module) {
        return vec![plain(Condition::Unknown(part.raw()))];
    }
    part.options
        .iter()
        .flat_map(|option| match rows::read(module, option, origin) {
            Some(tests) if option.negated => rule::negate(tests),
            Some(tests) => tests,
            None => vec![plain(Condition::Unknown(unknown(module, option)))],
        })
        .collect()
}

fn unknown(module: &str, option: &Opt) -> String {
    if module.is_empty() {
        option.raw.clone()
    } else {
        format!("-m {module} {}", option.raw)
    }
}

fn whole(part: &Part, tests: Option<Vec<Test>>) -> Vec<Test> {
    tests.unwrap_or_else(|| vec![plain(Condition::Unknown(part.raw()))])
}

/// A condition as it stands.
pub(super) fn plain(condition: Condition) -> Test {
    Test {
        negated: false,
        condition,
    }
}

/// A field that equals one of some values.
pub(super) fn equal(field: Field, values: Vec<Value>) -> Test {
    plain(Condition::Compare {
        field,
        op: Op::Equal,
        values,
    })
}

/// `addrtype [!] --src-type LIST [!] --dst-type LIST [--limit-iface-in|--limit-iface-out]`.
fn addr_types(part: &Part) -> Option<Vec<Test>> {
    let limit = |name| part.option(name).is_some();
    let of = match (limit("--limit-iface-in"), limit("--limit-iface-out")) {
        (false, false) => AddrTypeOf::Any,
        (true, false) => AddrTypeOf::Iif,
        (false, true) => AddrTypeOf::Oif,
        (true, true) => return None,
    };
    let asked = part
        .options
        .iter()
        .filter(|o| !o.name.starts_with("--limit-iface-"));
    asked
        .map(|option| {
            let field = match option.name.as_str() {
                "--src-type" => Field::SrcType(of),
                "--dst-type" => Field::DstType(of),
                _ => return None,
            };
            let types = option.arg().split(',').map(words::addr_type);
            let values = types.map(|t| t.map(Value::Type)).collect::<Option<_>>()?;
            Some(Test {
                negated: option.negated,
                ..equal(field, values)
            })
        })
        .collect()
}

/// `set [!] --match-set NAME DIMS`; with any other option (counters, `--return-nomatch`) it is more
/// than membership.
fn member(part: &Part, origin: &Origin<'_>) -> Option<Vec<Test>> {
    let [option] = part.options.as_slice() else {
        return None;
    };
    let [name, dims] = option.args.as_slice() else {
        return None;
    };
    if option.name != "--match-set" {
        return None;
    }
    let condition = membership(name, dims, origin)?;
    Some(vec![Test {
        negated: option.negated,
        condition,
    }])
}

/// Membership in a set, or in one of the sets of a `list:set`. A set that looks at more than the rule
/// offers never matches (kernel: `ip_set_test`).
fn membership(name: &str, dims: &str, origin: &Origin<'_>) -> Option<Condition> {
    let id = SetId::Ipset(name.to_owned());
    let set = origin.sets.get(&id)?;
    if set.kind != "list:set" {
        return single(id, set, dims);
    }
    let members = set.elements.iter().map(|element| {
        let id = SetId::Ipset(element.text.split_whitespace().next()?.to_owned());
        let set = origin.sets.get(&id).filter(|set| set.kind != "list:set")?;
        single(id, set, dims).map(plain)
    });
    members.collect::<Option<_>>().map(Condition::AnyOf)
}

fn single(id: SetId, set: &Set, dims: &str) -> Option<Condition> {
    let (method, parts) = set.kind.split_once(':')?;
    let parts: Vec<_> = parts.split(',').collect();
    let dims: Vec<_> = dims.split(',').collect();
    if dims.len() < parts.len() {
        return Some(Condition::AnyOf(Vec::new()));
    }
    let mut fields = Vec::new();
    for (part, dim) in parts.iter().zip(dims) {
        fields.extend(dimension(method, part, dim == "src")?);
    }
    Some(Condition::Member { fields, set: id })
}

/// What a part of a set's key looks at; a MAC address is nothing that we see.
fn dimension(method: &str, part: &str, source: bool) -> Option<Vec<Field>> {
    let port = if source { Field::Sport } else { Field::Dport };
    Some(match (method, part) {
        (_, "ip" | "net") => vec![if source { Field::Saddr } else { Field::Daddr }],
        ("bitmap", "port") => vec![port],
        (_, "port") => vec![Field::Proto, port],
        (_, "iface") => vec![if source { Field::Iif } else { Field::Oif }],
        (_, "mark") => vec![Field::Mark {
            and: u32::MAX,
            xor: 0,
        }],
        _ => return None,
    })
}
