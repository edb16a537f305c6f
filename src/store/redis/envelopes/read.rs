//! Reads of envelopes: which users have which packets, which envelopes are due, and the sums.

use std::{collections::BTreeMap, time::Duration};

use super::{codec, load::Loaded};
use crate::store::redis::{
    core::Core,
    format::{
        keys::PartitionKeys,
        reply::{self, Parts},
        scripts,
    },
};
use crate::{
    model::EnvelopeId,
    store::{EnvelopeSums, EnvelopeTotals, GrabView, LedgerId, Result, StoreError},
};

/// Buckets of grabs that are read at a time, each of short ids and of long ones: a script of about
/// a millisecond.
const BUCKETS_READ: u32 = 16;
/// The unit of a field whose name ends in `:high`.
const SUM_PART: i128 = 1_000_000_000_000_000_000;

impl Core {
    /// The grabs of an envelope after packet `after`, in order, at most `limit`. Buckets are read
    /// until all of these are found.
    pub(super) async fn grabs(
        &self,
        loaded: &Loaded,
        after: u32,
        limit: usize,
    ) -> Result<Vec<GrabView>> {
        let envelope = &loaded.state.record.envelope;
        let partition = self.envelope_partition(&envelope.id);
        let record = &loaded.state.record;
        let known = self.learn_envelope(partition, record, loaded.created_sequence);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let until = loaded
            .state
            .grabbed
            .packets
            .min(after.saturating_add(limit));
        let wanted = until.saturating_sub(after) as usize;
        let mut found = BTreeMap::new();
        let buckets = codec::grab_buckets(envelope.packets);
        let mut bucket = 0;
        while found.len() < wanted && bucket < buckets {
            let next = buckets.min(bucket + BUCKETS_READ);
            let mut keys = vec![partition.partition.clone()];
            for bucket in bucket..next {
                keys.extend([false, true].map(|is_long| known.keys.grabs(bucket, is_long)));
            }
            let (_, mut parts) = self
                .ask(partition, &scripts::GRABS, &keys, Vec::<Vec<u8>>::new())
                .await?;
            let first = self.first(&mut parts)?;
            parts.put_back(first);
            while let Some(grabs) = parts.maybe_next() {
                let mut grabs = Parts::of(grabs)?;
                while let Some(name) = grabs.maybe_next() {
                    let (name, value) = (reply::bytes(name)?, reply::bytes(grabs.next()?)?);
                    let grab = codec::decode_grab_of(&name, &value, known.base)?;
                    if (after + 1..=until).contains(&grab.packet.number) {
                        found.insert(grab.packet.number, grab);
                    }
                }
            }
            bucket = next;
        }
        if found.len() < wanted {
            // It may have been removed in the meantime.
            let (_, again) = self.load_envelope(&envelope.id).await?;
            again.whole()?;
            return Err(StoreError::corrupt(format!(
                "grabs of envelope {} are missing",
                envelope.id
            )));
        }
        Ok(found.into_values().collect())
    }

    /// Envelopes of a partition whose refund, or whose removal, is due.
    pub(super) async fn due_envelopes(
        &self,
        partition: u32,
        retention: Duration,
        limit: usize,
    ) -> Result<Vec<EnvelopeId>> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Vec::new());
        };
        let all = [
            keys.partition.clone(),
            keys.open_envelopes.clone(),
            keys.settled_envelopes.clone(),
        ];
        let args = [retention.as_micros().to_string(), limit.to_string()];
        let (_, mut parts) = self.ask(keys, &scripts::DUE_ENVELOPES, &all, args).await?;
        let ids = reply::list(self.first(&mut parts)?)?.into_iter();
        ids.map(|id| {
            let id = EnvelopeId::parse("envelope", &reply::text(id)?);
            id.map_err(|problem| StoreError::corrupt(problem.message))
        })
        .collect()
    }

    /// The sums of all envelopes, by currency.
    pub(super) async fn envelope_sums(&self) -> Result<EnvelopeTotals> {
        let mut totals = BTreeMap::<String, i128>::new();
        let mut heads = Vec::new();
        for partition in &self.partitions {
            heads.push(self.add_sums(partition, &mut totals).await?);
        }
        let mut sums = BTreeMap::<&str, EnvelopeSums>::new();
        for (name, total) in &totals {
            let (currency, what) = name.split_once(':').ok_or_else(|| no_sum(name))?;
            let sum = sums.entry(currency).or_insert_with(|| EnvelopeSums {
                currency: currency.to_owned(),
                envelopes_agree: true,
                ..EnvelopeSums::default()
            });
            let total = u128::try_from(*total).map_err(|_| no_sum(name))?;
            match what {
                "envelopes" => sum.envelopes = total.try_into().map_err(|_| no_sum(name))?,
                "open" => sum.open = total.try_into().map_err(|_| no_sum(name))?,
                "created" => sum.created_minor = total,
                "grabbed" => sum.grabbed_minor = total,
                "waiting" => sum.waiting_minor = total,
                "refunded" => sum.refunded_minor = total,
                _ => return Err(no_sum(name)),
            }
        }
        Ok(EnvelopeTotals {
            sums: sums.into_values().collect(),
            heads,
        })
    }

    /// Adds what a partition has counted, by currency and what was counted. Returns its last entry.
    async fn add_sums(
        &self,
        partition: &PartitionKeys,
        totals: &mut BTreeMap<String, i128>,
    ) -> Result<LedgerId> {
        let keys = [partition.partition.clone(), partition.envelope_sums.clone()];
        let (_, mut parts) = self
            .ask(
                partition,
                &scripts::ENVELOPE_SUMS,
                &keys,
                Vec::<Vec<u8>>::new(),
            )
            .await?;
        let mut fields = Parts::of(self.first(&mut parts)?)?;
        while let Some(name) = fields.maybe_next() {
            let name = reply::text(name)?;
            let value: i128 = reply::number(fields.next()?)?;
            let (name, value) = match name.strip_suffix(":high") {
                Some(name) => (name, value * SUM_PART),
                None => (name.as_str(), value),
            };
            *totals.entry(name.to_owned()).or_default() += value;
        }
        Ok(LedgerId {
            partition: partition.number,
            sequence: reply::number(parts.next()?)?,
        })
    }
}

fn no_sum(name: &str) -> StoreError {
    StoreError::corrupt(format!("`{name}` is no sum of envelopes"))
}
