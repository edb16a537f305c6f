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

/// The states of a user just after an SSR, and what a draw may count.
const SR_WITHIN: usize = 10;
const R_WITHIN: usize = 20;

/// The chances of SSR, SR and R of the draw of this number since the last SSR, for a user who has
/// drawn so many times since the last SR and the last R: an SSR within 90 with 0.6% and 6% more
/// from draw 74 on, else an SR within 10 with 5.1%, else an R within 20 with 20%.
fn chances(draw: u32, since_sr: usize, since_r: usize) -> [f64; 3] {
    let (ssr, sr, r) = (0.006, 0.051, 0.2);
    if draw >= 90 {
        return [1.0, 0.0, 0.0];
    } else if since_sr + 1 >= SR_WITHIN {
        return [0.0, 1.0, 0.0];
    } else if since_r + 1 >= R_WITHIN {
        return [0.0, 0.0, 1.0];
    }
    let raised = (ssr + 0.06 * f64::from(draw.saturating_sub(73))).min(1.0);
    let rest = (1.0 - raised) / (1.0 - ssr);
    [raised, sr * rest, r * rest]
}

/// From one SSR to the next one, beginning with these draws since the last SR and R: where it ends,
/// and how many draws, SR and R there are until then.
fn until_next_ssr(since_sr: usize, since_r: usize) -> (Vec<f64>, [f64; 3]) {
    let state = |since_sr: usize, since_r: usize| since_sr * R_WITHIN + since_r;
    let mut now = vec![0.0; SR_WITHIN * R_WITHIN];
    now[state(since_sr, since_r)] = 1.0;
    let (mut ends, mut sums) = (vec![0.0; now.len()], [0.0; 3]);
    for draw in 1..=90 {
        let mut next = vec![0.0; now.len()];
        for since_sr in 0..SR_WITHIN {
            for since_r in 0..R_WITHIN {
                let here = now[state(since_sr, since_r)];
                let [ssr, sr, r] = chances(draw, since_sr, since_r);
                let later_sr = (since_sr + 1).min(SR_WITHIN - 1);
                let later_r = (since_r + 1).min(R_WITHIN - 1);
                ends[state(later_sr, later_r)] += here * ssr;
                next[state(0, later_r)] += here * sr;
                next[state(later_sr, 0)] += here * r;
                next[state(later_sr, later_r)] += here * (1.0 - ssr - sr - r);
                for (sum, part) in sums.iter_mut().zip([1.0, sr, r]) {
                    *sum += here * part;
                }
            }
        }
        now = next;
    }
    (ends, sums)
}

#[test]
fn several_guarantees_have_the_odds_of_an_independent_computation() {
    let (sr, r) = (CARD, PrizeNo(3));
    let fifty = Guarantee {
        among: vec![STAR],
        ..soft_pity(&[STAR, OTHER_STAR])
    };
    let weights = [(STAR, 3), (OTHER_STAR, 3), (sr, 51), (r, 200)];
    let guarantees = vec![
        fifty,
        guarantee("sr", &[sr], SR_WITHIN as u32),
        guarantee("r", &[r], R_WITHIN as u32),
    ];
    let shares = shares(odds(&weights, 1000), guarantees);

    let cycles = (0..SR_WITHIN * R_WITHIN).map(|at| until_next_ssr(at / R_WITHIN, at % R_WITHIN));
    let cycles: Vec<_> = cycles.collect();
    // How often each state is the one after an SSR, by going from SSR to SSR.
    let mut often = vec![1.0 / cycles.len() as f64; cycles.len()];
    for _ in 0..400 {
        let mut next = vec![0.0; often.len()];
        for (part, (ends, _)) in often.iter().zip(&cycles) {
            for (sum, end) in next.iter_mut().zip(ends) {
                *sum += part * end;
            }
        }
        often = next;
    }
    let mut sums = [0.0; 3];
    for (part, (_, of_cycle)) in often.iter().zip(&cycles) {
        for (sum, one) in sums.iter_mut().zip(of_cycle) {
            *sum += part * one;
        }
    }
    let [draws, srs, rs] = sums;
    // Of three SSR, two are the named prize: in the long run every miss is followed by it.
    assert_share(&shares, Some(STAR), 2.0 / 3.0 / draws);
    assert_share(&shares, Some(OTHER_STAR), 1.0 / 3.0 / draws);
    assert_share(&shares, Some(sr), srs / draws);
    assert_share(&shares, Some(r), rs / draws);
    assert_share(&shares, None, 1.0 - (1.0 + srs + rs) / draws);
}

/// Whether odds can be computed of guarantees of a prize each, within these numbers of draws.
fn can_be_computed(within: &[u32]) -> bool {
    let prizes = || (0..).map(PrizeNo);
    let weights: Vec<_> = prizes().zip(within).map(|(no, _)| (no, 1)).collect();
    let odds = odds(&weights, 100);
    let guarantees = prizes().zip(within).map(|(no, within)| {
        let id = format!("g{}", no.0);
        guarantee(&id, &[no], *within)
    });
    let personal = personal(odds.clone(), guarantees.collect());
    crate::model::personal::odds::check(&personal, &odds).is_ok()
}

#[test]
fn odds_of_a_hundred_thousand_states_are_computed_and_of_more_are_not() {
    // 99,856 states and 100,172.
    assert!(can_be_computed(&[316, 316]));
    assert!(!can_be_computed(&[317, 316]));
}

#[test]
fn the_states_after_a_prize_are_at_most_six_hundred() {
    // 577 and 601.
    assert!(can_be_computed(&[26, 25, 25]));
    assert!(!can_be_computed(&[26, 26, 25]));
}

#[test]
fn the_steps_from_all_states_after_a_prize_are_at_most_200_million() {
    // 199.5 and 200.7 million, of 97,068 states at most.
    assert!(can_be_computed(&[168, 25, 24]));
    assert!(!can_be_computed(&[169, 25, 24]));
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

/// The 80th draw for the star is the tenth for the card: it is a card, although the ramp of the
/// star has begun. If the lower guarantee names the star too, it may be a star by the odds.
#[test]
fn a_lower_guarantee_that_is_due_goes_before_the_ramp_of_a_higher_one() {
    let odds = odds(&[(STAR, 6), (CARD, 50)], 1000);
    let counters = [79, 9].map(|since| Counter {
        since,
        missed: false,
    });
    let draw = |lower: &[PrizeNo], answers: &[(&[u64], usize)]| {
        let guarantees = vec![soft_pity(&[STAR]), guarantee("card", lower, 10)];
        let personal = personal(odds.clone(), guarantees);
        let mut answers = Answers(answers);
        let outcome = rule::draw(&personal, &odds, &counters, |_| false, &mut answers);
        assert!(answers.0.is_empty());
        (outcome.prize, outcome.guarantee)
    };
    assert_eq!(draw(&[CARD], &[]), (Some(CARD), Some(1)));
    let star = draw(&[STAR, CARD], &[(&[6, 50], 0)]);
    assert_eq!(star, (Some(STAR), Some(1)));

    let share = |lower: &[PrizeNo]| {
        let guarantees = vec![soft_pity(&[STAR]), guarantee("card", lower, 10)];
        shares(odds.clone(), guarantees)[&Some(STAR)]
    };
    assert!(share(&[STAR, CARD]) > share(&[CARD]));
}
