//! Tests of the promises on every store, and of the program around them.
//!
//! | module | contents |
//! |---|---|
//! | `support` | the test environment: a store, its clock and an injector; and the audit that ends
//! every test |
//! | `conformance` | one function per promise, which runs on every store |
//! | `simulation` | random operations, compared with a small model after every step |
//! | `process` | the real program as a process |
//! | `clients` | clients in other languages |
//! | `access` | identities, permissions, and what they hide |
//! | `admin` | the admin port: probes and metrics |
//! | `backup` | backups of the embedded store, and stores that are made of them |
//! | `cli` | the client commands |
//! | `console` | pages for operators, over HTTP and in a browser |
//! | `docs` | the documents: their code, links and lists |
//! | `redis` | connections to Redis, checks at the start, and the errors of its faults |
//! | `ledger` | settling entries into a real PostgreSQL |
//! | `seeds` | when the seed of a campaign is revealed |
//! | `formats` | data of earlier versions |
//! | `tls` | TLS for callers: handshakes, new files, floods of connections |
//! | `traces` | spans at a real receiver, and calls that go on without one |
//! | `faults` | the program when it or its Redis is killed or hangs, when it is stopped, and when
//! it is started wrongly |

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test binary has no public face, and a test that cannot go on panics"
)]

mod access;
mod admin;
mod backup;
mod cli;
mod clients;
mod conformance;
mod console;
mod deploy;
mod docs;
mod faults;
mod formats;
mod ledger;
mod process;
mod redis;
mod seeds;
mod simulation;
mod support;
mod tls;
mod traces;
