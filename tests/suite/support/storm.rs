//! Callers that draw almost without pause while a test does something else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::sleep};

use super::{World, all_of};

const CALLERS: usize = 8;
/// The pause between two calls of a caller, and between two looks at how far they are.
const PAUSE: Duration = Duration::from_millis(1);

/// Running callers; only [`Storm::ends`] stops them.
pub struct Storm {
    /// Notes when something is stopped.
    pub stops: Stops,
    done: Arc<AtomicBool>,
    callers: JoinHandle<Vec<()>>,
}

impl Storm {
    /// Starts eight callers, each of which runs `call` again and again.
    pub fn of<F>(
        world: &World,
        call: impl Fn(World, usize, Stops) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stops, done) = (Stops::default(), Arc::new(AtomicBool::new(false)));
        let caller = {
            let (world, stops, done) = (world.clone(), stops.clone(), done.clone());
            move |i| {
                let (world, stops, done) = (world.clone(), stops.clone(), done.clone());
                let call = call.clone();
                async move {
                    while !done.load(Ordering::SeqCst) {
                        call(world.clone(), i, stops.clone()).await;
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        Self {
            stops,
            done,
            callers: tokio::spawn(all_of(CALLERS, caller)),
        }
    }

    /// Waits until this many more draws were made.
    pub async fn goes_on(&self, world: &World, draws: usize) {
        let enough = world.acknowledged() + draws;
        while world.acknowledged() < enough {
            assert!(!self.callers.is_finished(), "a caller failed");
            sleep(PAUSE).await;
        }
    }

    /// Stops the callers; fails if one of them failed.
    pub async fn ends(self) {
        self.done.store(true, Ordering::SeqCst);
        self.callers.await.unwrap();
    }
}

/// Shows whether something was stopped during a whole call. The number is odd while it is stopped.
#[derive(Clone, Default)]
pub struct Stops(Arc<AtomicU64>);

impl Stops {
    /// Notes that the stop is acknowledged.
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that it is about to be resumed.
    pub fn end(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether it was stopped at `before`, and ever since.
    pub fn held_since(&self, before: u64) -> bool {
        before % 2 == 1 && self.now() == before
    }
}
