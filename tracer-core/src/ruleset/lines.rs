//! Lines of dumps.

/// The lines of a dump. A comment may hold line breaks, and what follows them may look like a rule or
/// an element: a line ends where its quotes are closed. `escapes`: a backslash inside quotes takes the
/// next character along (iptables; ipset knows none).
pub(super) fn of(dump: &str, escapes: bool) -> impl Iterator<Item = &str> {
    let mut rest = dump;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, after) = rest.split_at(end(rest, escapes));
        rest = after.strip_prefix('\n').unwrap_or(after);
        Some(line.trim())
    })
}

/// Where the first line ends. Headers (`#`) may hold anything.
fn end(text: &str, escapes: bool) -> usize {
    let quotes = !text.starts_with('#');
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted && escapes => escaped = true,
            b'"' if quoted => quoted = false,
            b'"' if quotes && opens(&text[..at]) => quoted = true,
            b'\n' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// Whether a quote behind this text opens a quoted word: only at a word's beginning, and not in a
/// device's name, which iptables prints as it is.
pub(super) fn opens(before: &str) -> bool {
    const DEVICES: &[&str] = &["-i", "-o", "--physdev-in", "--physdev-out"];
    let word = before.trim_end();
    let last = word.rsplit(char::is_whitespace).next().unwrap_or_default();
    word.len() < before.len() && !DEVICES.contains(&last)
}
