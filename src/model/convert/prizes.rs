//! Prizes as the pools name them.

use std::collections::{BTreeMap, HashMap};

use super::report::entry;
use crate::{
    model::{
        campaign::Campaign,
        number::PrizeNo,
        problem::{Problem, Problems},
        text::nearest,
    },
    proto,
};

/// The prizes of a campaign by id, also of one that has problems elsewhere.
pub(super) struct Prizes<'a> {
    by_id: HashMap<&'a str, PrizeNo>,
    prizes: Vec<Known<'a>>,
}

/// What pools must know of a prize.
struct Known<'a> {
    id: &'a str,
    is_grand: bool,
    has_codes: bool,
    /// Why it can be no prize of a guarantee.
    not_guaranteed: Option<&'static str>,
}

impl<'a> Prizes<'a> {
    /// Those of a message, of which `prizes` are read.
    pub(super) fn of_message(message: &'a proto::Campaign, prizes: &'a [proto::Prize]) -> Self {
        let limits = message.limits.iter();
        let of_segments = message.segment_limits.iter();
        let mut limits = limits.chain(of_segments.filter_map(|entry| entry.limits.as_ref()));
        let is_limited = limits.any(|limits| limits.wins_per_user.is_some());
        Self::new(prizes.iter().map(|prize| Known {
            id: &prize.id,
            is_grand: prize.grand,
            has_codes: prize.codes,
            not_guaranteed: not_guaranteed(
                prize.unlimited,
                prize.per_user.is_some(),
                is_limited && prize.counts_as_win.unwrap_or(true),
            ),
        }))
    }

    /// Those of a valid campaign.
    pub(super) fn of_campaign(campaign: &'a Campaign) -> Self {
        let mut limits = campaign.all_limits();
        let is_limited = limits.any(|limits| limits.wins_per_user.is_some());
        Self::new(campaign.prizes.iter().map(|prize| Known {
            id: prize.id.as_str(),
            is_grand: prize.grand,
            has_codes: prize.codes,
            not_guaranteed: not_guaranteed(
                prize.unlimited,
                prize.per_user.is_some(),
                is_limited && prize.counts_as_win,
            ),
        }))
    }

    fn new(prizes: impl Iterator<Item = Known<'a>>) -> Self {
        let prizes: Vec<_> = prizes.collect();
        let mut by_id = HashMap::new();
        for (no, known) in (0..).map(PrizeNo).zip(&prizes) {
            by_id.entry(known.id).or_insert(no);
        }
        Self { by_id, prizes }
    }

    fn known(&self, no: PrizeNo) -> Option<&Known<'a>> {
        self.prizes.get(usize::from(no.0))
    }

    pub(super) fn is_grand(&self, no: PrizeNo) -> bool {
        self.known(no).is_some_and(|prize| prize.is_grand)
    }

    pub(super) fn has_codes(&self, no: PrizeNo) -> bool {
        self.known(no).is_some_and(|prize| prize.has_codes)
    }

    /// Why a prize can be no prize of a guarantee; none if it can.
    pub(super) fn not_guaranteed(&self, no: PrizeNo) -> Option<&'static str> {
        self.known(no)?.not_guaranteed
    }

    pub(super) fn id(&self, no: PrizeNo) -> &'a str {
        self.known(no).map_or("", |prize| prize.id)
    }

    /// The prize of an id.
    pub(super) fn no(&self, id: &str) -> Option<PrizeNo> {
        self.by_id.get(id).copied()
    }

    /// Reads a list of prize ids, and notes those that are unknown or there twice.
    pub(super) fn read_list(
        &self,
        path: &str,
        ids: &[String],
        problems: &mut Problems,
    ) -> Vec<PrizeNo> {
        let mut read = Vec::new();
        // A campaign has fewer prizes.
        for (i, id) in ids.iter().enumerate().take(LISTED_MAX) {
            let path = format!("{path}[{i}]");
            match self.no(id) {
                Some(no) if read.contains(&no) => {
                    problems.add(path, format!("{id} is there twice: leave one of them out"));
                }
                Some(no) => read.push(no),
                None => problems.add(path, self.unknown(id)),
            }
        }
        read
    }

    /// Reads a map by prize id; `read` gets the path of each entry and may note problems of its
    /// value.
    pub(super) fn read_map<V, T>(
        &self,
        path: &str,
        map: &BTreeMap<String, V>,
        problems: &mut Problems,
        mut read: impl FnMut(&str, &V, &mut Problems) -> Option<T>,
    ) -> BTreeMap<PrizeNo, T> {
        // A map of a million unknown prizes is one mistake, not a million.
        const UNKNOWN_SHOWN_MAX: usize = 10;
        let mut unknown = 0;
        let mut values = BTreeMap::new();
        for (id, value) in map {
            let path = entry(path, id);
            if let Some(no) = self.by_id.get(id.as_str()) {
                values.extend(read(&path, value, problems).map(|value| (*no, value)));
                continue;
            }
            unknown += 1;
            if unknown <= UNKNOWN_SHOWN_MAX {
                problems.add(path, self.unknown(id));
            }
        }
        if unknown > UNKNOWN_SHOWN_MAX {
            let more = unknown - UNKNOWN_SHOWN_MAX;
            problems.add(path, format!("names {more}{UNKNOWN_MORE}"));
        }
        values
    }

    /// What is wrong with the id of a prize that there is none of.
    pub(super) fn unknown(&self, id: &str) -> String {
        let known = self.prizes.iter().map(|prize| prize.id);
        match nearest(id, known) {
            Some(near) => format!("{UNKNOWN}: did you mean {near}?"),
            None => format!("{UNKNOWN}: add it to prizes, or leave it out"),
        }
    }
}

/// The most ids of a list that are read.
const LISTED_MAX: usize = 200;

/// Why a prize can be no prize of a guarantee.
fn not_guaranteed(is_unlimited: bool, has_cap: bool, is_limited: bool) -> Option<&'static str> {
    if !is_unlimited {
        return Some("is not unlimited: a guarantee could not be kept once it runs out");
    }
    if has_cap {
        return Some("has a cap (perUser): a guarantee could not be kept beyond it");
    }
    is_limited.then_some(
        "counts as a win, and winsPerUser is set: a guarantee could not be kept beyond that limit; \
         set countsAsWin to false",
    )
}

const UNKNOWN_MORE: &str = " more unknown prizes";
const UNKNOWN: &str = "is not a prize of this campaign";

/// The problem is that a pool names a prize which the campaign has not.
pub(in crate::model) fn is_unknown_prize(problem: &Problem) -> bool {
    problem.message.starts_with(UNKNOWN) || problem.message.ends_with(UNKNOWN_MORE)
}
