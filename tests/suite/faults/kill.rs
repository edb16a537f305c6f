//! The server is killed while it draws, again and again on the same data.
//!
//! `TOMBOLA_KILLS` sets the number of rounds. `TOMBOLA_SEED` decides what is drawn, and when the
//! server is killed.

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    book::Book,
    load::{self, Load},
};
use crate::process::Start;

/// Reads a number from the environment.
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// The clock of a round: a little later than in the round before.
fn clock(round: u64) -> String {
    let minutes = round * 5;
    format!(
        "2026-12-05T{:02}:{:02}:00+08:00",
        4 + minutes / 60,
        minutes % 60
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_every_kill_and_nothing_happens_twice() {
    let rounds = setting("TOMBOLA_KILLS").unwrap_or(10);
    assert!(
        (1..=200).contains(&rounds),
        "the clock stays within one day"
    );
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    println!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_KILLS={rounds}");
    let mut rng = StdRng::seed_from_u64(seed);
    let data = tempfile::tempdir().unwrap();
    let start = |round| Start::on(data.path()).at(clock(round)).serve();

    let mut server = start(0);
    load::apply(&server).await;
    let mut book = Book::default();
    for round in 0..rounds {
        let mut load = Load::start(&server, seed, round).await;
        load.answered(rng.random_range(0..500)).await;
        server.kill();
        let attempts = load.end().await;
        if rng.random_bool(0.3) {
            start(round).kill(); // while it fills what is missing
        }
        server = start(round + 1);
        let count = attempts.len();
        book.settle(&server, attempts).await;
        println!("round {round}: {count} attempts settled");
    }
    book.read_all_again(&server).await;
}
