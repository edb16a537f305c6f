//! Segments: groups of users, such as members or a region. The caller states with a draw those that
//! its user is in; nothing is kept of them but in the ledger.

use super::{campaign::Campaign, id::SegmentId, limits::DrawLimits, number::PoolNo};

/// The most segments of a request.
pub const SEGMENTS_MAX: usize = 16;

/// For which users a pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRule {
    /// For users in one of these; empty: for everybody.
    pub any: Vec<SegmentId>,
    /// But not for users in one of these.
    pub none: Vec<SegmentId>,
}

impl SegmentRule {
    /// Whether the pool is for a user in these segments.
    pub fn admits(&self, segments: &[SegmentId]) -> bool {
        let is_in = |named: &[SegmentId]| named.iter().any(|segment| segments.contains(segment));
        (self.any.is_empty() || is_in(&self.any)) && !is_in(&self.none)
    }
}

/// Limits of users in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentLimits {
    /// The segment.
    pub segment: SegmentId,
    /// What it replaces; an absent limit stays as it is for everybody.
    pub own: DrawLimits,
    /// The limits that result.
    pub limits: DrawLimits,
}

impl SegmentLimits {
    /// The limits of a segment in a campaign with these limits.
    pub fn new(segment: SegmentId, own: DrawLimits, of_all: &DrawLimits) -> Self {
        Self {
            segment,
            own,
            limits: DrawLimits {
                draws_per_day: own.draws_per_day.or(of_all.draws_per_day),
                paid_draws_per_day: own.paid_draws_per_day.or(of_all.paid_draws_per_day),
                draws_per_user: own.draws_per_user.or(of_all.draws_per_user),
                wins_per_user: own.wins_per_user.or(of_all.wins_per_user),
                draws_per_hour: own.draws_per_hour.or(of_all.draws_per_hour),
                granted_per_day: own.granted_per_day.or(of_all.granted_per_day),
            },
        }
    }
}

impl Campaign {
    /// A pool or a limit depends on segments. If none does, what callers state is ignored.
    pub fn names_segments(&self) -> bool {
        !self.segment_limits.is_empty() || self.pools.iter().any(|pool| pool.segments.is_some())
    }

    /// The segments that limits and pools ask for; a segment may be there more than once.
    pub fn named_segments(&self) -> impl Iterator<Item = &SegmentId> {
        let limits = self.segment_limits.iter().map(|entry| &entry.segment);
        let rules = self.pools.iter().filter_map(|pool| pool.segments.as_ref());
        limits.chain(rules.flat_map(|rule| rule.any.iter().chain(&rule.none)))
    }

    /// What counts of the segments that a caller states.
    pub fn known_segments<'a>(&self, stated: &'a [SegmentId]) -> &'a [SegmentId] {
        if self.names_segments() { stated } else { &[] }
    }

    /// The limits of a user in these segments: of the first entry of `segment_limits` whose segment
    /// is among them, else those of everybody.
    pub fn limits_of(&self, segments: &[SegmentId]) -> &DrawLimits {
        self.limits_at(self.limits_index(segments))
    }

    /// The index of these limits: 0 for those of everybody.
    pub fn limits_index(&self, segments: &[SegmentId]) -> usize {
        let mut entries = self.segment_limits.iter();
        let found = entries.position(|entry| segments.contains(&entry.segment));
        found.map_or(0, |index| index + 1)
    }

    /// The limits of this index.
    pub fn limits_at(&self, index: usize) -> &DrawLimits {
        let entry = index
            .checked_sub(1)
            .and_then(|it| self.segment_limits.get(it));
        entry.map_or(&self.limits, |entry| &entry.limits)
    }

    /// The limits of everybody, and those of each segment.
    pub fn all_limits(&self) -> impl Iterator<Item = &DrawLimits> {
        let of_segments = self.segment_limits.iter().map(|entry| &entry.limits);
        std::iter::once(&self.limits).chain(of_segments)
    }

    /// Pools that are not for a user in these segments.
    pub fn pools_closed_to(&self, segments: &[SegmentId]) -> impl Iterator<Item = PoolNo> {
        let pools = self.numbered_pools();
        pools.filter_map(|(no, pool)| {
            let rule = pool.segments.as_ref()?;
            (!rule.admits(segments)).then_some(no)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(ids: &[&str]) -> Vec<SegmentId> {
        let parsed = ids.iter().map(|id| SegmentId::parse("segments", id));
        parsed.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_rule_wants_one_of_any_and_none_of_none() {
        let rule = |any, none| SegmentRule {
            any: segments(any),
            none: segments(none),
        };
        let both = rule(&["north", "south"], &["staff"]);
        for (stated, is_admitted) in [
            (&[][..], false),
            (&["north"], true),
            (&["west", "south"], true),
            (&["north", "staff"], false),
            (&["staff"], false),
        ] {
            assert_eq!(both.admits(&segments(stated)), is_admitted, "{stated:?}");
        }
        let not_staff = rule(&[], &["staff"]);
        assert!(not_staff.admits(&[]) && !not_staff.admits(&segments(&["staff"])));
    }

    #[test]
    fn limits_of_a_segment_replace_those_that_they_set() {
        let of_all = DrawLimits {
            draws_per_day: Some(3),
            wins_per_user: Some(5),
            ..DrawLimits::default()
        };
        let own = DrawLimits {
            draws_per_day: Some(0),
            draws_per_hour: Some(1),
            ..DrawLimits::default()
        };
        let segment = SegmentId::parse("segment", "new").unwrap();
        let limits = SegmentLimits::new(segment, own, &of_all).limits;
        assert_eq!(
            limits,
            DrawLimits {
                wins_per_user: Some(5),
                ..own
            }
        );
    }
}
