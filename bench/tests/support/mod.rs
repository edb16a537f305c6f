//! Redis servers, started as the server's tests start them.

#[path = "../../../tests/suite/support/certificates.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "the tests of the service use all of it, and it is theirs"
)]
mod certificates;
#[path = "../../../tests/suite/support/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests of the service use all of it, and it is theirs"
)]
mod program;
#[path = "../../../tests/suite/support/redis_server.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "the tests of the service use all of it, and it is theirs"
)]
mod redis_server;

pub(crate) use redis_server::RedisServer;
