//! Ids that callers choose: any text, compared byte by byte.

/// Ids that look alike, or that something on the way might cut, fold, join or normalise. Each one
/// is a different user.
pub const FOREIGN_IDS: [&str; 24] = [
    "auth0|5f7c8",
    "max+tag@example.org",
    "spiffe://example.org/ns/prod",
    "老板",
    "\u{e9}",
    "e\u{301}",
    "k",
    "K",
    "\u{212a}", // KELVIN SIGN, which folds to k
    " ",
    "  ",
    "a b",
    "a",
    "a ",
    " a",
    "a\u{feff}",
    "=1+1",
    "{0}:users",
    "'; DROP TABLE users; --",
    "%s%00\\0",
    "\"quoted\", ['list']",
    "\u{2028}\u{202e}",
    "0e0b1f5e-5b0c-4c55-9b7a-3a4c5d6e7f80",
    "0E0B1F5E-5B0C-4C55-9B7A-3A4C5D6E7F80",
];

/// An id of the maximum length, of characters with several bytes.
pub fn longest() -> String {
    let id = format!("{}ab", "老".repeat(42));
    assert_eq!(id.len(), 128);
    id
}
