//! A command on its way through the writer: run in a batch, perhaps run again alone, answered after
//! the commit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tokio::sync::oneshot;

use super::step::Step;
use crate::{
    store::{Executed, Result, StoreError},
    trace::{self, Span},
};

/// A command that the writer runs as one step.
pub(super) trait Command: Send + 'static {
    /// What it answers.
    type Reply: Send + 'static;

    /// Runs the command. It checks everything first and writes last, so that a refusal leaves
    /// nothing.
    fn run(&self, step: &mut Step<'_>) -> Result<Self::Reply>;

    /// Draws in it, or the number of draws that its work is equal to; none for work that waits for
    /// a turn of its own.
    fn draws(&self) -> Option<usize> {
        None
    }

    /// Whether it may be refused while draws wait for too long: its caller can come again. What
    /// operators and the injector do may not.
    fn may_be_refused(&self) -> bool {
        false
    }
}

/// A command with the channel for its answer.
pub(super) trait Job: Send {
    /// Goes before other work.
    fn is_hot(&self) -> bool;
    /// Its share of a batch.
    fn units(&self) -> usize;
    /// May be refused once it has waited for too long.
    fn may_be_refused(&self) -> bool;
    /// Nobody waits for the answer any more, and it has not begun.
    fn is_abandoned(&self) -> bool;
    /// The span of the call that it is for, if that is recorded.
    fn call(&self) -> Option<&Arc<Span>> {
        None
    }
    /// Runs it; false on a fault, after which the whole transaction must be rolled back.
    fn run(&mut self, step: &mut Step<'_>) -> bool;
    /// Answers: what it ran to, or the fault of the commit.
    fn answer(self: Box<Self>, commit: std::result::Result<(), &StoreError>);
}

struct Pending<C: Command> {
    command: C,
    outcome: Option<Result<C::Reply>>,
    call: Option<Arc<Span>>,
    reply: oneshot::Sender<Result<C::Reply>>,
}

/// Makes a job of a command for the current call, and the channel that its answer comes from.
pub(super) fn job<C: Command>(command: C) -> (Box<dyn Job>, oneshot::Receiver<Result<C::Reply>>) {
    let (reply, answer) = oneshot::channel();
    let pending = Pending {
        command,
        outcome: None,
        call: trace::current(),
        reply,
    };
    (Box::new(pending), answer)
}

impl<C: Command> Job for Pending<C> {
    fn call(&self) -> Option<&Arc<Span>> {
        self.call.as_ref()
    }

    fn is_hot(&self) -> bool {
        self.command.draws().is_some()
    }

    fn units(&self) -> usize {
        self.command.draws().unwrap_or(1)
    }

    fn may_be_refused(&self) -> bool {
        self.command.may_be_refused()
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, step: &mut Step<'_>) -> bool {
        // A panic is a fault of this command alone: the rollback forgets whatever it left half
        // done, also in memory.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.command.run(step)))
            .unwrap_or_else(|_| Err(StoreError::corrupt("a command has panicked")));
        let sound = matches!(
            outcome,
            Ok(_) | Err(StoreError::Refused(_) | StoreError::Overloaded)
        );
        self.outcome = Some(outcome);
        sound
    }

    fn answer(self: Box<Self>, commit: std::result::Result<(), &StoreError>) {
        let outcome = match (self.outcome, commit) {
            (Some(Ok(_)), Err(fault)) => Err(fault.clone()),
            // It may be refused for what another command of the batch did, which may be undone.
            (Some(Err(StoreError::Refused(_))), Err(fault))
                if fault.executed() == Executed::Unknown =>
            {
                Err(fault.clone().with_executed(Executed::No))
            }
            (Some(outcome), _) => outcome,
            (None, Err(fault)) => Err(fault.clone()),
            (None, Ok(())) => Err(StoreError::Unavailable {
                executed: Executed::No,
                detail: "the command was not begun".into(),
            }),
        };
        // A receiver that is gone is a caller that is gone.
        let _ = self.reply.send(outcome);
    }
}
