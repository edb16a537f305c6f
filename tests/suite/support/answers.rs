//! Helpers to read the answer of a draw.

use tombola::{
    model::Moment,
    store::{Cause, DrawAnswer, DrawResult, WonUnit},
};

/// Reads an answer.
pub trait Answer {
    /// The ids of the prizes in order; `-` for the consolation prize, an empty text for nothing.
    fn prizes(&self) -> Vec<&str>;
    /// The number of wins of this prize.
    fn count(&self, prize: &str) -> usize;
    /// The number of wins.
    fn wins(&self) -> usize;
    /// The number of forfeited cards.
    fn forfeited(&self) -> usize;
    /// The release times of units from schedules, in order.
    fn releases(&self) -> Vec<Moment>;
    /// Why draws won nothing, in order.
    fn causes(&self) -> Vec<Cause>;
    /// The units that were won, in order.
    fn won_units(&self) -> Vec<WonUnit>;
}

impl Answer for DrawAnswer {
    fn prizes(&self) -> Vec<&str> {
        let name = |result: &DrawResult| match result {
            DrawResult::Won { prize, .. } => self.campaign.prize(*prize).id.as_str(),
            DrawResult::NotWon {
                consolation: true, ..
            } => "-",
            DrawResult::NotWon { .. } => "",
        };
        // The ids live as long as the answer, which is longer than the closure's argument.
        let mut prizes = Vec::new();
        for result in &self.entry.results {
            prizes.push(name(result));
        }
        prizes
    }

    fn count(&self, prize: &str) -> usize {
        self.prizes().into_iter().filter(|id| *id == prize).count()
    }

    fn wins(&self) -> usize {
        let is_win = |result: &&DrawResult| matches!(result, DrawResult::Won { .. });
        self.entry.results.iter().filter(is_win).count()
    }

    fn forfeited(&self) -> usize {
        let causes = self.causes().into_iter();
        causes
            .filter(|cause| matches!(cause, Cause::Forfeited { .. }))
            .count()
    }

    fn releases(&self) -> Vec<Moment> {
        let release = |result: &DrawResult| match result {
            DrawResult::Won { release, .. } => *release,
            _ => None,
        };
        self.entry.results.iter().filter_map(release).collect()
    }

    fn causes(&self) -> Vec<Cause> {
        let cause = |result: &DrawResult| match result {
            DrawResult::Won { .. } => None,
            DrawResult::NotWon { cause, .. } => Some(*cause),
        };
        self.entry.results.iter().filter_map(cause).collect()
    }

    fn won_units(&self) -> Vec<WonUnit> {
        let unit = |result: &DrawResult| match *result {
            DrawResult::Won {
                prize, pool, unit, ..
            } => Some(WonUnit {
                user: self.entry.user.clone(),
                prize,
                pool,
                unit,
            }),
            DrawResult::NotWon { .. } => None,
        };
        self.entry.results.iter().filter_map(unit).collect()
    }
}
