//! A stream of the ledger that goes on at another replica whenever its own one stops.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::sleep};
use tombola::{
    proto::{WatchEntriesRequest, ledger_service_client::LedgerServiceClient},
    store::{Entry, LedgerId},
};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::ring::Endpoints;

/// The pause before the next try to open a stream.
const PAUSE: Duration = Duration::from_millis(50);
/// What should happen within moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of all draws that are settled, from the first one on.
pub struct Follower {
    task: JoinHandle<()>,
    seen: Arc<Mutex<Vec<LedgerId>>>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// Begins at the replica with this number. Streams may end for these reasons.
    pub fn start(endpoints: Endpoints, number: usize, ends: &'static [&'static str]) -> Self {
        let seen = Arc::default();
        let task = tokio::spawn(follow(endpoints, number, ends, Arc::clone(&seen)));
        Self { task, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Vec<LedgerId>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has seen as many as there are: each of these draws once, in the order of its
    /// partition.
    pub async fn has_seen(self, draws: &[&Entry]) {
        let begun = Instant::now();
        while self.seen().len() < draws.len() {
            assert!(!self.task.is_finished(), "the stream has failed");
            let count = self.seen().len();
            assert!(begun.elapsed() < PATIENCE, "{count} of {}", draws.len());
            sleep(PAUSE).await;
        }
        let mut seen = self.seen().clone();
        seen.sort_by_key(|id| id.partition); // stable: it keeps the order within a partition
        let draws: Vec<_> = draws.iter().map(|entry| entry.id).collect();
        assert_eq!(seen, draws);
    }
}

/// Follows the ledger for ever.
async fn follow(
    endpoints: Endpoints,
    mut number: usize,
    ends: &[&str],
    seen: Arc<Mutex<Vec<LedgerId>>>,
) {
    let mut request = WatchEntriesRequest {
        kinds: vec!["draw".into()],
        ..WatchEntriesRequest::default()
    };
    loop {
        let addresses = endpoints.all();
        let address = addresses[number % addresses.len()];
        number += 1;
        let entrance = &endpoints.entrance;
        let channel = entrance.endpoint(address).connect_lazy();
        let mut ledger = LedgerServiceClient::with_interceptor(channel, entrance.clone());
        let mut stream = match ledger.watch_entries(request.clone()).await {
            Ok(stream) => stream.into_inner(),
            Err(status) => {
                let is_ours = status.get_details_error_info().is_some();
                let is_away = !is_ours || status.code() == Code::Unavailable;
                assert!(is_away, "{status:?}");
                sleep(PAUSE).await;
                continue;
            }
        };
        loop {
            match stream.message().await {
                Ok(Some(message)) => {
                    request.cursor = message.cursor;
                    if let Some(entry) = message.entry {
                        let id = entry.ledger_id.unwrap();
                        seen.lock().unwrap().push(LedgerId {
                            partition: id.partition,
                            sequence: id.sequence,
                        });
                    }
                }
                Ok(None) => panic!("a stream ended without a reason"),
                Err(status) => {
                    let info = status.get_details_error_info();
                    let reason = info.map(|info| info.reason).unwrap_or_default();
                    assert!(ends.contains(&reason.as_str()), "{status:?}");
                    break;
                }
            }
        }
    }
}
