//! What is settled is what was in the store, and the store gives it up.

use tombola::{
    ledger::settle::Settled,
    store::{LEDGER_PAGE_BYTES, Operation, SettledUpTo, StoreError},
};

use super::{Database, Seen, found, place::Place, settle_all, settler};
use crate::support::{
    Answer as _, DrawWords as _, World, draw, embedded::Embedded, envelope, hours,
    on_redis::OnRedis,
};

/// Draws of a schedule and of a deck, which is dealt anew.
pub const YAML: &str = "
    limits: {drawsPerDay: 4000}
    consolation: {id: points}
    prizes:
      - {id: coupon, stock: 90000, value: {currencyCode: EUR, units: 2, nanos: 500000000}}
      - {id: mug, stock: 5000, countsAsWin: false}
    pools:
      - {id: hours, schedule: {perHour: {coupon: 100}}}
      - {id: deck, deck: {size: 100, cards: {mug: 20}, onExhausted: RESHUFFLE}}
";

/// Some hundred draws at once.
pub async fn draws(world: &World, round: u32) -> usize {
    let calls = (0..400).map(|i| draw(&format!("user-{}", (i + round) % 37)).times(1 + i % 3));
    let answers = world.storm(calls.collect()).await;
    answers
        .into_iter()
        .map(|answer| answer.unwrap().wins())
        .sum()
}

async fn is_settled_once_and_given_up(world: World, place: Place) {
    let campaign = world.begin(YAML).await;
    let store = world.store().clone();
    let (mut carrier, mut sink) = place.settler(&store).await;
    let (mut seen, mut wins) = (Seen::default(), 0);
    for round in 0..4 {
        world
            .set_time(campaign.start + hours(u64::from(round)))
            .await;
        world.tick().await;
        wins += draws(&world, round).await;
        world
            .operate_as(&format!("pause-{round}"), Operation::Pause)
            .await
            .unwrap();
        world
            .operate_as(&format!("resume-{round}"), Operation::Resume)
            .await
            .unwrap();
        seen.look(&*store).await;
        settle_all(&mut carrier, &mut *sink).await;
    }
    let first = world.draw(draw("user-1").named("kept")).await;
    seen.look(&*store).await;
    settle_all(&mut carrier, &mut *sink).await;
    assert_eq!(settle_all(&mut carrier, &mut *sink).await, 0);
    wins += first.wins();
    seen.assert_settled(&place.entries().await);
    assert!(seen.entries.len() > 1600);
    assert_eq!(
        place.number("SELECT count(*) FROM tombola.wins").await,
        wins as i64
    );
    let entries =
        "SELECT sum(entries)::bigint - (SELECT count(*) FROM tombola.entries) FROM tombola.cursors";
    assert_eq!(place.number(entries).await, 0);
    // What the store still needs is there: retries get the same answers.
    let again = world.draw(draw("user-1").named("kept")).await;
    assert!(again.replayed && again.ledger == first.ledger);
    let pause = world.operate_as("pause-0", Operation::Pause).await.unwrap();
    assert!(pause.replayed);
    world.pass(hours(49)).await;
    while store.forget().await.unwrap() {}
    draws(&world, 9).await;
    seen.look(&*store).await;
    settle_all(&mut carrier, &mut *sink).await;
    let left = crate::support::audit::ledger(&*store).await.len();
    assert!(
        left * 2 < seen.entries.len(),
        "{left} of {}",
        seen.entries.len()
    );
    assert!(
        world
            .operate_as("pause-0", Operation::Pause)
            .await
            .unwrap()
            .replayed
    );
    store.now().await.unwrap();
    seen.assert_settled(&place.entries().await);
    if let Place::Embedded(tables) = &place {
        assert!(found::all_lists(tables).await > seen.entries.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_is_settled_once_and_gives_entries_up() {
    is_settled_once_and_given_up(World::new(Embedded::new()).await, Place::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_is_settled_once_into_its_own_file() {
    let world = World::new(Embedded::new()).await;
    let place = Place::own_file(&world);
    is_settled_once_and_given_up(world, place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_that_is_behind_is_settled_in_larger_batches() {
    let world = World::new(Embedded::new()).await;
    world.begin(YAML).await;
    let place = Place::own_file(&world);
    let (mut carrier, mut sink) = place.settler(world.store()).await;
    for round in 0..15 {
        draws(&world, round).await;
    }
    let mut counts = Vec::new();
    while let Settled::Entries { count, .. } = carrier.settle(&mut *sink, 0).await.unwrap() {
        counts.push(count);
    }
    let (few, many) = counts.split_at(100);
    assert!(few.iter().all(|count| *count == 50), "{counts:?}");
    let (last, many) = many.split_last().unwrap();
    assert!(many.iter().all(|count| *count == 200), "{counts:?}");
    assert!(*last < 200 && many.len() > 3, "{counts:?}");
    draws(&world, 15).await;
    let settled = carrier.settle(&mut *sink, 0).await.unwrap();
    assert!(
        matches!(settled, Settled::Entries { count: 50, .. }),
        "{settled:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_redis_is_settled_once_and_gives_entries_up() {
    is_settled_once_and_given_up(World::new(OnRedis::single()).await, Place::postgres().await)
        .await;
}

/// Draws in a campaign and reads what is not settled, at most about so many entries at a time.
async fn each_read_says_whether_more_entries_wait(
    world: World,
    yaml: &str,
    draws: usize,
    limit: usize,
) {
    world.begin(yaml).await;
    world.tick().await;
    for number in 0..draws {
        world.draw(draw(&format!("user-{number}")).times(100)).await;
    }
    let store = world.store();
    let head = store.head(0).await.unwrap();
    let (mut settled, mut reads) = (None, 0);
    loop {
        let read = store.unsettled(0, settled.as_ref(), limit).await.unwrap();
        let sequence = read.entries.last().unwrap().id.sequence;
        assert_eq!(read.has_more, sequence < head, "{sequence} of {head}");
        reads += 1;
        if sequence == head {
            assert!(reads > 1);
            return;
        }
        let fork = read.fork;
        settled = Some(SettledUpTo { sequence, fork });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_large_entries_ends_early_and_says_that_more_wait() {
    // An entry of a hundred draws has at least 400 bytes, and a read has about 256 KiB.
    let world = World::new(Embedded::new()).await;
    each_read_says_whether_more_entries_wait(world, YAML, 800, 2000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_from_redis_says_whether_more_entries_wait() {
    let world = World::new(OnRedis::single().undivided()).await;
    each_read_says_whether_more_entries_wait(world, YAML, 100, 20).await;
}

/// The first entry, the definition, is larger than what a read has.
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_large_settled_entry_is_read() {
    let text = "x".repeat(1000);
    let attributes: String = (0..32).map(|n| format!("text{n}: {text}, ")).collect();
    let prizes: String = (0..9)
        .map(|n| format!("      - {{id: mug-{n}, stock: 9000, attributes: {{{attributes}}}}}\n"))
        .collect();
    let yaml = format!(
        "
    consolation: {{id: points}}
    pools:
      - {{id: hours, schedule: {{perHour: {{mug-0: 1}}}}}}
    prizes:
{prizes}"
    );
    assert!(yaml.len() > LEDGER_PAGE_BYTES);
    let world = World::new(Embedded::new()).await;
    each_read_says_whether_more_entries_wait(world, &yaml, 3, 2000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_settlers_at_once_write_each_entry_once() {
    let database = Database::new().await;
    let world = World::new(OnRedis::single().undivided()).await;
    world.begin(YAML).await;
    world.tick().await;
    let settlers = (0..2).map(|_| {
        let (store, url) = (world.store().clone(), database.url());
        tokio::spawn(async move {
            // Neither knows of the other: without the lock that lets only one of them work.
            let (mut carrier, mut sink) = settler(&store, &url).await;
            let mut settled = 0;
            for _ in 0..200 {
                settled += settle_all(&mut carrier, &mut sink).await;
                tokio::task::yield_now().await;
            }
            settled
        })
    });
    let settlers: Vec<_> = settlers.collect();
    for round in 0..5 {
        draws(&world, round).await;
    }
    let mut shares = Vec::new();
    for settler in settlers {
        shares.push(settler.await.unwrap());
    }
    let (mut carrier, mut sink) = settler(world.store(), &database.url()).await;
    let rest = settle_all(&mut carrier, &mut sink).await;
    let entries = database.entries().await;
    assert_eq!(
        entries.len(),
        shares.iter().sum::<usize>() + rest,
        "{shares:?}"
    );
    let draws = entries
        .iter()
        .filter(|entry| matches!(entry.body, tombola::store::entry::Body::Draw(_)));
    assert_eq!(draws.count(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn envelopes_are_settled_too() {
    let database = Database::new().await;
    let world = World::new(Embedded::new()).await;
    world.begin(YAML).await;
    world.create(&envelope("e1", 100, 2)).await;
    world.grab("e1", "user-1").await;
    let mut seen = Seen::default();
    seen.look(&**world.store()).await;
    let (mut carrier, mut sink) = settler(world.store(), &database.url()).await;
    settle_all(&mut carrier, &mut sink).await;
    seen.assert_settled(&database.entries().await);
    let sql = "SELECT count(*) FROM tombola.entries
               WHERE envelope = 'e1' AND user_id = 'user-1' AND kind = 'grab'";
    assert_eq!(database.number(sql).await, 1);
}

/// Where the store was rolled back, entries that are not settled may have lower numbers than the
/// last settled one.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_given_up_unless_the_last_settled_entry_is_there() {
    let world = World::new(OnRedis::single().undivided()).await;
    world.begin(YAML).await;
    world.tick().await;
    draws(&world, 0).await;
    let store = world.store();
    let read = store.unsettled(0, None, 10_000).await.unwrap();
    let head = read.entries.last().unwrap().id.sequence;
    let before = crate::support::audit::ledger(&**store).await;
    let of = |fork: &str, sequence| SettledUpTo {
        fork: fork.into(),
        sequence,
    };
    let unknown = "f".repeat(40);
    for settled in [of(&unknown, head), of(&read.fork, head + 1)] {
        assert!(!store.trim(0, &settled).await.unwrap());
        assert_eq!(
            crate::support::audit::ledger(&**store).await,
            before,
            "{settled:?}"
        );
    }
    // A settled entry that the store does not have is a loss, and halts the partition.
    let lost = store
        .unsettled(0, Some(&of(&read.fork, head + 1)), 10)
        .await;
    assert!(matches!(lost, Err(StoreError::Halted(_))), "{lost:?}");
}
