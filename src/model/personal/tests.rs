use super::*;
use crate::model::personal::odds::{Shares, base, effective};

const STAR: PrizeNo = PrizeNo(0);
const OTHER_STAR: PrizeNo = PrizeNo(1);
const CARD: PrizeNo = PrizeNo(2);

pub(crate) fn odds(weights: &[(PrizeNo, u64)], all: u64) -> PersonalOdds {
    let named: u64 = weights.iter().map(|(_, weight)| weight).sum();
    PersonalOdds {
        written: BTreeMap::new(),
        weights: weights.iter().copied().collect(),
        blanks: all - named,
    }
}

pub(crate) fn guarantee(id: &str, prizes: &[PrizeNo], within: u32) -> Guarantee {
    Guarantee {
        id: GuaranteeId::parse("id", id).unwrap(),
        prizes: prizes.to_vec(),
        within: (within > 0).then_some(within),
        ramp: Vec::new(),
        among: Vec::new(),
    }
}

pub(crate) fn ramp(from: u32, percent: u64) -> Ramp {
    let divisor = greatest_common_divisor(percent, 100);
    Ramp {
        from,
        add: Share {
            numerator: percent / divisor,
            denominator: 100 / divisor,
        },
        written: format!("{percent}%"),
    }
}

pub(crate) fn personal(odds: PersonalOdds, guarantees: Vec<Guarantee>) -> Personal {
    Personal {
        kind: PersonalKind::Odds(odds),
        fallback: None,
        guarantees,
    }
}

fn shares(odds: PersonalOdds, guarantees: Vec<Guarantee>) -> Shares {
    effective(&personal(odds.clone(), guarantees), &odds).unwrap()
}

pub(crate) fn soft_pity(prizes: &[PrizeNo]) -> Guarantee {
    Guarantee {
        ramp: vec![ramp(74, 6)],
        ..guarantee("star", prizes, 90)
    }
}

fn assert_share(shares: &Shares, prize: Option<PrizeNo>, expected: f64) {
    let share = shares.get(&prize).copied().unwrap_or(0.0);
    assert!((share - expected).abs() < 1e-9, "{share} is not {expected}");
}

/// The share of a prize by the product of the chances of each draw, without a chain.
fn by_renewal(chance_of: impl Fn(u32) -> f64, within: u32) -> f64 {
    let (mut without, mut draws) = (1.0, 0.0);
    for draw in 1..=within {
        draws += without;
        without *= 1.0 - chance_of(draw);
    }
    1.0 / draws
}

#[test]
pub(crate) fn soft_pity_has_the_odds_of_its_renewals() {
    let shares = shares(odds(&[(STAR, 6)], 1000), vec![soft_pity(&[STAR])]);
    let expected = by_renewal(
        |draw| match draw {
            90 => 1.0,
            _ => (0.006 + 0.06 * f64::from(draw.saturating_sub(73))).min(1.0),
        },
        90,
    );
    assert_share(&shares, Some(STAR), expected);
    assert_eq!(format!("{:.6}%", shares[&Some(STAR)] * 100.0), "1.605205%");
    assert_eq!(format!("{:.4}", 1.0 / shares[&Some(STAR)]), "62.2973");
    assert_share(&shares, None, 1.0 - expected);
}

#[test]
fn of_a_50_50_the_named_prize_is_two_of_three() {
    let fifty = Guarantee {
        among: vec![STAR],
        ..soft_pity(&[STAR, OTHER_STAR])
    };
    let shares = shares(odds(&[(STAR, 3), (OTHER_STAR, 3)], 1000), vec![fifty]);
    assert_eq!(format!("{:.6}%", shares[&Some(STAR)] * 100.0), "1.070137%");
    assert_share(&shares, Some(OTHER_STAR), shares[&Some(STAR)] / 2.0);
}

#[test]
fn a_chain_without_chance_has_odds() {
    // Nothing but guarantees gives a prize: card, card, star, and so on.
    let both = vec![guarantee("star", &[STAR], 3), guarantee("card", &[CARD], 1)];
    let shares = shares(odds(&[], 1), both);
    assert_share(&shares, Some(STAR), 1.0 / 3.0);
    assert_share(&shares, Some(CARD), 2.0 / 3.0);
    assert_share(&shares, None, 0.0);
}

#[test]
fn a_ramp_adds_its_share_at_each_draw_up_to_the_next_entry() {
    let steps = Guarantee {
        ramp: vec![ramp(3, 10), ramp(5, 30)],
        ..guarantee("steps", &[STAR], 0)
    };
    let raised = [
        None,
        None,
        Some((1, 10)),
        Some((2, 10)),
        Some((5, 10)),
        Some((8, 10)),
    ];
    for (draw, expected) in (1..).zip(raised) {
        assert_eq!(steps.raise(draw), expected, "{draw}");
    }
    assert_eq!((steps.raise(7), steps.last_draw()), (Some((10, 10)), 7));
    assert_eq!(soft_pity(&[STAR]).last_draw(), 90);
    assert_eq!(guarantee("none", &[STAR], 0).last_draw(), 1);
}

/// Gives the answers that a test names, and checks the weights.
struct Answers<'a>(&'a [(&'a [u64], usize)]);

impl Chance for Answers<'_> {
    fn one_of(&mut self, weights: &[u64]) -> usize {
        if weights.iter().filter(|weight| **weight > 0).count() == 1 {
            return weights.iter().position(|weight| *weight > 0).unwrap();
        }
        let (expected, answer) = self.0[0];
        assert_eq!(weights, expected);
        self.0 = &self.0[1..];
        answer
    }
}

#[test]
fn a_prize_that_is_held_leaves_its_guarantee_due() {
    let odds = odds(&[(STAR, 1), (CARD, 9)], 100);
    let personal = personal(
        odds.clone(),
        vec![guarantee("star", &[STAR, OTHER_STAR], 2)],
    );
    let mut counters = vec![Counter {
        since: 1,
        missed: false,
    }];
    let draw = |counters: &[Counter], held: &[PrizeNo], answers: &[(&[u64], usize)]| {
        let mut answers = Answers(answers);
        let is_held = |prize: PrizeNo| held.contains(&prize);
        let outcome = rule::draw(&personal, &odds, counters, is_held, &mut answers);
        assert!(answers.0.is_empty());
        outcome
    };
    // The odds name one of the two, so it is that one.
    let sure = Outcome {
        prize: Some(STAR),
        guarantee: Some(0),
    };
    assert_eq!(draw(&counters, &[], &[]), sure);
    let other = Outcome {
        prize: Some(OTHER_STAR),
        guarantee: Some(0),
    };
    assert_eq!(draw(&counters, &[STAR], &[]), other);
    let both = &[STAR, OTHER_STAR];
    let card = Outcome {
        prize: Some(CARD),
        guarantee: None,
    };
    assert_eq!(draw(&counters, both, &[(&[1, 9, 90], 1)]), card);
    rule::count(&personal.guarantees, &mut counters, Some(CARD));
    assert_eq!(counters[0].since, 2);
    assert_eq!(draw(&counters, &[], &[]), sure);
    rule::count(&personal.guarantees, &mut counters, Some(STAR));
    assert_eq!(counters[0].since, 0);
}

#[test]
fn what_was_missed_of_a_50_50_comes_next_time() {
    let odds = odds(&[(STAR, 1), (OTHER_STAR, 1)], 100);
    let fifty = Guarantee {
        among: vec![STAR],
        ..guarantee("star", &[STAR, OTHER_STAR], 3)
    };
    let personal = personal(odds.clone(), vec![fifty]);
    let mut counters = vec![Counter::default()];
    let mut draw = |answers: &[(&[u64], usize)]| {
        let outcome = rule::draw(
            &personal,
            &odds,
            &counters,
            |_| false,
            &mut Answers(answers),
        );
        rule::count(&personal.guarantees, &mut counters, outcome.prize);
        (outcome.prize, outcome.guarantee, counters[0])
    };
    let counter = |since, missed| Counter { since, missed };
    assert_eq!(draw(&[(&[1, 1, 98], 2)]), (None, None, counter(1, false)));
    // By the odds it is the other one, but first the two sides have even odds.
    let answers: &[(&[u64], usize)] = &[(&[1, 1, 98], 0), (&[1, 1], 1)];
    assert_eq!(draw(answers), (Some(OTHER_STAR), None, counter(0, true)));
    assert_eq!(
        draw(&[(&[1, 1, 98], 1)]),
        (Some(STAR), Some(0), counter(0, false))
    );
    for since in 1..3 {
        assert_eq!(
            draw(&[(&[1, 1, 98], 2)]),
            (None, None, counter(since, false))
        );
    }
    // It is due: one of its prizes by the odds, and then the side.
    let answers: &[(&[u64], usize)] = &[(&[1, 1], 1), (&[1, 1], 0)];
    assert_eq!(draw(answers), (Some(STAR), Some(0), counter(0, false)));
}

#[test]
fn counters_follow_the_id_of_their_guarantee() {
    let before = personal(
        odds(&[], 1),
        vec![guarantee("a", &[STAR], 90), guarantee("b", &[CARD], 10)],
    );
    let after = personal(
        odds(&[], 1),
        vec![guarantee("c", &[STAR], 90), guarantee("a", &[STAR], 80)],
    );
    let counter = |since| Counter {
        since,
        missed: false,
    };
    let progress = PoolProgress::default().after(&before.guarantees, &[counter(7), counter(0)]);
    assert_eq!((progress.position, progress.counters.len()), (1, 1));
    assert_eq!(
        progress.counters(&after.guarantees),
        [counter(0), counter(7)]
    );
    let all = Progress(BTreeMap::from([(PoolNo(3), progress)]));
    let json = serde_json::to_string(&all).unwrap();
    assert_eq!(
        json,
        format!(
            "[[3,1,[[{},7,0]]]]",
            GuaranteeKey::of(&after.guarantees[1].id).0
        )
    );
    assert_eq!(serde_json::from_str::<Progress>(&json).unwrap(), all);
}

#[test]
fn base_odds_name_no_prize_last() {
    let odds = odds(&[(STAR, 6), (CARD, 94)], 1000);
    let shares: Vec<_> = base(&odds).into_iter().collect();
    assert_eq!(shares.len(), 3);
    assert_eq!(shares[0], (None, 0.9));
    assert_share(&base(&odds), Some(CARD), 0.094);
}
