//! The search finds campaigns and draws however many there are.

use rusqlite::Connection;
use tombola::{
    ledger::read::{
        EntryQuery, Kinds, Range, Seen,
        sql::{Source, Sql, Value},
    },
    model::{CampaignId, RequestId, UserId},
    proto::{ApplyCampaignRequest, DrawRequest, ListCampaignsRequest},
    store::sqlite::DATABASE_FILE,
};

use super::{Browser, address, encoded, fill, served, wait_for};
use crate::process::{Server, Start};

/// More campaigns than a page of `ListCampaigns` has.
const CAMPAIGNS: usize = 1_010;

async fn apply(server: &Server, id: &str, name: &str) {
    let yaml = format!(
        "
id: {id}
name: {name}
timeZone: Asia/Shanghai
startTime: 2026-11-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
prizes: [{{id: mug, stock: 10}}]
pools: [{{id: deck, deck: {{size: 10, cards: {{mug: 1}}, onExhausted: RESHUFFLE}}}}]
"
    );
    let request = ApplyCampaignRequest {
        campaign: tombola::model::file::parse(&yaml).unwrap().pop(),
        operator: "olga".into(),
        ..Default::default()
    };
    let mut campaigns = server.campaigns().await;
    campaigns.apply_campaign(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_more_than_a_thousand_campaigns_is_found_by_its_name() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    for number in 0..CAMPAIGNS {
        apply(&server, &format!("c{number:05}"), "Many").await;
    }
    apply(&server, "zebra", "Winter <GALA>").await;
    browser.sign_in("olga");
    for text in ["zebra", "winter+%3Cgala", "ZEBRA"] {
        let page = browser.get(&format!("/search?q={text}")).good();
        assert!(page.contains(r#"href="/campaigns/zebra""#), "{page}");
        assert!(!page.contains("/campaigns/c0"), "{page}");
    }
    let many = browser.get("/search?q=many").good();
    assert!(many.contains("The first 20 are shown"), "{many}");

    let mut campaigns = server.campaigns().await;
    let mut request = ListCampaignsRequest {
        text: "C0000".into(),
        page_size: 7,
        ..Default::default()
    };
    let page = campaigns.list_campaigns(request.clone()).await.unwrap();
    let page = page.into_inner();
    assert_eq!(page.campaigns.len(), 7);
    request.page_token = page.next_page_token;
    let rest = campaigns.list_campaigns(request).await.unwrap();
    let rest = rest.into_inner();
    assert_eq!(
        (rest.campaigns.len(), rest.next_page_token.as_str()),
        (3, "")
    );
}

/// Draws of other requests after all that there are, as many as the search once read, and more.
const LATER: &str = r#"
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 25000)
INSERT INTO entries (partition, sequence, at, kind, campaign, user_id, request_id, format, body,
    number, fork)
SELECT partition, 1000000 + n, at + n, kind, campaign, user_id, 'later-' || n, format, body,
    number, fork
FROM numbers, (SELECT * FROM entries WHERE request_id = 'order-1')
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_found_at_once_however_many_draws_came_after_it() {
    let data = tempfile::tempdir().unwrap();
    let (mut server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let found = r#"<code>order-1</code>"#;
    // The page of settled draws waits for what is not settled yet.
    assert!(browser.get("/campaigns/wheel/draws").good().contains(found));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    let db = Connection::open(data.path().join(DATABASE_FILE)).unwrap();
    db.execute(LATER, []).unwrap();
    let query = |campaign, user| EntryQuery {
        kinds: Kinds::Draws,
        campaign,
        envelope: None,
        user,
        request: RequestId::parse("id", "order-1").ok(),
        seen: Seen::default(),
        range: Range {
            limit: 21,
            ..Range::default()
        },
    };
    let campaign = || CampaignId::parse("id", "wheel").ok();
    let user = || UserId::parse("id", "carl").ok();
    for query in [
        query(None, None),
        query(campaign(), None),
        query(None, user()),
        query(campaign(), user()),
    ] {
        let plan = plan(&db, &Sql::list(&query, Source::Among(&[1, 2])));
        let key = "SEARCH entries USING PRIMARY KEY (partition=? AND sequence=?)";
        assert!(plan.contains(key), "{plan}");
    }
    // What has an index of its own is found by it: the conditions of both are the same.
    for (kinds, campaign, index) in [
        (
            Kinds::Operations,
            campaign(),
            "entries_operations_by_campaign",
        ),
        (Kinds::Operations, None, "entries_operations_by_time"),
        (
            Kinds::Deliveries,
            campaign(),
            "entries_deliveries_by_campaign",
        ),
        (Kinds::Deliveries, None, "entries_deliveries_by_time"),
        (Kinds::Grabs, None, "entries_envelopes_by_kind"),
    ] {
        let query = EntryQuery {
            kinds,
            request: None,
            ..query(campaign, None)
        };
        let plan = plan(&db, &Sql::list(&query, Source::Schema("")));
        assert!(plan.contains(index), "{plan}");
    }
    let applied = Sql::applied(&campaign().unwrap(), Some(1), "");
    let applied = plan(&db, &applied);
    assert!(
        applied.contains("entries_operations_by_campaign"),
        "{applied}"
    );
    drop(db);

    let server = Start::on(data.path()).with("--console 127.0.0.1:0").serve();
    let mut browser = Browser {
        address: address(&server),
        ..browser
    };
    let page = browser.get("/search?q=order-1").good();
    assert!(page.contains(found), "{page}");
    let filtered = browser.get("/campaigns/wheel/draws?request=order-1").good();
    assert!(filtered.contains(found), "{filtered}");
    // A request that was made now is found, too.
    let request = DrawRequest {
        campaign_id: "wheel".into(),
        user_id: "carl".into(),
        request_id: "order-2".into(),
        ..Default::default()
    };
    server.lottery().await.draw(request).await.unwrap();
    let page = browser.get("/search?q=order-2").good();
    assert!(page.contains("<code>order-2</code>"), "{page}");
}

/// What the planner says of a statement.
fn plan(db: &Connection, sql: &Sql) -> String {
    let mut statement = db
        .prepare(&format!("EXPLAIN QUERY PLAN {}", sql.text))
        .unwrap();
    let values = sql.values.iter().map(|value| match value {
        Value::Text(text) => rusqlite::types::Value::from(text.clone()),
        Value::Number(number) => (*number).into(),
        Value::Small(number) => (*number).into(),
        Value::Moment(moment) => moment.as_micros().into(),
    });
    let rows = statement
        .query_map(rusqlite::params_from_iter(values), |row| {
            row.get::<_, String>(3)
        })
        .unwrap();
    let lines: Vec<_> = rows.map(Result::unwrap).collect();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_in_the_zones_of_their_campaigns() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let draws = browser.get("/campaigns/wheel/draws").good();
    let (before, _) = draws.split_once("<code>order-1</code>").unwrap();
    let time = &before[before.rfind("<time ").unwrap()..];
    let time = time.split("</time>").next().unwrap();
    assert!(time.contains("+08:00"), "{time}");
    let zone = r#" <span class="hint">Asia/Shanghai</span>"#;
    let row = format!("{time}</time>{zone}");
    let unit = browser.get("/campaigns/wheel/wins").good();
    let (_, unit) = unit.split_once("<code>deck:").unwrap();
    let unit = format!("deck:{}", unit.split('<').next().unwrap());
    let page = browser.get("/search?q=order-1").good();
    assert!(page.contains(&row), "{row}: {page}");
    let of_unit = browser.get(&format!("/search?q={}", encoded(&unit))).good();
    for page in [page, of_unit] {
        assert!(page.contains(zone) && !page.contains(">UTC<"), "{page}");
        assert!(page.contains("Each time is in the zone"), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_says_if_there_are_more_results() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let says = "The latest 20 of each kind are shown";
    for no in 1..=21 {
        let request = DrawRequest {
            campaign_id: "wheel".into(),
            user_id: "carl".into(),
            request_id: format!("carl-{no}"),
            ..Default::default()
        };
        server.lottery().await.draw(request).await.unwrap();
        if no == 20 {
            let page = wait_for(&mut browser, "/search?q=carl", "<code>carl-20</code>");
            assert!(!page.contains(says), "{page}");
        }
    }
    let page = wait_for(&mut browser, "/search?q=carl", "<code>carl-21</code>");
    assert!(page.contains(says), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_a_blank_in_front_is_not_the_one_without() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    let request = DrawRequest {
        campaign_id: "wheel".into(),
        user_id: " carl".into(),
        ..Default::default()
    };
    server.lottery().await.draw(request).await.unwrap();
    browser.sign_in("olga");
    let own = "/campaigns/wheel/users?id=%20carl";
    wait_for(&mut browser, "/campaigns/wheel/draws", own);
    let page = browser.get(own).good();
    let field = r#"<input type="hidden" name="user" value=" carl">"#;
    assert!(page.contains(field), "{page}");
    let erase = "/users/forget?id=%20carl";
    assert!(page.contains(erase), "{page}");
    wait_for(&mut browser, erase, field);
    browser
        .post("/campaigns/wheel/users/block", "user=%20carl&reason=fraud")
        .leads_to(&format!("{own}&done=blocked"));
    let other = browser.get("/campaigns/wheel/users?user=+carl").good();
    assert!(!other.contains("Blocked since"), "{other}");
    browser
        .post("/users/forget", "user=%20carl&typed=+carl")
        .leads_to(&format!("{erase}&done=forgotten"));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_found_who_have_not_drawn() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let grant = "user=carl&draws=2&request_id=one&reason=sorry";
    browser
        .post("/campaigns/wheel/users/grant", grant)
        .leads_to("/campaigns/wheel/users?user=carl&done=granted");
    browser
        .post("/campaigns/wheel/users/block", "user=dora&reason=fraud")
        .leads_to("/campaigns/wheel/users?user=dora&done=blocked");
    for (user, act) in [("carl", "granted draws"), ("dora", "blocked")] {
        let page = browser.get(&format!("/search?q={user}")).good();
        let link = format!("/campaigns/wheel/users?user={user}");
        assert!(page.contains(act) && page.contains(&link), "{page}");
        // Every store can look a user up.
        assert!(page.contains(r#"<option value="wheel">"#), "{page}");
    }
    // The words are right for one draw, too.
    let granted = browser.get("/search?q=carl").good();
    assert!(granted.contains("draws each: 2"), "{granted}");
    browser
        .get("/users/find?campaign=wheel&user=a+b")
        .leads_to("/campaigns/wheel/users?user=a%20b");
    // What is too long for an id is none.
    let long = browser
        .get(&format!("/search?q={}", "x".repeat(200)))
        .good();
    assert!(!long.contains("notice bad"), "{long}");
}
