//! A Rust file prepared for scanning: comments and strings blanked, test code marked. Not a parser, but it never takes
//! a comment or a string for code.

use super::blank::{Strings, blank};

/// One Rust file. All texts have the same length and line breaks as the original.
pub(super) struct Source {
    /// Relative to the checkout, with `/`.
    pub(super) path: String,
    /// The file as it is.
    pub(super) text: String,
    /// Without comments and without the content of strings and characters.
    pub(super) code: String,
    /// Without comments only.
    pub(super) with_strings: String,
    /// For each line, whether it belongs to a `#[cfg(test)]` item.
    test_lines: Vec<bool>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Line of the `fn`, from 1.
    pub(super) line: usize,
    /// From the `fn` to the closing brace.
    pub(super) lines: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = blank(text, Strings::Blank);
        let test_lines = test_lines(&code);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            with_strings: blank(text, Strings::Keep),
            code,
            test_lines,
        }
    }

    /// True for files that hold nothing but tests.
    pub(super) fn is_test_file(&self) -> bool {
        self.path
            .split('/')
            .skip(1)
            .any(|part| part == "tests" || part == "tests.rs" || part == "benches")
    }

    /// True when `line` (from 1) is test code.
    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file()
            || self
                .test_lines
                .get(line.wrapping_sub(1))
                .copied()
                .unwrap_or(false)
    }

    /// Lines outside tests.
    pub(super) fn lines_of_code(&self) -> usize {
        let lines = self.text.lines().count();
        (1..=lines).filter(|&line| !self.is_test_line(line)).count()
    }

    /// The functions with a body, tests included.
    pub(super) fn functions(&self) -> Vec<Function> {
        let starts = self
            .code
            .match_indices("fn ")
            .filter(|&(at, _)| !follows_word(&self.code, at));
        starts.filter_map(|(at, _)| self.function_at(at)).collect()
    }

    fn function_at(&self, at: usize) -> Option<Function> {
        let after = self.code.get(at + 3..)?.trim_start();
        let name: String = after.chars().take_while(|&c| is_word(c)).collect();
        if name.is_empty() {
            return None;
        }
        let (open, _) = body_start(&self.code, at).filter(|&(_, c)| c == '{')?;
        let end = closing_brace(&self.code, open);
        let line = line_of(&self.code, at);
        Some(Function {
            name,
            line,
            lines: line_of(&self.code, end) - line + 1,
        })
    }
}

/// The line (from 1) that byte `at` is on.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(at)
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}

/// True for what an identifier is made of.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn follows_word(code: &str, at: usize) -> bool {
    code.get(..at)
        .and_then(|before| before.chars().next_back())
        .is_some_and(is_word)
}

/// The `{` or `;` that ends an item's head that begins at `from`.
fn body_start(code: &str, from: usize) -> Option<(usize, char)> {
    let mut depth = 0_usize;
    for (offset, c) in code.get(from..)?.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' | ';' if depth == 0 => return Some((from + offset, c)),
            _ => {}
        }
    }
    None
}

/// The brace that closes the one at `open`; the end of the file if none does.
fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, c) in code.get(open..).unwrap_or_default().char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return open + offset;
                }
            }
            _ => {}
        }
    }
    code.len()
}

fn test_lines(code: &str) -> Vec<bool> {
    let mut marked = vec![false; code.lines().count()];
    for marker in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (at, _) in code.match_indices(marker) {
            // The attribute's own brackets are balanced, so the head ends at the item's brace or semicolon.
            let end = match body_start(code, at) {
                Some((open, '{')) => closing_brace(code, open),
                Some((semicolon, _)) => semicolon,
                None => code.len(),
            };
            let lines = line_of(code, at) - 1..line_of(code, end).min(marked.len());
            marked
                .get_mut(lines)
                .into_iter()
                .flatten()
                .for_each(|mark| *mark = true);
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        blank(text, Strings::Blank)
    }

    #[test]
    fn comments_and_strings_are_blanked_in_place() {
        assert_eq!(code("a // b\nc"), "a     \nc");
        assert_eq!(code("a /* x /* y */ z */ b"), "a                   b");
        assert_eq!(
            code("f(\"// no {\", 'x', '\\'')"),
            "f(         ,    ,     )"
        );
        assert_eq!(
            code("r#\"a \" b\"# + br\"x\\\""),
            "           +       ".get(..19).unwrap()
        );
        assert_eq!(code("\"a\\\"b\" c"), "       c");
    }

    #[test]
    fn lifetimes_and_labels_stay_code() {
        for text in ["fn f<'a>(x: &'a str) {}", "'outer: loop {}", "var\u{e4}ble"] {
            assert_eq!(code(text), text);
        }
    }

    #[test]
    fn texts_keep_their_length_whatever_they_hold() {
        for text in [
            "\"\u{e4}\u{20ac}\" x",
            "/* open",
            "\"open",
            "r##\"open\"#",
            "'",
            "'\\",
            "b'\\xff'",
            "/*/",
            "r\"",
            "\u{e4}'\u{e4}'",
        ] {
            assert_eq!(code(text).len(), text.len(), "{text}");
            assert_eq!(blank(text, Strings::Keep).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn functions_are_measured_from_head_to_brace() {
        let source = Source::new(
            "x/src/a.rs",
            "fn one() {}\n\ntrait T {\n    fn no(&self);\n    fn two(\n        a: [u8; 2],\n    ) -> u8 {\n        \"}\";\n        1\n    }\n}\nlet f: fn (u8) = g;\n",
        );
        let function = |name: &str, line, lines| Function {
            name: name.to_owned(),
            line,
            lines,
        };
        assert_eq!(
            source.functions(),
            [function("one", 1, 1), function("two", 5, 6)]
        );
    }

    #[test]
    fn test_items_are_not_counted() {
        let text = "fn a() {}\n#[cfg(test)]\nuse x::{y,\n z};\nfn b() {}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nfn d() {}\n";
        let source = Source::new("x/src/a.rs", text);
        let marked: Vec<_> = (1..=10).filter(|&line| source.is_test_line(line)).collect();
        assert_eq!(marked, [2, 3, 4, 6, 7, 8, 9]);
        assert_eq!(source.lines_of_code(), 3);
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        for (path, expected) in [
            ("tracer/tests/cli.rs", true),
            ("tests/tests/labs.rs", true),
            ("tests/src/lab.rs", false),
            ("tracer-core/src/journey/tests.rs", true),
            ("tracer-core/src/journey.rs", false),
        ] {
            assert_eq!(Source::new(path, "").is_test_file(), expected, "{path}");
        }
    }
}
