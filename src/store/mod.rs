//! Whole atomic operations on durable state.
