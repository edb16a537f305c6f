//! The roles of `docs/ledger.md` may do what they are for, and no more.

use tombola::ledger::{
    PostgresSink, PostgresUrl,
    forget::{PostgresEraser, Reason, forget},
};

use super::{Database, settle_all, settled, settler};
use crate::{
    docs::page::Page,
    support::{World, embedded::Embedded, postgres::PASSWORD},
};

/// The statements of the document's fence with this mark.
fn statements(mark: &str) -> String {
    let page = Page::read("docs/ledger.md");
    let mut fences = page.fences.iter();
    let fence = fences.find(|fence| fence.info == format!("sql {mark}"));
    fence
        .unwrap_or_else(|| panic!("no fence `{mark}`"))
        .text
        .clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_may_do_what_it_is_for_and_no_more() {
    let database = Database::without_tables().await;
    let superuser = database.server.connect(&database.name).await;
    let roles =
        statements("roles").replace("DATABASE ledger", &format!("DATABASE {}", database.name));
    superuser.batch_execute(&roles).await.unwrap();
    for role in [
        "ledger_owner",
        "ledger_settler",
        "ledger_reader",
        "ledger_eraser",
    ] {
        let password = format!("ALTER ROLE {role} PASSWORD '{PASSWORD}'");
        superuser.batch_execute(&password).await.unwrap();
    }
    let url = |role: &str| PostgresUrl::parse(&database.server.url(role, &database.name)).unwrap();
    assert!(PostgresSink::migrate(&url("ledger_reader")).await.is_err());
    PostgresSink::migrate(&url("ledger_owner")).await.unwrap();
    let grants = format!(
        "SET ROLE ledger_owner; {}; RESET ROLE",
        statements("grants")
    );
    superuser.batch_execute(&grants).await.unwrap();

    let world = World::new(Embedded::new()).await;
    world.begin(settled::YAML).await;
    world.tick().await;
    settled::draws(&world, 0).await;
    let (mut carrier, mut sink) = settler(world.store(), &url("ledger_settler")).await;
    assert!(settle_all(&mut carrier, &mut sink).await > 400);
    let months = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'tombola.entries'::regclass";
    assert!(
        database.number(months).await >= 5,
        "the settler has made no month"
    );

    let reason = Reason {
        operator: "olga".into(),
        text: String::new(),
    };
    for (role, is_allowed) in [("ledger_settler", false), ("ledger_eraser", true)] {
        let mut eraser = PostgresEraser::open(&url(role)).await.unwrap();
        let erased = forget(&mut eraser, "user-1", &reason).await;
        assert_eq!(erased.is_ok(), is_allowed, "{role}: {erased:?}");
    }

    for (role, sql, is_allowed) in [
        ("ledger_reader", "SELECT count(*) FROM tombola.wins", true),
        ("ledger_reader", "DELETE FROM tombola.wins", false),
        ("ledger_settler", "DELETE FROM tombola.entries", false),
        (
            "ledger_settler",
            "UPDATE tombola.entries SET kind = 'x'",
            false,
        ),
        ("ledger_settler", "DROP TABLE tombola.wins", false),
        (
            "ledger_eraser",
            "UPDATE tombola.entries SET body = ''",
            false,
        ),
        ("ledger_eraser", "DELETE FROM tombola.wins", false),
    ] {
        let attempt = superuser
            .batch_execute(&format!("SET ROLE {role}; {sql}"))
            .await;
        assert_eq!(attempt.is_ok(), is_allowed, "{role}: {sql}: {attempt:?}");
        superuser.batch_execute("RESET ROLE").await.unwrap();
    }
}
