//! A ConfigMap as `kubectl get -o yaml` or `-o json` prints it, alone or in a list.

use super::yaml::{self, Node, Value};
use super::{Agent, File, Trap, TrapKind};

/// What a file turned out to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// The configuration itself.
    Config(Vec<u8>),
    /// ConfigMaps, as kubectl prints them.
    ConfigMaps(Vec<ConfigMap>),
}

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// Its namespace, where it says.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its keys and what is under them.
    pub files: Vec<File>,
    /// When it was edited last, RFC 3339, where its managed fields are shown.
    pub changed: Option<String>,
}

const NAMESPACE: &str = "kube-system";
const NAME: &str = "ip-masq-agent";
const KEY: &str = "config";
/// Files with other names Azure's agent does not read.
const AZURE_KEYS: &str = "ip-masq";
const AZURE_NAME: &str = "azure-ip-masq-agent-config";

/// Tells a ConfigMap from a configuration. Text that is neither is a configuration: the agent will say
/// what is wrong with it.
#[must_use]
pub fn recognise(bytes: &[u8]) -> Given {
    let config = || Given::Config(bytes.to_vec());
    let Ok(document) = yaml::read(bytes) else {
        return config();
    };
    let root = &document.root;
    match text(root, "kind") {
        Some("ConfigMap") => Given::ConfigMaps(vec![one(root)]),
        Some("List" | "ConfigMapList") => {
            let items = match get(root, "items").map(|node| &node.value) {
                Some(Value::List(items)) => items.as_slice(),
                _ => &[],
            };
            let maps = items
                .iter()
                .filter(|item| text(item, "kind").is_none_or(|kind| kind == "ConfigMap"));
            Given::ConfigMaps(maps.map(one).collect())
        }
        _ => config(),
    }
}

fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Map(pairs) => pairs.iter().find(|(name, _)| name == key).map(|(_, n)| n),
        _ => None,
    }
}

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    match &get(node, key)?.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn one(node: &Node) -> ConfigMap {
    let about = get(node, "metadata");
    let word = |key| about.and_then(|about| text(about, key)).map(str::to_owned);
    let mut files = Vec::new();
    for (part, decode) in [
        ("data", plain as fn(&str) -> Option<Vec<u8>>),
        ("binaryData", base64),
    ] {
        let Some(Value::Map(pairs)) = get(node, part).map(|node| &node.value) else {
            continue;
        };
        for (name, value) in pairs {
            let Value::Text(text) = &value.value else {
                continue;
            };
            let Some(bytes) = decode(text) else { continue };
            let name = name.clone();
            files.push(File { name, bytes });
        }
    }
    let times = match about
        .and_then(|about| get(about, "managedFields"))
        .map(|node| &node.value)
    {
        Some(Value::List(all)) => all.iter().filter_map(|one| text(one, "time")).max(),
        _ => None,
    };
    ConfigMap {
        changed: times.map(str::to_owned),
        namespace: word("namespace"),
        name: word("name").unwrap_or_default(),
        files,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "one of two ways to decode")]
fn plain(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

/// Base64 with padding; white space between is skipped.
fn base64(text: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| {
        Some(u32::from(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    };
    let words: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let end = words.iter().position(|b| *b == b'=').unwrap_or(words.len());
    let (digits, padding) = words.split_at(end);
    if padding.len() > 2 || padding.iter().any(|b| *b != b'=') || !words.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(words.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for byte in group {
            bits = bits << 6 | value(*byte)?;
        }
        bits <<= 6 * (4 - group.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

impl Given {
    /// Whose configuration this is, as far as names tell.
    #[must_use]
    pub fn agent(&self) -> Option<Agent> {
        match self {
            Self::ConfigMaps(maps) if maps.iter().any(|m| m.name.starts_with(AZURE_NAME)) => {
                Some(Agent::Azure)
            }
            _ => None,
        }
    }

    /// When it was edited last, RFC 3339, where it says so.
    #[must_use]
    pub fn changed(&self) -> Option<&str> {
        match self {
            Self::ConfigMaps(maps) => maps.iter().filter_map(|map| map.changed.as_deref()).max(),
            Self::Config(_) => None,
        }
    }

    /// The files that the agent finds in its volume, and why there are none where there is one here.
    #[must_use]
    pub fn files(&self, agent: Agent) -> (Vec<File>, Vec<Trap>) {
        match (self, agent) {
            (Self::Config(bytes), _) => {
                let name = NAME.to_owned();
                let bytes = bytes.clone();
                (vec![File { name, bytes }], Vec::new())
            }
            (Self::ConfigMaps(maps), Agent::Azure) => azure(maps),
            (Self::ConfigMaps(maps), _) => upstream(maps),
        }
    }
}

/// All files whose names begin so, of all ConfigMaps: the volume is projected out of several.
fn azure(maps: &[ConfigMap]) -> (Vec<File>, Vec<Trap>) {
    let of_agent = |file: &&File| file.name.starts_with(AZURE_KEYS);
    let files: Vec<File> = maps
        .iter()
        .flat_map(|m| &m.files)
        .filter(of_agent)
        .cloned()
        .collect();
    let mut traps = Vec::new();
    if files.is_empty() {
        let keys = keys(maps.iter().flat_map(|m| &m.files));
        let text = format!(
            "no key begins with {AZURE_KEYS} ({keys}): the agent finds no file and takes its defaults"
        );
        traps.push(Trap::new(TrapKind::WrongKey, None, text).fix(format!("call the key {NAME}")));
    }
    (files, traps)
}

fn keys<'f>(files: impl Iterator<Item = &'f File>) -> String {
    let names: Vec<&str> = files.map(|file| file.name.as_str()).collect();
    match names.as_slice() {
        [] => "it has none".to_owned(),
        names => format!("it has {}", names.join(", ")),
    }
}

/// The ConfigMap that the volume names; it is optional, so another one is no error but no file.
fn upstream(maps: &[ConfigMap]) -> (Vec<File>, Vec<Trap>) {
    let named = |map: &&ConfigMap| {
        map.name == NAME && map.namespace.as_deref().is_none_or(|ns| ns == NAMESPACE)
    };
    let Some(map) = maps.iter().find(named) else {
        return (Vec::new(), vec![elsewhere(maps)]);
    };
    if let Some(file) = map.files.iter().find(|file| file.name == KEY) {
        let name = NAME.to_owned();
        let bytes = file.bytes.clone();
        return (vec![File { name, bytes }], Vec::new());
    }
    let text = format!(
        "the ConfigMap has no key {KEY} ({}): the agent finds no file and takes its defaults",
        keys(map.files.iter())
    );
    let trap = Trap::new(TrapKind::WrongKey, None, text).fix(format!("call the key {KEY}"));
    (Vec::new(), vec![trap])
}

fn elsewhere(maps: &[ConfigMap]) -> Trap {
    const SHOWN: usize = 3;
    let name = |map: &ConfigMap| match &map.namespace {
        Some(namespace) => format!("{namespace}/{}", map.name),
        None => map.name.clone(),
    };
    let names: Vec<String> = maps.iter().take(SHOWN).map(name).collect();
    let what = match names.as_slice() {
        [] => "there is no ConfigMap here".to_owned(),
        names => format!("this is {}", names.join(", ")),
    };
    let text = format!(
        "{what}, and the agent's volume names {NAMESPACE}/{NAME}, optional: without it the agent finds no \
         file and takes its defaults"
    );
    Trap::new(TrapKind::WrongPlace, None, text).fix(format!(
        "put it into {NAMESPACE}/{NAME}, or look which ConfigMap the DaemonSet mounts"
    ))
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_read_whole_or_not_at_all() {
        let read = |text| base64(text).map(|b| String::from_utf8_lossy(&b).into_owned());
        assert_eq!(read("bWFzcQ=="), Some("masq".into()));
        assert_eq!(read("bWFz\n cTE="), Some("masq1".into()));
        assert_eq!(read("bWFz"), Some("mas".into()));
        assert_eq!(read(""), Some(String::new()));
        for bad in ["bWFzcQ", "bWF=cQ==", "b===", "====", "bW*z"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
