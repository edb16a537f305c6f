//! The currencies of envelopes. Only the entry that created an envelope says it.

use crate::{
    cache::Cache,
    ledger::read::{EntryQuery, Kinds, LedgerReader, Range, ReadError, Seen},
    model::EnvelopeId,
    store::{Entry, entry::Body},
};

/// The most that are kept.
const KEPT_MAX: usize = 10_000;

/// Currencies by envelope. They never change.
#[derive(Debug, Default)]
pub(super) struct Currencies(Cache<EnvelopeId, String, KEPT_MAX>);

impl Currencies {
    /// The currency of an entry's envelope; empty if its creation is not settled.
    pub(super) async fn of(
        &self,
        reader: &dyn LedgerReader,
        entry: &Entry,
    ) -> Result<String, ReadError> {
        let Some(envelope) = entry.subject.envelope() else {
            return Ok(String::new());
        };
        if let Body::EnvelopeCreated(created) = &entry.body {
            return Ok(created.envelope.currency.clone());
        }
        if let Some(known) = self.0.get(envelope) {
            return Ok(known);
        }
        let query = EntryQuery {
            kinds: Kinds::EnvelopesCreated,
            campaign: None,
            envelope: Some(envelope.clone()),
            user: None,
            request: None,
            seen: Seen::default(),
            range: Range {
                limit: 1,
                ..Range::default()
            },
        };
        let created = reader.list(&query).await?.rows.into_iter().next();
        let Some(Body::EnvelopeCreated(created)) = created.map(|entry| entry.body) else {
            return Ok(String::new());
        };
        let currency = created.envelope.currency.clone();
        self.0.put(envelope.clone(), currency.clone());
        Ok(currency)
    }
}
