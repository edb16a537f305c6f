//! Codes of prizes: a unit of a prize with codes is won with one of them, such as one of a coupon.
//!
//! The codes of a prize are numbered from 0 in the order in which they were imported. The first win
//! of the prize gets the first code, and so on.

/// The longest code.
pub const CODE_BYTES_MAX: usize = 255;
/// The most codes of one import.
pub const IMPORTED_CODES_MAX: usize = 10_000;
/// Bytes of the codes of a call, at most; the service takes requests of a mebibyte.
pub const CALL_BYTES_MAX: usize = 512 << 10;
/// The most codes of a prize.
pub const CODES_MAX: u64 = 10_000_000;

/// Checks a code: text on one line, without white space around it.
///
/// # Errors
/// Says what is wrong and what would be right. It does not repeat the code, which is a secret.
///
/// ```
/// use tombola::model::code::check;
/// assert_eq!(check("SPRING-7F3K-99"), Ok(()));
/// assert!(check("").unwrap_err().contains("empty"));
/// assert!(check(" A").unwrap_err().contains("white space"));
/// ```
pub fn check(code: &str) -> Result<(), String> {
    if code.is_empty() {
        return Err("is empty: leave it out, or write its code".into());
    }
    if code.len() > CODE_BYTES_MAX {
        let bytes = code.len();
        return Err(format!(
            "is {bytes} bytes long: a code has at most {CODE_BYTES_MAX}"
        ));
    }
    if code.trim() != code {
        return Err("begins or ends with white space: remove it".into());
    }
    match code.chars().find(|c| c.is_control()) {
        Some(control) => Err(format!(
            "has the control character {control:?}: a code is text on one line"
        )),
        None => Ok(()),
    }
}

/// A message of the service with other names in place of `codes[17]`: `name` gives that of an index
/// of the call.
///
/// ```
/// use tombola::model::code::with_places;
/// let named = with_places("codes[1]: is empty", |index| format!("line {}", index + 1));
/// assert_eq!(named, "line 2: is empty");
/// ```
pub fn with_places(text: &str, name: impl Fn(usize) -> String) -> String {
    let mut parts = text.split("codes[");
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let index = part
            .split_once(']')
            .and_then(|(index, rest)| Some((index.parse().ok()?, rest)));
        match index {
            Some((index, rest)) => named += &(name(index) + rest),
            None => named += &format!("codes[{part}"),
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_line_of_text_of_bounded_length() {
        for good in ["A", "a b", "礼-1", &"x".repeat(CODE_BYTES_MAX)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, says) in [
            ("", "empty"),
            ("A\u{a0}", "white space"),
            ("A\tB", "control character"),
            ("A\u{7f}B", "control character"),
            (&"礼".repeat(86), "is 258 bytes long"),
        ] {
            let problem = check(bad).unwrap_err();
            assert!(problem.contains(says), "{bad:?}: {problem}");
            assert!(bad.is_empty() || !problem.contains(bad), "{problem}");
        }
    }
}
