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
    /// The id of each prize, and whether it is grand.
    prizes: Vec<(&'a str, bool)>,
}

impl<'a> Prizes<'a> {
    /// Those of a message.
    pub(super) fn of_message(prizes: &'a [proto::Prize]) -> Self {
        Self::new(prizes.iter().map(|prize| (prize.id.as_str(), prize.grand)))
    }

    /// Those of a valid campaign.
    pub(super) fn of_campaign(campaign: &'a Campaign) -> Self {
        let prizes = campaign.prizes.iter();
        Self::new(prizes.map(|prize| (prize.id.as_str(), prize.grand)))
    }

    fn new(prizes: impl Iterator<Item = (&'a str, bool)>) -> Self {
        let prizes: Vec<_> = prizes.collect();
        let mut by_id = HashMap::new();
        for (no, (id, _)) in (0..).map(PrizeNo).zip(&prizes) {
            by_id.entry(*id).or_insert(no);
        }
        Self { by_id, prizes }
    }

    pub(super) fn is_grand(&self, no: PrizeNo) -> bool {
        let prize = self.prizes.get(usize::from(no.0));
        prize.is_some_and(|(_, is_grand)| *is_grand)
    }

    pub(super) fn id(&self, no: PrizeNo) -> &'a str {
        let prize = self.prizes.get(usize::from(no.0));
        prize.map_or("", |(id, _)| id)
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

    fn unknown(&self, id: &str) -> String {
        let known = self.prizes.iter().map(|(id, _)| *id);
        match nearest(id, known) {
            Some(near) => format!("{UNKNOWN}: did you mean {near}?"),
            None => format!("{UNKNOWN}: add it to prizes, or leave it out"),
        }
    }
}

const UNKNOWN_MORE: &str = " more unknown prizes";
const UNKNOWN: &str = "is not a prize of this campaign";

/// The problem is that a pool names a prize which the campaign has not.
pub(in crate::model) fn is_unknown_prize(problem: &Problem) -> bool {
    problem.message.starts_with(UNKNOWN) || problem.message.ends_with(UNKNOWN_MORE)
}
