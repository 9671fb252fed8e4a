//! Comments and strings of a Rust file, replaced by spaces.

use super::source::is_word;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    Blank,
    Keep,
}

/// `text` with every character of a comment (and, if asked, of a string's content) replaced by spaces.
pub(super) fn blank(text: &str, strings: Strings) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = out.chars().next_back();
        let (length, hidden) = if let Some(length) = comment(rest) {
            (length, true)
        } else if let Some(length) = literal(rest, before) {
            (length, strings == Strings::Blank)
        } else {
            (first.len_utf8(), false)
        };
        let (token, tail) = rest.split_at(length);
        if hidden {
            out.extend(token.bytes().map(hide))
        } else {
            out.push_str(token)
        }
        rest = tail;
    }
    out
}

fn hide(byte: u8) -> char {
    if byte == b'\n' { '\n' } else { ' ' }
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = rest.as_bytes();
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return Some(at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Some(rest.len())
}

/// The length of the string or character that `rest` begins with; `before` is the character in front of it.
fn literal(rest: &str, before: Option<char>) -> Option<usize> {
    let raw = |prefix: &&str| {
        let after = rest
            .strip_prefix(*prefix)
            .map(|after| after.trim_start_matches('#'));
        after.is_some_and(|after| after.starts_with('"'))
    };
    let begins_word = !before.is_some_and(is_word);
    let prefix = ["br", "cr", "r"]
        .into_iter()
        .find(raw)
        .filter(|_| begins_word);
    match prefix {
        Some(prefix) => Some(prefix.len() + raw_string(rest.get(prefix.len()..)?)),
        None if rest.starts_with('"') => Some(quoted(rest, b'"')),
        None if rest.starts_with('\'') => character(rest),
        None => None,
    }
}

fn raw_string(rest: &str) -> usize {
    let hashes = rest.bytes().take_while(|&byte| byte == b'#').count();
    let closing = format!("\"{}", "#".repeat(hashes));
    let inside = hashes + 1;
    rest.get(inside..)
        .and_then(|text| text.find(&closing))
        .map_or(rest.len(), |at| inside + at + closing.len())
}

fn quoted(rest: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal, unless the quote begins a lifetime or a label.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some(quoted(rest, b'\''));
    }
    chars
        .next()
        .filter(|&(_, c)| c == '\'')
        .map(|(at, _)| at + 1)
}
