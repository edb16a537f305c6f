//! How the demo ends early.

/// An error that ends the demo early, as text.
pub(super) type Fault = Box<dyn std::error::Error + Send + Sync>;
