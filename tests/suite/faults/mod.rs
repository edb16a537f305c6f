//! What the real binary does when it, or its Redis, is killed, hangs, is told to stop or started wrongly.

mod book;
mod connections;
mod disk;
mod envelopes;
mod kill;
mod load;
mod log;
mod redis;
mod startup;
mod stop;
