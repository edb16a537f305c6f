//! The store in memory, with a clock that stands until the test moves it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tombola::{
    model::Moment,
    store::{
        Store,
        clock::{Clock as _, ManualClock},
        memory::MemoryStore,
    },
};

use super::world::{Host, LONG_BEFORE};

const REQUEST_MEMORY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store in memory. It would be empty if it were made anew, so it is opened again as it is.
pub struct InMemory {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
}

impl InMemory {
    /// A new, empty one.
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::at(super::at(LONG_BEFORE)));
        Self {
            store: Arc::new(MemoryStore::new(clock.clone(), REQUEST_MEMORY)),
            clock,
        }
    }
}

#[async_trait]
impl Host for InMemory {
    async fn open(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn remove_index(&self) {
        // No version kept data without it.
    }

    async fn set_time(&self, now: Moment) {
        self.clock.set(now);
    }

    fn time(&self) -> Moment {
        self.clock.now()
    }
}
