//! A connection that a caller took from a pool, with a bound on every wait.
//!
//! It goes back to the pool only after a usual answer. It is closed after a timeout, after it
//! broke, after the reply of a server that is no longer the master, and if the caller goes away in
//! the middle of a call.

use std::{sync::Arc, time::Instant};

use deadpool::managed::{Object, PoolError};
use redis::{Cmd, Value};
use tokio::{
    sync::watch,
    time::{Duration, timeout},
};

use super::{
    fault::Fault,
    fault_kind::FaultKind,
    masters::{Directory, Node},
    pool::{Connection, Manager},
    timeouts::ANSWER_MAX,
};
use crate::store::Executed;

/// A connection for one caller at a time.
pub(crate) struct Lease<'a> {
    directory: &'a Directory,
    node: Arc<Node>,
    retired: watch::Receiver<bool>,
    object: Option<Object<Manager>>,
    begun: Instant,
    is_sound: bool,
}

impl<'a> Lease<'a> {
    /// Takes a connection to a server out of its pool, or makes one.
    pub(crate) async fn take(directory: &'a Directory, node: &Arc<Node>) -> Result<Self, Fault> {
        let mut retired = node.retired.subscribe();
        let got = tokio::select! {
            biased;
            _ = retired.wait_for(|retired| *retired) => Err(PoolError::Closed),
            got = node.pool.get() => got,
        };
        match got {
            Ok(object) => Ok(Self {
                directory,
                node: Arc::clone(node),
                retired,
                object: Some(object),
                begun: Instant::now(),
                is_sound: true,
            }),
            Err(PoolError::Closed) => Err(directory.changed(Executed::No, node)),
            Err(error) => {
                let fault = Fault::pooling(error, directory.dialer.url());
                if fault.kind.doubts_master() {
                    directory.ask_again();
                }
                Err(fault)
            }
        }
    }

    /// The server that the connection leads to.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Whether the server knows `WAITAOF`.
    pub(crate) fn has_waitaof(&self) -> bool {
        self.object.as_ref().is_some_and(|link| link.has_waitaof)
    }

    /// Sends a command. It ends at once when the server stops being a master.
    pub(crate) async fn call(&mut self, cmd: &Cmd) -> Result<Value, Fault> {
        match self.call_within(cmd, ANSWER_MAX).await? {
            Some(value) => Ok(value),
            None => {
                self.directory.ask_again();
                self.forget_older();
                self.is_sound = false;
                Err(Fault::timed_out(self.directory.dialer.url()))
            }
        }
    }

    /// Sends a command; none if there is no answer in time, and then it may be sent once more: an
    /// answer that still comes is skipped.
    pub(crate) async fn call_within(
        &mut self,
        cmd: &Cmd,
        most: Duration,
    ) -> Result<Option<Value>, Fault> {
        let (url, node) = (self.directory.dialer.url(), &self.node);
        let Some(connection) = &mut self.object else {
            return Err(Fault::protocol("the connection was given back"));
        };
        if *self.retired.borrow() {
            self.is_sound = false;
            return Err(self.directory.changed(Executed::No, node));
        }
        self.is_sound = false; // until it has answered
        let answer = tokio::select! {
            biased;
            _ = self.retired.wait_for(|retired| *retired) => {
                return Err(self.directory.changed(Executed::Unknown, node));
            }
            answer = timeout(most, Connection::call(connection, cmd)) => answer,
        };
        match answer {
            Err(_) => Ok(None),
            Ok(Ok(value)) => {
                self.is_sound = true;
                Ok(Some(value))
            }
            Ok(Err(error)) => {
                let fault = Fault::answering(&error, url);
                self.judge(fault.kind);
                Err(fault)
            }
        }
    }

    /// Decides by a fault whether the connection can be used again, and whether to ask for the
    /// master.
    fn judge(&mut self, kind: FaultKind) {
        self.is_sound = !kind.spoils_connection();
        if kind.doubts_master() {
            self.directory.ask_again();
        }
        if !self.is_sound {
            self.forget_older();
        }
    }

    /// Lets the connection be closed later; returns the fault.
    pub(crate) fn give_up(&mut self, fault: Fault) -> Fault {
        self.is_sound = false;
        if fault.kind.doubts_master() {
            self.directory.ask_again();
        }
        fault
    }

    /// Closes the idle connections that are as old as this one: the same fault has broken them.
    fn forget_older(&self) {
        let begun = self.begun;
        let pool = &self.node.pool;
        pool.retain(|_, metrics| metrics.created > begun);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && !self.is_sound
        {
            drop(Object::take(object));
        }
    }
}
