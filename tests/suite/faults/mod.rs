//! What the real binary does when it, or its Redis, is killed, hangs, is told to stop or started
//! wrongly.

mod book;
mod connections;
mod damage;
mod disk;
mod envelopes;
mod failover;
pub mod kill;
mod load;
mod log;
pub mod redis;
mod startup;
mod stop;
