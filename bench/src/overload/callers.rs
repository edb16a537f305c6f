//! Callers that give up after a second, and those that retry at once, as they must not.

use crate::{
    calls::{Grpc, GrpcCaller},
    failure::Fault,
    load::{Caller, Target},
    record::Answer,
};

/// Callers that try each call several times, without a pause.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    pub(super) calls: Grpc,
    pub(super) attempts: u32,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Retrying {
    caller: GrpcCaller,
    attempts: u32,
}

impl Target for Callers {
    type Caller = Retrying;

    async fn connect(&self) -> Result<Retrying, Fault> {
        Ok(Retrying {
            caller: self.calls.connect().await?,
            attempts: self.attempts,
        })
    }
}

impl Caller for Retrying {
    async fn call(&mut self, number: u64) -> Answer {
        let mut answer = self.caller.call(number).await;
        for _ in 1..self.attempts {
            if !matches!(answer, Answer::Failed(_)) {
                break;
            }
            answer = self.caller.call(number).await;
        }
        answer
    }
}
