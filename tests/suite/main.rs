//! The promises, held against every store.
//!
//! | module | what it is |
//! |---|---|
//! | `support` | a world to test in: a store, its time, its injector; and the audit that every test ends with |
//! | `conformance` | plain functions over a world, the same for every store; one promise each |
//! | `simulation` | random operations, held against a small model after every step |
//! | `process` | the real binary as a process |
//! | `clients` | other people's clients against it |
//! | `cli` | its own commands |
//! | `docs` | the documents: their code, their links, their lists |
//! | `redis` | how Redis is reached, what it is asked at the start, and what its faults are called |
//! | `formats` | data of earlier versions |
//! | `faults` | what it does when it, or its Redis, is killed, hangs, is told to stop or started wrongly |

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test binary has no public face, and a test that cannot go on panics"
)]

mod cli;
mod clients;
mod conformance;
mod docs;
mod faults;
mod formats;
mod process;
mod redis;
mod simulation;
mod support;
