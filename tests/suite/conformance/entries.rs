//! Entries are enough to replay every step (P3).

use sha2::{Digest as _, Sha256};
use tombola::{
    chance::Nonce,
    model::{PoolNo, PrizeNo, convert, zone},
    store::entry::{Applied, Body},
};

use crate::support::{World, audit, hours};

promises![the_entry_of_a_version_has_all_that_its_steps_depend_on,];

/// The entries of versions, in order.
async fn versions(world: &World) -> Vec<Applied> {
    let entries = audit::ledger(&**world.store()).await.into_iter();
    let versions = entries.filter_map(|entry| match entry.body {
        Body::Applied(applied) => Some(*applied),
        _ => None,
    });
    versions.collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

async fn the_entry_of_a_version_has_all_that_its_steps_depend_on(world: &mut World) {
    let total = |units: u32| {
        format!(
            "
            endTime: 2026-11-20T10:00:00+08:00
            prizes: [{{id: coupon, stock: 1000}}]
            pools: [{{id: hours, schedule: {{total: {{coupon: {units}}}}}}}]
            "
        )
    };
    let campaign = world.begin(&total(100)).await;
    world.tick().await;
    world.set_time(campaign.start + hours(3)).await;
    world.tick().await;
    let injected: u64 = world
        .windows()
        .await
        .iter()
        .map(|it| it.prizes[0].1.injected)
        .sum();
    world.change(&total(500)).await;
    let [first, second] = &versions(world).await[..] else {
        panic!("two versions were applied");
    };
    let store = world.store();
    let view = store.campaign(&campaign.id).await.unwrap();
    for applied in [first, second] {
        let definition = from_hex(&applied.definition);
        let version = store.version(&campaign.id, applied.version).await.unwrap();
        assert_eq!(convert::decode(&definition).unwrap(), *version);
        let digest = Sha256::digest(&definition);
        assert_eq!(digest[..], from_hex(&applied.definition_sha256));
        assert_eq!(Nonce::from_hex(&applied.nonce), Some(view.nonce));
        assert_eq!(*applied.commitment, *view.commitment);
        assert_eq!(applied.time_zones, zone::database_version());
        assert!(applied.test_clock);
    }
    let coupon = |applied: &Applied| {
        let [(PoolNo(0), totals)] = &applied.totals[..] else {
            panic!("{applied:?}");
        };
        (totals.revision, totals.from, totals.remaining[&PrizeNo(0)])
    };
    assert_eq!(coupon(first), (1, campaign.start, 100));
    let horizon = campaign.start + hours(4);
    assert_eq!(coupon(second), (2, horizon, 500 - injected));
}
