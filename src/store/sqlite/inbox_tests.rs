use std::sync::{Arc, atomic::AtomicUsize};

use super::*;
use crate::store::sqlite::step::Step;

const TARGET: Duration = Duration::from_millis(5);

/// A draw, or other work, that counts how often it was refused.
struct Fake {
    is_hot: bool,
    is_abandoned: bool,
    may_be_refused: bool,
    units: usize,
    refused: Arc<AtomicUsize>,
}

impl Job for Fake {
    fn is_hot(&self) -> bool {
        self.is_hot
    }

    fn units(&self) -> usize {
        self.units
    }

    fn may_be_refused(&self) -> bool {
        self.may_be_refused
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    fn run(&mut self, _step: &mut Step<'_>) -> bool {
        true
    }

    fn answer(self: Box<Self>, commit: Result<(), &StoreError>) {
        assert_eq!(commit, Err(&StoreError::Overloaded));
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

fn draw(refused: &Arc<AtomicUsize>) -> Box<Fake> {
    Box::new(Fake {
        is_hot: true,
        is_abandoned: false,
        may_be_refused: true,
        units: 1,
        refused: Arc::clone(refused),
    })
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn work(of_draw: Duration) -> Work {
    Work {
        time: of_draw,
        draws: 1.0,
    }
}

/// A queue that gets `each` draws a millisecond, and whose batches take 4 ms each.
fn run(each: usize, target: Option<Duration>) -> (Waiting, Duration, usize) {
    let (begun, refused) = (Instant::now(), Arc::default());
    let mut waiting = Waiting {
        delay: target.map(DelayControl::new).unwrap_or_default(),
        work: work(Duration::from_micros(10)),
        ..Waiting::default()
    };
    let (mut longest, mut done) = (Duration::ZERO, 0);
    for at in 1..2000 {
        for _ in 0..each {
            waiting
                .hot
                .push_back(Queued(begun + ms(at), draw(&refused)));
            waiting.units += 1;
        }
        if at.is_multiple_of(4) {
            let now = begun + ms(at);
            let (batch, _) = waiting.take(now);
            done += batch.len();
            if at > 1000 {
                let waits = batch.iter().map(|queued| now - queued.0);
                longest = longest.max(waits.max().unwrap_or_default());
            }
        }
    }
    (waiting, longest, done)
}

#[test]
fn more_draws_than_fit_are_dropped_once_the_queue_stands_and_work_goes_on() {
    // 500 fit into a batch, so 125 a millisecond.
    let (waiting, longest, done) = run(375, Some(TARGET));
    assert_eq!(done, 499 * 500);
    assert!(longest <= TARGET * 2 + ms(4), "{longest:?}");
    assert!(
        waiting.delay.is_too_long(waiting.time()),
        "{:?}",
        waiting.time()
    );
    let (waiting, longest, _) = run(375, None);
    assert!(longest > ms(500), "{longest:?}");
    assert!(!waiting.delay.is_too_long(waiting.time()));
}

#[test]
fn what_fits_is_not_dropped() {
    let (waiting, longest, done) = run(120, Some(TARGET));
    assert!(longest <= ms(4), "{longest:?}");
    assert_eq!(done + waiting.hot.len(), 120 * 1999);
    assert!(!waiting.delay.is_too_long(waiting.time()));
}

#[test]
fn a_batch_has_as_many_draws_as_it_has_time_for() {
    let refused = Arc::default();
    let mut waiting = Waiting {
        delay: DelayControl::new(TARGET),
        work: work(Duration::from_micros(100)),
        ..Waiting::default()
    };
    let now = Instant::now();
    for _ in 0..300 {
        waiting.hot.push_back(Queued(now, draw(&refused)));
        waiting.units += 1;
    }
    assert_eq!(waiting.take(now).0.len(), 100);
    waiting.work = work(Duration::from_secs(1));
    assert_eq!(waiting.take(now).0.len(), BATCH_UNITS_MIN);
    waiting.delay = DelayControl::default();
    assert_eq!(waiting.take(now).0.len(), 300 - 100 - BATCH_UNITS_MIN);
    assert_eq!(waiting.units, 0);
}

#[test]
fn small_batches_do_not_make_draws_seem_slow() {
    let mut work = Work::default();
    assert_eq!(work.of_draw(), Duration::ZERO);
    for _ in 0..20 {
        work.note(1, ms(10));
        work.note(99, ms(12));
    }
    let of_draw = work.of_draw();
    assert!(
        (ms(22) / 120..ms(22) / 80).contains(&of_draw),
        "{of_draw:?}"
    );
}

#[test]
fn a_queue_takes_the_time_of_its_batches() {
    let mut waiting = Waiting {
        delay: DelayControl::new(TARGET),
        work: work(Duration::from_micros(100)),
        ..Waiting::default()
    };
    let begun = Instant::now();
    // Each draw alone in its batch, which takes 8 ms.
    for at in 0..40 {
        let now = begun + ms(8 * at);
        waiting.hot.push_back(Queued(now, draw(&Arc::default())));
        waiting.units += 1;
        waiting.take(now);
    }
    let rest = waiting.rest;
    assert!((ms(7)..ms(8)).contains(&rest), "{rest:?}");
    // All of these are one batch, and with one more they are two.
    for (units, batches) in [(100, 1), (101, 2)] {
        waiting.units = units;
        let work = Duration::from_micros(100) * units as u32;
        assert_eq!(waiting.time(), work + rest * batches);
    }
}

#[test]
fn a_large_job_is_taken_beside_other_work_and_holds_up_nobody() {
    let refused = Arc::default();
    let other = |is_hot, units| Fake {
        is_hot,
        units,
        may_be_refused: false,
        ..*draw(&refused)
    };
    let now = Instant::now();
    let queued = |job: Fake| Queued(now, Box::new(job) as Box<dyn Job>);
    let mut waiting = Waiting::default();
    // While two others hand in work one after the other, some always waits.
    waiting
        .slow
        .extend([(); 3].map(|()| queued(other(false, 1))));
    let large = BATCH_UNITS_MAX + 100;
    waiting.hot.push_back(queued(other(true, large)));
    waiting.hot.push_back(Queued(now, draw(&refused)));
    waiting.units = large + 1;
    let mut next = || {
        let (batch, _) = waiting.take(now);
        let units = batch
            .iter()
            .filter(|it| it.1.is_hot())
            .map(|it| it.1.units());
        (batch.len(), units.sum::<usize>())
    };
    assert_eq!([next(), next(), next()], [(2, large), (2, 1), (1, 0)]);
}

#[test]
fn what_nobody_awaits_leaves_and_other_work_is_never_dropped() {
    let refused: Arc<AtomicUsize> = Arc::default();
    let inbox = Inbox::default();
    inbox.bound_delay(TARGET);
    for (is_hot, is_abandoned) in [(true, true), (false, true), (false, false), (true, false)] {
        let refused = Arc::clone(&refused);
        let job = Fake {
            is_hot,
            is_abandoned,
            may_be_refused: is_hot,
            units: 1,
            refused,
        };
        assert_eq!(inbox.push(Box::new(job)), Ok(()));
    }
    let batch = inbox.next_batch().unwrap();
    let hot: Vec<bool> = batch.iter().map(|job| job.is_hot()).collect();
    assert_eq!(hot, [false, true]);
    inbox.close();
    assert!(inbox.next_batch().is_none());
    assert_eq!(refused.load(Ordering::Relaxed), 0);
}

#[test]
fn what_operators_and_the_injector_do_is_taken_however_long_draws_wait() {
    let (mut waiting, _, _) = run(375, Some(TARGET));
    let refused = Arc::default();
    let refund = Fake {
        may_be_refused: false,
        ..*draw(&refused)
    };
    let now = waiting.hot.back().unwrap().0 + ms(100);
    waiting
        .hot
        .push_front(Queued(now - ms(100), Box::new(refund)));
    waiting.units += 1;
    let (batch, dropped) = waiting.take(now);
    assert!(!batch[0].1.may_be_refused());
    assert!(!dropped.is_empty());
    assert!(dropped.iter().all(|queued| queued.1.may_be_refused()));
}
