//! Benchmarks of the pure functions: scattering an hour's units, dealing the next cards of a deck,
//! and parsing and checking a campaign file.
//!
//! Run it with `cargo bench -p tombola-bench --bench pure`. `tombola-bench` measures throughput.

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput};
use tombola::{
    chance::{Fill, Seed, deal, scatter},
    model::{Moment, PoolId, PrizeNo, convert::campaign_from_proto, deck::CardCount, file},
};

/// The longest of the sample campaigns.
const CAMPAIGN: &str = include_str!("../../deploy/campaigns/spring-wheel.yaml");
/// The number of cards that the injector deals at once.
const CARDS: usize = 1000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let pool =
        PoolId::parse("pool", "bench").unwrap_or_else(|problem| panic!("{}", problem.message));
    scatter_hours(&mut criterion, &pool);
    deal_cards(&mut criterion, &pool);
    read_campaign(&mut criterion);
    criterion.final_summary();
}

/// Scatters one prize's units over an hour.
fn scatter_hours(criterion: &mut Criterion, pool: &PoolId) {
    let seed = Seed::from_bytes([7; 32]);
    let from = Moment::from_micros(1_795_046_400_000_000);
    let mut group = criterion.benchmark_group("scatter");
    for units in [1000_u64, 100_000] {
        let granted = [(PrizeNo(0), units)].into();
        let fill = Fill {
            pool,
            window_start: from,
            generation: 0,
            from,
            until: from + Duration::from_secs(3600),
            granted: &granted,
        };
        group.throughput(Throughput::Elements(units));
        group.bench_with_input(
            BenchmarkId::from_parameter(units),
            &fill,
            |bencher, fill| {
                bencher.iter(|| scatter(&seed, black_box(fill)));
            },
        );
    }
    group.finish();
}

/// Deals the next cards of a deck of fourteen million, with few and with many prizes.
fn deal_cards(criterion: &mut Criterion, pool: &PoolId) {
    let seed = Seed::from_bytes([7; 32]);
    let mut group = criterion.benchmark_group("deal");
    group.throughput(Throughput::Elements(CARDS as u64));
    for kinds in [4_u16, 100] {
        let count = |prize| CardCount {
            prize: Some(PrizeNo(prize)),
            cards: 14_000_000 / u64::from(kinds),
        };
        let remaining: Vec<CardCount> = (0..kinds).map(count).collect();
        group.bench_with_input(
            BenchmarkId::new("kinds", kinds),
            &remaining,
            |bencher, remaining| {
                bencher.iter(|| deal(&seed, pool, 0, 0, black_box(remaining), CARDS));
            },
        );
    }
    group.finish();
}

/// Parses a campaign file and checks it.
fn read_campaign(criterion: &mut Criterion) {
    criterion.bench_function("campaign file", |bencher| {
        bencher.iter(|| {
            let messages = file::parse(black_box(CAMPAIGN)).ok()?;
            campaign_from_proto(messages.first()?).ok()
        });
    });
}
