//! A panel of servers that are all asked the same question, each second and on demand.
//!
//! Each server is asked by a task of its own over a connection of its own, so that a server which
//! hangs does not delay the others.

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::aio::MultiplexedConnection;
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::{
    fault::Fault,
    masters::Directory,
    pool::{Dialer, Peer},
    url::Address,
};

/// How often each server is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least pause between two questions to a server, whatever the demand.
const PAUSE: Duration = Duration::from_millis(50);
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A question to servers.
pub(crate) trait Question: Clone + Send + Sync + 'static {
    /// What a server answers.
    type Answer: Send + 'static;

    /// Asks one server.
    fn ask(
        &self,
        server: &Address,
        connection: &mut MultiplexedConnection,
    ) -> impl Future<Output = redis::RedisResult<Self::Answer>> + Send;
}

/// The answer of a server, or why there is none.
pub(crate) struct Report<A> {
    pub(crate) server: Address,
    pub(crate) answer: Result<A, Fault>,
}

/// The servers that are asked. When this is dropped, nobody is asked any more.
pub(crate) struct Panel<Q: Question> {
    question: Q,
    peer: Peer,
    directory: Arc<Directory>,
    reports: mpsc::Sender<Report<Q::Answer>>,
    members: HashMap<Address, AbortHandle>,
}

impl<Q: Question> Panel<Q> {
    /// A panel without members, and the channel of their answers.
    pub(crate) fn new(
        question: Q,
        peer: Peer,
        directory: Arc<Directory>,
    ) -> (Self, mpsc::Receiver<Report<Q::Answer>>) {
        let (reports, receiver) = mpsc::channel(16);
        let panel = Self {
            question,
            peer,
            directory,
            reports,
            members: HashMap::new(),
        };
        (panel, receiver)
    }

    /// Asks this server too, from now on.
    pub(crate) fn add(&mut self, server: &Address) {
        if self.members.contains_key(server) {
            return;
        }
        let member = ask_for_ever(
            server.clone(),
            self.question.clone(),
            self.peer,
            Arc::clone(&self.directory),
            self.reports.clone(),
        );
        let task = tokio::spawn(member).abort_handle();
        self.members.insert(server.clone(), task);
    }

    /// Asks no others than these any more.
    pub(crate) fn retain(&mut self, is_member: impl Fn(&Address) -> bool) {
        self.members.retain(|server, task| {
            let stays = is_member(server);
            if !stays {
                task.abort();
            }
            stays
        });
    }

    /// Who is asked.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Address> {
        self.members.keys()
    }
}

impl<Q: Question> Drop for Panel<Q> {
    fn drop(&mut self) {
        self.members.values().for_each(AbortHandle::abort);
    }
}

async fn ask_for_ever<Q: Question>(
    server: Address,
    question: Q,
    peer: Peer,
    directory: Arc<Directory>,
    reports: mpsc::Sender<Report<Q::Answer>>,
) {
    let mut wishes = directory.wishes();
    let dialer = Arc::clone(&directory.dialer);
    // The task ends when the directory is dropped, so it must not keep it alive.
    drop(directory);
    let mut connection = None;
    loop {
        wishes.mark_unchanged();
        let answer = ask(&server, &question, peer, &dialer, &mut connection).await;
        let server = server.clone();
        if reports.send(Report { server, answer }).await.is_err() {
            return;
        }
        sleep(PAUSE).await;
        if let Ok(Err(_)) = timeout(INTERVAL, wishes.changed()).await {
            return;
        }
    }
}

async fn ask<Q: Question>(
    server: &Address,
    question: &Q,
    peer: Peer,
    dialer: &Dialer,
    kept: &mut Option<MultiplexedConnection>,
) -> Result<Q::Answer, Fault> {
    // The connection is kept only after an answer.
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => dialer.connect(peer, server).await?,
    };
    match timeout(ANSWER_MAX, question.ask(server, &mut connection)).await {
        Ok(Ok(answer)) => {
            *kept = Some(connection);
            Ok(answer)
        }
        Ok(Err(error)) => Err(Fault::connecting(&error, dialer.url())),
        Err(_) => Err(Fault::no_connection_in_time(dialer.url())),
    }
}
