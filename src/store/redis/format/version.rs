//! The format of the data in Redis, and which earlier formats this version can read or upgrade.

/// The format of the data that this version reads and writes. It is raised whenever an older
/// version would misread what a newer one writes:
///
/// - 2: users in sixteen hashes, draws remembered in buckets; forks may be absent
/// - 3: records of users can be extended
/// - 4: cards can be forfeited, results without a unit say why. In data of format 3 draws give a
///   user at `winsPerUser` nothing, results without a unit have no cause, and wins cannot be
///   delivered or revoked
/// - 5: prizes can have caps or be unlimited, draws of an hour and bonus draws of a day be limited,
///   callers can grant bonus draws, pools and limits can depend on segments, and pools can close
///   after wins or open after draws of a day. In data of an earlier format no such campaign can be
///   applied, since an older service would pass over what it does not know of the definition, and
///   no caller can grant anything, since it could not read the entry
pub(crate) const FORMAT: u32 = 5;
/// The lowest format whose readers know forfeited cards and causes.
pub(crate) const FULL_ENTRIES_FORMAT: u32 = 4;
/// The lowest format whose readers know all that came with caps.
pub(crate) const CAPS_FORMAT: u32 = 5;
/// The lowest format that this version can write. Data of a lower one are upgraded first.
pub(crate) const FORMAT_MIN: u32 = 3;
/// The lowest format that can be upgraded. The one before was never released.
pub(crate) const FORMAT_READ_MIN: u32 = 2;
