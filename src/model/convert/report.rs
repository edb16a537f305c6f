//! How readers name a field and note what is wrong with it.

use crate::model::problem::{Problem, Problems};

/// The path of a field; `path` is empty for a field of the campaign itself.
pub(super) fn at(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

/// The path of a map's entry: `perHour.coupon`, or `perHour["a.b"]` if the key has a dot or another
/// special character.
pub(super) fn entry(path: &str, key: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 40;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if key.chars().count() > SHOWN_CHARS_MAX {
        let start: String = key.chars().take(SHOWN_CHARS_MAX).collect();
        return format!("{path}[{start:?}...]");
    }
    if key.is_empty() || !key.chars().all(is_plain) {
        return format!("{path}[{key:?}]");
    }
    format!("{path}.{key}")
}

/// Returns the value, or notes the problem.
pub(super) fn noted<T>(result: Result<T, Problem>, problems: &mut Problems) -> Option<T> {
    result.map_err(|problem| problems.0.push(problem)).ok()
}

/// Notes an enum value that this version does not know; `known` lists those that it knows.
pub(super) fn unknown_enum(path: String, number: i32, known: &str, problems: &mut Problems) {
    problems.add(path, format!("{number} is unknown: write {known}"));
}
