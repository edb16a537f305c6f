//! Senders of envelopes, which calls about an envelope do not name.

use std::sync::Arc;

use crate::{
    cache::Cache,
    grpc::status::CallError,
    ledger::read::{EntryQuery, Kinds, LedgerReader, Range, Seen},
    model::{EnvelopeId, Pattern, Patterns, UserId},
    store::{Store, StoreError, entry::Body},
};

/// Senders that are kept in memory. An envelope never changes its sender, and an id is never used
/// again.
const KEPT_MAX: usize = 10_000;

/// Who sent which envelope.
pub(in crate::grpc) struct Senders {
    store: Arc<dyn Store>,
    ledger: Option<Arc<dyn LedgerReader>>,
    kept: Cache<EnvelopeId, UserId, KEPT_MAX>,
}

impl Senders {
    /// Senders by the store, and by the settled ledger if there is one.
    pub(in crate::grpc) fn new(
        store: Arc<dyn Store>,
        ledger: Option<Arc<dyn LedgerReader>>,
    ) -> Self {
        Self {
            store,
            ledger,
            kept: Cache::default(),
        }
    }

    /// The sender of an envelope; none if nobody knows it, or if the envelope has left the store
    /// and the sender was erased.
    ///
    /// # Errors
    /// Store or ledger cannot be read.
    pub(in crate::grpc) async fn of(&self, id: &EnvelopeId) -> Result<Option<UserId>, CallError> {
        if let Some(sender) = self.kept.get(id) {
            return Ok(Some(sender));
        }
        let sender = match self.store.envelope(id).await {
            Ok(view) => Some(view.envelope.sender.clone()),
            Err(StoreError::Refused(_)) => self.settled(id).await?,
            Err(error) => return Err(error.into()),
        };
        if let Some(sender) = &sender {
            self.kept.put(id.clone(), sender.clone());
        }
        Ok(sender)
    }

    /// The sender in the entry of the envelope's creation: the envelope has left the store.
    async fn settled(&self, id: &EnvelopeId) -> Result<Option<UserId>, CallError> {
        let Some(ledger) = &self.ledger else {
            return Ok(None);
        };
        // Any sender that has an id. An erased one has only a pseudonym, which may look like an id
        // of somebody else.
        let mut any = Patterns::default();
        any.add(&Pattern::Beginning(String::new()));
        let query = EntryQuery {
            kinds: Kinds::EnvelopesCreated,
            campaign: None,
            envelope: Some(id.clone()),
            user: None,
            request: None,
            seen: Seen {
                campaigns: None,
                senders: Some(any),
            },
            range: Range {
                limit: 1,
                ..Range::default()
            },
        };
        let created = ledger.list(&query).await?.rows.pop();
        Ok(created.and_then(|entry| match entry.body {
            Body::EnvelopeCreated(created) => Some(created.envelope.sender),
            _ => None,
        }))
    }
}
