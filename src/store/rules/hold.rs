//! What operators hold, with a note of each hold.

use super::state::State;
use crate::{
    model::PrizeNo,
    store::{Hold, HoldNote, Holds, Lifecycle},
};

/// The holds of a campaign that has this lifecycle and these paused prizes. A hold that is `known`
/// keeps its note; any other one was begun by the author of `note`. Known holds that have ended are
/// left out: an older version of tombola ends a hold without removing its note.
pub(in crate::store) fn holds(
    lifecycle: Lifecycle,
    paused_prizes: &[PrizeNo],
    known: &[Hold],
    note: Option<&HoldNote>,
) -> Holds {
    let campaign = (lifecycle == Lifecycle::Paused).then_some(None);
    let held = campaign
        .into_iter()
        .chain(paused_prizes.iter().map(|prize| Some(*prize)));
    let hold_of = |prize| {
        let known = known.iter().find(|hold| hold.prize == prize);
        known.cloned().unwrap_or_else(|| Hold {
            prize,
            note: note.cloned(),
        })
    };
    held.map(hold_of).collect()
}

impl State {
    /// Brings the holds to the lifecycle and the paused prizes, after a rule has changed these. The
    /// author of `note` has begun what was not held before.
    pub(super) fn update_holds(&mut self, note: Option<&HoldNote>) {
        let view = &mut self.view;
        view.holds = holds(view.lifecycle, &view.paused_prizes, &view.holds, note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Moment, OperatorId};

    fn note(operator: &str) -> HoldNote {
        HoldNote {
            at: Moment::EPOCH,
            operator: OperatorId::parse("operator", operator).unwrap(),
            reason: String::new(),
        }
    }

    fn hold(prize: Option<u16>, by: Option<&str>) -> Hold {
        Hold {
            prize: prize.map(PrizeNo),
            note: by.map(note),
        }
    }

    #[test]
    fn a_hold_keeps_the_note_of_its_beginning() {
        let known = [hold(None, Some("anna")), hold(Some(1), None)];
        let paused = [PrizeNo(1), PrizeNo(2)];
        let held = holds(Lifecycle::Paused, &paused, &known, Some(&note("ben")));
        let expected = [
            hold(None, Some("anna")),
            hold(Some(1), None),
            hold(Some(2), Some("ben")),
        ];
        assert_eq!(*held, expected);
    }

    #[test]
    fn a_hold_that_has_ended_is_left_out_and_one_without_a_note_is_not() {
        let known = [hold(None, Some("anna")), hold(Some(1), Some("anna"))];
        let held = holds(Lifecycle::Open, &[PrizeNo(0)], &known, None);
        assert_eq!(*held, [hold(Some(0), None)]);
    }
}
