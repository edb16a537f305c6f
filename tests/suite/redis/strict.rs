//! `--durability strict`: no acknowledgement before replicas have the write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{runtime::Handle, task::block_in_place};
use tombola::{
    model::Moment,
    store::{
        CancelEnvelope, Durability, Executed, Operation, ProposeCommand, Proposed, Result,
        StoreError, WinOperation,
        clock::{Clock as _, SystemClock},
        redis::{CheckError, Connections, Fault, FaultKind, LevelOptions, Script, check},
    },
};

use super::{COUNT, assert_kind, connections};
use crate::support::{
    Answer as _, DrawWords as _, World, author, draw, envelope, envelope_id, hours,
    network::Link,
    on_redis::OnRedis,
    plain_replicas::{with_replicas, with_replicas_of},
    program::Program,
    redis_server::{RedisServer, until},
    replicated::Replicated,
    request, user,
    words::campaign_id,
};

fn now() -> Moment {
    SystemClock.now()
}

async fn write(connections: &Connections) -> std::result::Result<::redis::Value, Fault> {
    let script = Script::new(&[COUNT]);
    connections
        .write(&script, &["n"].into(), &["1"].into())
        .await
}

/// The problems that the checks find on the server.
async fn problems(connections: &Connections) -> Vec<String> {
    match check(connections, Durability::Strict, now()).await {
        Err(CheckError::Unfit(problems)) => problems,
        other => panic!("{other:?}"),
    }
}

/// Redis 7.0 knows only `WAIT`, the others `WAITAOF`.
#[tokio::test]
async fn a_write_is_acknowledged_only_once_a_replica_has_it() {
    for program in Program::ALL {
        acknowledges_once_a_replica_has_it(program).await;
    }
}

async fn acknowledges_once_a_replica_has_it(program: Program) {
    let servers = with_replicas_of(program, 1, &[]);
    let connections = connections(&servers[0].url()).confirming(None);
    check(&connections, Durability::Strict, now())
        .await
        .unwrap();
    write(&connections).await.unwrap();
    assert_eq!(servers[1].command(&["GET", "n"]), "1");

    servers[1].freeze();
    let fault = write(&connections).await.unwrap_err();
    let words = ["0 replicas confirmed, 1 needed", "same request id"];
    assert_kind(&fault, FaultKind::Unconfirmed, &words);
    assert_eq!(fault.executed, Executed::Unknown);

    servers[1].thaw();
    write(&connections).await.unwrap();
    assert_eq!(servers[1].command(&["GET", "n"]), "3");
}

#[tokio::test]
async fn more_replicas_are_waited_for_when_so_named() {
    let servers = with_replicas(2, &[]);
    let all = connections(&servers[0].url()).confirming(Some(2));
    let majority = connections(&servers[0].url()).confirming(None);
    for connections in [&all, &majority] {
        check(connections, Durability::Strict, now()).await.unwrap();
        write(connections).await.unwrap();
    }
    servers[2].freeze();
    write(&majority).await.unwrap();
    let fault = write(&all).await.unwrap_err();
    assert_kind(
        &fault,
        FaultKind::Unconfirmed,
        &["1 replicas confirmed, 2 needed"],
    );
    servers[2].thaw();
    let three = connections(&servers[0].url()).confirming(Some(3));
    let found = problems(&three).await;
    assert!(
        found[0].contains("--ack-replicas is 3, but it has 2"),
        "{found:?}"
    );
}

/// Replicas need longer than the pauses between two questions, and meanwhile others write.
#[tokio::test(flavor = "multi_thread")]
async fn slow_replicas_confirm_while_others_write() {
    for program in Program::ALL {
        let servers = Replicated::start(program, 2);
        let connections = connections(&servers.url()).confirming(None);
        check(&connections, Durability::Strict, now())
            .await
            .unwrap();
        servers.link_replicas(0, Link::Slow(Duration::from_millis(300)));
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    servers.nodes[0].server.command(&["INCR", "others"]);
                }
            });
            let written = block_in_place(|| Handle::current().block_on(write(&connections)));
            is_done.store(true, Ordering::Relaxed);
            written.unwrap_or_else(|fault| panic!("{program:?}: {fault}"));
        });
    }
}

#[tokio::test]
async fn a_server_without_replicas_is_refused() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url()).confirming(None);
    let found = problems(&connections).await;
    assert!(found[0].contains("it has no replica"), "{found:?}");
    assert!(found[0].contains("--durability local"), "{found:?}");
    let fault = write(&connections).await.unwrap_err();
    assert_kind(&fault, FaultKind::NoReplicas, &["bring them back"]);
    assert_eq!(fault.executed, Executed::No);
}

#[tokio::test]
async fn replicas_that_keep_less_or_differ_are_refused() {
    let servers = with_replicas(2, &[]);
    let connections = connections(&servers[0].url()).confirming(None);
    servers[1].command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    servers[2].command(&["CONFIG", "SET", "appendonly", "no"]);
    servers[2].command(&["CONFIG", "SET", "replica-priority", "50"]);
    let found = problems(&connections).await;
    let replica = |index: usize| format!("its replica 127.0.0.1:{}", servers[index].port());
    for words in [
        format!("{} has appendfsync everysec", replica(1)),
        format!("{} has appendonly no", replica(2)),
        "differ in replica-priority (100, 50)".to_owned(),
    ] {
        assert!(
            found.iter().any(|text| text.contains(&words)),
            "{words}: {found:?}"
        );
    }
    assert_eq!(found.len(), 3, "{found:?}");
}

const YAML: &str = "
    limits: {drawsPerDay: 2}
    prizes: [{id: coupon, stock: 500}]
    pools: [{id: deck, deck: {size: 1000, cards: {coupon: 500}}}]
";

/// A world at this level on the first of these servers.
async fn strict_world(servers: Vec<RedisServer>) -> (World, Arc<Vec<RedisServer>>) {
    let (url, servers) = (servers[0].url(), Arc::new(servers));
    let host = OnRedis::at(&url, servers.clone());
    let host = host.keeping(Durability::Strict, LevelOptions::default());
    (World::new(host).await, servers)
}

#[track_caller]
fn unavailable<T: std::fmt::Debug>(answer: Result<T>, wanted: Executed) {
    match answer {
        Err(StoreError::Unavailable { executed, detail }) => {
            assert_eq!(executed, wanted, "{detail}");
            assert!(
                detail.contains("0 replicas confirmed, 1 needed"),
                "{detail}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Redis 7.0 waits for all that was written, the others only for what the connection wrote itself.
/// There, only the barrier makes them wait for what is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_repeats_an_earlier_one_is_as_durable() {
    for program in Program::ALL {
        repeats_what_a_replica_has(program).await;
    }
}

async fn repeats_what_a_replica_has(program: Program) {
    let (world, servers) = strict_world(with_replicas_of(program, 1, &[])).await;
    world.begin(YAML).await;
    let first = world.draw(draw("u").named("first")).await;
    assert_eq!(world.store().durability(), Durability::Strict);
    servers[1].freeze();
    // The first response of this draw is lost, so its retries must not promise more than is stored.
    unavailable(
        world.try_draw(draw("u").named("second")).await,
        Executed::Unknown,
    );
    unavailable(
        world.try_draw(draw("u").named("second")).await,
        Executed::Unknown,
    );
    let (id, user) = (campaign_id("spring"), user("u"));
    let found = world
        .store()
        .find_draw(&id, &user, &request("second"))
        .await;
    unavailable(found, Executed::No);
    // A refusal depends on nothing that was written.
    let refused = world.try_draw(draw("u").named("third")).await;
    assert!(
        matches!(refused, Err(StoreError::Refused(_))),
        "{refused:?}"
    );

    servers[1].thaw();
    let again = world.draw(draw("u").named("first")).await;
    assert!(again.replayed);
    assert_eq!(again.ledger, first.ledger);
    let second = world.draw(draw("u").named("second")).await;
    assert!(second.replayed);
    until("the replica has all", || {
        let size = |server: &RedisServer| server.command(&["DBSIZE"]);
        size(&servers[0]) == size(&servers[1])
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_repeats_is_as_durable() {
    for program in Program::ALL {
        repeats_steps_that_a_replica_has(program).await;
    }
}

async fn repeats_steps_that_a_replica_has(program: Program) {
    let (world, servers) = strict_world(with_replicas_of(program, 1, &[])).await;
    world.begin(YAML).await;
    let mut drawn = world.draw(draw("u0")).await;
    for number in 1.. {
        if drawn.wins() > 0 {
            break;
        }
        drawn = world.draw(draw(&format!("u{number}"))).await;
    }
    let win = drawn.won_units().remove(0);
    let pause = || world.operate_as("pause", Operation::Pause);
    // Another request with the same reference repeats the delivery, too.
    let deliver = || {
        let reference = "parcel".into();
        world.try_operate_win(&win, WinOperation::Deliver { reference })
    };
    let propose = || {
        let mut author = author("propose");
        author.authenticated = true;
        world.store().propose(ProposeCommand {
            campaign: campaign_id("spring"),
            base_version: 1,
            proposed: Proposed::Operation(Operation::Close),
            ttl: hours(24),
            author,
        })
    };
    let asked = envelope("gift", 1000, 10);
    let create = || world.try_create(&asked);
    world.create(&envelope("old", 1000, 10)).await;
    let cancel = || {
        world.injector().cancel_envelope(CancelEnvelope {
            envelope: envelope_id("old"),
            author: author("cancel"),
        })
    };

    servers[1].freeze();
    // The first response of each is lost, so its retries must not promise more than is stored.
    for _ in 0..2 {
        unavailable(pause().await, Executed::Unknown);
        unavailable(deliver().await, Executed::Unknown);
        unavailable(propose().await, Executed::Unknown);
        unavailable(create().await, Executed::Unknown);
        unavailable(cancel().await, Executed::Unknown);
    }
    servers[1].thaw();
    assert!(pause().await.unwrap().replayed);
    assert!(deliver().await.unwrap().replayed);
    assert!(propose().await.unwrap().replayed);
    assert!(create().await.unwrap().replayed);
    assert!(cancel().await.unwrap().replayed);
}
