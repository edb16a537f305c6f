//! What the real program does when it, or its Redis, is killed or hangs, when it is stopped, and
//! when it is started wrongly.

pub mod book;
mod codes;
mod connections;
mod credentials;
mod damage;
mod disk;
mod envelopes;
mod failover;
pub mod kill;
pub mod load;
mod log;
mod losing_disk;
mod overload;
mod personal_decks;
pub mod redis;
mod rolling;
mod slow_readers;
mod small_envelopes;
mod startup;
mod stop;
