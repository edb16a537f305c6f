//! Patterns of campaigns and senders: an id, the beginning of ids followed by `*`, or `*` alone.
//!
//! Ids are compared byte by byte: upper and lower case differ, and nothing is normalised. `*`
//! stands for any characters, also `.` and `:`; it may only be the last character.

use std::fmt;

use super::id::ID_BYTES_MAX;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// This id.
    Exactly(String),
    /// Ids that begin so; all if it is empty.
    Beginning(String),
}

impl Pattern {
    /// Reads a pattern; what is wrong with it if it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty: write an id, the beginning of ids and *, or *".into());
        }
        if text.len() > ID_BYTES_MAX + 1 {
            return Err(format!("is longer than an id may be, {ID_BYTES_MAX} bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err("has a control character, which no id has".into());
        }
        match text.strip_suffix('*') {
            Some(beginning) if beginning.contains('*') => Err(
                "has several `*`: a pattern is an id, or the beginning of ids and one * at the end"
                    .into(),
            ),
            Some(beginning) => Ok(Self::Beginning(beginning.into())),
            None if text.contains('*') => Err(
                "has `*` before its end: a pattern is an id, or the beginning of ids and one * at \
                 the end"
                    .into(),
            ),
            None => Ok(Self::Exactly(text.into())),
        }
    }

    /// Whether it matches an id.
    pub fn matches(&self, id: &str) -> bool {
        match self {
            Self::Exactly(own) => own == id,
            Self::Beginning(beginning) => id.starts_with(beginning.as_str()),
        }
    }
}

/// As it is written.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(id) => f.write_str(id),
            Self::Beginning(beginning) => write!(f, "{beginning}*"),
        }
    }
}

/// Several patterns, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

impl Patterns {
    /// Adds a pattern.
    pub fn add(&mut self, pattern: &Pattern) {
        if let Err(index) = self.0.binary_search(pattern) {
            self.0.insert(index, pattern.clone());
        }
    }

    /// None of them.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of them matches every id.
    pub fn are_all(&self) -> bool {
        let is_all = |one: &Pattern| matches!(one, Pattern::Beginning(text) if text.is_empty());
        self.0.iter().any(is_all)
    }

    /// Whether one of them matches an id.
    pub fn match_id(&self, id: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(id))
    }

    /// The patterns.
    pub fn iter(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_by_bytes_and_only_at_the_beginning() {
        for (pattern, id, matches) in [
            ("spring", "spring", true),
            ("spring", "spring-2", false),
            ("spring", "Spring", false),
            ("spring-*", "spring-", true),
            ("spring-*", "spring-a.b:c", true),
            ("spring-*", "spring", false),
            ("spring-*", "xspring-1", false),
            ("*", "anything", true),
            ("*", "", true),
            ("a.b", "axb", false),
            // An accent as one character, and as two.
            ("caf\u{e9}*", "cafe\u{301}", false),
            ("\u{212a}*", "K1", false), // the Kelvin sign is no K
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(id), matches, "{pattern} {id}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = "x".repeat(ID_BYTES_MAX + 2);
        for (bad, hint) in [
            ("", "empty"),
            ("a*b", "before its end"),
            ("*a", "before its end"),
            ("**", "several"),
            ("a**", "several"),
            ("a\nb", "control"),
            (&long, "longer"),
        ] {
            let error = Pattern::parse(bad).unwrap_err();
            assert!(error.contains(hint), "{bad}: {error}");
        }
    }

    #[test]
    fn patterns_are_all_if_one_is() {
        let mut patterns = Patterns::default();
        assert!(patterns.is_empty() && !patterns.match_id("a"));
        patterns.add(&Pattern::parse("a*").unwrap());
        patterns.add(&Pattern::parse("a*").unwrap());
        assert_eq!(patterns.iter().count(), 1);
        assert!(!patterns.are_all() && patterns.match_id("ab") && !patterns.match_id("b"));
        patterns.add(&Pattern::parse("*").unwrap());
        assert!(patterns.are_all() && patterns.match_id("b"));
    }
}
