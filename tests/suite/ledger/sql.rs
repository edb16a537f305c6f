//! The queries of `docs/sql.md`, each run on a ledger that has something for it.

use tombola::{
    model::PoolNo,
    store::{Operation, view::WindowUnits},
};

use super::{Database, settle_all, settled, settler};
use crate::{
    docs::page::Page,
    support::{DrawWords as _, World, draw, embedded::Embedded, envelope, hours, minutes},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_documents_finds_something() {
    let database = Database::new().await;
    let world = World::new(Embedded::new()).await;
    world.begin(settled::YAML).await;
    world.tick().await;
    world.pass(minutes(40)).await;
    settled::draws(&world, 0).await;
    world.draw(draw("user-1").times(100)).await;
    world.create(&envelope("e1", 100, 2)).await;
    world.grab("e1", "user-1").await;
    world.cancel("e1").await;
    world.create(&envelope("e2", 300, 3)).await;
    world.grab("e2", "user-2").await;
    world.pass(hours(25)).await;
    world.tick().await;
    let recall = Operation::Recall {
        pool: PoolNo(0),
        window: None,
        prize: None,
        withdraw: false,
    };
    world.operate(recall).await;
    world.tick().await;
    let (mut carrier, mut sink) = settler(world.store(), &database.url()).await;
    settle_all(&mut carrier, &mut sink).await;
    let page = Page::read("docs/sql.md");
    assert!(page.fences.len() > 5);
    for fence in &page.fences {
        let rows = database.server.query(&database.name, &fence.text).await;
        let finds_nothing = fence.info == "sql norows";
        assert_eq!(rows.is_empty(), finds_nothing, "{}", fence.text);
    }
    check_values(&database, &world, &page).await;
}

/// The sums that queries give are those of the store.
async fn check_values(database: &Database, world: &World, page: &Page) {
    let rows = async |words: &str| {
        let found = page.fences.iter().find(|fence| fence.text.contains(words));
        database
            .server
            .query(&database.name, &found.unwrap().text)
            .await
    };
    let [coupon, mug] = [world.prize("coupon").await, world.prize("mug").await];
    let by_hour = rows("GROUP BY prize, hour").await;
    let wins = by_hour
        .iter()
        .map(|row| row.get::<_, i64>("wins"))
        .sum::<i64>();
    assert_eq!(wins as u64, coupon.won + mug.won);

    let costs = rows("AS cost").await;
    let cost = format!(
        "SELECT cost::text FROM ({}) AS costs",
        page_query(page, "AS cost")
    );
    let cost: String = database.server.query(&database.name, &cost).await[0].get(0);
    assert_eq!((costs.len(), costs[0].get("currency")), (1, "EUR"));
    assert_eq!(cost.parse::<f64>().unwrap(), 2.5 * coupon.won as f64);

    let stock = rows("p.stock, count(w.unit_id)").await;
    let stock: Vec<(&str, i64, i64)> = stock
        .iter()
        .map(|row| (row.get("prize"), row.get("stock"), row.get("won")))
        .collect();
    let expected = [
        ("coupon", 90_000, coupon.won as i64),
        ("mug", 5_000, mug.won as i64),
    ];
    assert_eq!(stock, expected);

    let released = rows("AS released").await;
    let sum = |column: &str| {
        let units = released.iter().map(|row| row.get::<_, i64>(column));
        units.sum::<i64>() as u64
    };
    assert_eq!(sum("won"), coupon.won);
    let windows = world.windows().await;
    let all = |units: fn(&WindowUnits) -> u64| {
        let windows = windows.iter();
        windows
            .map(|window| units(&window.prizes[0].1))
            .sum::<u64>()
    };
    let recalled = all(|units| units.recalled);
    assert!(recalled > 0);
    assert_eq!(sum("released"), all(|units| units.injected) - recalled);

    let refunds = rows("AS refunded_minor").await;
    let grabbed = "SELECT (tombola.what(format, body) ->> 'amount_minor')::bigint
                   FROM tombola.entries WHERE envelope = 'e2' AND kind = 'grab'";
    let grabbed = database.number(grabbed).await;
    assert_eq!(refunds.len(), 1, "e1 was cancelled, e2 has expired");
    assert_eq!(refunds[0].get::<_, i64>("envelopes"), 1);
    let sum = format!(
        "SELECT refunded_minor::bigint FROM ({}) AS refunds",
        page_query(page, "AS refunded_minor")
    );
    assert_eq!(database.number(&sum).await, 300 - grabbed);
}

/// The query of the page that has these words, to stand within another one.
fn page_query(page: &Page, words: &str) -> String {
    let mut fences = page.fences.iter();
    let fence = fences.find(|fence| fence.text.contains(words)).unwrap();
    fence.text.trim().trim_end_matches(';').to_owned()
}
