//! A campaign whose data have left the store is read as before.

use std::path::Path;

use serde_json::Value;
use tombola::proto::{CheckLimitRequest, DrawRequest, ErrorReason, GetDrawRequest};
use tonic::Code;

use super::rig::assert_refused;
use crate::{
    ledger::Database,
    process::{Server, Start},
};

/// A schedule and a deck.
const CAMPAIGN: &str = "
id: spring
name: Spring
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
limits: {drawsPerDay: 100}
consolation: {id: points, name: Points}
prizes:
  - {id: coupon, name: Coupon, stock: 90000}
  - {id: mug, name: Mug, stock: 5000}
pools:
  - {id: hours, schedule: {perHour: {coupon: 100}}}
  - {id: deck, deck: {size: 10, cards: {mug: 5}, onExhausted: RESHUFFLE}}
";
/// When the campaign is drawn from, and 40 days later.
const THEN: &str = "2026-12-05T12:10:00+08:00";
const LATER: &str = "2027-01-14T12:10:00+08:00";

/// What depends on the moment.
const OF_THE_MOMENT: [&str; 5] = [
    "readTime",
    "ledgerHeads",
    "seed",
    "drawsToday",
    "paidDrawsToday",
];
/// What is read of the campaign.
const READS: [&[&str]; 11] = [
    &["campaign", "spring"],
    &["stats", "spring"],
    &["odds", "spring"],
    &["odds", "spring", "--version", "1"],
    &["campaigns"],
    &["wins", "--campaign", "spring"],
    &["draws", "--campaign", "spring"],
    &["user", "show", "spring", "user-1"],
    &["user", "show", "spring", "user-2"],
    &["user", "show", "spring", "user-3"],
    &["user", "blocked", "spring"],
];

/// The answers, without what depends on the moment.
fn answers(server: &Server) -> Vec<Value> {
    let answers = READS.iter().map(|read| {
        let said = server.run(&[&["--json"], *read].concat()).well();
        let mut answer: Value = serde_json::from_str(&said).unwrap();
        without_moments(&mut answer);
        answer
    });
    answers.collect()
}

fn without_moments(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OF_THE_MOMENT.contains(&name.as_str()));
            fields.values_mut().for_each(without_moments);
        }
        Value::Array(values) => values.iter_mut().for_each(without_moments),
        _ => {}
    }
}

fn apply(server: &Server, yaml: &str, options: &[&str]) {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), yaml).unwrap();
    let path = file.path().to_str().unwrap();
    server
        .run(&[&["apply", "-f", path][..], options].concat())
        .well();
}

fn draw_request() -> DrawRequest {
    DrawRequest {
        campaign_id: "spring".into(),
        user_id: "user-1".into(),
        request_id: "request-1".into(),
        count: 20,
        ..DrawRequest::default()
    }
}

/// `sink` is the server's option, `audit` the audit's.
async fn is_read_as_before(data: &Path, sink: &str, audit: &[&str]) {
    let start = |at: &str| Start::on(data).at(at.into()).with(sink);
    let server = start(THEN).serve();
    apply(&server, CAMPAIGN, &[]);
    let changed = CAMPAIGN.replace("coupon: 100}", "coupon: 90}");
    apply(&server, &changed, &["--base-version", "1"]);
    let request = draw_request();
    let drawn = server.lottery().await.draw(request.clone()).await;
    let drawn = drawn.unwrap().into_inner();
    let unit = drawn
        .results
        .iter()
        .find(|result| !result.unit_id.is_empty());
    let unit = unit.unwrap().unit_id.clone();
    let deliver = ["win", "deliver", "spring", &unit, "--reference", "parcel"];
    server.run(&deliver).well();
    server.run(&["block", "spring", "user-2", "user-3"]).well();
    server.run(&["unblock", "spring", "user-3"]).well();
    server.run(&["close", "spring", "--yes"]).well();
    let before = answers(&server);
    drop(server);

    let server = start(LATER).serve();
    server.says("the data of campaign spring have left the store");
    for (read, (before, after)) in READS.iter().zip(before.iter().zip(answers(&server))) {
        assert_eq!(*before, after, "{read:?}");
    }
    let odds = server.run(&["--json", "odds", "spring"]).well();
    let odds: Value = serde_json::from_str(&odds).unwrap();
    assert_eq!(odds["seed"].as_str().unwrap().len(), 64);

    let mut lottery = server.lottery().await;
    let found = lottery.get_draw(GetDrawRequest {
        campaign_id: request.campaign_id.clone(),
        user_id: request.user_id.clone(),
        request_id: request.request_id.clone(),
    });
    let mut found = found.await.unwrap().into_inner().draw.unwrap();
    assert!(std::mem::take(&mut found.replayed));
    assert_eq!(found, drawn);
    let retried = lottery.draw(request).await;
    assert_refused(
        retried,
        Code::FailedPrecondition,
        ErrorReason::CampaignEnded,
    );
    let checked = lottery.check_limit(CheckLimitRequest {
        campaign_id: "spring".into(),
        user_id: "user-1".into(),
        segments: Vec::new(),
    });
    let checked = checked.await.unwrap().into_inner();
    assert_eq!((checked.allowed, &checked.limits), (false, &None));
    assert_eq!(checked.reason(), ErrorReason::CampaignEnded);

    server.run(&deliver).well();
    let left = ["have left the store"];
    let other = ["win", "deliver", "spring", &unit, "--reference", "other"];
    server.run(&other).badly(1, &left);
    let revoke = ["win", "revoke", "spring", &unit, "--reason", "late"];
    server.run(&revoke).badly(1, &left);
    server.run(&["pause", "spring"]).badly(1, &left);
    server.run(&["schedule", "spring"]).badly(1, &left);

    let said = server.run(&[&["audit"], audit].concat()).well();
    assert!(
        said.contains("1 campaign compared with the service"),
        "{said}"
    );
    apply(
        &server,
        &CAMPAIGN
            .replace("spring", "autumn")
            .replace("2026-12", "2027-01"),
        &[],
    );
    let listed = server.run(&["campaigns"]).well();
    assert!(
        listed.contains("autumn") && listed.contains("spring"),
        "{listed}"
    );
    server.run(&[&["audit"], audit].concat()).well();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_campaign_is_read_from_the_embedded_store_s_own_file_as_before() {
    let data = tempfile::tempdir().unwrap();
    let audit = ["--data", data.path().to_str().unwrap()];
    is_read_as_before(data.path(), "", &audit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_campaign_is_read_from_postgres_as_before() {
    let (data, database) = (tempfile::tempdir().unwrap(), Database::new().await);
    let url = database.url_text();
    let sink = format!("--postgres-url {url}");
    is_read_as_before(data.path(), &sink, &["--postgres-url", &url]).await;
}

#[test]
fn closed_campaigns_are_kept_for_as_long_as_draws_are_remembered() {
    let data = tempfile::tempdir().unwrap();
    for (options, words) in [
        (
            "--keep-closed 23h",
            ["--keep-closed", "shorter than --request-memory"],
        ),
        ("--keep-closed 10s", ["--keep-closed", "out of range"]),
        ("--keep-closed soon", ["--keep-closed", "`soon`"]),
    ] {
        Start::on(data.path())
            .with(options)
            .fail()
            .badly(64, &words);
    }
    let server = Start::on(data.path())
        .with("--request-memory 60h --keep-closed 60h")
        .serve();
    drop(server);
    Start::on(data.path())
        .with("--request-memory 8000h")
        .serve();
}
