//! Plan to windows to store.
