//! Which call a task works for: so that a store finds the span of the call, and the log its ids.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use super::{
    ids::{SpanId, TraceId},
    span::Span,
};

tokio::task_local! {
    static CURRENT: Scope;
}

/// The trace that some work belongs to.
#[derive(Clone)]
pub(crate) enum Scope {
    /// The caller's trace, which is not recorded.
    Unrecorded(TraceId),
    /// A span that is recorded.
    Recorded(Arc<Span>),
}

/// The ids of the current trace and span, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) trace: TraceId,
    /// None if the trace is the caller's, and not recorded here.
    pub(crate) span: Option<SpanId>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ids().fmt(f)
    }
}

impl Scope {
    fn ids(&self) -> Ids {
        match self {
            Self::Unrecorded(trace) => Ids {
                trace: *trace,
                span: None,
            },
            Self::Recorded(span) => {
                let (trace, span) = span.ids();
                let span = Some(span);
                Ids { trace, span }
            }
        }
    }
}

/// The ids of what the current task or thread works for.
pub(crate) fn ids() -> Option<Ids> {
    CURRENT.try_with(Scope::ids).ok()
}

/// The span of what the current task works for, if it is recorded.
pub(crate) fn current() -> Option<Arc<Span>> {
    with_current(Arc::clone)
}

/// What `work` says of that span.
pub(super) fn with_current<T>(work: impl FnOnce(&Arc<Span>) -> T) -> Option<T> {
    let found = CURRENT.try_with(|scope| match scope {
        Scope::Recorded(span) => Some(work(span)),
        Scope::Unrecorded(_) => None,
    });
    found.ok().flatten()
}

/// Does some work for a call or a batch, if it belongs to a trace.
pub(crate) async fn within<F: Future>(scope: Option<Scope>, work: Pin<&mut F>) -> F::Output {
    match scope {
        Some(scope) => CURRENT.scope(scope, work).await,
        None => work.await,
    }
}

/// Does some work of a thread for a batch.
pub(super) fn enter<T>(span: &Arc<Span>, work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(Scope::Recorded(Arc::clone(span)), work)
}

/// The same work on behalf of whom the current task works for, for a task of its own.
pub(crate) fn inherit<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let scope = CURRENT.try_with(Scope::clone).ok();
    async move {
        let work = std::pin::pin!(work);
        within(scope, work).await
    }
}
