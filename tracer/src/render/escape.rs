//! Makes text from packets, devices, rules and people safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest text that is shown, in characters; a rule is far below.
const LONGEST: usize = 2000;

/// Escapes what a terminal would act on or hide: control characters, escape sequences,
/// bidirectional overrides, invisible and combining characters, line breaks. What is printable
/// stays as it is; overlong text is cut with `…`.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for (i, c) in text.chars().enumerate() {
        if i == LONGEST {
            out.push('…');
            break;
        }
        match c {
            _ if is_plain(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal shows the character and does nothing else. The standard library's
/// `escape_debug` knows Unicode's unprintable and grapheme-extending characters.
pub(super) fn is_plain(c: char) -> bool {
    matches!(c, ' '..='~') || (!c.is_ascii() && c.escape_debug().len() == 1)
}

#[cfg(test)]
mod tests {
    use super::{escape, is_plain};
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        assert_eq!(escape("\x1b[31mred\x07"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(escape("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
        assert_eq!(escape("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(escape("a\nb\tc\rd"), "a\\nb\\tc\\u{d}d");
        assert_eq!(
            escape("zero\u{200b}width\u{feff}"),
            "zero\\u{200b}width\\u{feff}"
        );
        assert_eq!(escape("e\u{301}"), "e\\u{301}");
        assert_eq!(escape("tag\u{e0041}"), "tag\\u{e0041}");
    }

    #[test]
    fn plain_text_is_untouched() {
        let rule = r#"-A IP-MASQ -m comment --comment "größer → \"x\"" -j MASQUERADE"#;
        assert_eq!(escape(rule), rule);
    }

    #[test]
    fn overlong_text_is_cut() {
        let long = "x".repeat(5000);
        assert_eq!(escape(&long).chars().count(), 2001);
    }

    proptest! {
        #[test]
        fn nothing_dangerous_gets_through(text in any::<String>()) {
            let shown = escape(&text);
            prop_assert!(shown.chars().all(is_plain));
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert_eq!(escape(&shown), shown.clone());
        }

        #[test]
        fn bytes_from_the_kernel_too(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            prop_assert!(escape(&text).chars().all(is_plain));
        }
    }
}
