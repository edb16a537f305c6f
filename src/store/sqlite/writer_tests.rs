use std::{
    env,
    mem::ManuallyDrop,
    path::Path,
    process::Command,
    sync::{
        OnceLock,
        mpsc::{Sender, channel},
    },
};

use rusqlite::ffi;
use tokio::sync::oneshot;

use super::*;
use crate::store::{
    Store as _,
    clock::SystemClock,
    sqlite::{Options, SqliteStore, forget::ForgetCommand, job::job},
};

/// The variable by which a test that runs itself in a child process names the child's data.
const CHILD_DATA: &str = "TOMBOLA_TEST_CHILD_DATA";
/// Set in the child process once its process may end.
static SEEN: OnceLock<()> = OnceLock::new();

fn open(directory: &Path, clock: Arc<dyn Clock>) -> SqliteStore {
    SqliteStore::open(Options {
        directory: directory.into(),
        clock,
        request_memory: Duration::from_secs(60),
        key_fingerprint: "key".into(),
    })
    .unwrap()
}

/// Work that goes before other work.
struct Work<T, R, A> {
    /// Says whether it succeeded, and what to answer.
    run: R,
    /// What the last run said.
    outcome: Option<T>,
    answer: A,
}

impl<T, R, A> Job for Work<T, R, A>
where
    T: Send,
    R: FnMut(&mut Step<'_>) -> (bool, T) + Send,
    A: FnOnce(T) + Send,
{
    fn may_be_refused(&self) -> bool {
        false
    }

    fn is_hot(&self) -> bool {
        true
    }

    fn units(&self) -> usize {
        1
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn run(&mut self, step: &mut Step<'_>) -> bool {
        let (is_sound, outcome) = (self.run)(step);
        self.outcome = Some(outcome);
        is_sound
    }

    fn answer(self: Box<Self>, _commit: Result<(), &StoreError>) {
        (self.answer)(self.outcome.unwrap());
    }
}

/// Hands work to the writer.
fn push<T: Send + 'static>(
    store: &SqliteStore,
    run: impl FnMut(&mut Step<'_>) -> (bool, T) + Send + 'static,
    answer: impl FnOnce(T) + Send + 'static,
) {
    let outcome = None;
    let work = Work {
        run,
        outcome,
        answer,
    };
    store.inbox.push(Box::new(work)).unwrap();
}

/// Hands work to the writer, and returns the channel that its answer comes from.
fn ask<T: Send + 'static>(
    store: &SqliteStore,
    run: impl FnMut(&mut Step<'_>) -> (bool, T) + Send + 'static,
) -> oneshot::Receiver<T> {
    let (reply, answer) = oneshot::channel();
    // An error means that the test has failed.
    push(store, run, move |outcome| {
        reply.send(outcome).ok();
    });
    answer
}

/// Keeps the writer at work until something is sent. Then the answer may make the writer itself
/// panic.
async fn hold(store: &SqliteStore, is_fatal: bool) -> Sender<()> {
    let (go_on, may_go_on) = channel();
    let (begun, has_begun) = oneshot::channel();
    let mut begun = Some(begun);
    let wait = move |_: &mut Step<'_>| {
        begun.take().unwrap().send(()).unwrap();
        // An error means that the test has failed.
        may_go_on.recv().ok();
        (true, ())
    };
    push(store, wait, move |()| {
        assert!(!is_fatal, "as a test wants it");
    });
    has_begun.await.unwrap();
    go_on
}

fn executed<T: std::fmt::Debug>(answer: &Result<T, StoreError>) -> Executed {
    match answer {
        Err(StoreError::Unavailable { executed, detail }) => {
            assert!(detail.contains("restart the service"), "{detail}");
            *executed
        }
        other => panic!("{other:?}"),
    }
}

/// The test runs itself in a child process, which is the one that ends.
#[tokio::test]
async fn a_writer_that_panics_ends_the_process() {
    if let Some(data) = env::var_os(CHILD_DATA) {
        return panic_and_fail_all_calls(Path::new(&data)).await;
    }
    let data = tempfile::tempdir().unwrap();
    let name = "store::sqlite::writer::tests::a_writer_that_panics_ends_the_process";
    let ended = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD_DATA, data.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    // A child whose assertions fail ends with 101.
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("the process ends"), "{said}");
}

/// The calls are answered before the process ends.
async fn panic_and_fail_all_calls(data: &Path) {
    ending::say_by(|words| {
        eprintln!("{words}");
        SEEN.wait();
    });
    // If an assertion fails, nobody may wait for the writer, which waits for the test.
    let store = ManuallyDrop::new(open(data, Arc::new(SystemClock)));
    store.now().await.unwrap();
    let go_on = hold(&store, true).await;
    let (behind, answer) = job(ForgetCommand);
    store.inbox.push(behind).unwrap();
    go_on.send(()).unwrap();
    assert_eq!(executed(&answer.await.unwrap()), Executed::No);
    assert_eq!(executed(&store.submit(ForgetCommand).await), Executed::No);
    assert_eq!(executed(&store.now().await), Executed::No);
    SEEN.set(()).unwrap();
    drop(ManuallyDrop::into_inner(store)); // waits for the writer
}

#[test]
fn a_write_that_failed_is_distinguished_from_a_sync_that_failed() {
    let failed = |code| {
        let error = ffi::Error::new(code);
        is_failed_write(&rusqlite::Error::SqliteFailure(error, None))
    };
    for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_WRITE] {
        assert!(failed(code), "{code}");
    }
    for code in [
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_IOERR_SHMSIZE,
        ffi::SQLITE_IOERR,
        ffi::SQLITE_CORRUPT,
        ffi::SQLITE_BUSY,
    ] {
        assert!(!failed(code), "{code}");
    }
}

#[tokio::test]
async fn a_command_that_fails_does_not_make_trimming_begin_anew() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Arc::new(SystemClock));
    // Sets how far entries are trimmed, and tells how far they were before.
    let trim = async |to: Option<u64>, is_sound| {
        let set = move |step: &mut Step<'_>| {
            let found = step.core.trimmed;
            step.core.trimmed = to.unwrap_or(found);
            (is_sound, found)
        };
        ask(&store, set).await.unwrap()
    };
    assert_eq!(trim(Some(7), true).await, 0);
    assert_eq!(trim(Some(9), false).await, 7, "it is rolled back");
    assert_eq!(trim(None, true).await, 7);
}

/// A clock that goes on whenever it is read, which the writer does once for each transaction.
struct Counting(AtomicI64);

impl Clock for Counting {
    fn now(&self) -> Moment {
        Moment::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn is_test(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn commands_around_one_that_fails_share_a_transaction_before_it_and_one_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Arc::new(Counting(AtomicI64::new(1))));
    let go_on = hold(&store, false).await;
    let mut answers = Vec::new();
    for is_sound in [true, true, false, true, false, true, true] {
        let run = move |step: &mut Step<'_>| (is_sound, step.now);
        answers.push(ask(&store, run));
    }
    go_on.send(()).unwrap();
    let mut moments = Vec::new();
    for at in answers {
        moments.push(at.await.unwrap());
    }
    assert!(moments.is_sorted(), "{moments:?}");
    assert_eq!(moments[0], moments[1]);
    assert_eq!(moments[5], moments[6]);
    moments.dedup();
    assert_eq!(moments.len(), 5, "each one that fails is alone in the end");
}

/// A clock like that of a machine, which may be set.
struct Settable(AtomicI64);

impl Settable {
    fn set(&self, minutes: i64) {
        self.0.store(minutes * 60_000_000, Ordering::Relaxed);
    }
}

impl Clock for Settable {
    fn now(&self) -> Moment {
        Moment::from_micros(self.0.load(Ordering::Relaxed))
    }

    fn is_test(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn time_that_stands_still_is_told_until_it_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(Settable(AtomicI64::new(0)));
    clock.set(100);
    let store = open(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>);
    store.submit(ForgetCommand).await.unwrap();
    assert_eq!(store.standing_still(), []);
    let until = clock.now();
    clock.set(90);
    let still = store.standing_still();
    assert_eq!(
        still.iter().map(|one| one.until).collect::<Vec<_>>(),
        [until]
    );
    clock.set(100);
    assert_eq!(store.standing_still(), []);
}
