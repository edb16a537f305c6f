//! Another program writes other values into our keys: the error names what cannot be read, nothing
//! is half done, and whatever does not need the key goes on.

use std::{collections::BTreeSet, time::Duration};

use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use tombola::{
    model::CampaignId,
    proto::{
        ApplyCampaignRequest, BlockUsersRequest, CheckLimitRequest, DrawRequest, GetDrawRequest,
        GetStatsRequest, GrantDrawsRequest, ListCampaignsRequest, PauseCampaignRequest,
        RecallUnitsRequest,
    },
    store::{Store as _, fill::PoolFilling},
};
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{House, Lottery, assert_not_executed, executed, healthy, request, store_at};
use crate::{
    faults::load,
    process::Server,
    support::{all_of, audit, redis_server::RedisServer},
};

pub(super) const CAMPAIGN: &str = "
id: one
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
consolation: {id: points, name: Points}
prizes: [{id: mug, stock: 9000000}, {id: cup, stock: 100000}]
pools:
  - {id: hours, schedule: {perHour: {mug: 500}}}
  - {id: deck, deck: {size: 1000, cards: {cup: 100}, onExhausted: RESHUFFLE}}
";

/// A service on one partition, with two campaigns to draw from.
pub(super) struct Stall {
    pub(super) house: House,
    pub(super) server: Server,
    pub(super) lottery: Lottery,
    drawn: usize,
}

impl Stall {
    pub(super) async fn new() -> Self {
        let house = House::with(&[]);
        house.start().with("--partitions 1").init().well();
        let server = house.start().with("--partitions 1").serve();
        for id in ["one", "two"] {
            let yaml = CAMPAIGN.replace("id: one", &format!("id: {id}"));
            load::apply_all(&server, &load::now_and_about_noon(&yaml)).await;
        }
        let lottery = server.lottery().await;
        let mut stall = Self {
            house,
            server,
            lottery,
            drawn: 0,
        };
        let block = block("one", "u-blocked");
        let mut campaigns = stall.server.campaigns().await;
        campaigns.block_users(block).await.unwrap();
        stall.until_dealt().await;
        stall.until_injected().await;
        stall
    }

    /// Draws until the decks are dealt, which needs keys that other draws do not. A first draw may
    /// take a unit of the schedule.
    async fn until_dealt(&mut self) {
        let store = store_at(&self.redis().url(), 1).await;
        for id in ["one", "two"] {
            let campaign = CampaignId::parse("id", id).unwrap();
            let is_dealt = async || {
                let filling = store.filling(&campaign).await.unwrap();
                let mut pools = filling.pools.iter();
                pools.any(|pool| matches!(pool, PoolFilling::Deck(deck) if deck.available > 0))
            };
            while !is_dealt().await {
                self.goes_on(id).await;
            }
        }
    }

    /// Waits until the service has nothing to inject for longer than a test takes: it needs keys
    /// that draws do not.
    async fn until_injected(&self) {
        const TEST_MAX: Duration = Duration::from_secs(60);
        let store = store_at(&self.redis().url(), 1).await;
        for id in ["one", "two"] {
            let id = CampaignId::parse("id", id).unwrap();
            let is_due = async || {
                let due = store.filling(&id).await.unwrap().due.unwrap();
                due <= store.now().await.unwrap() + TEST_MAX
            };
            while is_due().await {
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub(super) fn redis(&self) -> &RedisServer {
        &self.house.redis
    }

    pub(super) async fn goes_on(&mut self, campaign: &str) {
        self.drawn += 1;
        let id = format!("r-{}", self.drawn);
        let draw = request(campaign, "u-1", &id);
        let drawn = load::patiently(async || self.lottery.clone().draw(draw.clone()).await).await;
        drawn.unwrap_or_else(|status| panic!("{campaign} {id}: {status:?}"));
    }

    /// Puts a text into a key of ours, or into a key that does not exist yet. It is one step: what
    /// the service writes meanwhile would be gone.
    fn spoil(&self, key: &str) {
        const SPOIL: &str = "redis.pcall('RENAME', KEYS[1], 'kept') -- an error if there is none
                             return redis.call('SET', KEYS[1], 'x').ok";
        assert_eq!(self.redis().command(&["EVAL", SPOIL, "1", key]), "OK");
    }

    fn restore(&self, key: &str) {
        const RESTORE: &str = "local spoiled = redis.call('DEL', KEYS[1])
                               redis.pcall('RENAME', 'kept', KEYS[1])
                               return spoiled";
        assert_eq!(self.redis().command(&["EVAL", RESTORE, "1", key]), "1");
    }

    /// Asserts that an attempt is refused and writes nothing. Decks may be dealt meanwhile, so it
    /// may be repeated.
    pub(super) async fn refused(&self, what: &str, attempt: impl AsyncFn(usize) -> Status) {
        for number in 0..5 {
            let before = self.redis().digest();
            let status = attempt(number).await;
            assert_eq!(status.code(), Code::Internal, "{what}: {status:?}");
            assert_not_executed(&status, Code::Internal);
            if self.redis().digest() == before {
                return;
            }
        }
        panic!("{what}: refused, but something was written");
    }

    pub(super) async fn draw_is_refused(&self, what: &str) {
        self.refused(what, async |number| {
            let draw = request(
                "one",
                "u-1",
                &format!("{what}-{number}").replace(['{', '}'], "_"),
            );
            let drawn = self.lottery.clone().draw(draw).await;
            drawn.expect_err(what)
        })
        .await;
    }

    /// Draws from both campaigns in the same batches: only those of the second one are made.
    pub(super) async fn both_at_once(&self, what: &str) {
        let drawn = all_of(100, |number| {
            let campaign = if number % 2 == 0 { "one" } else { "two" };
            let id = format!("both-{what}-{number}").replace(['{', '}'], "_");
            let draw = request(campaign, "u-1", &id);
            let mut lottery = self.lottery.clone();
            async move { lottery.draw(draw).await }
        })
        .await;
        for pair in drawn.chunks(2) {
            assert_not_executed(pair[0].as_ref().unwrap_err(), Code::Internal);
            assert!(pair[1].is_ok(), "{what}: {pair:?}");
        }
    }

    /// The sums hold, and agree with the ledger.
    pub(super) async fn is_balanced(&self) {
        let store = store_at(&self.redis().url(), 1).await;
        audit::check(&store, &[]).await;
        for id in ["one", "two"] {
            let request = GetStatsRequest {
                campaign_id: id.into(),
            };
            let mut campaigns = self.server.campaigns().await;
            let stats = campaigns.get_stats(request).await.unwrap().into_inner();
            assert!(stats.balanced, "{stats:#?}");
        }
    }
}

fn block(campaign: &str, user: &str) -> BlockUsersRequest {
    BlockUsersRequest {
        campaign_id: campaign.into(),
        user_ids: vec![user.into()],
        operator: "faults".into(),
        ..Default::default()
    }
}

/// The hash of a user, as in key names.
fn hash(user: &str) -> String {
    format!("{:x}", Sha256::digest(user)[1] % 16)
}

/// The bucket of a user's older draws.
fn bucket(user: &str) -> String {
    let digest = Sha256::digest(user);
    format!("{:x}", u16::from_be_bytes([digest[0], digest[1]]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_that_meets_a_foreign_value_writes_nothing_and_other_campaigns_go_on() {
    let mut stall = Stall::new().await;
    let users = format!("tombola{{0}}:users:one:{}", hash("u-1"));
    assert_eq!(stall.redis().command(&["EXISTS", &users]), "1");
    for key in [
        "tombola{0}:campaign:one",
        &users,
        "tombola{0}:units:one:0:0",
        "tombola{0}:units:one:1:1",
        "tombola{0}:units:one:1:-1",
        "tombola{0}:wins:one:0",
        "tombola{0}:blocked:one",
    ] {
        stall.spoil(key);
        stall.draw_is_refused(key).await;
        if key == "tombola{0}:campaign:one" {
            // Later keys cause the same log line, which is written once a second.
            stall.server.says("hold something else than tombola wrote");
        }
        stall.goes_on("two").await;
        stall.both_at_once(key).await;
        stall.restore(key);
        stall.goes_on("one").await;
    }
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_extended_is_read_and_one_with_an_unknown_field_stops_its_user() {
    /// Extends the only record of a hash, which has counts below 128 and a latest draw.
    const EXTEND: &str = "
        local field = redis.call('HKEYS', KEYS[1])[1]
        local record = redis.call('HGET', KEYS[1], field)
        local a, b, c, free, drawn, won = string.byte(record, 1, 6)
        assert(c % 16 >= 10 and c % 16 < 12 and #redis.call('HKEYS', KEYS[1]) == 1)
        local head = string.char(a, b, c + 4, free, 0, drawn, 0, won, 0)
        local extension = struct.pack('>I2', #ARGV[1]) .. ARGV[1]
        redis.call('HSET', KEYS[1], field, head .. extension .. string.sub(record, 7))
        return 'OK'";
    let mut stall = Stall::new().await;
    let users = format!("tombola{{0}}:users:one:{}", hash("u-1"));
    let extend = |stall: &Stall, fields: &str| {
        let command = ["EVAL", EXTEND, "1", &users, fields];
        assert_eq!(stall.redis().command(&command), "OK");
    };
    stall.goes_on("one").await;
    let last = format!("r-{}", stall.drawn);
    extend(&stall, "");
    let again = stall.lottery.draw(request("one", "u-1", &last)).await;
    let found = GetDrawRequest {
        campaign_id: "one".into(),
        user_id: "u-1".into(),
        request_id: last,
    };
    let found = stall.lottery.get_draw(found.clone()).await.unwrap();
    let found = found.into_inner().draw.unwrap();
    assert_eq!(again.unwrap().into_inner(), found);
    assert!(found.replayed);
    stall.goes_on("one").await;

    stall.redis().command(&["COPY", &users, "kept"]);
    extend(&stall, "A\u{2}xy");
    stall.draw_is_refused("newer-field").await;
    let check = CheckLimitRequest {
        campaign_id: "one".into(),
        user_id: "u-1".into(),
        segments: Vec::new(),
    };
    let refused = stall.lottery.check_limit(check).await.unwrap_err();
    assert_not_executed(&refused, Code::Internal);
    stall
        .server
        .says("has field 65, which this version of tombola does not know");
    stall.goes_on("two").await;
    stall.redis().command(&["RENAME", "kept", &users]);
    stall.goes_on("one").await;
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_value_where_long_draws_are_remembered_stops_these_and_no_others() {
    let mut stall = Stall::new().await;
    let key = "tombola{0}:long:one";
    let long = |id: &str| DrawRequest {
        count: 100,
        ..request("one", "u-long", id)
    };
    let first = stall.lottery.clone().draw(long("q-1")).await.unwrap();
    stall.spoil(key);
    // The next draw would move the one before out of the user's record.
    let status = stall.lottery.clone().draw(long("q-2")).await.unwrap_err();
    assert_eq!(executed(&status), "no", "{status:?}");
    stall.goes_on("one").await;
    stall.goes_on("two").await;
    stall.restore(key);
    let second = stall.lottery.clone().draw(long("q-2")).await.unwrap();
    let again = stall.lottery.clone().draw(long("q-1")).await.unwrap();
    assert!(!second.get_ref().replayed && again.get_ref().replayed);
    assert_eq!(first.get_ref().results, again.get_ref().results);
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_value_where_older_draws_are_remembered_stops_these_and_no_others() {
    let mut stall = Stall::new().await;
    let key = format!("tombola{{0}}:older:one:{}", bucket("u-again"));
    let again = |id: &str| request("one", "u-again", id);
    let first = stall.lottery.clone().draw(again("q-1")).await.unwrap();
    stall.spoil(&key);
    // The next draw would move the one before into this key, as the first one ever.
    let status = stall.lottery.clone().draw(again("q-2")).await.unwrap_err();
    assert_eq!(executed(&status), "no", "{status:?}");
    stall.goes_on("one").await;
    stall.goes_on("two").await;
    stall.restore(&key);
    let second = stall.lottery.clone().draw(again("q-2")).await.unwrap();
    let replay = stall.lottery.clone().draw(again("q-1")).await.unwrap();
    assert!(!second.get_ref().replayed && replay.get_ref().replayed);
    assert_eq!(first.get_ref().results, replay.get_ref().results);
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_value_under_a_partition_s_own_keys_stops_the_partition_and_writes_nothing() {
    let mut stall = Stall::new().await;
    for key in ["tombola{0}:partition", "tombola{0}:ledger"] {
        stall.spoil(key);
        stall.draw_is_refused(key).await;
        stall.server.says("holds a wrong type under a key of ours");
        healthy(&stall.server, NotServing).await;
        stall.restore(key);
        stall.goes_on("one").await;
        stall.goes_on("two").await;
        healthy(&stall.server, Serving).await;
    }
    // Draws do not need these, but other calls do.
    for key in [
        "campaigns",
        "campaigns:due",
        "envelopes:open",
        "envelopes:settled",
        "envelopes:sums",
    ] {
        let key = format!("tombola{{0}}:{key}");
        stall.spoil(&key);
        healthy(&stall.server, NotServing).await;
        stall.server.says(&format!("{key} is of type string"));
        stall.goes_on("one").await;
        stall.restore(&key);
        healthy(&stall.server, Serving).await;
    }
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_is_no_number_stops_its_campaign_with_nothing_half_done() {
    let mut stall = Stall::new().await;
    let key = "tombola{0}:campaign:one";
    let counters = ["wins", "consolations", "won:0", "waiting:0:0", "users"];
    let foreign = ["x", "1.5", "nan"];
    for (counter, value) in counters
        .iter()
        .flat_map(|c| foreign.map(|value| (*c, value)))
    {
        let before = stall.redis().command(&["HGET", key, counter]);
        stall.redis().command(&["HSET", key, counter, value]);
        // It may be a counter that a draw does not use, or one that a draw increments.
        let draw = stall.lottery.draw(request("one", "u-new", "counted")).await;
        if draw.is_err() {
            stall.draw_is_refused(counter).await;
        }
        stall.redis().command(&["HSET", key, counter, &before]);
        if before.is_empty() {
            stall.redis().command(&["HDEL", key, counter]);
        }
        stall.goes_on("two").await;
    }
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_draw_does_not_need_does_not_stop_it() {
    let mut stall = Stall::new().await;
    for key in [
        "tombola{0}:campaigns",
        "tombola{0}:versions:one",
        "tombola{0}:operations:one",
        "tombola{0}:windows:one:0",
        "tombola{0}:ends:one:0",
    ] {
        stall.spoil(key);
        stall.goes_on("one").await;
        stall.restore(key);
    }
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_meets_a_foreign_value_writes_nothing() {
    let mut stall = Stall::new().await;
    let campaigns = stall.server.campaigns().await;
    let operator = || "faults".to_owned();
    let pause = async || {
        let request = PauseCampaignRequest {
            campaign_id: "one".into(),
            operator: operator(),
            ..Default::default()
        };
        campaigns.clone().pause_campaign(request).await.unwrap_err()
    };
    let grant = async || {
        let request = GrantDrawsRequest {
            campaign_id: "one".into(),
            user_ids: vec!["u-1".into(), "u-2".into()],
            draws: 3,
            operator: operator(),
            ..Default::default()
        };
        campaigns.clone().grant_draws(request).await.unwrap_err()
    };
    let block = async || {
        campaigns
            .clone()
            .block_users(block("one", "u-3"))
            .await
            .unwrap_err()
    };
    let recall = async || {
        let request = RecallUnitsRequest {
            campaign_id: "one".into(),
            pool_id: "hours".into(),
            operator: operator(),
            ..Default::default()
        };
        campaigns.clone().recall_units(request).await.unwrap_err()
    };
    let apply = async |yaml: String, base_version| {
        let yaml = load::now_and_about_noon(&yaml);
        let request = ApplyCampaignRequest {
            campaign: tombola::model::file::parse(&yaml)
                .unwrap()
                .into_iter()
                .next(),
            base_version,
            operator: operator(),
            ..Default::default()
        };
        campaigns.clone().apply_campaign(request).await.unwrap_err()
    };
    let change = async || apply(CAMPAIGN.replace("name: Points", "name: Thanks"), 1).await;
    let create = async || apply(CAMPAIGN.replace("id: one", "id: three"), 0).await;
    let list = async || {
        let request = ListCampaignsRequest::default();
        campaigns.clone().list_campaigns(request).await.unwrap_err()
    };
    let users = format!("users:one:{}", hash("u-2"));
    let mut seen = BTreeSet::new();
    macro_rules! refused {
        ($($key:expr => $($act:ident),+;)+) => { $(
            let key = format!("tombola{{0}}:{}", $key);
            stall.spoil(&key);
            $(
                let what = format!("{} of {key}", stringify!($act));
                stall.refused(&what, async |_| $act().await).await;
                seen.insert(stringify!($act));
            )+
            stall.restore(&key);
            stall.goes_on("one").await;
        )+ };
    }
    refused! {
        "partition" => pause, grant, block, recall, change, create, list;
        "ledger" => pause, grant, block, recall, change, create;
        "campaign:one" => pause, grant, block, recall, change;
        "operations:one" => pause, grant, block, recall, change;
        "versions:one" => change;
        users => grant;
        "blocked:one" => block;
        "blocks:one" => block;
        "campaigns" => create, list;
        "windows:one:0" => recall;
        "ends:one:0" => pause, recall;
        "campaign:three" => create;
        "versions:three" => create;
        "operations:three" => create;
    }
    assert_eq!(seen.len(), 7);
    stall.is_balanced().await;
}
