//! The counts of a user, and the fields that extend a record or the counts of a draw (`record` has
//! the table).

use super::codec::{Packer, Unpacker, malformed};
use crate::{
    model::{
        PoolNo, PrizeNo,
        caps::PrizeCounts,
        limits::UserCounts,
        personal::{Counter, GuaranteeKey, PoolProgress, Progress},
    },
    store::{Result, StoreError},
};

/// Bytes of all fields that extend a record: enough for a hundred prizes with the largest counts.
pub(crate) const EXTENSION_BYTES_MAX: usize = 2048;
/// The field with the wins of prizes that have caps.
pub(crate) const PRIZES_FIELD: u8 = 1;
/// The field with the free draws of an hour.
pub(crate) const HOUR_FIELD: u8 = 2;
/// The field with the bonus draws that callers granted on the day.
pub(crate) const GRANTED_FIELD: u8 = 3;
/// The field with the progress in personal pools.
pub(crate) const PROGRESS_FIELD: u8 = 4;
/// The field with the bonus draws made on the day.
pub(crate) const BONUS_TODAY_FIELD: u8 = 5;
/// Begins the counts of a draw that are followed by fields: nil, as msgpack has it.
pub(crate) const EXTENDED_COUNTS: u8 = 0xc0;

/// The six counts.
pub(super) fn pack_counts(packer: &mut Packer, counts: &UserCounts) {
    packer
        .count(counts.free_today.into())
        .count(counts.paid_today.into());
    packer.count(counts.draws).count(counts.bonus_used);
    packer.count(counts.wins).count(counts.bonus_left);
}

/// The counts of a draw, as they are beside it.
pub(super) fn pack_draw_counts(packer: &mut Packer, counts: &UserCounts) {
    if has_fields(counts) {
        packer.0.push(EXTENDED_COUNTS);
    }
    pack_counts(packer, counts);
    pack_fields(packer, counts);
}

/// Reads the counts of a draw.
pub(super) fn decode_draw_counts(unpacker: &mut Unpacker<'_>) -> Result<UserCounts> {
    let is_extended = unpacker.take(&[EXTENDED_COUNTS]);
    let mut counts = decode_counts(unpacker)?;
    if is_extended {
        decode_fields(unpacker, &mut counts)?;
    }
    Ok(counts)
}

/// Reads the six counts.
pub(super) fn decode_counts(unpacker: &mut Unpacker<'_>) -> Result<UserCounts> {
    let counts = UserCounts {
        free_today: unpacker.int()?,
        paid_today: unpacker.int()?,
        draws: unpacker.int()?,
        bonus_used: unpacker.int()?,
        wins: unpacker.int()?,
        bonus_left: unpacker.int()?,
        prizes: PrizeCounts::default(),
        hour: None,
        granted_today: 0,
        bonus_today: 0,
        progress: Progress::default(),
    };
    if counts.bonus_used > counts.draws {
        return Err(malformed());
    }
    Ok(counts)
}

/// Reads the fields that extend a record.
pub(super) fn decode_fields(unpacker: &mut Unpacker<'_>, counts: &mut UserCounts) -> Result<()> {
    let length = unpacker.big_endian(2)? as usize;
    if length > EXTENSION_BYTES_MAX {
        return Err(malformed());
    }
    let mut fields = Unpacker::new(unpacker.raw(length)?);
    let mut last = 0;
    while !fields.is_done() {
        let tag = fields.int()?;
        match tag {
            PRIZES_FIELD if last < tag => counts.prizes = decode_prizes(&mut fields)?,
            HOUR_FIELD if last < tag => {
                if fields.list()? != 2 {
                    return Err(malformed());
                }
                counts.hour = Some((fields.int::<i64>()?, fields.int::<u32>()?).into());
            }
            GRANTED_FIELD if last < tag => counts.granted_today = fields.int()?,
            PROGRESS_FIELD if last < tag => counts.progress = decode_progress(&mut fields)?,
            BONUS_TODAY_FIELD if last < tag => counts.bonus_today = fields.int()?,
            PRIZES_FIELD | HOUR_FIELD | GRANTED_FIELD | PROGRESS_FIELD | BONUS_TODAY_FIELD => {
                return Err(malformed());
            }
            _ => {
                return Err(StoreError::corrupt(format!(
                    "the record of a user has field {tag}, which this version of tombola does not \
                     know"
                )));
            }
        }
        last = tag;
    }
    Ok(())
}

fn decode_prizes(fields: &mut Unpacker<'_>) -> Result<PrizeCounts> {
    let words = fields.list()?;
    if words % 3 != 0 {
        return Err(malformed());
    }
    let counts = (0..words / 3).map(|_| Ok((PrizeNo(fields.int()?), fields.int()?, fields.int()?)));
    counts.collect()
}

/// The progress in all personal pools, as [`pack_progress`] packs it.
pub(crate) fn decode_progress(fields: &mut Unpacker<'_>) -> Result<Progress> {
    let words = fields.list()?;
    if words == 0 || words % 2 != 0 {
        return Err(malformed());
    }
    let mut progress = Progress::default();
    for _ in 0..words / 2 {
        let pool = PoolNo(fields.int()?);
        let is_next = progress
            .0
            .last_key_value()
            .is_none_or(|(last, _)| *last < pool);
        let known = decode_pool_progress(fields.bytes()?)?;
        if !is_next {
            return Err(malformed());
        }
        progress.0.insert(pool, known);
    }
    Ok(progress)
}

/// Packs the progress in all personal pools, of which there is at least one: a list of pool and
/// progress, and so on.
pub(crate) fn pack_progress(packer: &mut Packer, progress: &Progress) {
    packer.list(progress.0.len() * 2);
    for (pool, progress) in &progress.0 {
        packer.count(pool.0.into()).bytes(&pool_progress(progress));
    }
}

/// The progress in one pool: the position; then of each counter the key of its guarantee, and twice
/// its draws plus 1 if its last prize was none of `among`.
pub(crate) fn pool_progress(progress: &PoolProgress) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.count(progress.position);
    for (key, counter) in &progress.counters {
        let counted = u64::from(counter.since) * 2 + u64::from(counter.missed);
        packer.count(key.0.into()).count(counted);
    }
    packer.done()
}

fn decode_pool_progress(bytes: &[u8]) -> Result<PoolProgress> {
    let mut unpacker = Unpacker::new(bytes);
    let mut progress = PoolProgress {
        position: unpacker.int()?,
        ..PoolProgress::default()
    };
    while !unpacker.is_done() {
        let key = GuaranteeKey(unpacker.int()?);
        let counted: u64 = unpacker.int()?;
        let counter = Counter {
            since: u32::try_from(counted / 2).map_err(|_| malformed())?,
            missed: counted % 2 == 1,
        };
        let is_next = progress
            .counters
            .last_key_value()
            .is_none_or(|(last, _)| *last < key);
        if counted == 0 || !is_next {
            return Err(malformed());
        }
        progress.counters.insert(key, counter);
    }
    Ok(progress)
}

pub(super) fn has_fields(counts: &UserCounts) -> bool {
    !counts.prizes.is_empty()
        || counts.hour.is_some()
        || counts.granted_today > 0
        || !counts.progress.is_empty()
        || counts.bonus_today > 0
}

/// The fields of a record with these counts; nothing if it has none.
pub(super) fn pack_fields(packer: &mut Packer, counts: &UserCounts) {
    if !has_fields(counts) {
        return;
    }
    let mut fields = Packer::default();
    if !counts.prizes.is_empty() {
        fields.count(PRIZES_FIELD.into());
        fields.list(counts.prizes.iter().count() * 3);
    }
    for (prize, today, total) in counts.prizes.iter() {
        fields
            .count(prize.0.into())
            .count(today.into())
            .count(total);
    }
    if let Some(hour) = counts.hour {
        fields.count(HOUR_FIELD.into()).list(2);
        fields.int(hour.start.as_seconds()).count(hour.draws.into());
    }
    if counts.granted_today > 0 {
        let granted = counts.granted_today.into();
        fields.count(GRANTED_FIELD.into()).count(granted);
    }
    if !counts.progress.is_empty() {
        fields.count(PROGRESS_FIELD.into());
        pack_progress(&mut fields, &counts.progress);
    }
    if counts.bonus_today > 0 {
        let made = counts.bonus_today.into();
        fields.count(BONUS_TODAY_FIELD.into()).count(made);
    }
    let fields = fields.done();
    packer.big_endian(fields.len() as u64, 2);
    packer.0.extend(fields);
}
