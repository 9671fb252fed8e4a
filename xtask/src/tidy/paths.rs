//! The paths that a Rust file names, with `use` groups written out.

use super::source::{is_word, line_of};

/// Groups nested deeper than this are not followed.
const MAX_DEPTH: usize = 32;

/// A path such as `std::fs::read`, and the line (from 1) of its last part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedPath {
    pub(super) path: String,
    pub(super) line: usize,
}

/// Every path of two or more parts in `code` (comments and strings blanked).
pub(super) fn named_in(code: &str) -> Vec<NamedPath> {
    let mut scan = Scan {
        code,
        at: 0,
        found: Vec::new(),
    };
    while scan.at < code.len() {
        match scan.peek() {
            Some(c) if is_word(c) => scan.tree("", 0),
            Some(c) => scan.at += c.len_utf8(),
            None => break,
        }
    }
    scan.found
}

struct Scan<'a> {
    code: &'a str,
    at: usize,
    found: Vec<NamedPath>,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        self.code.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn word(&mut self) -> String {
        let word: String = self.rest().chars().take_while(|&c| is_word(c)).collect();
        self.at += word.len();
        word
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Reads one path that continues `prefix`, and the group that it may end in.
    fn tree(&mut self, prefix: &str, depth: usize) {
        let mut path = prefix.to_owned();
        loop {
            let word = if self.accept("*") {
                "*".to_owned()
            } else {
                self.word()
            };
            if !word.is_empty() {
                path = join(&path, &word);
            }
            if !self.accept("::") {
                break;
            }
            if self.accept("{") {
                self.group(&path, depth);
                return;
            }
            if word.is_empty() && self.peek().is_none_or(|c| !is_word(c)) {
                break;
            }
        }
        if path.contains("::") {
            self.found.push(NamedPath {
                path,
                line: line_of(self.code, self.at),
            });
        }
    }

    fn group(&mut self, prefix: &str, depth: usize) {
        while self.at < self.code.len() {
            self.skip_space();
            if self.accept("}") {
                return;
            }
            match self.peek() {
                Some(c) if (is_word(c) || c == '*') && depth < MAX_DEPTH => {
                    self.tree(prefix, depth + 1);
                    self.skip_alias();
                }
                Some(c) => self.at += c.len_utf8(),
                None => return,
            }
        }
    }

    /// `as name` in a group is not a path of its own.
    fn skip_alias(&mut self) {
        self.skip_space();
        if self.rest().starts_with("as ") {
            self.at += 3;
            self.skip_space();
            self.word();
        }
    }
}

fn join(prefix: &str, word: &str) -> String {
    match word {
        "self" if !prefix.is_empty() => prefix.to_owned(),
        _ if prefix.is_empty() => word.to_owned(),
        _ => format!("{prefix}::{word}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        named_in(code).into_iter().map(|named| named.path).collect()
    }

    #[test]
    fn groups_are_written_out() {
        assert_eq!(
            paths("use std::{fs, net::{IpAddr, TcpStream as S}, io::{self, Write}};"),
            [
                "std::fs",
                "std::net::IpAddr",
                "std::net::TcpStream",
                "std::io",
                "std::io::Write",
            ]
        );
        assert_eq!(paths("use a::*;"), ["a::*"]);
        assert_eq!(paths("use ::tokio::net;"), ["tokio::net"]);
    }

    #[test]
    fn paths_in_expressions_count_and_single_words_do_not() {
        assert_eq!(
            paths("let x = std::fs::read(p)?; y.z(a::<T>())"),
            ["std::fs::read"]
        );
        assert_eq!(paths("struct S { tokio: u8 }"), Vec::<String>::new());
    }

    #[test]
    fn lines_are_those_of_the_last_part() {
        let found = named_in("use std::{\n    fs,\n    net::TcpStream,\n};\n");
        assert_eq!(
            found.iter().map(|named| named.line).collect::<Vec<_>>(),
            [2, 3]
        );
    }

    #[test]
    fn broken_code_ends_the_scan() {
        for code in [
            "use a::{", "a::", "a::{b::{", "::", "a::{}}}", "a::{,,", "a::::b", "*::*",
        ] {
            named_in(code);
        }
        named_in(&"a::{".repeat(10_000));
    }
}
