//! What the parts of a soak share: which services live, which campaigns are drawn from, and what
//! callers noted. Nothing here calls a service.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tombola::proto::{DrawRequest, DrawResponse};
use tonic::Status;

use super::story::StoryClock;
use crate::{failure::reason, service::Address};

/// Answers that are kept, to ask for them again.
const RECENT_MAX: usize = 256;
/// Faults that are shown; all are counted.
const FAULTS_SHOWN: usize = 10;

/// A service that answers calls.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) index: usize,
    /// Counts the starts of this service: connections to an earlier process are of no use.
    pub(super) generation: u64,
    pub(super) address: Address,
    pub(super) pid: u32,
}

/// What the parts of a soak on one store share.
pub(super) struct Stage {
    pub(super) clock: StoryClock,
    services: Mutex<Vec<Option<Live>>>,
    small: Mutex<String>,
    books: Mutex<Books>,
}

/// What callers noted.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    /// Draws that were answered for the first time.
    pub(super) draws: u64,
    /// Draws that were answered again, and alike.
    pub(super) replays: u64,
    /// Attempts that were made again, by reason.
    pub(super) retries: BTreeMap<String, Retries>,
    /// What must not happen.
    pub(super) faults: u64,
    pub(super) first_faults: Vec<String>,
    recent: VecDeque<Answered>,
}

/// Attempts that were made again for one reason.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Retries {
    pub(super) attempts: u64,
    /// What the first one of them got.
    pub(super) first: String,
}

/// A draw with its answer.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) request: DrawRequest,
    pub(super) response: DrawResponse,
    at: Timestamp,
}

impl Stage {
    /// For this many services, of which none lives yet.
    pub(super) fn new(clock: StoryClock, services: usize) -> Self {
        Self {
            clock,
            services: Mutex::new(vec![None; services]),
            small: Mutex::default(),
            books: Mutex::default(),
        }
    }

    /// A service has been started.
    pub(super) fn enter(&self, index: usize, address: Address, pid: u32, generation: u64) {
        lock(&self.services)[index] = Some(Live {
            index,
            generation,
            address,
            pid,
        });
    }

    /// A service has ended.
    pub(super) fn exit(&self, index: usize) {
        lock(&self.services)[index] = None;
    }

    /// The services that live.
    pub(super) fn living(&self) -> Vec<Live> {
        lock(&self.services).iter().flatten().cloned().collect()
    }

    /// One of the services that live; another one for the next number, if there is one.
    pub(super) fn pick(&self, number: u64) -> Option<Live> {
        let services = lock(&self.services);
        let count = services.iter().flatten().count().max(1) as u64;
        let index = usize::try_from(number % count).unwrap_or(0);
        services.iter().flatten().nth(index).cloned()
    }

    /// The small campaign that is drawn from.
    pub(super) fn small(&self) -> String {
        lock(&self.small).clone()
    }

    pub(super) fn set_small(&self, id: String) {
        *lock(&self.small) = id;
    }

    /// Notes the first answer of a draw, and perhaps keeps it.
    pub(super) fn drawn(&self, request: &DrawRequest, response: &DrawResponse, is_kept: bool) {
        let mut books = lock(&self.books);
        books.draws += 1;
        if is_kept && books.recent.len() < RECENT_MAX {
            books.recent.push_back(Answered {
                request: request.clone(),
                response: response.clone(),
                at: self.clock.now(),
            });
        }
    }

    /// Takes an answer that is kept and no older than this, by the store's clock.
    pub(super) fn answered(&self, age_max: SignedDuration) -> Option<Answered> {
        let now = self.clock.now();
        let mut books = lock(&self.books);
        while let Some(answered) = books.recent.pop_front() {
            if now.duration_since(answered.at) < age_max {
                return Some(answered);
            }
        }
        None
    }

    /// Notes an answer to a draw that had been answered before.
    pub(super) fn replayed(&self, before: &Answered, now: &DrawResponse) {
        let is_same = now.replayed
            && now.results == before.response.results
            && now.draw_time == before.response.draw_time;
        if is_same {
            lock(&self.books).replays += 1;
        } else {
            let (first, request) = (&before.response, &before.request);
            self.fault(format!(
                "{request:?} was answered with {first:?}, and again with {now:?}"
            ));
        }
    }

    /// Notes an attempt that is made again since it got this.
    pub(super) fn retried(&self, status: &Status) {
        let mut books = lock(&self.books);
        let retries = books.retries.entry(reason(status)).or_default();
        retries.attempts += 1;
        if retries.first.is_empty() {
            retries.first = status.message().into();
        }
    }

    /// Notes what must not happen.
    pub(super) fn fault(&self, text: String) {
        let mut books = lock(&self.books);
        books.faults += 1;
        if books.first_faults.len() < FAULTS_SHOWN {
            books.first_faults.push(text);
        }
    }

    /// All that was noted.
    pub(super) fn books(&self) -> Books {
        lock(&self.books).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_those_that_live() {
        let stage = Stage::new(StoryClock::start(1), 2);
        assert!(stage.pick(0).is_none());
        stage.enter(0, Address::default(), 1, 0);
        stage.enter(1, Address::default(), 2, 0);
        let index = |number| stage.pick(number).unwrap().index;
        assert_eq!([index(4), index(5)], [0, 1]);
        stage.exit(0);
        assert_eq!([index(4), index(5)], [1, 1]);
    }

    #[test]
    fn another_answer_to_a_retry_is_a_fault() {
        let stage = Stage::new(StoryClock::start(1), 1);
        let response = DrawResponse::default();
        stage.drawn(&DrawRequest::default(), &response, true);
        let first = stage.answered(SignedDuration::MAX).unwrap();
        let again = DrawResponse {
            replayed: true,
            ..response.clone()
        };
        stage.replayed(&first, &again);
        stage.replayed(&first, &response);
        let books = stage.books();
        assert_eq!((books.draws, books.replays, books.faults), (1, 1, 1));
        assert!(stage.answered(SignedDuration::MAX).is_none());
    }
}
