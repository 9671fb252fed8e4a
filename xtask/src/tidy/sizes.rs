//! Files and functions that one can read in one go.

use super::Finding;
use super::source::Source;

const FILE_LIMIT: usize = 400;
const FILE_WARNING: usize = 300;
const FUNCTION_LIMIT: usize = 60;

/// Files and functions of `source` over the limits; tests are exempt.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let long = source
        .functions()
        .into_iter()
        .filter(|function| function.lines > FUNCTION_LIMIT && !source.is_test_line(function.line));
    let functions = long.map(|function| {
        let message = format!(
            "fn {} has {} lines; the limit is {FUNCTION_LIMIT}",
            function.name, function.lines
        );
        Finding::error(&source.path, function.line, message)
    });
    file(source).into_iter().chain(functions).collect()
}

fn file(source: &Source) -> Option<Finding> {
    let lines = source.lines_of_code();
    let message = format!("{lines} lines outside tests; the limit is {FILE_LIMIT}");
    if lines > FILE_LIMIT {
        Some(Finding::error(&source.path, 0, message))
    } else if lines > FILE_WARNING {
        Some(Finding::warning(&source.path, 0, message))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("x/src/a.rs", text)
    }

    #[test]
    fn files_warn_early_and_fail_late() {
        assert_eq!(check(&source(&"//\n".repeat(300))), []);
        assert!(check(&source(&"//\n".repeat(301)))[0].only_warn);
        assert!(!check(&source(&"//\n".repeat(401)))[0].only_warn);
        assert_eq!(check(&Source::new("x/tests/a.rs", &"//\n".repeat(999))), []);
    }

    #[test]
    fn long_functions_are_named_unless_they_are_tests() {
        let long = format!("fn f() {{\n{}}}\n", "x;\n".repeat(59));
        assert_eq!(
            check(&source(&long)),
            [Finding::error(
                "x/src/a.rs",
                1,
                "fn f has 61 lines; the limit is 60"
            )]
        );
        assert_eq!(check(&source(&long.replacen("x;\n", "", 1))), []);
        assert_eq!(
            check(&source(&format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"))),
            []
        );
    }
}
