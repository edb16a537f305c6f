//! The queries of `docs/sql.md`, each run on a ledger that has something for it.

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
    let (mut carrier, mut sink) = settler(world.store(), &database.url()).await;
    settle_all(&mut carrier, &mut sink).await;
    let page = Page::read("docs/sql.md");
    assert!(page.fences.len() > 5);
    for fence in &page.fences {
        let rows = database.server.query(&database.name, &fence.text).await;
        assert!(!rows.is_empty(), "nothing found:\n{}", fence.text);
    }
}
