//! The ledger has everything (P2, P3): there is no gap, nothing is missing, and every sum follows
//! from the entries alone. The audit after each test checks the sums; the tests here make many
//! kinds of entries.

use tombola::{
    model::Moment,
    store::{Durability, Operation, entry::Body},
};

use crate::support::{Answer as _, DrawWords as _, World, audit, draw, hours, users};

promises![
    everything_that_happens_is_in_the_ledger_without_a_gap,
    the_ledger_is_read_in_pages_of_any_size,
    a_page_of_large_entries_is_short,
    reading_leaves_nothing_in_the_ledger,
    draws_of_two_campaigns_share_one_sequence,
];

const YAML: &str = "
    limits: {drawsPerDay: 40}
    consolation: {id: points}
    prizes: [{id: coupon, stock: 20000}, {id: mug, stock: 500, countsAsWin: false}]
    pools:
      - {id: hours, schedule: {perHour: {coupon: 10}, unclaimed: RETURN, returnAfter: 7200s}}
      - {id: deck, deck: {size: 100, cards: {mug: 20}, onExhausted: RESHUFFLE}}
";

async fn busy_days(world: &mut World) {
    let campaign = world.begin(YAML).await;
    let mug = world.prize_no("mug").await;
    for hour in 0..30 {
        world.set_time(campaign.start + hours(hour)).await;
        world.tick().await;
        let calls = (0..40).map(|i| draw(&format!("u{}", i % 7)).times(1 + i % 3));
        world.storm(calls.collect()).await;
        match hour {
            5 => drop(world.operate(Operation::Pause).await),
            6 => drop(world.operate(Operation::Resume).await),
            8 => drop(world.operate(Operation::PausePrize { prize: mug }).await),
            11 => drop(world.operate(Operation::ResumePrize { prize: mug }).await),
            13 => {
                let (users, expires) = (users(&["u1", "u2"]), Moment::FAR_FUTURE);
                let grant = Operation::Grant {
                    users,
                    draws: 50,
                    expires,
                };
                world.operate(grant).await;
            }
            17 => world.reopen().await,
            20 => drop(
                world
                    .change(&YAML.replace("coupon: 10}", "coupon: 15}"))
                    .await,
            ),
            _ => {}
        }
    }
}

async fn everything_that_happens_is_in_the_ledger_without_a_gap(world: &mut World) {
    busy_days(world).await;
    world.operate(Operation::Close).await;
    world.tick().await;
    let entries = audit::ledger(&**world.store()).await;
    let kinds: std::collections::BTreeSet<_> = entries.iter().map(kind).collect();
    let all = [
        "applied",
        "closed",
        "dealt",
        "draw",
        "injected",
        "operated",
        "taken back",
    ];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}

fn kind(entry: &tombola::store::Entry) -> &'static str {
    match entry.body {
        Body::Applied(_) => "applied",
        Body::Operated { .. } => "operated",
        Body::Draw(_) => "draw",
        Body::Bonus(_) => "bonus",
        Body::Injected(_) => "injected",
        Body::Missed { .. } => "missed",
        Body::Dealt { .. } => "dealt",
        Body::TakenBack { .. } => "taken back",
        Body::Delivered { .. } => "delivered",
        Body::Revoked { .. } => "revoked",
        Body::Closed {} => "closed",
        Body::EnvelopeCreated(_) => "envelope created",
        Body::Grab { .. } => "grab",
        Body::Refund { .. } => "refund",
        Body::Forked { .. } => "forked",
        Body::Recovered { .. } => "recovered",
    }
}

async fn the_ledger_is_read_in_pages_of_any_size(world: &mut World) {
    busy_days(world).await;
    let whole = audit::ledger(&**world.store()).await;
    let partition = whole[0].id.partition;
    let mut read = Vec::new();
    loop {
        let page = world.store().ledger(partition, read.len() as u64, 7);
        let page = page.await.unwrap();
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    assert_eq!(read, whole);
}

async fn a_page_of_large_entries_is_short(world: &mut World) {
    world.begin(YAML).await;
    let names: Vec<String> = (0..1000).map(|no| format!("{no:0>120}")).collect();
    for _ in 0..10 {
        let block = Operation::Block {
            users: users(&names.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        world.operate(block).await;
    }
    let whole = audit::ledger(&**world.store()).await;
    let partition = whole[0].id.partition;
    let (mut read, mut pages) = (Vec::new(), 0);
    loop {
        let page = world.store().ledger(partition, read.len() as u64, 1000);
        let page = page.await.unwrap();
        if page.is_empty() {
            break;
        }
        read.extend(page);
        pages += 1;
    }
    assert_eq!(read, whole);
    // Three such entries have more bytes than a page. The store in memory has no bytes of them.
    let has_bytes = world.store().info().durability != Durability::Volatile;
    assert!(!has_bytes || pages > 3, "{pages} pages");
}

async fn reading_leaves_nothing_in_the_ledger(world: &mut World) {
    let campaign = world.begin(YAML).await;
    world.tick().await;
    world.draw(draw("u").times(3)).await;
    world.tick().await;
    let before = world.ledger_length().await;
    let store = world.store();
    store.campaign(&campaign.id).await.unwrap();
    store.campaigns(None, 10).await.unwrap();
    store.filling(&campaign.id).await.unwrap();
    world.windows().await;
    world.stats().await;
    world.record("u").await;
    world.record("stranger").await;
    world.tick().await;
    assert_eq!(world.ledger_length().await, before);
}

async fn draws_of_two_campaigns_share_one_sequence(world: &mut World) {
    world.begin(YAML).await;
    let autumn = format!("\n    id: autumn{YAML}");
    world.begin(&autumn).await;
    let calls = (0..200).map(|i| match i % 2 {
        0 => draw(&format!("u{i}")),
        _ => draw(&format!("u{i}")).of("autumn"),
    });
    let answers = world.storm(calls.collect()).await;
    let mut names: Vec<_> = answers
        .iter()
        .flatten()
        .map(|answer| (answer.ledger, answer.wins()))
        .collect();
    names.sort_unstable();
    names.dedup_by_key(|(ledger, _)| *ledger);
    assert_eq!(names.len(), 200);
}
