use std::sync::mpsc::Receiver;

use rusqlite::ffi;
use tokio::sync::oneshot;

use super::*;
use crate::store::{
    Store as _,
    clock::SystemClock,
    sqlite::{Options, SqliteStore, forget::ForgetCommand, job::job},
};

/// Work that says that it has begun, and makes the writer itself panic once it may go on.
struct Fatal {
    has_begun: Option<oneshot::Sender<()>>,
    may_go_on: Receiver<()>,
}

impl Job for Fatal {
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

    fn run(&mut self, _step: &mut Step<'_>) -> bool {
        self.has_begun.take().unwrap().send(()).unwrap();
        self.may_go_on.recv().unwrap();
        true
    }

    fn answer(self: Box<Self>, _commit: Result<(), &StoreError>) {
        panic!("as a test wants it");
    }
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

#[tokio::test]
async fn a_writer_that_is_gone_fails_all_calls_and_is_not_serving() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options {
        directory: directory.path().into(),
        clock: Arc::new(SystemClock),
        request_memory: Duration::from_secs(60),
        key_fingerprint: "key".into(),
    })
    .unwrap();
    store.now().await.unwrap();
    let (go_on, may_go_on) = std::sync::mpsc::channel();
    let (begun, has_begun) = oneshot::channel();
    let fatal = Fatal {
        has_begun: Some(begun),
        may_go_on,
    };
    store.inbox.push(Box::new(fatal)).unwrap();
    has_begun.await.unwrap();
    let (behind, answer) = job(ForgetCommand);
    store.inbox.push(behind).unwrap();
    go_on.send(()).unwrap();
    assert_eq!(executed(&answer.await.unwrap()), Executed::No);
    assert_eq!(executed(&store.submit(ForgetCommand).await), Executed::No);
    assert_eq!(executed(&store.now().await), Executed::No);
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

/// Sets how far entries are trimmed, and tells how far they were before.
struct Trim {
    to: Option<u64>,
    is_sound: bool,
    found: u64,
    answer: oneshot::Sender<u64>,
}

impl Job for Trim {
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
        self.found = step.core.trimmed;
        step.core.trimmed = self.to.unwrap_or(self.found);
        self.is_sound
    }

    fn answer(self: Box<Self>, _commit: Result<(), &StoreError>) {
        self.answer.send(self.found).unwrap();
    }
}

#[tokio::test]
async fn a_command_that_fails_does_not_make_trimming_begin_anew() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options {
        directory: directory.path().into(),
        clock: Arc::new(SystemClock),
        request_memory: Duration::from_secs(60),
        key_fingerprint: "key".into(),
    })
    .unwrap();
    let trim = async |to, is_sound| {
        let (answer, found) = oneshot::channel();
        let job = Trim {
            to,
            is_sound,
            found: 0,
            answer,
        };
        store.inbox.push(Box::new(job)).unwrap();
        found.await.unwrap()
    };
    assert_eq!(trim(Some(7), true).await, 0);
    assert_eq!(trim(Some(9), false).await, 7, "it is rolled back");
    assert_eq!(trim(None, true).await, 7);
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
    let store = SqliteStore::open(Options {
        directory: directory.path().into(),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        request_memory: Duration::from_secs(60),
        key_fingerprint: "key".into(),
    })
    .unwrap();
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
