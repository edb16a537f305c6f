//! Redis, or one of two services, is killed while callers draw, again and again on the same data.
//!
//! `TOMBOLA_KILLS` sets the number of rounds. `TOMBOLA_SEED` decides what is drawn, and when a
//! process is killed.

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{House, callers::Callers};
use crate::faults::{book::Book, kill::setting, load};

fn rounds_and_seed(rounds: u64) -> (u64, u64) {
    let rounds = setting("TOMBOLA_KILLS").unwrap_or(rounds);
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_KILLS={rounds}");
    (rounds, seed)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_every_kill_of_redis_and_nothing_happens_twice() {
    let (rounds, seed) = rounds_and_seed(5);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    let mut book = Book::default();
    for round in 0..rounds {
        let callers = Callers::start(&[&server], seed, round);
        callers.go_on(rng.random_range(1..400)).await;
        house.redis.kill();
        callers.fail(1).await;
        house.redis.restart();
        callers.go_on(50).await;
        let attempts = callers.end().await;
        let count = attempts.len();
        book.settle(&server, attempts).await;
        println!("round {round}: {count} draws settled");
    }
    house.audit().await;
    book.read_all_again(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_killed_leaves_nothing_half_done_to_the_other() {
    let (rounds, seed) = rounds_and_seed(6);
    let mut rng = StdRng::seed_from_u64(seed);
    let house = House::new();
    let mut servers = [house.serve(), house.serve()];
    load::apply_now(&servers[0]).await;
    let mut book = Book::default();
    for round in 0..rounds {
        let callers = Callers::start(&[&servers[0], &servers[1]], seed, round);
        callers.go_on(rng.random_range(1..400)).await;
        let killed = &mut servers[round as usize % 2];
        killed.kill();
        callers.go_on(50).await;
        let listen = killed.address.to_string();
        let start = house.start();
        *killed = crate::process::Start {
            listen: &listen,
            ..start
        }
        .serve();
        callers.go_on(50).await;
        let attempts = callers.end().await;
        let count = attempts.len();
        book.settle(&servers[round as usize % 2], attempts).await;
        println!("round {round}: {count} draws settled");
    }
    house.audit().await;
    book.read_all_again(&servers[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_notices_that_redis_forgets_scripts_under_load() {
    let house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    let callers = Callers::start(&[&server], 1, 0);
    for _ in 0..50 {
        callers.go_on(20).await;
        assert_eq!(house.redis.command(&["SCRIPT", "FLUSH"]), "OK");
    }
    assert_eq!(callers.faults(), 0);
    Book::default().settle(&server, callers.end().await).await;
    house.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_under_load_leave_every_draw_with_one_outcome() {
    let house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    let callers = Callers::start(&[&server], 2, 0);
    for _ in 0..20 {
        callers.go_on(20).await;
        house.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    callers.go_on(20).await;
    Book::default().settle(&server, callers.end().await).await;
    house.audit().await;
}
