use std::{sync::RwLock, time::Duration};

use super::*;
use crate::store::Durability;
use crate::store::redis::OnWeakerLevel;
use crate::store::redis::{
    Connections, FORK_PAUSE, KeyPrefix, RedisUrl, clock::StoreClock, draw::RecentProgress,
    envelopes::KnownEnvelopes, forks::Witnesses, format::keys::PartitionKeys, level::Level,
    memory::Trend, step::layout::Layouts,
};

/// A store whose Redis is never reached.
pub(crate) fn core() -> Core {
    let prefix = KeyPrefix::parse("tombola").unwrap();
    let url = RedisUrl::parse("redis://127.0.0.1:1").unwrap();
    Core {
        connections: Connections::new(&url, 1).unwrap(),
        partitions: vec![Arc::new(PartitionKeys::new(&prefix, 0))],
        store_id: "s".into(),
        clock: StoreClock::new(None, &[Moment::EPOCH]),
        request_memory: Duration::from_secs(60),
        backlog: RwLock::new("".into()),
        settles: false.into(),
        memory: Trend::default(),
        layouts: Layouts::default(),
        rollback_mark: 0_u64.into(),
        recent: RecentProgress::default(),
        list_turns: Arc::new(tokio::sync::Semaphore::new(1)),
        envelopes: KnownEnvelopes::default(),
        has_logged_loss: false.into(),
        witnesses: Witnesses::new(1),
        fork_pause: FORK_PAUSE,
        is_recovery: false,
        troubles: std::sync::Mutex::default(),
        level: Level::new(Durability::Local, OnWeakerLevel::default()),
    }
}

/// Calls of one subject, as a batch has them.
pub(crate) fn group<C: Call>(known: C::Known, calls: Vec<C>) -> Group<C> {
    let waiting = calls.into_iter().map(|call| Waiting::new(call).0);
    Group {
        known,
        waiting: waiting.collect(),
    }
}
