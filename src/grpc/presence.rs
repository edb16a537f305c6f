//! This service among the replicas of its store: it announces itself, and lists the others. A store
//! that does not keep the list, or has lost it, stops nothing.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};

use super::readiness::{Phase, Readiness};
use crate::{
    chance::hex,
    model::{Moment, convert::moment_to_proto},
    proto,
    store::{
        Executed, REPLICA_INTERVAL, Replica, ReplicaState, ReplicaView, Store, StoreError,
        clock::{Clock as _, SystemClock},
    },
};

/// How often the service looks whether its state has changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the store may take to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// The same for a service that stops.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(2);

/// This service as a replica.
pub(super) struct Presence {
    id: String,
    name: String,
    started: Moment,
    readiness: Readiness,
    store: Arc<dyn Store>,
    /// How far the clock of the store's server is ahead, in microseconds, once that is known.
    skew_micros: Mutex<Option<i64>>,
}

impl Presence {
    /// The service that listens on this port.
    pub(super) fn new(store: &Arc<dyn Store>, readiness: Readiness, port: Option<u16>) -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        Self {
            id: hex(&rand::random::<[u8; 8]>()),
            name: match port {
                Some(port) => format!("{host}:{port}"),
                None => host.into_owned(),
            },
            started: SystemClock.now(),
            readiness,
            store: Arc::clone(store),
            skew_micros: Mutex::default(),
        }
    }

    /// A service that listens nowhere.
    #[cfg(test)]
    pub(super) fn unseen(store: &Arc<dyn Store>) -> Self {
        Self::new(store, Readiness::default(), None)
    }

    /// Announces the service regularly until it drains; then takes it off the list.
    pub(super) async fn keep(&self, mut draining: watch::Receiver<bool>) {
        let mut beat = interval(LOOK_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last: Option<(Instant, Replica)> = None;
        let mut is_failing = false;
        loop {
            // An announcement that has begun is awaited: it must not come after the end.
            tokio::select! {
                _ = beat.tick() => {}
                _ = draining.wait_for(|is_draining| *is_draining) => break,
            }
            let replica = self.replica();
            if last.as_ref().is_some_and(|(at, before)| {
                at.elapsed() < REPLICA_INTERVAL && !is_news(before, &replica)
            }) {
                continue;
            }
            let announced = self.announce(&replica).await;
            // A store that does no work is known already.
            if replica.state != ReplicaState::NotReady && is_failing != announced.is_err() {
                is_failing = announced.is_err();
                match announced {
                    Ok(()) => info!("this service is in the list of replicas again"),
                    Err(error) => warn!(%error, "this service is not in the list of replicas"),
                }
            }
            last = Some((Instant::now(), replica));
        }
        // A service that cannot say that it stops is forgotten soon.
        drop(timeout(LEAVE_TIME_MAX, self.store.retire(&self.id)).await);
    }

    async fn announce(&self, replica: &Replica) -> crate::store::Result<()> {
        let sent = SystemClock.now();
        let announced = timeout(ANSWER_TIME_MAX, self.store.announce(&self.id, replica)).await;
        let time = announced.unwrap_or_else(|_| {
            Err(StoreError::Unavailable {
                executed: Executed::Unknown,
                detail: "no answer in time".into(),
            })
        })?;
        if let Some(time) = time {
            let skew = skew_micros(time, sent, SystemClock.now());
            *self.skew() = Some(skew);
        }
        Ok(())
    }

    /// All replicas by name, this one as it is now. If the store does not say which others there
    /// are, this one alone.
    pub(super) async fn replicas(&self) -> Vec<proto::Replica> {
        let others = self.store.replicas().await.unwrap_or_default();
        let mut views: Vec<_> = others
            .into_iter()
            .filter(|other| other.id != self.id)
            .collect();
        let replica = self.replica();
        let ahead = replica.skew_micros.unwrap_or_default();
        views.push(ReplicaView {
            id: self.id.clone(),
            seen: Moment::from_micros(SystemClock.now().as_micros().saturating_add(ahead)),
            replica,
        });
        views.sort_by(|a, b| {
            let (a, b) = (&a.replica, &b.replica);
            (&a.name, a.started).cmp(&(&b.name, b.started))
        });
        let shown = views.into_iter().map(|view| {
            let answering = view.id == self.id;
            to_proto(view, answering)
        });
        shown.collect()
    }

    fn replica(&self) -> Replica {
        let (state, cause) = match self.readiness.phase() {
            Phase::Ready => (ReplicaState::Ready, String::new()),
            Phase::Impaired(which) => (ReplicaState::Impaired, which),
            Phase::Starting => (ReplicaState::NotReady, String::new()),
            Phase::Waiting(cause) | Phase::NotReady(cause) => (ReplicaState::NotReady, cause),
            Phase::Stopping => (ReplicaState::Stopping, String::new()),
        };
        Replica {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            build: crate::BUILD_ID.into(),
            started: self.started,
            state,
            cause,
            skew_micros: *self.skew(),
        }
    }

    fn skew(&self) -> std::sync::MutexGuard<'_, Option<i64>> {
        self.skew_micros
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether others should learn at once what a service says now.
fn is_news(before: &Replica, now: &Replica) -> bool {
    (before.state, &before.cause) != (now.state, &now.cause)
        || before.skew_micros.is_none() && now.skew_micros.is_some()
}

/// How far a clock that was read somewhere between two moments is ahead of that of these moments.
fn skew_micros(read: Moment, sent: Moment, answered: Moment) -> i64 {
    let nearest = read.clamp(sent, answered.max(sent));
    read.as_micros() - nearest.as_micros()
}

fn to_proto(view: ReplicaView, answering: bool) -> proto::Replica {
    let ReplicaView { seen, replica, .. } = view;
    let state = match replica.state {
        ReplicaState::Ready => proto::ReplicaState::Ready,
        ReplicaState::Impaired => proto::ReplicaState::Impaired,
        ReplicaState::NotReady => proto::ReplicaState::NotReady,
        ReplicaState::Stopping => proto::ReplicaState::Stopping,
    };
    proto::Replica {
        name: replica.name,
        answering,
        version: replica.version,
        build: replica.build,
        start_time: Some(moment_to_proto(replica.started)),
        seen_time: Some(moment_to_proto(seen)),
        state: state.into(),
        cause: replica.cause,
        clock_skew: replica.skew_micros.map(|micros| prost_types::Duration {
            seconds: micros / 1_000_000,
            // Below a thousand million.
            nanos: i32::try_from(micros % 1_000_000 * 1_000).unwrap_or(0),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    fn at(micros: i64) -> Moment {
        Moment::from_micros(micros)
    }

    #[tokio::test]
    async fn a_service_whose_store_is_within_it_is_the_only_replica() {
        let store = MemoryStore::new(Arc::new(SystemClock), Duration::from_secs(60));
        let store: Arc<dyn Store> = Arc::new(store);
        let readiness = Readiness::default();
        let presence = Presence::new(&store, readiness.clone(), Some(7));
        readiness.set(Phase::NotReady("full".into()));
        let replicas = presence.replicas().await;
        assert_eq!(replicas.len(), 1);
        let only = &replicas[0];
        assert!(only.answering && only.name.ends_with(":7"), "{only:?}");
        assert_eq!(only.state(), proto::ReplicaState::NotReady);
        assert_eq!((only.cause.as_str(), only.clock_skew), ("full", None));
        readiness.set(Phase::Stopping);
        let only = presence.replicas().await.remove(0);
        assert_eq!(only.state(), proto::ReplicaState::Stopping);
        assert_eq!(only.cause, "");
    }

    #[test]
    fn a_clock_is_ahead_only_as_far_as_the_way_to_it_does_not_explain() {
        assert_eq!(skew_micros(at(150), at(100), at(200)), 0);
        assert_eq!(skew_micros(at(250), at(100), at(200)), 50);
        assert_eq!(skew_micros(at(70), at(100), at(200)), -30);
        // The clock of this machine was put back meanwhile.
        assert_eq!(skew_micros(at(150), at(100), at(90)), 50);
    }

    #[test]
    fn others_learn_at_once_that_a_state_has_changed() {
        let store = MemoryStore::new(Arc::new(SystemClock), Duration::from_secs(60));
        let store: Arc<dyn Store> = Arc::new(store);
        let now = Presence::unseen(&store).replica();
        assert!(!is_news(&now, &now.clone()));
        let change = |change: fn(&mut Replica)| {
            let mut changed = now.clone();
            change(&mut changed);
            changed
        };
        for news in [
            change(|replica| replica.state = ReplicaState::Ready),
            change(|replica| replica.cause = "another".into()),
            change(|replica| replica.skew_micros = Some(0)),
        ] {
            assert!(is_news(&now, &news), "{news:?}");
        }
        let (a, b) = (
            change(|replica| replica.skew_micros = Some(5)),
            change(|replica| replica.skew_micros = Some(6)),
        );
        assert!(!is_news(&a, &b));
    }
}
