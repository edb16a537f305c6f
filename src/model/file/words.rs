//! Words for a value and its path in messages, and numbers as the JSON mapping has them.

use prost_reflect::EnumDescriptor;
use serde_json::Value;

/// The common prefix of the names of an enum's values, e.g. `MISSED_`.
pub(super) fn enum_prefix(desc: &EnumDescriptor) -> String {
    let default = desc.default_value();
    let name = default.name();
    name.strip_suffix("UNSPECIFIED").unwrap_or_default().into()
}

/// A number without a fraction. The JSON mapping writes large ones as text, and allows `1e3`.
pub(super) fn whole_number(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| text.parse().ok()).flatten()
        }
        Value::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .or_else(|| {
                // Beyond 2^53 a double has lost digits.
                let exact = |n: &f64| n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0;
                number.as_f64().filter(exact).map(|n| n as i128)
            }),
        _ => None,
    }
}

/// A whole number with more digits than [`whole_number`] reads.
pub(super) fn is_unreadably_large(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > 1 && text.bytes().all(|b| b.is_ascii_digit()),
        Value::Number(number) => number.as_f64().is_some_and(|n| n > 9_007_199_254_740_992.0),
        _ => false,
    }
}

/// What a value is, for people.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "is empty".into(),
        Value::Bool(_) => format!("`{value}` is a truth value"),
        Value::Number(_) => format!("`{value}` is a number"),
        Value::String(text) => format!("`{}` is text", shorten(text)),
        Value::Array(_) => "is a list".into(),
        Value::Object(_) => "is a map of keys".into(),
    }
}

/// The path of a key below `path`, which is empty at the top.
pub(super) fn join(path: &str, key: &str) -> String {
    let key = shorten(key);
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// As the rules of a campaign write it: `perHour.coupon`, or `perHour["a.b"]` if a dot would
/// mislead.
pub(super) fn entry_path(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !key.is_empty() && key.chars().all(plain) {
        join(path, key)
    } else {
        format!("{path}[\"{}\"]", shorten(key))
    }
}

/// Text that fits into a message and cannot disturb a terminal.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", text[..cut].escape_debug()),
        None => text.escape_debug().to_string(),
    }
}
