//! Reads envelopes: their state, and the parts that the service keeps in memory.

use std::sync::Arc;

use super::{
    codec::{self, Base},
    known::Known,
};
use crate::store::redis::{
    core::Core,
    format::{
        keys::{IdDigest, PartitionKeys},
        reply::{self, letter},
        scripts,
    },
    gone::gone,
    step::campaign::Fields,
};
use crate::{
    model::{EnvelopeId, Moment},
    store::{
        EnvelopeView, LedgerId, Refusal, Result, StoreError,
        rules::envelope::{EnvelopeChanges, EnvelopeRecord, EnvelopeState},
    },
};

/// An envelope as it was read from Redis.
pub(super) struct Loaded {
    pub(super) state: EnvelopeState,
    /// Where it was read.
    pub(super) revision: String,
    /// The field `grabbed` as it was read.
    pub(super) counts: Option<Vec<u8>>,
    /// Entries of its creation and of its refund.
    pub(super) created_sequence: u64,
    pub(super) refund_sequence: Option<u64>,
    /// Buckets of grabs before this one are removed already.
    pub(super) removed_ahead: u32,
}

/// The result of looking up an envelope's id.
pub(super) enum Found {
    /// It exists, but its removal may have begun.
    Envelope(Box<Loaded>),
    /// It was removed.
    Removed,
    /// It never existed.
    Nothing,
}

impl Found {
    /// An envelope that is not being removed.
    pub(super) fn whole(self) -> Result<Loaded> {
        match self {
            Self::Envelope(loaded) if !loaded.state.is_removed() => Ok(*loaded),
            _ => Err(Refusal::EnvelopeNotFound.into()),
        }
    }
}

impl Loaded {
    fn of(fields: &Fields) -> Result<Self> {
        let record: EnvelopeRecord = fields.json("record")?;
        let counts = fields.bytes("grabbed").map(<[u8]>::to_vec);
        let grabbed = counts.as_deref().map(codec::decode_counts).transpose()?;
        let state = EnvelopeState {
            record,
            grabbed: grabbed.unwrap_or_default(),
            changes: EnvelopeChanges::default(),
        };
        state.check()?;
        Ok(Self {
            state,
            revision: fields.text("revision")?.into(),
            counts,
            created_sequence: fields.number("created")?,
            refund_sequence: match fields.bytes("refunded") {
                Some(_) => Some(fields.number("refunded")?),
                None => None,
            },
            removed_ahead: 0,
        })
    }

    /// As readers see it.
    pub(super) fn view(&self, partition: &PartitionKeys, now: Moment) -> Result<EnvelopeView> {
        let ledger = |sequence| LedgerId {
            partition: partition.number,
            sequence,
        };
        let refund = self.refund_sequence.map(ledger);
        self.state.view(now, ledger(self.created_sequence), refund)
    }
}

impl Core {
    /// Reads an envelope.
    pub(super) async fn load_envelope(&self, id: &EnvelopeId) -> Result<(Moment, Found)> {
        let (now, found) = self.load_envelopes(std::slice::from_ref(id)).await?;
        let found = found.into_iter().next().unwrap_or(Ok(Found::Nothing));
        Ok((now, found?))
    }

    /// Reads envelopes of one partition, at least one of them, in one moment.
    pub(super) async fn load_envelopes(
        &self,
        ids: &[EnvelopeId],
    ) -> Result<(Moment, Vec<Result<Found>>)> {
        let partition = self.envelope_partition(&ids[0]);
        let mut keys = vec![
            partition.partition.clone(),
            partition.open_envelopes.clone(),
            partition.settled_envelopes.clone(),
        ];
        let mut args: Vec<Vec<u8>> = Vec::new();
        for id in ids {
            let digest = IdDigest::envelope(id);
            keys.push(partition.envelope(id).envelope);
            keys.push(partition.removed_envelopes(digest));
            args.extend([id.as_str().into(), digest.field.to_vec()]);
        }
        let (now, mut parts) = self
            .ask(partition, &scripts::ENVELOPES, &keys, args)
            .await?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let part = parts.next()?;
            let one = match letter(&part) {
                Some(b'R') => Ok(Found::Removed),
                Some(b'M') => Ok(Found::Nothing),
                Some(b'G') => Err(gone(&partition.envelope(id).envelope)),
                Some(_) => Err(unreadable(id, "a key has another type")),
                None => Fields::of(part)
                    .and_then(|fields| Loaded::of(&fields))
                    .map(|loaded| Found::Envelope(Box::new(loaded)))
                    .map_err(|error| error.about(format_args!("envelope {id}"))),
            };
            if !matches!(one, Ok(Found::Envelope(_))) {
                self.envelopes.forget(id);
            }
            found.push(one);
        }
        Ok((now, found))
    }

    /// Reads again the entries that a field of some envelopes names. Whether it still names the one
    /// that was read before: another server may have taken over since. Those that it names are as
    /// durable as the store promises, and count as acknowledged.
    pub(super) async fn recall_entries(
        &self,
        partition: &PartitionKeys,
        field: &str,
        read: &[(EnvelopeId, u64)],
    ) -> Result<Vec<bool>> {
        let hashes = read.iter().map(|(id, _)| partition.envelope(id).envelope);
        let hashes: Vec<_> = hashes.collect();
        let mut found = self.recall(partition, &hashes, field.as_bytes()).await?;
        let mut kept = Vec::with_capacity(read.len());
        for &(_, sequence) in read {
            let stored = reply::maybe_bytes(found.next()?)?;
            let is_kept = stored.as_deref() == Some(sequence.to_string().as_bytes());
            if is_kept {
                let partition = partition.number;
                let entry = LedgerId {
                    partition,
                    sequence,
                };
                self.witnesses.repeat(&found, &entry);
            }
            kept.push(is_kept);
        }
        Ok(kept)
    }

    /// Keeps the parts of an envelope that never change.
    pub(super) fn learn_envelope(
        &self,
        partition: &Arc<PartitionKeys>,
        record: &EnvelopeRecord,
        created_sequence: u64,
    ) -> Arc<Known> {
        let known = Arc::new(Known {
            partition: Arc::clone(partition),
            keys: partition.envelope(&record.envelope.id),
            envelope: Arc::clone(&record.envelope),
            mark: codec::mark(record),
            start: record.start,
            expiry: record.expiry,
            base: Base {
                created: record.created,
                ledger: LedgerId {
                    partition: partition.number,
                    sequence: created_sequence,
                },
            },
        });
        let id = known.envelope.id.clone();
        self.envelopes.put(id, Arc::clone(&known));
        known
    }

    /// Reads the parts that never change, for several envelopes of one partition.
    pub(super) async fn know_envelopes(&self, ids: &[EnvelopeId]) -> Vec<Result<Arc<Known>>> {
        match self.load_envelopes(ids).await {
            Ok((_, found)) => ids
                .iter()
                .zip(found)
                .map(|(id, found)| {
                    let loaded = found?.whole()?;
                    let (record, created) = (&loaded.state.record, loaded.created_sequence);
                    Ok(self.learn_envelope(self.envelope_partition(id), record, created))
                })
                .collect(),
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// The error if the keys of an envelope contain something else than tombola wrote.
pub(super) fn unreadable(id: &EnvelopeId, text: &str) -> StoreError {
    StoreError::corrupt(format!(
        "the keys of envelope {id} in Redis hold something else than tombola wrote ({text}); \
         nothing is done with it until they are restored"
    ))
}
