//! Data of earlier versions: each dump in `tests/formats` is upgraded. All its contents must still
//! be there, and draws must go on.

use std::{fs, path::Path};

use redis::cmd;
use rusqlite::Connection;
use tombola::{
    proto::{
        BlockUsersRequest, BlockedUser, CheckLimitRequest, DrawRequest, GetDrawRequest,
        GetStatsRequest, GetUserRequest, GrabEnvelopeRequest, GrabOutcome, GrantBonusRequest,
        ListBlockedUsersRequest, ListBlockedUsersResponse, Outcome,
        envelope_service_client::EnvelopeServiceClient,
    },
    store::redis::{Connections, RedisUrl, Upgrade},
};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use crate::{
    faults::redis::{House, assert_not_executed, healthy, request},
    process::{Ended, NOW, Server, Start, project, tombola},
    support::{
        envelope,
        redis_server::{RedisServer, until},
    },
};

/// The versions of dumps of format 2: the first one, and the one that introduced forks.
const FORMAT_2: [&str; 2] = ["0.1-first", "0.1-forks"];
/// The version that introduced `tombola upgrade`, of format 3.
pub const FORMAT_3: &str = "0.1-upgrade";
/// The version before caps, of format 4.
const FORMAT_4: &str = "0.1-backup";
/// The version before budgets and personal pools, of format 5.
const FORMAT_5: &str = "0.1-caps";
const PARTITIONS: &str = "--partitions 2";
/// The partition keys in Redis.
pub const OWN: [&str; 2] = ["tombola{0}:partition", "tombola{1}:partition"];

fn dump(version: &str, store: &str) -> String {
    fs::read_to_string(project(&format!("tests/formats/{version}.{store}"))).unwrap()
}

/// Checks that all earlier draws are there and that everything goes on.
async fn goes_on(server: &Server) {
    let mut lottery = server.lottery().await;
    let mut ids: Vec<_> = ["plain", "granted", "blocked"]
        .into_iter()
        .flat_map(|user| (1..4).map(move |number| (user, format!("{user}-{number}"))))
        .collect();
    ids.push(("plain", "plain-many".into()));
    for (user, id) in ids {
        let count = if id == "plain-many" { 5 } else { 1 };
        let again = DrawRequest {
            count,
            ..request("kept", user, &id)
        };
        let found = GetDrawRequest {
            campaign_id: "kept".into(),
            user_id: user.into(),
            request_id: id.clone(),
        };
        let found = lottery.get_draw(found).await.unwrap().into_inner();
        let found = found.draw.unwrap();
        let again = lottery.draw(again).await.unwrap().into_inner();
        assert!(again.replayed, "{id}");
        assert_eq!(again.results, found.results, "{id}");
        assert_eq!(again.results.len(), count as usize, "{id}");
    }
    for user in ["plain", "granted", "blocked", "new"] {
        let drawn = lottery
            .draw(request("kept", user, "after-the-upgrade"))
            .await;
        assert!(!drawn.unwrap().into_inner().replayed, "{user}");
    }
    let limits = CheckLimitRequest {
        campaign_id: "kept".into(),
        user_id: "granted".into(),
        segments: Vec::new(),
    };
    let limits = lottery.check_limit(limits).await.unwrap().into_inner();
    let total = limits.limits.unwrap().draws_total.unwrap();
    assert_eq!((total.used, total.bonus), (4, 3), "{total:?}");
    let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
    let created = envelopes.create_envelope(envelope("new-envelope", 2, 1));
    created.await.unwrap();
    for (id, user, outcome) in [
        ("kept-envelope", "granted", GrabOutcome::AlreadyGrabbed),
        ("kept-envelope", "new", GrabOutcome::Grabbed),
        ("new-envelope", "new", GrabOutcome::Grabbed),
    ] {
        let grab = GrabEnvelopeRequest {
            envelope_id: id.into(),
            user_id: user.into(),
        };
        let grabbed = envelopes.grab_envelope(grab).await.unwrap();
        assert_eq!(grabbed.into_inner().outcome(), outcome, "{id} {user}");
    }
    let stats = GetStatsRequest {
        campaign_id: "kept".into(),
    };
    let stats = server.campaigns().await.get_stats(stats).await;
    let stats = stats.unwrap().into_inner();
    assert!(stats.balanced, "{stats:#?}");
}

/// The user who was blocked before is blocked; nobody knows since when. The embedded store can also
/// list the user.
async fn an_old_block_has_no_note(server: &Server, is_listed: bool) {
    let mut campaigns = server.campaigns().await;
    let user = GetUserRequest {
        campaign_id: "kept".into(),
        user_id: "blocked".into(),
    };
    let user = campaigns.get_user(user).await.unwrap().into_inner();
    let block = BlockedUser {
        user_id: "blocked".into(),
        ..BlockedUser::default()
    };
    assert_eq!(user.user.unwrap().block, Some(block.clone()));
    let listed = blocked_users(server).await;
    assert_eq!(listed.blocked_users, 1);
    assert_eq!(listed.users, Vec::from_iter(is_listed.then_some(block)));
}

async fn blocked_users(server: &Server) -> ListBlockedUsersResponse {
    let request = ListBlockedUsersRequest {
        campaign_id: "kept".into(),
        ..ListBlockedUsersRequest::default()
    };
    let listed = server.campaigns().await.list_blocked_users(request).await;
    listed.unwrap().into_inner()
}

/// A version without notes, which runs beside this one, unblocks users; this one blocks one of them
/// again.
async fn a_note_does_not_outlive_its_block(house: &House, server: &Server) {
    let mut campaigns = server.campaigns().await;
    let mut block = async |reason: &str, users: &[&str]| {
        let request = BlockUsersRequest {
            campaign_id: "kept".into(),
            user_ids: users.iter().map(|user| (*user).to_owned()).collect(),
            operator: "anna".into(),
            reason: reason.into(),
            ..BlockUsersRequest::default()
        };
        campaigns.block_users(request).await.unwrap();
        blocked_users(server).await.users
    };
    assert_eq!(block("first", &["u-1", "u-2"]).await.len(), 2);
    for partition in 0..2 {
        let key = format!("tombola{{{partition}}}:blocked:kept");
        house.redis.command(&["DEL", &key]);
    }
    assert_eq!(blocked_users(server).await.users, []);
    let listed = block("second", &["u-2"]).await;
    let listed: Vec<_> = listed
        .iter()
        .map(|block| (block.user_id.as_str(), block.reason.as_str()))
        .collect();
    assert_eq!(listed, [("u-2", "second")]);
}

/// Restores a dump into an empty Redis.
pub async fn restore(redis: &RedisServer, version: &str) {
    let connections = Connections::new(&RedisUrl::parse(&redis.url()).unwrap(), 1).unwrap();
    for line in dump(version, "redis").lines() {
        let (key, hex) = line.split_once(' ').unwrap();
        let bytes: Vec<u8> = hex
            .as_bytes()
            .chunks(2)
            .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap())
            .collect();
        let mut command = cmd("RESTORE");
        command.arg(key).arg(0).arg(bytes);
        connections.command(&command).await.unwrap();
    }
}

/// Services on this Redis, with the test clock of the dumps.
fn start(house: &House) -> Start<'_> {
    house.start().with(PARTITIONS).at(NOW.into())
}

/// The format of each partition. Two fields have it, since versions before format 3 do not know
/// `min_reader`.
pub fn formats(house: &House) -> Vec<String> {
    let field = |key: &&str, name| house.redis.command(&["HGET", key, name]);
    let both = |key| match (field(key, "format"), field(key, "min_reader")) {
        (format, min_reader) if min_reader.is_empty() || min_reader == format => format,
        both => panic!("{both:?}"),
    };
    OWN.iter().map(both).collect()
}

fn upgrade(house: &House, more: &str) -> Ended {
    let mut command = tombola(["upgrade", "--redis-url", &house.redis.url()]);
    command.args(PARTITIONS.split(' '));
    command
        .args(["--clock-start", NOW])
        .args(more.split_whitespace());
    Ended::of(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn data_in_redis_are_upgraded_and_drawn_from() {
    for version in FORMAT_2 {
        let house = House::with(&[]);
        restore(&house.redis, version).await;
        let words = ["format 2", "tombola upgrade --finish", "stop all services"];
        start(&house).fail().badly(1, &words);
        assert!(upgrade(&house, "").well().contains("is of format 2"));
        assert_eq!(formats(&house), ["2", "2"], "looking raises nothing");

        let said = upgrade(&house, "--finish").well();
        let newest = format!("is upgraded from format 2 to {}", Upgrade::FORMAT);
        assert!(said.contains(&newest), "{said}");
        let server = start(&house).serve();
        goes_on(&server).await;
        an_old_block_has_no_note(&server, false).await;
        a_note_does_not_outlive_its_block(&house, &server).await;
        let said = upgrade(&house, "--finish").well();
        assert!(said.contains("nothing to upgrade"), "{said}");
    }
}

/// A user may win nothing but stickers, and every card of the deck is a mug or a sticker.
const NO_WINS: &str = "
id: no-wins
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
limits: {winsPerUser: 0}
prizes: [{id: mug, stock: 50}, {id: sticker, stock: 50, countsAsWin: false}]
pools: [{id: deck, deck: {size: 100, cards: {mug: 50, sticker: 50}}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn cards_are_forfeited_only_after_the_upgrade_to_format_4() {
    let house = House::with(&[]);
    restore(&house.redis, FORMAT_3).await;
    let server = start(&house).serve();
    goes_on(&server).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), NO_WINS).unwrap();
    server.run(&["apply", file.path().to_str().unwrap()]).well();

    let mut lottery = server.lottery().await;
    let mut wins = async |user: &str| {
        let hundred = DrawRequest {
            count: 100,
            ..request("no-wins", user, "all")
        };
        let drawn = lottery.draw(hundred).await.unwrap().into_inner();
        let won = drawn
            .results
            .iter()
            .filter(|result| result.outcome() == Outcome::Won);
        won.count()
    };
    let numbered = || {
        let keys = OWN.map(|key| key.replace("partition", "campaign:no-wins"));
        keys.map(|key| house.redis.command(&["HGET", &key, "entries"]))
            .concat()
    };
    assert_eq!(
        wins("early").await,
        0,
        "an older service could not read a forfeited card"
    );
    assert_eq!(numbered(), "", "an older service could not read a number");
    for key in OWN {
        // The older service has stopped; the test clock still shows the time of its last probe.
        house.redis.command(&["HDEL", key, "reader:3"]);
    }
    let said = upgrade(&house, "--finish").well();
    let newest = format!("is upgraded from format 3 to {}", Upgrade::FORMAT);
    assert!(said.contains(&newest), "{said}");
    assert_eq!(
        wins("late").await,
        50,
        "the service that runs goes on in the new format"
    );
    assert_ne!(numbered(), "");
    let stats = GetStatsRequest {
        campaign_id: "no-wins".into(),
    };
    let stats = server
        .campaigns()
        .await
        .get_stats(stats)
        .await
        .unwrap()
        .into_inner();
    assert!(stats.balanced, "{stats:#?}");
    assert_eq!((stats.prizes[0].forfeited, stats.prizes[0].left), (50, 50));
}

/// Mugs are without limit, and a user may win two of them.
const CAPPED: &str = "
id: capped
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, unlimited: true, perUser: {total: 2}}, {id: cup, stock: 50}]
pools: [{id: deck, deck: {size: 20, cards: {mug: 10, cup: 10}, onExhausted: RESHUFFLE}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn caps_are_accepted_only_after_the_upgrade_to_format_5() {
    for version in [FORMAT_3, FORMAT_4] {
        let house = House::with(&[]);
        restore(&house.redis, version).await;
        let server = start(&house).serve();
        goes_on(&server).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), CAPPED).unwrap();
        let apply = ["apply", file.path().to_str().unwrap()];
        // An older service would draw without caps, and find the mugs out of stock.
        let words = ["UPGRADE_NEEDED", "tombola upgrade --finish"];
        server.run(&apply).badly(1, &words);
        // Nor could it read that a caller granted something.
        let mut lottery = server.lottery().await;
        let grant = GrantBonusRequest {
            campaign_id: "kept".into(),
            user_id: "u".into(),
            request_id: "invited".into(),
            draws: 2,
            expire_time: None,
        };
        let refused = lottery.grant_bonus(grant.clone()).await.unwrap_err();
        assert_not_executed(&refused, Code::FailedPrecondition);
        for key in OWN {
            for format in ["3", "4"] {
                let reader = format!("reader:{format}");
                house.redis.command(&["HDEL", key, &reader]);
            }
        }
        upgrade(&house, "--finish").well();
        server.run(&apply).well();
        lottery.grant_bonus(grant).await.unwrap();
        let twenty = DrawRequest {
            count: 20,
            ..request("capped", "u", "all")
        };
        let drawn = lottery.draw(twenty).await.unwrap().into_inner();
        let won = |prize: &str| {
            let results = drawn.results.iter();
            results.filter(|result| result.prize_id == prize).count()
        };
        assert_eq!((won("mug"), won("cup")), (2, 10));
        let limits = drawn.limits.unwrap();
        let mugs = limits.prizes[0].total.as_ref().unwrap();
        assert_eq!((mugs.used, mugs.remaining), (2, Some(0)));
        let stats = GetStatsRequest {
            campaign_id: "capped".into(),
        };
        let stats = server.campaigns().await.get_stats(stats).await;
        let stats = stats.unwrap().into_inner();
        assert!(stats.balanced && stats.prizes[0].unlimited, "{stats:#?}");
    }
}

/// A budget of 3 for a day, and cups of 1 each.
const BUDGETED: &str = "
id: budgeted
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
budget: {perDay: {currencyCode: CNY, units: 3}}
prizes: [{id: cup, unlimited: true, value: {currencyCode: CNY, units: 1}}]
pools: [{id: deck, deck: {size: 1, cards: {cup: 1}, onExhausted: RESHUFFLE}}]
";
/// Each user wins a cup with the fifth draw at the latest.
const PERSONAL: &str = "
id: personal
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: cup, unlimited: true}]
pools:
  - id: own
    personal: {odds: {cup: 10%}, guarantees: [{id: soon, prizes: [cup], within: 5}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn budgets_and_personal_pools_are_accepted_only_after_the_upgrade_to_format_6() {
    let house = House::with(&[]);
    restore(&house.redis, FORMAT_5).await;
    let server = start(&house).serve();
    goes_on(&server).await;
    // What format 5 knows is accepted.
    let directory = tempfile::tempdir().unwrap();
    let apply = |name: &str, campaign: &str| {
        let path = directory.path().join(name);
        fs::write(&path, campaign).unwrap();
        server.run(&["apply", path.to_str().unwrap()])
    };
    apply("capped", CAPPED).well();
    let words = ["UPGRADE_NEEDED", "tombola upgrade --finish"];
    apply("budgeted", BUDGETED).badly(1, &words);
    apply("personal", PERSONAL).badly(1, &words);
    for key in OWN {
        // The older service has stopped; the test clock still shows the time of its last probe.
        house.redis.command(&["HDEL", key, "reader:5"]);
    }
    upgrade(&house, "--finish").well();
    apply("budgeted", BUDGETED).well();
    apply("personal", PERSONAL).well();
    let mut lottery = server.lottery().await;
    let mut wins = async |campaign: &str| {
        let five = DrawRequest {
            count: 5,
            ..request(campaign, "u", "all")
        };
        let drawn = lottery.draw(five).await.unwrap().into_inner();
        let results = drawn.results.iter();
        results
            .filter(|result| result.outcome() == Outcome::Won)
            .count()
    };
    assert_eq!(wins("budgeted").await, 3);
    assert!(wins("personal").await >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_older_services_to_stop() {
    let house = House::with(&[]);
    restore(&house.redis, "0.1-forks").await;
    let last = house.redis.command(&["HGET", OWN[1], "last"]);
    let last: u64 = last.parse().unwrap();
    let clock = |micros: u64| {
        let moment = jiff::Timestamp::from_microsecond(micros.cast_signed()).unwrap();
        format!("--clock-start {moment}")
    };
    // It reads format 2, and its last probe was at the time of the last entry.
    let probed = last.to_string();
    house.redis.command(&["HSET", OWN[1], "reader:2", &probed]);
    let finish = |micros: u64| {
        let mut command = tombola(["upgrade", "--finish", "--redis-url", &house.redis.url()]);
        command
            .args(PARTITIONS.split(' '))
            .args(clock(micros).split(' '));
        Ended::of(&mut command)
    };
    finish(last + 50_000_000).badly(1, &["format 2", "replace all services", "a minute"]);
    assert_eq!(formats(&house), ["2", "2"], "no partition is upgraded");
    finish(last + 61_000_000).well();
    assert_eq!(
        formats(&house),
        [Upgrade::FORMAT.to_string(), Upgrade::FORMAT.to_string()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_too_old_for_the_data_does_nothing() {
    let house = House::with(&[]);
    start(&house).init().well();
    let server = start(&house).serve();
    let noted = format!("reader:{}", Upgrade::FORMAT);
    for key in OWN {
        until("it notes its format", || {
            !house.redis.command(&["HGET", key, &noted]).is_empty()
        });
    }
    let newer = (Upgrade::FORMAT + 1).to_string();
    for key in OWN {
        house.redis.command(&["HSET", key, "min_reader", &newer]);
    }
    healthy(&server, NotServing).await;
    let mut lottery = server.lottery().await;
    let refused = lottery.draw(request("none", "u", "r")).await.unwrap_err();
    assert_not_executed(&refused, Code::Unavailable);
    server.says("replace it by the newer version");
    let words = ["reads only up to format", "run the newer version"];
    start(&house).fail().badly(1, &words);
    upgrade(&house, "--finish").badly(1, &words);
    let ours = Upgrade::FORMAT.to_string();
    for key in OWN {
        house.redis.command(&["HSET", key, "min_reader", &ours]);
    }
    healthy(&server, Serving).await;
}

/// Makes a database from a dump.
fn restore_embedded(directory: &Path, version: &str) {
    let db = Connection::open(directory.join("tombola.sqlite3")).unwrap();
    db.execute_batch(&dump(version, "sql")).unwrap();
}

/// A start that is refused does not upgrade the data.
fn is_left_alone(house: &House) {
    let start = house.embedded();
    let schema = || -> u32 {
        let db = Connection::open(start.data.join("tombola.sqlite3")).unwrap();
        let sql = "SELECT user_version FROM pragma_user_version";
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let before = schema();
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("other.key").display().to_string();
    Ended::of(&mut tombola(["key", "generate", &key])).well();
    let other_key = house.embedded().with(&format!("--master-key {key}"));
    other_key.fail().badly(1, &["master key is not the one"]);
    let other_clock = Start {
        clock: None,
        ..house.embedded()
    };
    other_clock.fail().badly(1, &["--clock-start"]);
    assert_eq!(schema(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_data_are_upgraded_and_drawn_from() {
    for version in FORMAT_2.into_iter().chain([FORMAT_3, FORMAT_4, FORMAT_5]) {
        let house = House::with(&[]); // for its key
        let start = house.embedded();
        restore_embedded(start.data, version);
        is_left_alone(&house);
        let server = start.serve();
        goes_on(&server).await;
        if ![FORMAT_4, FORMAT_5].contains(&version) {
            an_old_block_has_no_note(&server, true).await;
        }
    }
}
