//! Versions of a campaign: no change is lost to another one, none breaks what was promised, and no
//! id is used twice.

use tombola::store::{Operation, Refusal, StoreError};

use crate::support::{World, author, campaign, draw};

promises![
    a_change_of_a_version_that_is_not_current_is_refused,
    of_parallel_changes_of_one_version_one_is_made,
    a_new_campaign_never_replaces_one_of_its_id,
    a_closed_campaign_takes_no_new_version,
    an_ended_campaign_takes_no_new_version,
    stock_may_not_be_lowered,
    what_a_touched_campaign_promised_stays,
    an_untouched_campaign_may_change,
    no_version_ends_before_it_comes_into_force,
    a_change_sent_again_is_answered_again,
    every_version_is_kept,
];

const YAML: &str = "
    prizes: [{id: coupon, stock: 100}, {id: mug, stock: 100}]
    pools:
      - {id: hours, schedule: {perHour: {mug: 0}, total: {coupon: 5}}}
      - {id: deck, deck: {size: 100, cards: {coupon: 50}}}
";

/// The campaign with this stock, which makes it another version.
fn with_stock(coupons: u32) -> String {
    YAML.replace("coupon, stock: 100", &format!("coupon, stock: {coupons}"))
}

/// Asserts that a change is refused and changes nothing.
async fn refused(world: &World, yaml: &str, base: u32) -> Refusal {
    let stock = async || -> Vec<u64> {
        let prizes = world.stats().await.prizes;
        prizes.iter().map(|prize| prize.stock).collect()
    };
    let before = (world.ledger_length().await, stock().await);
    let error = world.try_apply(campaign(yaml), base).await.unwrap_err();
    let after = (world.ledger_length().await, stock().await);
    assert_eq!(after, before, "{error}");
    match error {
        StoreError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

async fn a_change_of_a_version_that_is_not_current_is_refused(world: &mut World) {
    world.begin(YAML).await;
    assert_eq!(world.change(&with_stock(200)).await.version, 2);
    for named in [1, 3] {
        let stale = Refusal::VersionStale { named, current: 2 };
        assert_eq!(refused(world, &with_stock(300), named).await, stale);
    }
    let missing = world.try_apply(
        campaign(
            "
        id: autumn
        prizes: [{id: coupon, stock: 1}]
        pools: [{id: deck, deck: {cards: {coupon: 1}}}]
    ",
        ),
        1,
    );
    let stale = Refusal::VersionStale {
        named: 1,
        current: 0,
    };
    assert_eq!(missing.await, Err(StoreError::Refused(stale)));
}

async fn of_parallel_changes_of_one_version_one_is_made(world: &mut World) {
    world.begin(YAML).await;
    let made = crate::support::all_of(20, |i| {
        let world = world.clone();
        let yaml = with_stock(200 + u32::try_from(i).unwrap());
        async move { world.try_apply(campaign(&yaml), 1).await.is_ok() }
    });
    let made = made.await.into_iter().filter(|made| *made).count();
    assert_eq!(made, 1);
}

async fn a_new_campaign_never_replaces_one_of_its_id(world: &mut World) {
    world.begin(YAML).await;
    let stale = Refusal::VersionStale {
        named: 0,
        current: 1,
    };
    assert_eq!(refused(world, YAML, 0).await, stale);
    assert_eq!(refused(world, &with_stock(200), 0).await, stale);
}

async fn a_closed_campaign_takes_no_new_version(world: &mut World) {
    world.begin(YAML).await;
    world.operate(Operation::Close).await;
    world.tick().await;
    assert_eq!(refused(world, &with_stock(200), 1).await, Refusal::Closed);
    let again = refused(world, YAML, 0).await;
    assert!(
        matches!(again, Refusal::Closed | Refusal::VersionStale { .. }),
        "{again}"
    );
}

async fn an_ended_campaign_takes_no_new_version(world: &mut World) {
    let campaign = world.begin(YAML).await;
    world.set_time(campaign.end).await;
    let later = format!(
        "{}\n    endTime: 2027-01-20T00:00:00+08:00",
        with_stock(200)
    );
    refused(world, &later, 1).await;
    world.tick().await;
    refused(world, &later, 1).await;
}

async fn stock_may_not_be_lowered(world: &mut World) {
    world.begin(&with_stock(200)).await;
    world.draw(draw("u")).await;
    let paths = changed(world, &with_stock(199)).await;
    assert_eq!(paths, ["prizes[0].stock"]);
}

async fn what_a_touched_campaign_promised_stays(world: &mut World) {
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    for (was, is) in [
        ("size: 100", "size: 101"),
        ("cards: {coupon: 50}", "cards: {coupon: 49}"),
        ("50}}", "50}, onExhausted: RESHUFFLE}"),
        ("id: deck", "id: heap"),
        ("id: mug", "grand: true, id: mug"),
        (
            "deck: {size: 100, cards: {coupon: 50}}",
            "schedule: {total: {coupon: 50}}",
        ),
    ] {
        let changed_yaml = YAML.replace(was, is);
        assert_ne!(changed_yaml, YAML);
        let paths = changed(world, &changed_yaml).await;
        assert!(!paths.is_empty(), "{is}");
    }
    for line in [
        "timeZone: Europe/Berlin",
        "startTime: 2026-11-20T00:00:01+08:00",
        "endTime: 2026-12-19T00:00:00+08:00",
    ] {
        let paths = changed(world, &format!("{YAML}\n    {line}")).await;
        let (path, _) = line.split_once(':').unwrap();
        assert_eq!(paths, [path]);
    }
}

async fn an_untouched_campaign_may_change(world: &mut World) {
    world.try_apply(campaign(YAML), 0).await.unwrap();
    let other = YAML.replace("size: 100", "size: 300");
    world
        .change(&format!("{other}\n    timeZone: Europe/Berlin"))
        .await;
    world
        .change(&format!(
            "{}\n    limits: {{drawsPerDay: 1}}",
            with_stock(200)
        ))
        .await;
}

async fn no_version_ends_before_it_comes_into_force(world: &mut World) {
    world.try_apply(campaign(YAML), 0).await.unwrap();
    world.at("2026-11-19T00:00:00+08:00").await;
    let over = format!(
        "{YAML}\n    startTime: 2026-11-17T00:00:00+08:00\n    endTime: 2026-11-18T00:00:00+08:00"
    );
    let end = campaign(&over).end;
    assert_eq!(refused(world, &over, 1).await, Refusal::Ended(end));
}

async fn a_change_sent_again_is_answered_again(world: &mut World) {
    world.begin(YAML).await;
    let send = async |yaml: &str, base: u32| {
        let injector = world.injector();
        injector
            .apply(campaign(yaml), base, author("apply-1"))
            .await
    };
    let first = send(&with_stock(200), 1).await.unwrap();
    world.change(&with_stock(300)).await;
    let again = send(&with_stock(200), 1).await.unwrap();
    assert!(!first.replayed && again.replayed);
    assert_eq!((again.version, again.ledger), (2, first.ledger));
    let other = send(&with_stock(400), 1).await.unwrap_err();
    assert_eq!(other, StoreError::Refused(Refusal::RequestIdReused));
    assert_eq!(world.prize("coupon").await.stock, 300);
}

async fn every_version_is_kept(world: &mut World) {
    let first = world.begin(YAML).await;
    world.change(&with_stock(200)).await;
    world.reopen().await;
    assert_eq!(world.store().version(&first.id, 1).await.unwrap(), first);
    let second = world.store().version(&first.id, 2).await.unwrap();
    assert_eq!(second, campaign(&with_stock(200)));
    let none = world.store().version(&first.id, 3).await.unwrap_err();
    assert_eq!(none, StoreError::Refused(Refusal::VersionNotFound(3)));
    let view = world.store().campaign(&first.id).await.unwrap();
    let numbers: Vec<_> = view.versions.iter().map(|info| info.version).collect();
    assert_eq!(numbers, [1, 2]);
}

/// The paths of the fields that may not change.
async fn changed(world: &World, yaml: &str) -> Vec<String> {
    match refused(world, yaml, 1).await {
        Refusal::ChangeRefused(problems) => problems.0.into_iter().map(|p| p.path).collect(),
        other => panic!("{other}"),
    }
}
