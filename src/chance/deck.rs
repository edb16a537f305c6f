//! Dealing a deck chunk by chunk, without ever shuffling all of it.
