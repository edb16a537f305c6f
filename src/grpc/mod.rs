//! The services of `tombola.v1`.
