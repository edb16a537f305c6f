//! Text that must not be seen.

use std::fmt;

/// A text that neither `Debug` nor an error shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for those who need it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("tombola_abc");
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret))
                .matches("abc")
                .count(),
            0
        );
        assert_eq!(secret.expose(), "tombola_abc");
    }
}
