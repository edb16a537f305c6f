//! The quantities of one layer of a schedule.

use std::collections::BTreeMap;

use super::{
    bounds::PLANNED_UNITS_MAX,
    prizes::Prizes,
    report::{at, entry},
};
use crate::model::{number::Quantities, problem::Problems, text::grouped};

/// What every hourly layer is checked against.
pub(super) struct Layers<'a> {
    /// The prizes that a layer may name.
    pub(super) prizes: &'a Prizes<'a>,
    /// What the schedule plans by `total`.
    pub(super) total: &'a Quantities,
}

impl Layers<'_> {
    /// Reads the `perHour` of the layer at `path`.
    pub(super) fn read(
        &self,
        path: &str,
        map: &BTreeMap<String, u64>,
        problems: &mut Problems,
    ) -> Quantities {
        let path = at(path, "perHour");
        let quantities = read_quantities(&path, map, self.prizes, problems);
        for no in quantities.keys().filter(|no| self.total.contains_key(no)) {
            problems.add(
                entry(&path, self.prizes.id(*no)),
                "is planned by total already: a prize of total is in no other layer",
            );
        }
        quantities
    }
}

/// Reads units by prize; notes those of unknown prizes and those that are too many.
pub(super) fn read_quantities(
    path: &str,
    map: &BTreeMap<String, u64>,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Quantities {
    prizes.read_map(path, map, problems, |path, units, problems| {
        if *units > PLANNED_UNITS_MAX {
            let (units, most) = (grouped(*units), grouped(PLANNED_UNITS_MAX));
            problems.add(path, format!("{units} is too much: at most {most}"));
        }
        Some((*units).min(PLANNED_UNITS_MAX))
    })
}
