//! Single rows: cursors, entries and wins, from PostgreSQL.

use std::sync::Arc;

use tombola::{
    ledger::{
        SinkError,
        read::{DeliveryState, LedgerReader, ReadError, postgres::PostgresReader},
    },
    model::CampaignId,
};

use crate::{
    ledger::{Database, settle_all, settled, settler},
    support::{Answer as _, DrawWords as _, World, draw, embedded::Embedded, postgres::Postgres},
};

/// A reader of a world's ledger.
pub fn reader(database: &Database, world: &World) -> Arc<dyn LedgerReader> {
    let store_id = &world.store().info().store_id;
    Arc::new(PostgresReader::new(database.url(), store_id))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_is_read_as_it_was_written() {
    let database = Database::new().await;
    let world = World::new(Embedded::new()).await;
    world.begin(settled::YAML).await;
    world.tick().await;
    settled::draws(&world, 0).await;
    let reader = reader(&database, &world);
    assert!(reader.cursors().await.unwrap().is_empty());
    let (mut carrier, mut sink) = settler(world.store(), &database.url()).await;
    settle_all(&mut carrier, &mut sink).await;
    let entries = database.entries().await;
    let last = entries.last().unwrap();
    let cursors = reader.cursors().await.unwrap();
    assert_eq!(cursors.len(), 1);
    assert_eq!(cursors[&0].up_to.sequence, last.id.sequence);
    assert_eq!(cursors[&0].at, last.at);
    let mut read = Vec::new();
    loop {
        let after = read.len() as u64;
        let page = reader.entries(0, after, 150).await.unwrap();
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    assert_eq!(read, entries);
    let answer = world.draw(draw("user-1").times(100).named("many")).await;
    settle_all(&mut carrier, &mut sink).await;
    let campaign = CampaignId::parse("campaign", "spring").unwrap();
    let rows = "SELECT unit_id FROM tombola.wins WHERE request_id = 'many' ORDER BY number";
    let units = database.server.query(&database.name, rows).await;
    assert_eq!(units.len(), answer.wins());
    for unit in units {
        let found = reader.win(&campaign, unit.get(0)).await.unwrap().unwrap();
        assert_eq!(found.win.unit, unit.get::<_, &str>(0));
        assert_eq!(found.win.user, "user-1");
        assert_eq!(found.win.sequence, answer.ledger.sequence);
        assert_eq!(found.delivery.state, DeliveryState::Pending);
    }
    assert_eq!(reader.win(&campaign, "deck:1:99999").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_of_another_store_is_not_read() {
    let database = Database::new().await;
    let world = World::new(Embedded::new()).await;
    settler(world.store(), &database.url()).await;
    let other = PostgresReader::new(database.url(), "another");
    let error = other.cursors().await.unwrap_err();
    assert!(
        matches!(error, ReadError::Sink(SinkError::OtherStore { .. })),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_comes_back_is_read_again() {
    let mut server = Postgres::start();
    let url = server.database("ledger").await;
    let url = tombola::ledger::PostgresUrl::parse(&url).unwrap();
    tombola::ledger::PostgresSink::migrate(&url).await.unwrap();
    let reader = PostgresReader::new(url, "store");
    reader.cursors().await.unwrap();
    server.stop();
    for _ in 0..6 {
        let error = reader.cursors().await.unwrap_err();
        assert!(matches!(error, ReadError::Sink(SinkError::Postgres(_))));
    }
    server.restart();
    reader.cursors().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_caller_went_away_holds_no_other_caller_up() {
    let database = Database::new().await;
    let world = World::new(Embedded::new()).await;
    let reader = reader(&database, &world);
    // Two clients: a transaction sees the activity as it was at its first look.
    let lock = database.server.connect(&database.name).await;
    let looker = database.server.connect(&database.name).await;
    let locked = lock.batch_execute("BEGIN; LOCK TABLE tombola.wins IN ACCESS EXCLUSIVE MODE");
    locked.await.unwrap();
    let caller = tokio::spawn({
        let reader = Arc::clone(&reader);
        async move {
            let campaign = CampaignId::parse("campaign", "spring").unwrap();
            reader.win(&campaign, "deck:1:1").await
        }
    });
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while Postgres::number_over(&looker, sql).await == 0 {
        assert!(!caller.is_finished(), "it does not wait for the lock");
    }
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    reader.cursors().await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'tombola'";
    let connections = Postgres::number_over(&looker, sql).await;
    assert_eq!(connections, 2, "it waited behind that statement");
}
