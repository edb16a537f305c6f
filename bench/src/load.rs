//! The load generator: it calls a target in a closed loop or at a fixed rate, and records the
//! results. It knows nothing of what it calls.
//!
//! The generator shares the machine with what it measures, so it must be cheap: one thread per
//! core, each with its own runtime, connections, counters and histogram. A call takes no lock; the
//! results are merged at the end.
//!
//! At a fixed rate, a latency counts from the moment at which the call should have been sent. So
//! calls that a stall delayed count as late, as their users would see it (coordinated omission). In
//! a closed loop, it counts from the answer of the call before; if that failed, from the end of the
//! pause after it.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{
    sync::{
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        watch,
    },
    task::LocalSet,
};

use crate::{
    failure::Fault,
    record::{Answer, Record},
};

/// The largest number of calls in progress on a connection at a fixed rate: a service allows 1,024.
const OPEN_OUTSTANDING_MAX: usize = 1000;
/// At a fixed rate, calls that fall due within this time are sent together.
const PACE: Duration = Duration::from_micros(200);
/// The reason of calls that were not sent in time.
pub(crate) const NOT_SENT: &str = "NOT_SENT";
/// The reason of calls without an answer.
pub(crate) const NOT_ANSWERED: &str = "NOT_ANSWERED";

/// A target that can be called over connections.
pub(crate) trait Target: Send + Sync + 'static {
    /// A caller; clones share a connection.
    type Caller: Caller;
    /// Opens a connection.
    fn connect(&self) -> impl Future<Output = Result<Self::Caller, Fault>>;
}

/// A caller of a target.
pub(crate) trait Caller: Clone + 'static {
    /// How long the last calls of a round may take before they count as not answered: longer than a
    /// service lets a call take.
    const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);
    /// Makes the call with this number, which no other call has.
    fn call(&mut self, number: u64) -> impl Future<Output = Answer>;
}

/// How a target is called.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// Calls in progress on each connection, in a closed loop.
    pub(crate) outstanding: usize,
    /// Calls per second, for a fixed rate.
    pub(crate) rate: Option<u64>,
    pub(crate) time: Duration,
    /// The round ends early once this many calls were made, counted from the first round on.
    pub(crate) calls_max: u64,
}

/// Numbers for calls, in the order in which the calls begin on whatever thread: calls of one
/// envelope have numbers that follow each other, and so begin at about the same time.
#[derive(Debug, Default)]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    /// The next number below `end`; a number that is not below `end` stays unused.
    fn next(&self, end: u64) -> Option<u64> {
        let next = |number| (number < end).then_some(number + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
    }
}

fn shards(connections: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    cores.min(connections)
}

/// The state that all calls of one thread share.
struct Shard {
    plan: Plan,
    begun: Instant,
    numbers: Arc<Numbers>,
    stop: Arc<AtomicBool>,
    record: RefCell<Record>,
    under_way: Cell<u64>,
}

impl Shard {
    fn next(&self) -> Option<u64> {
        self.numbers.next(self.plan.calls_max)
    }

    /// Makes a call that counts from this moment; the moment from which the next one may count.
    async fn call<C: Caller>(&self, caller: &mut C, number: u64, from: Instant) -> Instant {
        self.under_way.set(self.under_way.get() + 1);
        let answer = caller.call(number).await;
        let failed = matches!(answer, Answer::Failed(_));
        let now = Instant::now();
        self.record.borrow_mut().note(answer, self.begun, from, now);
        self.under_way.set(self.under_way.get() - 1);
        if failed {
            // A caller that is refused at once waits a little, so that retries do not keep a core
            // busy. The pause is no part of its next call.
            tokio::time::sleep(Duration::from_millis(1)).await;
            return Instant::now();
        }
        now
    }
}

/// Stops the threads when the round is dropped.
struct Halt(Arc<AtomicBool>);

impl Drop for Halt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs one round.
///
/// # Errors
/// If a connection cannot be made.
pub(crate) async fn round<T: Target>(
    target: &Arc<T>,
    plan: &Plan,
    numbers: &Arc<Numbers>,
) -> Result<Record, Fault> {
    let halt = Halt(Arc::new(AtomicBool::new(false)));
    let (connected, mut connections) = mpsc::channel(1);
    let (ended, mut records) = mpsc::channel(1);
    let (begin, beginning) = watch::channel(None);
    let mut arrivals = Vec::new();
    let shards = shards(plan.connections);
    for index in 0..shards {
        let (sender, receiver) = mpsc::unbounded_channel();
        arrivals.push(sender);
        let (target, plan, numbers) = (Arc::clone(target), plan.clone(), Arc::clone(numbers));
        let (connected, ended) = (connected.clone(), ended.clone());
        let (beginning, stop) = (beginning.clone(), Arc::clone(&halt.0));
        thread::spawn(move || {
            let work = async {
                let mine = (index..plan.connections).step_by(shards);
                let callers = connect(&*target, mine.count()).await;
                let (callers, failed) = match callers {
                    Ok(callers) => (callers, None),
                    Err(fault) => (Vec::new(), Some(fault)),
                };
                connected.send(failed).await.ok()?;
                let begun = started(beginning).await?;
                let record = RefCell::new(Record::new(plan.time));
                let under_way = Cell::new(0);
                let shard = Shard {
                    plan,
                    begun,
                    numbers,
                    stop,
                    record,
                    under_way,
                };
                Some(work(callers, Rc::new(shard), receiver).await)
            };
            let record = runtime().map(|runtime| LocalSet::new().block_on(&runtime, work));
            // If the round was dropped, nobody listens.
            drop(ended.blocking_send(record));
        });
    }
    drop((connected, ended));
    for _ in 0..shards {
        let failed = connections
            .recv()
            .await
            .ok_or("a thread of the load ended")?;
        failed.map_or(Ok(()), Err)?;
    }
    let begun = Instant::now();
    begin
        .send(Some(begun))
        .map_err(|_| "the threads of the load ended")?;
    if let Some(rate) = plan.rate {
        let (plan, stop) = (plan.clone(), Arc::clone(&halt.0));
        thread::spawn(move || pace(rate, &plan, begun, &arrivals, &stop));
    }
    let mut all = Record::new(plan.time);
    while let Some(record) = records.recv().await {
        all.merge(&record?.ok_or("a thread of the load ended early")?);
    }
    if plan.calls_max < u64::MAX {
        all.time = all.time.min(begun.elapsed());
    }
    Ok(all)
}

fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

async fn connect<T: Target>(target: &T, connections: usize) -> Result<Vec<T::Caller>, Fault> {
    let mut callers = Vec::with_capacity(connections);
    for _ in 0..connections {
        callers.push(target.connect().await?);
    }
    Ok(callers)
}

async fn started(mut beginning: watch::Receiver<Option<Instant>>) -> Option<Instant> {
    let begun = beginning.wait_for(Option::is_some).await.ok()?;
    *begun
}

/// Makes the calls of one thread, and waits for the last answer.
async fn work<C: Caller>(
    callers: Vec<C>,
    shard: Rc<Shard>,
    arrivals: UnboundedReceiver<(u64, u64)>,
) -> Record {
    let mut tasks = tokio::task::JoinSet::new();
    if shard.plan.rate.is_some() {
        tasks.spawn_local(open(callers, Rc::clone(&shard), arrivals));
    } else {
        for caller in callers {
            for _ in 0..shard.plan.outstanding {
                tasks.spawn_local(closed(caller.clone(), Rc::clone(&shard)));
            }
        }
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    let time_max = shard.plan.time.saturating_add(C::ANSWER_TIME_MAX);
    let ended = tokio::time::timeout(time_max, all).await;
    let mut record = shard.record.borrow().clone();
    if ended.is_err() {
        record.fail(NOT_ANSWERED, shard.under_way.get());
    }
    record
}

/// Makes one call after the other, and at least one, so that even the shortest round has a result.
async fn closed<C: Caller>(mut caller: C, shard: Rc<Shard>) {
    let mut from = Instant::now();
    let end = shard.begun + shard.plan.time;
    while let Some(number) = shard.next() {
        from = shard.call(&mut caller, number, from).await;
        if from >= end || shard.stop.load(Ordering::Relaxed) {
            break;
        }
    }
}

/// Makes calls as they fall due, each in a task. If too many are in progress, further calls wait,
/// and the wait counts as latency.
async fn open<C: Caller>(
    callers: Vec<C>,
    shard: Rc<Shard>,
    mut arrivals: UnboundedReceiver<(u64, u64)>,
) {
    let rate = shard.plan.rate.unwrap_or(1).max(1);
    let waiting: Rc<RefCell<VecDeque<u64>>> = Rc::default();
    let under_way_max = (callers.len() * OPEN_OUTSTANDING_MAX) as u64;
    let mut tasks = tokio::task::JoinSet::new();
    let mut turn = 0;
    while let Some((first, count)) = arrivals.recv().await {
        for arrival in first..first + count {
            if shard.under_way.get() >= under_way_max {
                waiting.borrow_mut().push_back(arrival);
                continue;
            }
            turn = (turn + 1) % callers.len();
            let (mut caller, shard) = (callers[turn].clone(), Rc::clone(&shard));
            let waiting = Rc::clone(&waiting);
            // Counted here, so that the bound holds before the task has run.
            shard.under_way.set(shard.under_way.get() + 1);
            tasks.spawn_local(async move {
                shard.under_way.set(shard.under_way.get() - 1);
                let mut next = Some(arrival);
                while let Some(arrival) = next.filter(|_| !shard.stop.load(Ordering::Relaxed)) {
                    let Some(number) = shard.next() else { break };
                    shard
                        .call(&mut caller, number, intended(shard.begun, arrival, rate))
                        .await;
                    next = waiting.borrow_mut().pop_front();
                }
            });
        }
        while tasks.try_join_next().is_some() {}
    }
    let left = waiting.borrow_mut().drain(..).count() as u64;
    shard.record.borrow_mut().fail(NOT_SENT, left);
    while tasks.join_next().await.is_some() {}
}

/// The moment at which this arrival's call should be sent.
fn intended(begun: Instant, arrival: u64, rate: u64) -> Instant {
    begun + Duration::from_nanos((u128::from(arrival) * 1_000_000_000 / u128::from(rate)) as u64)
}

/// Sends the number of due calls to the threads, at a fixed rate, until the round ends.
fn pace(
    rate: u64,
    plan: &Plan,
    begun: Instant,
    shards: &[UnboundedSender<(u64, u64)>],
    stop: &AtomicBool,
) {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let due = |time: Duration| (u128::from(nanos(time)) * u128::from(rate) / 1_000_000_000) as u64;
    let all = due(plan.time);
    let (mut sent, mut turn) = (0, 0);
    while sent < all && !stop.load(Ordering::Relaxed) {
        // The first call is sent at once, the last one before the end of the round.
        let now = (due(begun.elapsed()) + 1).min(all);
        let each = (now - sent).div_ceil(shards.len() as u64).max(1);
        while sent < now {
            let count = each.min(now - sent);
            turn = (turn + 1) % shards.len();
            if shards[turn].send((sent, count)).is_err() {
                return;
            }
            sent += count;
        }
        let next = intended(begun, sent, rate).saturating_duration_since(Instant::now());
        thread::sleep(next.max(PACE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(calls_max: u64) -> Plan {
        Plan {
            connections: 3,
            outstanding: 4,
            rate: None,
            time: Duration::from_secs(60),
            calls_max,
        }
    }

    /// A target that answers at once: every fifth call fails, and every third of the others wins.
    #[derive(Clone)]
    struct Counting;

    impl Target for Counting {
        type Caller = Self;

        async fn connect(&self) -> Result<Self, Fault> {
            Ok(self.clone())
        }
    }

    impl Caller for Counting {
        async fn call(&mut self, number: u64) -> Answer {
            match number {
                number if number.is_multiple_of(5) => Answer::Failed("FIFTH".into()),
                number if number.is_multiple_of(3) => Answer::Won,
                _ => Answer::Done,
            }
        }
    }

    #[tokio::test]
    async fn every_number_is_called_once_over_all_rounds() {
        let target = Arc::new(Counting);
        let numbers = Arc::new(Numbers::default());
        let first = round(&target, &plan(100), &numbers).await.unwrap();
        let second = round(&target, &plan(300), &numbers).await.unwrap();
        assert_eq!((first.calls, second.calls), (100, 200));
        assert_eq!(first.failures() + second.failures(), 60);
        assert_eq!(first.wins + second.wins, 80);
        assert_eq!(first.latencies.len() + first.failures(), first.calls);
    }

    /// A target of which every second call fails; the others are answered at once.
    #[derive(Clone)]
    struct Failing;

    impl Target for Failing {
        type Caller = Self;

        async fn connect(&self) -> Result<Self, Fault> {
            Ok(self.clone())
        }
    }

    impl Caller for Failing {
        async fn call(&mut self, number: u64) -> Answer {
            match number.is_multiple_of(2) {
                true => Answer::Failed("EVEN".into()),
                false => Answer::Done,
            }
        }
    }

    #[tokio::test]
    async fn the_pause_after_a_failure_is_no_latency() {
        let plan = Plan {
            connections: 1,
            outstanding: 1,
            ..plan(100)
        };
        let record = round(&Arc::new(Failing), &plan, &Arc::default()).await;
        let record = record.unwrap();
        assert_eq!(record.latencies.len(), 50);
        // Each answered call came after a pause of a millisecond.
        assert!(record.latencies.min() < 1000);
    }

    /// A target that never answers, and callers who do not wait.
    #[derive(Clone)]
    struct Silent;

    impl Target for Silent {
        type Caller = Self;

        async fn connect(&self) -> Result<Self, Fault> {
            Ok(self.clone())
        }
    }

    impl Caller for Silent {
        const ANSWER_TIME_MAX: Duration = Duration::ZERO;

        async fn call(&mut self, _: u64) -> Answer {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn callers_say_how_long_they_wait_for_the_last_answers() {
        let plan = Plan {
            time: Duration::from_millis(50),
            ..plan(u64::MAX)
        };
        let record = round(&Arc::new(Silent), &plan, &Arc::default()).await;
        assert_eq!(record.unwrap().errors.get(NOT_ANSWERED), Some(&12));
    }

    #[tokio::test]
    async fn at_a_fixed_rate_all_arrivals_are_called() {
        let target = Arc::new(Counting);
        let plan = Plan {
            rate: Some(1000),
            time: Duration::from_millis(200),
            ..plan(u64::MAX)
        };
        let record = round(&target, &plan, &Arc::default()).await.unwrap();
        assert_eq!(record.calls, 200);
    }
}
