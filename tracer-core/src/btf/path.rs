//! Paths of members: `tuplehash[1].tuple`.

use super::BtfError;

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'p> {
    Member(&'p str),
    Index(u32),
}

/// The steps of a path.
pub(super) fn steps(path: &str) -> Result<Vec<Step<'_>>, BtfError> {
    let bad = || BtfError::BadPath(path.to_owned());
    let mut steps = Vec::new();
    for part in path.split('.') {
        let mut pieces = part.split('[');
        let member = pieces
            .next()
            .filter(|name| is_identifier(name))
            .ok_or_else(bad)?;
        steps.push(Step::Member(member));
        for piece in pieces {
            let digits = piece.strip_suffix(']').filter(|text| is_number(text));
            let index = digits.and_then(|text| text.parse().ok()).ok_or_else(bad)?;
            steps.push(Step::Index(index));
        }
    }
    Ok(steps)
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
