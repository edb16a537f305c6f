//! What a stream may show, for as long as it may be open.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    grpc::{
        access::{Caller, Denial, Rpc, Senders, Visible, table::Scoped as _, table::permission},
        status::CallError,
    },
    model::OperatorId,
    proto,
    store::{Entry, Subject},
};

/// How often the rights of a stream are looked at: a token may end, a binding may be taken away.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The rights of a stream.
#[derive(Clone)]
pub(super) struct WatchAccess {
    caller: Caller,
    request: Arc<proto::WatchEntriesRequest>,
    visible: Visible,
    senders: Arc<Senders>,
}

impl WatchAccess {
    /// The rights of a stream that was admitted.
    pub(super) fn new(
        caller: Caller,
        request: &proto::WatchEntriesRequest,
        senders: &Arc<Senders>,
    ) -> Self {
        Self {
            visible: caller.visible(Rpc::WatchEntries),
            request: Arc::new(request.clone()),
            senders: Arc::clone(senders),
            caller,
        }
    }

    /// Who reads the stream, if the server knows identities.
    pub(super) fn identity(&self) -> Option<&OperatorId> {
        self.caller.identity()
    }

    /// Reads the rights again.
    pub(super) async fn renew(&mut self) -> Result<(), Denial> {
        let caller = self.caller.again().await?;
        caller.may(permission(Rpc::WatchEntries), self.request.scope(), None)?;
        self.visible = caller.visible(Rpc::WatchEntries);
        Ok(())
    }

    /// Waits until the stream may not go on, and says why.
    pub(super) async fn lost(mut self) -> CallError {
        loop {
            sleep(LOOK_PAUSE).await;
            match self.renew().await {
                // The keys of the issuer may be there again soon.
                Ok(()) | Err(Denial::Unverifiable) => {}
                Err(denial) => return denial.into(),
            }
        }
    }

    /// Whether an entry may be shown.
    pub(super) async fn shows(&self, entry: &Entry) -> Result<bool, CallError> {
        match &entry.subject {
            Subject::Campaign(id) => Ok(self.visible.has_campaign(id.as_str())),
            Subject::Envelope(_) if self.visible.senders.is_none() => Ok(true),
            Subject::Envelope(id) => {
                let sender = self.senders.of(id).await?;
                Ok(sender.is_some_and(|sender| self.visible.has_sender(sender.as_str())))
            }
            Subject::Partition => Ok(self.visible.is_all()),
        }
    }
}
