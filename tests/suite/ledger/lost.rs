//! `tombola recover` names what a store has lost, as far as it was settled.

use tombola::proto::Outcome;

use super::Database;
use crate::{
    faults::redis::witness::Witness,
    support::redis_server::{RedisServer, until},
};

const DRAWS: usize = 10;

/// Waits until these draws are settled.
async fn settled(database: &Database, draws: usize) {
    let sql = "SELECT count(*) FROM tombola.entries WHERE kind = 'draw'";
    while database.number(sql).await < draws as i64 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
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
