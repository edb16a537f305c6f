//! `tombola recover` names what a store has lost, as far as it was settled.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tombola::proto::{Outcome, WatchEntriesRequest, ledger_service_client::LedgerServiceClient};

use super::{Database, watch::take};
use crate::{
    faults::redis::{PARTITIONS, request, witness::Witness},
    support::{
        minutes,
        postgres::Postgres,
        redis_server::{RedisServer, until},
    },
};

const DRAWS: usize = 10;

/// Waits until so many draws are settled.
async fn settled(database: &Database, draws: usize) {
    settled_of_kind(database, "draw", draws).await;
}

async fn settled_of_kind(database: &Database, kind: &str, count: usize) {
    let sql = format!("SELECT count(*) FROM tombola.entries WHERE kind = '{kind}'");
    let client = database.server.connect(&database.name).await;
    let is_settled = async {
        while Postgres::number_over(&client, &sql).await < count as i64 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = timeout(minutes(2), is_settled).await;
    in_time.unwrap_or_else(|_| panic!("{count} entries of the kind {kind} are not settled"));
}

/// Data of before several forks are restored. The numbers of their entries are far behind, but
/// those of the next ones are beyond all that was settled, so these are settled too.
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_restored_data_of_before_several_forks_is_settled() {
    const LIVES: usize = 3;
    let database = Database::new().await;
    let options = format!("--postgres-url {}", database.url_text());
    let mut redis = RedisServer::start(&[]);
    let mut witness = Witness::start_with(&redis.url(), &options).await;
    witness.draw("kept", DRAWS).await;
    settled(&database, DRAWS).await;
    redis.back_up();
    for life in 0..LIVES {
        redis.kill();
        redis.restart();
        let name = format!("lost-{life}");
        let first = format!("{name}-0");
        // A connection that broke leaves the outcome of its draw open: it is made again.
        let lottery = &mut witness.lottery;
        while lottery
            .draw(request("wheel", &first, &first))
            .await
            .is_err()
        {}
        witness.draw(&name, DRAWS).await;
        settled(&database, (2 + life) * DRAWS).await;
        settled_of_kind(&database, "forked", (1 + life) * PARTITIONS as usize).await;
    }
    redis.restart_from_backup();
    // The settler witnesses what it has settled: of each partition at least the forks.
    until("all partitions are halted", || {
        let shown = witness.recover("--json").well();
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        shown["halted"].as_array().unwrap().len() == PARTITIONS as usize
    });
    let recover = "--withdraw-due --yes --operator ops --reason backup";
    // The settler and the callers may witness entries of different forks: it halts for each.
    let first = request("wheel", "after-0", "after-0");
    for _ in 0..2 * LIVES {
        witness.recover(recover).well();
        if witness.lottery.draw(first.clone()).await.is_ok() {
            break;
        }
    }
    witness.draw("after", DRAWS).await;
    settled(&database, (2 + LIVES) * DRAWS).await;

    witness.assert_numbers_differ();
    let open = "SELECT count(*) FROM tombola.quarantine WHERE ended_at IS NULL";
    assert_eq!(database.number(open).await, 0);
    let true_ones = "SELECT count(*) FROM tombola.entries AS entries WHERE kind = 'draw'
        AND NOT EXISTS (SELECT 1 FROM tombola.orphans AS orphans
            WHERE orphans.partition = entries.partition
                AND entries.sequence BETWEEN first_sequence AND last_sequence)";
    assert_eq!(database.number(true_ones).await, 2 * DRAWS as i64);
    let withdrawn = "SELECT count(*) FROM tombola.entries WHERE kind = 'taken_back'";
    assert!(
        database.number(withdrawn).await > 0,
        "what recover wrote is settled"
    );

    // Who follows the settled ledger sees no lost draw.
    let request = WatchEntriesRequest {
        campaign_id: "wheel".into(),
        kinds: vec!["draw".into()],
        ..WatchEntriesRequest::default()
    };
    let mut ledger = LedgerServiceClient::new(witness.server.connect().await);
    let mut stream = ledger.watch_entries(request).await.unwrap().into_inner();
    let seen = take(&mut stream, 2 * DRAWS).await.into_iter();
    let seen = seen.map(|response| response.entry.unwrap().draw.unwrap().request_id);
    let named = |name: &'static str| (0..DRAWS).map(move |number| format!("{name}-{number}"));
    let expected: Vec<_> = named("kept").chain(named("after")).collect();
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

/// Redis and PostgreSQL may be away for the same reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_halt_can_be_ended_while_the_ledger_cannot_be_read() {
    let mut redis = RedisServer::start(&[]);
    let mut witness = Witness::start(&redis.url()).await;
    redis.back_up();
    witness.draw("lost", DRAWS).await;
    redis.restart_from_backup();
    until("a partition is halted", || witness.loss().is_some());

    let away = "--postgres-url postgres://settler@127.0.0.1:1/ledger";
    let shown = witness.recover(away);
    assert!(shown.stderr.contains("cannot be named"), "{shown:?}");
    assert!(!shown.well().contains("--postgres-url"));
    let said = witness.recover(&format!("--accept --yes {away}")).well();
    assert!(said.contains("go on"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_settled_and_lost_is_named() {
    let database = Database::new().await;
    let url = database.url_text();
    let mut redis = RedisServer::start(&[]);
    let options = format!("--postgres-url {url}");
    let mut witness = Witness::start_with(&redis.url(), &options).await;
    witness.draw("kept", DRAWS).await;
    settled(&database, DRAWS).await;
    redis.back_up();
    witness.draw("lost", DRAWS).await;
    settled(&database, 2 * DRAWS).await;
    redis.restart_from_backup();
    until("a partition is halted", || witness.loss().is_some());

    let hint = witness.recover("").well();
    assert!(hint.contains("--postgres-url to see"), "{hint}");
    let said = witness.recover(&options).well();
    for number in 0..DRAWS {
        let name = format!("lost-{number}");
        let is_named = |line: &str| line.split_whitespace().filter(|word| *word == name).count();
        let lines = said.lines().map(is_named);
        assert_eq!(lines.sum::<usize>(), 2, "user and request {name}: {said}");
    }
    assert!(!said.contains("kept-"), "{said}");
    let json = witness.recover(&format!("--json {options}")).well();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let entries = json["halted"][0]["lost"]["entries"].as_array().unwrap();
    let draws: Vec<_> = entries.iter().filter(|it| it["kind"] == "draw").collect();
    assert_eq!(draws.len(), DRAWS);
    for (draw, drawn) in draws.iter().zip(&witness.drawn[DRAWS..]) {
        assert_eq!(draw["requestId"], drawn.request_id);
        let won = drawn.results.iter();
        let won = won.filter(|result| result.outcome() == Outcome::Won);
        let won = won.map(|result| (result.prize_id.as_str(), result.unit_id.as_str()));
        let named = draw["wins"].as_array().unwrap().iter();
        let named = named.map(|win| (win["prizeId"].as_str(), win["unitId"].as_str()));
        let named: Vec<_> = named
            .map(|(prize, unit)| (prize.unwrap(), unit.unwrap()))
            .collect();
        assert_eq!(named, won.collect::<Vec<_>>());
        for (prize, unit) in named {
            assert!(said.contains(&format!("{prize} ({unit})")), "{said}");
        }
    }
    let said = witness.recover(&format!("--accept --yes {options}")).well();
    assert!(said.contains("lost-1") && said.contains("go on"), "{said}");
}
