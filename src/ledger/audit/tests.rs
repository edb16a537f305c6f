//! Each broken promise is found. That nothing is found where all hold is shown by the suite, which
//! audits every store at the end of its tests.

use super::*;
use crate::{
    chance::hex,
    model::{
        Moment, OperatorId, PoolNo, PrizeNo, Quantities, RequestId, UserId,
        convert::{self, campaign_from_proto, tests::spring_wheel},
        limits::{Funding, HourDraws, UserCounts},
    },
    store::{
        Approved, Author, BonusEntry, Cause, DrawResult, Operation, ProposalId, Unit, WonUnit,
        entry::{Applied, Body, DrawEntry, Injected, TakenBackCause},
    },
};

const COUPONS: PoolNo = PoolNo(1);
const COUPON: PrizeNo = PrizeNo(1);
const WINDOW: i64 = 1_795_960_800;

pub(super) fn now() -> Moment {
    Moment::from_micros((WINDOW + 1_800) * 1_000_000)
}

fn author() -> Author {
    Author::named(
        RequestId::parse("request", "r").unwrap(),
        OperatorId::parse("operator", "o").unwrap(),
        "",
    )
}

pub(super) fn spring() -> CampaignId {
    CampaignId::parse("campaign", "spring-wheel").unwrap()
}

/// A campaign with 10 coupons in an hour.
pub(super) fn begun() -> Vec<Body> {
    begun_as(&campaign_from_proto(&spring_wheel()).unwrap())
}

pub(super) fn begun_as(campaign: &Campaign) -> Vec<Body> {
    let prizes = campaign.numbered_prizes();
    let applied = Applied {
        version: 1,
        base_version: 0,
        definition_sha256: String::new(),
        definition: hex(&convert::encode(campaign)),
        nonce: String::new(),
        commitment: String::new(),
        stock_added: prizes.map(|(no, prize)| (no, prize.stock)).collect(),
        stock_anew: false,
        totals: Vec::new(),
        time_zones: String::new(),
        test_clock: false,
        author: author(),
    };
    let ten = Quantities::from([(COUPON, 10)]);
    let window = Moment::from_micros(WINDOW * 1_000_000);
    let injected = Injected {
        pool: COUPONS,
        window,
        generation: 0,
        version: 1,
        from: window,
        until: window,
        planned: ten.clone(),
        in_force: None,
        carried: Quantities::new(),
        granted: ten,
        fork: 0,
    };
    vec![Body::Applied(Box::new(applied)), Body::Injected(injected)]
}

fn unit(number: u64) -> Unit {
    Unit {
        window: WINDOW,
        fork: 0,
        number,
    }
}

/// A draw that wins a unit, the user's only one so far.
pub(super) fn draw(user: &str, number: u64) -> DrawEntry {
    DrawEntry {
        version: 1,
        user: UserId::parse("user", user).unwrap(),
        request: RequestId::parse("request", "r").unwrap(),
        funding: Funding::Free,
        payment_ref: String::new(),
        consolation_only: false,
        results: vec![DrawResult::Won {
            guarantee: None,
            code: None,
            prize: COUPON,
            pool: COUPONS,
            unit: unit(number),
            release: Some(now()),
        }],
        segments: Vec::new(),
        counts: UserCounts {
            free_today: 1,
            draws: 1,
            wins: 1,
            ..UserCounts::default()
        },
    }
}

fn audited(bodies: Vec<Body>) -> Outcome {
    let mut audit = Audit::default();
    for (sequence, body) in (1..).zip(bodies) {
        audit.take(&entry(sequence, body));
    }
    audit.finish().unwrap()
}

pub(super) fn entry(sequence: u64, body: Body) -> Entry {
    Entry {
        id: LedgerId {
            partition: 0,
            sequence,
        },
        number: Some(sequence),
        fork: 0,
        at: now(),
        subject: Subject::Campaign(spring()),
        body,
    }
}

/// What is found after a campaign has begun and this has happened.
fn found(more: impl IntoIterator<Item = Body>) -> Vec<(Check, String)> {
    found_after(begun(), more)
}

fn found_after(begun: Vec<Body>, more: impl IntoIterator<Item = Body>) -> Vec<(Check, String)> {
    let outcome = audited(begun.into_iter().chain(more).collect());
    let findings = outcome.findings.shown();
    findings
        .map(|finding| (finding.check, finding.text.clone()))
        .collect()
}

#[track_caller]
fn assert_found(more: impl IntoIterator<Item = Body>, check: Check, word: &str) {
    let found = found(more);
    let is_there = found
        .iter()
        .any(|(is, text)| *is == check && text.contains(word));
    assert!(is_there, "{word}: {found:#?}");
}

#[test]
fn what_keeps_the_promises_is_not_blamed() {
    let draws = ["a", "b", "c"].into_iter().zip(0..);
    let draws = draws.map(|(user, number)| Body::Draw(draw(user, number)));
    assert_eq!(found(draws), []);
}

#[test]
fn a_change_without_the_approval_that_it_needs_is_found() {
    let campaign = Campaign {
        approval_required: true,
        ..campaign_from_proto(&spring_wheel()).unwrap()
    };
    let close = |author| Body::Operated {
        operation: Operation::Close,
        author,
        users: 0,
    };
    let approved_by = |operator: &str| Author {
        operator: OperatorId::parse("operator", operator).unwrap(),
        approved: Some(Box::new(Approved {
            id: ProposalId::parse("0123456789ab").unwrap(),
            operator: OperatorId::parse("operator", "ann").unwrap(),
            on_behalf_of: None,
            reason: String::new(),
            at: now(),
        })),
        ..author()
    };
    let found = |author| found_after(begun_as(&campaign), [close(author)]);
    assert_eq!(found(approved_by("ben")), []);
    for (author, word) in [
        (author(), "without the approval"),
        (approved_by("ann"), "as well"),
    ] {
        let found = found(author);
        assert_eq!(found[0].0, Check::Approval, "{found:?}");
        assert!(found[0].1.contains(word), "{found:?}");
    }
    // What needs none: pausing, and a campaign that does not require it.
    let pause = Body::Operated {
        operation: Operation::Pause,
        author: author(),
        users: 0,
    };
    assert_eq!(found_after(begun_as(&campaign), [pause]), []);
    assert_eq!(found_after(begun(), [close(author())]), []);
}

#[test]
fn a_unit_that_is_won_twice_or_was_never_there_is_found() {
    let twice = [draw("a", 3), draw("b", 3)].map(Body::Draw);
    assert_found(twice, Check::Units, "had left it before");
    assert_found([Body::Draw(draw("a", 10))], Check::Units, "never put");
    let mut foreign = draw("a", 1);
    foreign.results = vec![DrawResult::NotWon {
        consolation: true,
        cause: Cause::Forfeited {
            prize: COUPON,
            pool: PoolNo(2),
            unit: unit(1),
        },
    }];
    assert_found([Body::Draw(foreign)], Check::Units, "never put");
}

#[test]
fn units_that_come_from_nowhere_are_found() {
    let back = Body::TakenBack {
        pool: COUPONS,
        cause: TakenBackCause::Ended,
        units: [(COUPON, 11)].into(),
        withdrawn: false,
        spans: Vec::new(),
    };
    assert_found([back], Check::Sums, "left pool");
    let mut injected = begun().pop().unwrap();
    if let Body::Injected(injected) = &mut injected {
        injected.granted = [(COUPON, 1 << 40)].into();
    }
    assert_found([injected], Check::Sums, "left stock");
    let win = WonUnit {
        user: UserId::parse("user", "a").unwrap(),
        prize: COUPON,
        pool: COUPONS,
        unit: unit(0),
    };
    let revoked = || Body::Revoked {
        version: 1,
        win: win.clone(),
        withdraw: false,
        withdrawn: false,
        author: author(),
    };
    assert_found([revoked()], Check::Sums, "none is won");
    let won = Body::Draw(draw("a", 0));
    assert_found([won, revoked(), revoked()], Check::Units, "revoked twice");
}

#[test]
fn a_win_before_its_release_is_found() {
    let mut early = draw("a", 0);
    if let DrawResult::Won { release, .. } = &mut early.results[0] {
        *release = Some(Moment::FAR_FUTURE);
    }
    assert_found([Body::Draw(early)], Check::Release, "was won at");
}

#[test]
fn a_draw_beyond_a_limit_and_counts_that_do_not_follow_are_found() {
    let campaign = campaign_from_proto(&spring_wheel()).unwrap();
    let most = campaign.limits.draws_per_day.unwrap();
    let draws = (0..=most).map(|index| {
        let mut draw = draw("a", index.into());
        draw.counts = UserCounts {
            free_today: index + 1,
            draws: u64::from(index) + 1,
            wins: u64::from(index) + 1,
            ..UserCounts::default()
        };
        Body::Draw(draw)
    });
    assert_found(draws, Check::Limits, "drawsPerDay leaves 0");
    let mut wrong = draw("a", 0);
    wrong.counts.draws = 7;
    assert_found([Body::Draw(wrong)], Check::Limits, "draws 7");
}

/// Draws of a user who wins these coupons one by one, with what the entries say of them.
fn capped_draws(stated: &[u64]) -> Vec<Body> {
    let draws = (0..).zip(stated).map(|(number, stated)| {
        let mut draw = draw("a", number);
        let (made, prizes) = (number + 1, [(COUPON, *stated as u32, *stated)]);
        draw.counts = UserCounts {
            free_today: made as u32,
            draws: made,
            wins: made,
            prizes: prizes.into_iter().collect(),
            ..UserCounts::default()
        };
        Body::Draw(draw)
    });
    draws.collect()
}

#[test]
fn a_win_beyond_a_cap_and_wins_that_were_not_counted_are_found() {
    let mut message = spring_wheel();
    message.prizes[1].per_user = Some(crate::proto::PrizeCap {
        total: None,
        per_day: Some(2),
    });
    let campaign = campaign_from_proto(&message).unwrap();
    let found = |stated: &[u64]| found_after(begun_as(&campaign), capped_draws(stated));
    assert_eq!(found(&[1, 2]), []);
    for (stated, word) in [
        (&[1, 2, 3][..], "had won 2 of coupon that day and 2 in all"),
        (&[1, 1], "prizes with caps 1, from the entries before it 2"),
    ] {
        let found = found(stated);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].0, Check::Limits);
        assert!(found[0].1.contains(word), "{found:#?}");
    }
}

/// Grants of two bonus draws, with the bonus draws of the day that the entries state.
fn grants(stated: &[u32]) -> Vec<Body> {
    let grants = (1..).zip(stated).map(|(number, stated)| {
        Body::Bonus(BonusEntry {
            version: 1,
            user: UserId::parse("user", "a").unwrap(),
            request: RequestId::parse("request", "r").unwrap(),
            draws: 2,
            expires: Moment::FAR_FUTURE,
            counts: UserCounts {
                bonus_left: 2 * number,
                granted_today: *stated,
                ..UserCounts::default()
            },
        })
    });
    grants.collect()
}

#[test]
fn a_grant_beyond_those_of_a_day_and_grants_that_were_not_counted_are_found() {
    let mut message = spring_wheel();
    message.limits.as_mut().unwrap().granted_per_day = Some(5);
    let campaign = campaign_from_proto(&message).unwrap();
    let found = |stated: &[u32]| found_after(begun_as(&campaign), grants(stated));
    assert_eq!(found(&[2, 4]), []);
    for (stated, word) in [
        (
            &[2, 4, 6][..],
            "2 bonus draws were granted to a user, and grantedPerDay leaves 1",
        ),
        (
            &[2, 2],
            "bonus draws granted on the day 2, from the entries before it 4",
        ),
    ] {
        let found = found(stated);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].0, Check::Limits);
        assert!(found[0].1.contains(word), "{found:#?}");
    }
}

#[test]
fn a_draw_beyond_those_of_an_hour_is_found() {
    let mut message = spring_wheel();
    message.limits.as_mut().unwrap().draws_per_hour = Some(2);
    let campaign = campaign_from_proto(&message).unwrap();
    // Each draw with its hour, from the first one on, and its number in that hour.
    let found = |draws: &[(u64, u32)]| {
        let mut audit = Audit::default();
        for (sequence, body) in (1..).zip(begun_as(&campaign)) {
            audit.take(&entry(sequence, body));
        }
        for (number, (hour, in_hour)) in (0..).zip(draws) {
            let passed = std::time::Duration::from_secs(3_600 * hour);
            let mut draw = draw("a", number);
            draw.counts = UserCounts {
                free_today: number as u32 + 1,
                draws: number + 1,
                wins: number + 1,
                hour: Some(HourDraws {
                    start: Moment::from_micros(WINDOW * 1_000_000) + passed,
                    draws: *in_hour,
                }),
                ..UserCounts::default()
            };
            audit.take(&Entry {
                at: now() + passed,
                ..entry(number + 3, Body::Draw(draw))
            });
        }
        let findings = audit.finish().unwrap().findings;
        let texts = findings.shown().map(|it| (it.check, it.text.clone()));
        texts.collect::<Vec<_>>()
    };
    assert_eq!(found(&[(0, 1), (0, 2), (1, 1)]), []);
    let found = found(&[(0, 1), (0, 2), (0, 3)]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].0, Check::Limits);
    let word = "1 draws of a user were made, and drawsPerHour leaves 0";
    assert!(found[0].1.contains(word), "{found:#?}");
}

#[test]
fn a_win_that_passes_the_budget_is_found() {
    let money = |units| crate::proto::Money {
        currency_code: "CNY".into(),
        units,
        nanos: 0,
    };
    let mut message = spring_wheel();
    for prize in &mut message.prizes {
        prize.value = Some(money(10));
    }
    let found = |per_day: Option<i64>, total: Option<i64>, more: Vec<Body>| {
        let mut message = message.clone();
        message.budget = Some(crate::proto::Budget {
            per_day: per_day.map(money),
            total: total.map(money),
        });
        let campaign = campaign_from_proto(&message).unwrap();
        found_after(begun_as(&campaign), more)
    };
    let wins = |wins: u64| -> Vec<Body> {
        let users = (0..wins).map(|number| draw(&format!("u{number}"), number));
        users.map(Body::Draw).collect()
    };
    let revoked = Body::Revoked {
        version: 1,
        win: WonUnit {
            user: UserId::parse("user", "u0").unwrap(),
            prize: COUPON,
            pool: COUPONS,
            unit: unit(0),
        },
        withdraw: true,
        withdrawn: true,
        author: author(),
    };
    let after_revocation = || [wins(2), vec![revoked.clone()], wins(3)[2..].to_vec()].concat();
    assert_eq!(found(Some(29), Some(29), wins(2)), []);
    assert_eq!(found(None, Some(29), after_revocation()), []);
    for (per_day, total, more, bound) in [
        (Some(29), None, wins(3), "CNY 29.00 a day and none in all"),
        (None, Some(29), wins(3), "none a day and CNY 29.00 in all"),
        (
            Some(29),
            None,
            after_revocation(),
            "CNY 20.00 were won that day",
        ),
    ] {
        let found = found(per_day, total, more);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].0, Check::Limits);
        assert!(found[0].1.contains(bound), "{found:#?}");
    }
}

#[test]
fn units_of_an_unlimited_prize_come_from_nowhere() {
    let mut message = spring_wheel();
    (message.prizes[1].stock, message.prizes[1].unlimited) = (0, true);
    let campaign = campaign_from_proto(&message).unwrap();
    let outcome = audited(begun_as(&campaign));
    assert_eq!(outcome.findings.shown().count(), 0);
    let coupons = outcome.campaigns[&spring()].prizes()[&COUPON];
    assert_eq!((coupons.stock, coupons.left, coupons.waiting), (10, 0, 10));
}

#[test]
fn entries_that_are_missing_or_out_of_order_are_found() {
    let bodies = || {
        let draws = (0..3).map(|number| Body::Draw(draw(&format!("u{number}"), number)));
        let all = begun().into_iter().chain(draws);
        (1..).zip(all).map(|(sequence, body)| entry(sequence, body))
    };
    let of = |entries: Vec<Entry>| {
        let mut audit = Audit::default();
        entries.iter().for_each(|entry| audit.take(entry));
        audit.finish().unwrap().findings.count(Check::Order)
    };
    assert_eq!(of(bodies().collect()), 0);
    assert!(of(bodies().filter(|entry| entry.id.sequence != 4).collect()) > 0);
    let mut swapped: Vec<_> = bodies().collect();
    swapped.swap(2, 3);
    assert!(of(swapped) > 0);
    let mut renumbered: Vec<_> = bodies().collect();
    renumbered[3].number = Some(9);
    assert!(of(renumbered) > 0);
}

#[test]
fn a_store_that_says_something_else_is_found() {
    let bodies = begun();
    let head = LedgerId {
        partition: 0,
        sequence: 2,
    };
    let store = |missing: u64| {
        let campaign = campaign_from_proto(&spring_wheel()).unwrap();
        let prizes = campaign.numbered_prizes().map(|(no, prize)| {
            let (waiting, missing) = if no == COUPON { (10, missing) } else { (0, 0) };
            let sums = PrizeSums {
                stock: prize.stock,
                left: prize.stock - waiting - missing,
                waiting,
                ..PrizeSums::default()
            };
            (prize.id.to_string(), sums)
        });
        StoreSums {
            head,
            prizes: prizes.collect(),
            draws: DrawCounts::default(),
        }
    };
    let of = |missing: u64| {
        let mut audit = Audit::new([(spring(), store(missing))].into(), None);
        for (sequence, body) in (1..).zip(bodies.clone()) {
            audit.take(&entry(sequence, body));
        }
        // What the store counts ends before this draw.
        audit.take(&entry(3, Body::Draw(draw("a", 0))));
        let outcome = audit.finish().unwrap();
        (outcome.compared, outcome.findings.count(Check::Sums))
    };
    assert_eq!(of(0), (1, 0));
    assert_eq!(of(1), (1, 1));
}
