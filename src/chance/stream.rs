//! A stream of unbiased numbers: the keystream of ChaCha20 (RFC 8439).
