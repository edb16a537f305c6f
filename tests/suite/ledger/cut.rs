//! A settler that is cut off between any two of its steps, once by the death of its process and
//! once by that of its connection, loses nothing and settles nothing twice.

use std::{
    collections::BTreeMap,
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
    chance::Salt,
    ledger::{
        DirectoryTarget, PostgresUrl, Sink, SinkError,
        contradiction::Contradiction,
        settle::Carrier,
        sink::{Batch, Cursor},
    },
    store::Store,
};

use super::{
    Database, Seen,
    place::Place,
    settle_all,
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
    /// The batch is made, and not written.
    Made,
    /// It is written, and the settler does not know it.
    Written,
    Committed,
    GivenUp,
}

/// A sink that is cut off before or after its first batch is written.
struct Cut {
    sink: Box<dyn Sink>,
    after: Step,
    reached: Arc<Notify>,
}

impl Cut {
    async fn at(&mut self, step: Step) {
        if self.after == step {
            self.reached.notify_one();
            pending::<()>().await;
        }
    }
}

#[async_trait]
impl Sink for Cut {
    fn batch_entries(&self) -> usize {
        self.sink.batch_entries()
    }

    fn trims(&self) -> bool {
        self.sink.trims()
    }

    async fn is_leader(&mut self) -> Result<bool, SinkError> {
        self.sink.is_leader().await
    }

    async fn cursors(&mut self) -> Result<BTreeMap<u32, Cursor>, SinkError> {
        self.sink.cursors().await
    }

    async fn write(
        &mut self,
        before: Option<&Cursor>,
        batch: &Arc<Batch>,
    ) -> Result<Option<Cursor>, SinkError> {
        self.at(Step::Made).await;
        let written = self.sink.write(before, batch).await;
        self.at(Step::Written).await;
        written
    }

    async fn salt(&mut self, partition: u32, campaign: &str) -> Result<Option<Salt>, SinkError> {
        self.sink.salt(partition, campaign).await
    }

    async fn has_entry(&mut self, partition: u32, sequence: u64) -> Result<bool, SinkError> {
        self.sink.has_entry(partition, sequence).await
    }

    async fn quarantine(&mut self, contradiction: &Contradiction) -> Result<(), SinkError> {
        self.sink.quarantine(contradiction).await
    }

    async fn end_quarantine(&mut self, partition: u32) -> Result<(), SinkError> {
        self.sink.end_quarantine(partition).await
    }
}

/// All of them. A store's own file gives entries up with the batch that it writes.
const ALL_STEPS: [Step; 5] = [
    Step::Read,
    Step::Made,
    Step::Written,
    Step::Committed,
    Step::GivenUp,
];
const STEPS_OF_ITS_OWN_FILE: [Step; 3] = [Step::Read, Step::Made, Step::Written];

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
async fn settle_until(after: Step, store: &Arc<dyn Store>, place: &Place) {
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
    let mut sink = Cut {
        sink: place.open(&store).await,
        after,
        reached: reached.clone(),
    };
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
    "UPDATE tombola.cursors SET next_sequence",
    "COPY tombola.entries",
    "COMMIT",
];

/// A text that no statement has.
const NEVER: &str = "SELECT 'never'";

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
    port_while(Arc::new(AtomicBool::new(true)), text, when, server).await
}

/// The same as long as connections are cut at all; later ones go on.
pub async fn port_while(
    is_cut: Arc<AtomicBool>,
    text: &'static str,
    when: When,
    server: u16,
) -> (u16, Arc<Notify>) {
    let passed = Arc::new(Notify::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let notice = passed.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let notice = notice.clone();
            let text = match is_cut.load(Ordering::SeqCst) {
                true => text,
                false => NEVER,
            };
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
                    // The server does all that it was sent, and then ends the connection. What it
                    // answers, to this statement and to those before, the client never gets.
                    server.shutdown().await.unwrap();
                    return server.read_to_end(&mut Vec::new()).await.is_ok();
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

/// Cuts a settler into this place off after each of these steps.
async fn cut_off_after_each(world: &World, place: &Place, steps: &[Step], seen: &mut Seen) {
    let store = world.store().clone();
    for (round, after) in (100..).zip(steps) {
        draws(world, round).await;
        seen.look(&*store).await;
        settle_until(*after, &store, place).await;
    }
}

/// A place that is no connection: every step of the settler, twice.
async fn is_settled_once_whenever_the_settler_ends(world: World, place: Place, steps: &[Step]) {
    world.begin(YAML).await;
    world.tick().await;
    let mut seen = Seen::default();
    for _ in 0..2 {
        cut_off_after_each(&world, &place, steps, &mut seen).await;
    }
    let (mut carrier, mut sink) = place.settler(world.store()).await;
    seen.look(&**world.store()).await;
    settle_all(&mut carrier, &mut *sink).await;
    seen.assert_settled(&place.entries().await);
}

async fn is_settled_once_whenever_it_is_cut_off(world: World) {
    let database = Database::new().await;
    world.begin(YAML).await;
    world.tick().await;
    let (store, url) = (world.store().clone(), database.url());
    let place = Place::Postgres(database);
    let mut seen = Seen::default();
    let mut round = 0;
    // So that the cursor's row is there, and each statement passes.
    let (mut carrier, mut sink) = settler(&store, &url).await;
    draws(&world, round).await;
    seen.look(&*store).await;
    settle_all(&mut carrier, &mut sink).await;
    for _ in 0..2 {
        cut_off_after_each(&world, &place, &ALL_STEPS, &mut seen).await;
        for text in STATEMENTS {
            for when in [When::Before, When::After] {
                round += 1;
                draws(&world, round).await;
                seen.look(&*store).await;
                settle_until_cut(text, when, &store, place.database()).await;
            }
        }
    }
    let (mut carrier, mut sink) = settler(&store, &url).await;
    settle_all(&mut carrier, &mut sink).await;
    seen.assert_settled(&place.entries().await);
    let sum =
        "SELECT sum(entries)::bigint - (SELECT count(*) FROM tombola.entries) FROM tombola.cursors";
    assert_eq!(place.number(sum).await, 0);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_settled_once_into_its_own_file_whenever_the_settler_ends() {
    let world = World::new(Embedded::new()).await;
    let place = Place::own_file(&world);
    is_settled_once_whenever_the_settler_ends(world, place, &STEPS_OF_ITS_OWN_FILE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_settled_once_into_files_whenever_the_settler_ends() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::Directory(DirectoryTarget {
        path: directory.path().into(),
        file_bytes_max: 100_000,
    });
    let world = World::new(OnRedis::single().undivided()).await;
    is_settled_once_whenever_the_settler_ends(world, place, &ALL_STEPS).await;
}
