//! The format of the data in Redis, and which earlier formats this version can read or upgrade.

use crate::model::Campaign;

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
/// - 6: campaigns can have budgets, personal pools and guarantees, and require approvals. In data
///   of an earlier format none of these can be applied, and nothing can be proposed
pub(crate) const FORMAT: u32 = 6;
/// The lowest format whose readers know forfeited cards and causes.
pub(crate) const FULL_ENTRIES_FORMAT: u32 = 4;
/// The lowest format whose readers know all that came with caps.
pub(crate) const CAPS_FORMAT: u32 = 5;
/// The lowest format whose readers know budgets, personal pools, guarantees and approvals.
pub(crate) const GUARANTEES_FORMAT: u32 = 6;
/// The lowest format that this version can write. Data of a lower one are upgraded first.
pub(crate) const FORMAT_MIN: u32 = 3;
/// The lowest format that can be upgraded. The one before was never released.
pub(crate) const FORMAT_READ_MIN: u32 = 2;

/// The lowest format in which a campaign can be applied: readers of an earlier one would pass over
/// something that its definition says. They would draw without a cap, find an unlimited prize out
/// of stock, or give units without their codes.
pub(crate) fn needed_by(campaign: &Campaign) -> u32 {
    let mut prizes = campaign.prizes.iter();
    if campaign.budget.is_some()
        || campaign.has_personal_pools()
        || !campaign.guarantees.is_empty()
        || campaign.approval_required
    {
        GUARANTEES_FORMAT
    } else if campaign.limits.draws_per_hour.is_some()
        || campaign.limits.granted_per_day.is_some()
        || campaign.names_segments()
        || campaign.counts_bonus_of_day()
        || campaign
            .pools
            .iter()
            .any(|pool| pool.lock_after_wins.is_some())
        || prizes.any(|prize| prize.unlimited || prize.codes || prize.per_user.is_some())
    {
        CAPS_FORMAT
    } else {
        FORMAT_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{convert::campaign_from_proto, file};

    /// The format that a deck of 10 cards needs with these additions.
    fn needed(prize: &str, pool: &str, rest: &str) -> u32 {
        let text = format!(
            "{{id: w, timeZone: UTC, startTime: '2026-12-01T00:00:00Z', \
             endTime: '2026-12-02T00:00:00Z', \
             prizes: [{{id: a, value: {{currencyCode: CNY, units: 1}}, {prize}}}], \
             pools: [{{id: p, {pool}}}], {rest}}}"
        );
        let campaign = campaign_from_proto(&file::parse(&text).unwrap()[0]);
        needed_by(&campaign.unwrap_or_else(|problems| panic!("{text}: {problems}")))
    }

    #[test]
    fn a_campaign_needs_readers_who_know_all_that_it_says() {
        const DECK: &str = "deck: {size: 10, cards: {a: 1}}";
        const STOCK: &str = "stock: 10";
        assert_eq!(needed(STOCK, DECK, "limits: {drawsPerDay: 1}"), FORMAT_MIN);
        for (prize, pool, rest) in [
            ("unlimited: true", DECK, ""),
            ("codes: true", DECK, ""),
            ("stock: 10, perUser: {total: 1}", DECK, ""),
            (
                STOCK,
                "lockAfterWins: 1, deck: {size: 10, cards: {a: 1}}",
                "",
            ),
            (
                STOCK,
                "unlockAfterDrawsToday: 1, deck: {size: 10, cards: {a: 1}}",
                "",
            ),
            (
                STOCK,
                "segments: {any: [b]}, deck: {size: 10, cards: {a: 1}}",
                "",
            ),
            (
                STOCK,
                DECK,
                "segmentLimits: [{segment: b, limits: {drawsPerDay: 1}}]",
            ),
            (STOCK, DECK, "limits: {drawsPerHour: 1}"),
            (STOCK, DECK, "limits: {grantedPerDay: 1}"),
        ] {
            assert_eq!(
                needed(prize, pool, rest),
                CAPS_FORMAT,
                "{prize} {pool} {rest}"
            );
        }
        let budget = "budget: {perDay: {currencyCode: CNY, units: 5}}";
        assert_eq!(needed("unlimited: true", DECK, budget), GUARANTEES_FORMAT);
        let personal = "personal: {odds: {a: 1%}}";
        assert_eq!(needed("unlimited: true", personal, ""), GUARANTEES_FORMAT);
        let guarantee = "guarantees: [{id: g, prizes: [a], within: 5}]";
        assert_eq!(needed(STOCK, DECK, guarantee), GUARANTEES_FORMAT);
        let approved = "approvalRequired: true";
        assert_eq!(needed(STOCK, DECK, approved), GUARANTEES_FORMAT);
    }
}
