//! Random operations on a store, compared with a small model after every step.
//!
//! `TOMBOLA_SIMULATION_CASES` sets the number of runs; by default there are fewer on slower stores.
//! `TOMBOLA_SIMULATION_SEED` repeats a failed run.

mod envelopes;
mod forks;
pub mod game;
mod model;
mod operations;
mod same_draws;
mod samples;
mod step;

use std::env;

use self::model::Game;

use proptest::{
    collection::vec,
    prop_oneof,
    strategy::{Just, Strategy},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::support::{
    World, embedded::Embedded, in_memory::InMemory, on_redis::OnRedis, world::Host,
};

const STEPS: usize = 40;

#[test]
fn the_embedded_store_keeps_its_promises_whatever_is_done_in_whatever_order() {
    simulate(Embedded::new, 64);
}

#[test]
fn the_store_in_memory_keeps_its_promises_whatever_is_done_in_whatever_order() {
    simulate(InMemory::new, 256);
}

#[test]
fn a_store_on_redis_keeps_its_promises_whatever_is_done_in_whatever_order() {
    simulate(OnRedis::single, 32);
}

#[test]
fn a_store_on_a_cluster_keeps_its_promises_whatever_is_done_in_whatever_order() {
    simulate(OnRedis::cluster, 16);
}

#[test]
fn the_script_of_redis_gives_the_units_that_the_rule_gives() {
    run_random(24, game::any_game(), |game| {
        same_draws::play(
            World::new(Embedded::new()),
            World::new(OnRedis::single()),
            game,
        )
    });
}

/// Random runs, each on new data.
fn simulate<H: Host + 'static>(data: impl Fn() -> H, cases_default: u64) {
    let game = prop_oneof![3 => Just(Game::Odds), 2 => Just(Game::Deck)];
    run_random(
        cases_default,
        (vec(operations::any_step(), STEPS..=STEPS), game),
        |(operations, game)| step::run(World::new(data()), operations, game),
    );
}

/// Runs with random values; a failure says how to repeat it.
pub fn run_random<S: Strategy, F: Future<Output = ()>>(
    cases_default: u64,
    values: S,
    run: impl Fn(S::Value) -> F,
) {
    let number = |name: &str| env::var(name).ok().map(|value| value.parse().unwrap());
    let cases = number("TOMBOLA_SIMULATION_CASES").unwrap_or(cases_default);
    let seed: u64 = number("TOMBOLA_SIMULATION_SEED").unwrap_or_else(rand::random);
    let mut seed_bytes = [0; 32];
    seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: cases.try_into().unwrap(),
        failure_persistence: None,
        max_shrink_iters: 1000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = TestRunner::new_with_rng(config, rng).run(&values, |values| {
        runtime.block_on(run(values));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\nrepeat it with TOMBOLA_SIMULATION_SEED={seed}");
    }
}
