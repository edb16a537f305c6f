//! Seeds: derived from a master key, a nonce and an id; their commitment is public from the start, the seed after the end.
