//! YAML 1.1 scalars, as the agents' library reads them (go.yaml.in/yaml/v2, `resolve.go`): other words
//! are true there than in YAML 1.2.

use super::yaml::Value;

/// What an unquoted scalar without a tag is.
pub(super) fn plain(text: &str) -> Value {
    word(text)
        .or_else(|| number(text))
        .unwrap_or_else(|| Value::Text(text.to_owned()))
}

fn word(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        _ => return None,
    })
}

fn number(text: &str) -> Option<Value> {
    let first = text.bytes().next()?;
    if !(first.is_ascii_digit() || matches!(first, b'.' | b'+' | b'-')) {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits)
        .map(Value::Int)
        .or_else(|| is_float(&digits).then(|| digits.parse().map(Value::Float).ok())?)
}

/// Go's `strconv.ParseInt(…, 0, 64)` and `ParseUint`: the base by the prefix, a leading 0 is octal.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_alphanumeric());
    let size = u64::from_str_radix(digits, base).ok().filter(|_| plain)?;
    let value = if negative {
        -i128::from(size)
    } else {
        i128::from(size)
    };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let some = !whole.is_empty() || !part.is_empty();
    let exponent = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    some && digits(whole) && digits(part) && exponent
}

#[cfg(test)]
mod tests {
    use super::{Value, plain};

    #[test]
    fn words_and_numbers_are_those_of_yaml_1_1() {
        let rows = [
            ("yes", Value::Bool(true)),
            ("On", Value::Bool(true)),
            ("n", Value::Bool(false)),
            ("oN", Value::Text("oN".into())),
            ("~", Value::Null),
            ("60", Value::Int(60)),
            ("+60", Value::Int(60)),
            ("-0x10", Value::Int(-16)),
            ("0100", Value::Int(64)),
            ("1_000", Value::Int(1000)),
            ("0o17", Value::Int(15)),
            ("64.0", Value::Float(64.0)),
            (".5", Value::Float(0.5)),
            ("1e3", Value::Float(1000.0)),
            ("1_0s", Value::Text("1_0s".into())),
            ("1:00", Value::Text("1:00".into())),
            (".5m", Value::Text(".5m".into())),
            ("08", Value::Float(8.0)),
            (
                "010.011.000.000/16",
                Value::Text("010.011.000.000/16".into()),
            ),
            ("18446744073709551615", Value::Int(u64::MAX.into())),
            ("-", Value::Text("-".into())),
            (".", Value::Text(".".into())),
        ];
        for (text, value) in rows {
            assert_eq!(plain(text), value, "{text}");
        }
    }
}
