//! A rolling upgrade: replicas of one version take the place of those of another under load, on
//! data of an earlier format, which is then raised.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use tombola::store::redis::Upgrade;

use super::{
    DRAWS, FASTER, STOPPED, UNAVAILABLE, adds_up, callers::Callers, database, followers, load,
    options, ring::Ring, settling,
};
use crate::{
    deploy::times::Times,
    faults::{
        kill::setting,
        redis::{House, PARTITIONS},
    },
    formats::{self, FORMAT_3, OWN, restore},
    process::{Ended, NOW, Server, Start, alone, tombola},
};

/// How long ago the last older service must have said that it runs.
const RECENT: SignedDuration = SignedDuration::from_secs(60);
/// The format can be raised by then, once no older service runs any more.
const GONE_MAX: Duration = Duration::from_secs(120);

/// The number of partitions of the dumps.
const OF_DUMPS: u32 = 2;

fn format_of_all(house: &House) -> [String; 2] {
    formats::formats(house).try_into().unwrap()
}

/// `tombola upgrade --finish`, with the store's clock if it is a test clock.
fn finish(house: &House, more: &[String]) -> Ended {
    let mut command = tombola(["upgrade", "--finish", "--redis-url", &house.redis.url()]);
    Ended::of(command.args(more))
}

/// Notes in a partition that a service of format 3 said at this moment that it runs.
fn note_older_service(house: &House, at: Timestamp) {
    let micros = at.as_microsecond().to_string();
    house.redis.command(&["HSET", OWN[1], "reader:3", &micros]);
}

/// All replicas are ready, or none is.
fn all_become(ring: &Ring<'_>, status: u16) {
    for server in &ring.servers {
        server.admin().becomes("/readyz", status);
    }
}

/// The replicas are too old for the data for a while: they do nothing and say so, and a new one of
/// them ends at once. Then they go on.
fn too_old_for_a_while(house: &House, ring: &Ring<'_>, start: &Start<'_>) {
    let set = |format: u32| {
        for key in OWN {
            house
                .redis
                .command(&["HSET", key, "min_reader", &format.to_string()]);
        }
    };
    set(Upgrade::FORMAT + 1);
    all_become(ring, 503);
    for server in &ring.servers {
        server.says("replace it by the newer version");
    }
    start
        .fail()
        .badly(1, &["reads only up to format", "run the newer version"]);
    set(Upgrade::FORMAT);
    all_become(ring, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_format_is_raised_under_load_and_no_call_fails() {
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed}");
    let times = Times::of_production().faster(FASTER);
    let (house, database) = (House::with(&[]), database().await);
    restore(&house.redis, FORMAT_3).await;
    // The test clock of the dump goes on, more than a minute after its last probe.
    let dumped: Timestamp = NOW.parse().unwrap();
    let ahead = dumped.duration_since(Timestamp::now()) + 2 * RECENT;
    let now = || Timestamp::now() + ahead;
    let partitions = format!("--partitions {OF_DUMPS}");
    let at_now = || house.start().with(&partitions).at(now().to_string());
    let options = options(&times, &database);
    let at_now_with = || at_now().with(&options);
    let start = |listen: &str| {
        Start {
            listen,
            ..at_now_with()
        }
        .serve()
    };
    let finish = || {
        let partitions = OF_DUMPS.to_string();
        let clock = now().to_string();
        let more = ["--partitions", &partitions, "--clock-start", &clock];
        finish(&house, &more.map(str::to_owned))
    };
    let mut ring = Ring::start(times, start).await;
    load::apply(&ring.servers[0]).await;
    let callers = Callers::start_at(ring.endpoints(), seed, times.connection_age, ahead);
    let followers = followers(&ring, &[STOPPED, UNAVAILABLE]);
    callers.go_on(DRAWS).await;
    ring.replace_all(&callers).await;

    note_older_service(&house, now());
    finish().badly(1, &["format", "replace all services", "a minute"]);
    assert_eq!(
        format_of_all(&house),
        ["3", "3"],
        "no partition is upgraded"
    );
    callers.go_on(DRAWS).await;
    note_older_service(&house, now() - RECENT);
    let said = finish().well();
    let newest = Upgrade::FORMAT.to_string();
    let upgraded = format!("is upgraded from format 3 to {newest}");
    assert!(said.contains(&upgraded), "{said}");
    assert_eq!(format_of_all(&house), [newest.clone(), newest]);
    callers.go_on(DRAWS).await;
    ring.replace_all(&callers).await;
    tokio::task::block_in_place(|| too_old_for_a_while(&house, &ring, &at_now()));
    callers.go_on(DRAWS).await;

    eprintln!(
        "{} answers; repeated after: {:?}",
        callers.answers(),
        callers.repeated()
    );
    let last = at_now().with(&settling(&database)).serve();
    let all = (callers, followers);
    adds_up((&house.redis, OF_DUMPS), &database, &last, all).await;
}

/// Starts a server of the earlier version; its master key is in the directory.
fn older(program: &Path, house: &House, listen: &str) -> std::process::Command {
    let mut command = alone(program.to_str().unwrap());
    command
        .args(["serve", "--listen", listen, "--data"])
        .arg(house.data());
    command.args(["--redis-url", &house.redis.url()]);
    command
}

/// `TOMBOLA_OLDER_PROGRAM` is a version of format 3, 4 or 5.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the program of an earlier version: TOMBOLA_OLDER_PROGRAM names it"]
async fn an_earlier_version_is_replaced_under_load() {
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed}");
    let program = std::env::var_os("TOMBOLA_OLDER_PROGRAM").expect("TOMBOLA_OLDER_PROGRAM");
    let program = PathBuf::from(program);
    let times = Times::of_production().faster(FASTER);
    let (house, database) = (House::with(&[]), database().await);
    let mut init = alone(program.to_str().unwrap());
    init.args(["init", "--redis-url", &house.redis.url(), "--data"]);
    Ended::of(init.arg(house.data())).well();
    let options = options(&times, &database);
    let start_older = |listen: &str| Server::started_by(older(&program, &house, listen));
    let start_newer = |listen: &str| {
        let start = house.start().with(&options);
        Start { listen, ..start }.serve()
    };
    let mut ring = Ring::start(times, start_older).await;
    let format = format!("format {}", format_of_all(&house)[0]);
    load::apply_now(&ring.servers[0]).await;
    let callers = Callers::start(ring.endpoints(), seed, times.connection_age);
    callers.go_on(DRAWS).await;

    ring.start_by(start_newer);
    ring.replace_all(&callers).await;
    let followers = followers(&ring, &[STOPPED]);
    // Until the upgrade is finished one can go back.
    ring.start_by(start_older);
    ring.replace_one(&callers).await;
    finish(&house, &[]).badly(1, &[&format, "replace all services", "a minute"]);
    // The older one came last, so all are replaced.
    ring.start_by(start_newer);
    ring.replace_all(&callers).await;
    finish(&house, &[]).badly(1, &["a minute"]);
    let begun = Instant::now();
    while finish(&house, &[]).code != Some(0) {
        assert!(begun.elapsed() < GONE_MAX, "the last older service is gone");
        callers.go_on(DRAWS).await;
    }
    callers.go_on(DRAWS).await;
    let refused = Ended::of(&mut older(&program, &house, "127.0.0.1:0"));
    eprintln!("the earlier version says: {}", refused.stderr);
    refused.badly(1, &["format"]);
    ring.replace_all(&callers).await;

    eprintln!(
        "{} answers; repeated after: {:?}",
        callers.answers(),
        callers.repeated()
    );
    let last = house.start().with(&settling(&database)).serve();
    let all = (callers, followers);
    adds_up((&house.redis, PARTITIONS), &database, &last, all).await;
}
