//! A settler that is cut off between any two of its steps, once by the death of its process and
//! once by that of its connection, loses nothing and settles nothing twice.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tombola::{
    ledger::{PostgresSink, PostgresUrl, settle::Carrier},
    store::Store,
};

use super::{
    Database, Seen, settle_all,
    settled::{YAML, draws},
    settler,
};
use crate::support::world::key;
use crate::support::{
    Meddler, World, between::Between, embedded::Embedded, on_redis::OnRedis, postgres::Postgres,
};

/// A step after which nothing more happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    Committed,
    GivenUp,
}

/// Stops the settler there for good, as its death does: in its first batch, not where it resumes
/// what one before it has left.
struct Stop {
    after: Step,
    has_read: AtomicBool,
    reached: Arc<Notify>,
}

impl Stop {
    async fn at(&self, step: Step) {
        if self.after == step && self.has_read.load(Ordering::SeqCst) {
            self.reached.notify_one();
            pending::<()>().await;
        }
    }
}

#[async_trait]
impl Meddler for Stop {
    async fn after_unsettled(&self) {
        self.has_read.store(true, Ordering::SeqCst);
        self.at(Step::Read).await;
    }

    async fn before_trim(&self) {
        self.at(Step::Committed).await;
    }

    async fn after_trim(&self) {
        self.at(Step::GivenUp).await;
    }
}

/// Settles until this step; what is not done then never is.
async fn settle_until(after: Step, store: &Arc<dyn Store>, url: &PostgresUrl) {
    let reached = Arc::new(Notify::new());
    let meddler = Stop {
        after,
        has_read: AtomicBool::new(false),
        reached: reached.clone(),
    };
    let store: Arc<dyn Store> = Arc::new(Between {
        store: store.clone(),
        meddler,
    });
    let mut sink = PostgresSink::open(url, &store.info().store_id)
        .await
        .unwrap();
    let mut carrier = Carrier::new(store, key());
    let work = async {
        // A settler begins by giving up what one before it has settled.
        carrier.resume(&mut sink).await.unwrap();
        settle_all(&mut carrier, &mut sink).await;
    };
    tokio::select! {
        () = work => panic!("{after:?} was not reached"),
        () = reached.notified() => {}
    }
}

/// Statements of the transaction that settles a batch, in order.
pub const STATEMENTS: [&str; 4] = [
    "FOR UPDATE",
    "UPDATE tombola.cursors",
    "COPY tombola.entries",
    "COMMIT",
];

/// When a connection is cut.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Before the server gets the statement.
    Before,
    /// After the server has done it, and before its answer arrives.
    After,
}

/// A port that leads to the server until this text passes, and the notice that it did.
pub async fn port_until(text: &'static str, when: When, server: u16) -> (u16, Arc<Notify>) {
    let passed = Arc::new(Notify::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let notice = passed.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let notice = notice.clone();
            tokio::spawn(async move {
                if lead(client, server, text, when).await {
                    notice.notify_one();
                }
            });
        }
    });
    (port, passed)
}

/// Passes on what both sides say until the text comes, or one of them closes; true if it came.
async fn lead(
    mut client: TcpStream,
    mut server: TcpStream,
    text: &'static str,
    when: When,
) -> bool {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(bytes @ 1..) = read else { return false };
                let request = &asked[..bytes];
                let is_it = request.windows(text.len()).any(|part| part == text.as_bytes());
                if is_it && matches!(when, When::Before) {
                    return true;
                }
                server.write_all(request).await.unwrap();
                if is_it {
                    // The answer means that it is done; the client never gets it.
                    return server.read(&mut answered).await.is_ok();
                }
            }
            read = server.read(&mut answered) => {
                let Ok(bytes @ 1..) = read else { return false };
                if client.write_all(&answered[..bytes]).await.is_err() {
                    return false;
                }
            }
        }
    }
}

/// Settles over a connection that is cut there.
async fn settle_until_cut(
    text: &'static str,
    when: When,
    store: &Arc<dyn Store>,
    database: &Database,
) {
    let (port, _) = port_until(text, when, database.server.port()).await;
    let url = Postgres::url_at(port, "postgres", &database.name);
    let (mut carrier, mut sink) = settler(store, &PostgresUrl::parse(&url).unwrap()).await;
    for partition in 0..store.info().partitions {
        if carrier.settle(&mut sink, partition).await.is_err() {
            return;
        }
    }
    panic!("`{text}` did not pass");
}

async fn is_settled_once_whenever_it_is_cut_off(world: World) {
    let database = Database::new().await;
    world.begin(YAML).await;
    world.tick().await;
    let (store, url) = (world.store().clone(), database.url());
    let mut seen = Seen::default();
    let mut round = 0;
    // So that the cursor's row is there, and each statement passes.
    let (mut carrier, mut sink) = settler(&store, &url).await;
    draws(&world, round).await;
    seen.look(&*store).await;
    settle_all(&mut carrier, &mut sink).await;
    for _ in 0..2 {
        for after in [Step::Read, Step::Committed, Step::GivenUp] {
            round += 1;
            draws(&world, round).await;
            seen.look(&*store).await;
            settle_until(after, &store, &url).await;
        }
        for text in STATEMENTS {
            for when in [When::Before, When::After] {
                round += 1;
                draws(&world, round).await;
                seen.look(&*store).await;
                settle_until_cut(text, when, &store, &database).await;
            }
        }
    }
    let (mut carrier, mut sink) = settler(&store, &url).await;
    settle_all(&mut carrier, &mut sink).await;
    seen.assert_settled(&database.entries().await);
    let sum =
        "SELECT sum(entries)::bigint - (SELECT count(*) FROM tombola.entries) FROM tombola.cursors";
    assert_eq!(database.number(sum).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_is_settled_once_whenever_the_settler_is_cut_off() {
    is_settled_once_whenever_it_is_cut_off(World::new(Embedded::new()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_redis_is_settled_once_whenever_the_settler_is_cut_off() {
    let host = OnRedis::single().undivided();
    is_settled_once_whenever_it_is_cut_off(World::new(host).await).await;
}
