//! PostgreSQL commits to a synchronous standby: the store gives up nothing that only the primary
//! has, since a failover would lose it.

use std::sync::Arc;

use tombola::{ledger::settle::SettleError, store::Store};

use super::{Database, settle_all, settled::YAML, settler};
use crate::support::{World, draw, embedded::Embedded, on_redis::OnRedis};

const ENTRIES: &str = "SELECT count(*) FROM tombola.entries";

/// The entries of the only partition that wait to be settled.
async fn waiting(store: &Arc<dyn Store>) -> u64 {
    store.backlog(0).await.unwrap().entries
}

async fn what_no_standby_has_is_not_given_up(world: World) {
    world.begin(YAML).await;
    let (store, database) = (world.store().clone(), Database::alone().await);
    let (mut carrier, mut sink) = settler(&store, &database.url()).await;
    // The table of the draws' month is made with the first of them.
    world.draw(draw("user")).await;
    settle_all(&mut carrier, &mut sink).await;
    let before = database.number(ENTRIES).await;
    world.draw(draw("user")).await;
    let unsettled = waiting(&store).await;
    assert!(unsettled > 0);

    database.server.miss_a_standby().await;
    let settling = tokio::spawn(async move { carrier.settle(&mut sink, 0).await });
    database.server.cut_off("COMMIT").await;
    let settled = settling.await.unwrap();
    assert!(matches!(settled, Err(SettleError::Sink(_))), "{settled:?}");
    let now = before + unsettled.cast_signed();
    assert_eq!(database.number(ENTRIES).await, now, "they can be read");

    let (url, of_next) = (database.url(), store.clone());
    let next = tokio::spawn(async move { settler(&of_next, &url).await });
    let confirm = "UPDATE tombola.cursors SET settled_at = settled_at";
    database.server.until_it_waits(confirm).await;
    assert_eq!(waiting(&store).await, unsettled);
    database.server.need_no_standby().await;
    let (mut carrier, mut sink) = next.await.unwrap();
    assert_eq!(waiting(&store).await, 0);
    assert_eq!(settle_all(&mut carrier, &mut sink).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_does_not_give_up_what_no_standby_has() {
    what_no_standby_has_is_not_given_up(World::new(Embedded::new()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_redis_does_not_give_up_what_no_standby_has() {
    what_no_standby_has_is_not_given_up(World::new(OnRedis::single().undivided()).await).await;
}
