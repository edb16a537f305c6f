//! Which draws limits admit, and how they are booked.

use super::*;

const LIMITS: DrawLimits = DrawLimits {
    draws_per_day: Some(3),
    paid_draws_per_day: Some(2),
    draws_per_user: Some(4),
    wins_per_user: None,
    draws_per_hour: None,
    granted_per_day: None,
};

fn user(day: i32) -> UserRecord {
    UserRecord::default().on(Day(day), Moment::EPOCH)
}

fn refused(user: &UserRecord, funding: Funding, count: u32) -> LimitReached {
    user.admit(&LIMITS, funding, count, None).unwrap_err()
}

#[test]
fn a_day_s_quota_is_all_or_nothing_and_comes_back_on_a_later_day_only() {
    let mut u = user(10);
    u.charge(u.admit(&LIMITS, Funding::Free, 2, None).unwrap(), None);
    let full = refused(&u, Funding::Free, 2);
    assert_eq!(
        full,
        LimitReached {
            limit: LimitKind::DrawsPerDay,
            resets: true,
            asked: 2,
            left: 1,
        }
    );
    let earlier = u.clone().on(Day(9), Moment::EPOCH);
    assert_eq!(
        earlier.free_today, 2,
        "a clock that steps back gives nothing"
    );
    let later = u.on(Day(11), Moment::EPOCH);
    assert!(later.admit(&LIMITS, Funding::Free, 2, None).is_ok());
    assert!(!refused(&later, Funding::Free, 3).resets, "four in all");
}

#[test]
fn paid_draws_have_their_own_quota_and_share_the_sum() {
    let mut u = user(10);
    u.charge(u.admit(&LIMITS, Funding::Paid, 2, None).unwrap(), None);
    assert_eq!(
        refused(&u, Funding::Paid, 1).limit,
        LimitKind::PaidDrawsPerDay
    );
    u.charge(u.admit(&LIMITS, Funding::Free, 2, None).unwrap(), None);
    assert_eq!(
        refused(&u, Funding::Free, 1),
        LimitReached {
            limit: LimitKind::DrawsPerUser,
            resets: false,
            asked: 1,
            left: 0,
        }
    );
}

#[test]
fn bonus_draws_come_after_the_quota_on_top_of_both_limits_and_lapse() {
    let mut u = user(10);
    assert!(u.grant(2, Moment::from_micros(100)));
    assert!(u.grant(5, Moment::from_micros(50)));
    u.charge(u.admit(&LIMITS, Funding::Free, 4, None).unwrap(), None);
    assert_eq!((u.free_today, u.bonus_used, u.bonus_left()), (3, 1, 6));
    assert_eq!(u.bonus[0].left, 4, "the soonest to lapse goes first");
    let u = u.on(Day(10), Moment::from_micros(50));
    assert_eq!(u.bonus_left(), 2);
    assert!(u.admit(&LIMITS, Funding::Free, 2, None).is_ok());
    assert!(
        u.admit(&LIMITS, Funding::Paid, 2, None).is_err(),
        "one left in all"
    );
}

#[test]
fn a_refusal_says_how_many_draws_would_be_admitted() {
    let mut u = user(10);
    u.charge(u.admit(&LIMITS, Funding::Free, 1, None).unwrap(), None);
    u.grant(4, Moment::FAR_FUTURE);
    for (funding, limit, left) in [
        (Funding::Free, LimitKind::DrawsPerUser, 6), // two of the day, four by bonus
        (Funding::Paid, LimitKind::DrawsPerUser, 2),
    ] {
        let reached = refused(&u, funding, 9);
        assert_eq!((reached.limit, reached.asked), (limit, 9));
        assert_eq!(reached.left, left, "{funding:?}");
        assert!(u.admit(&LIMITS, funding, left, None).is_ok(), "{funding:?}");
        refused(&u, funding, left + 1);
    }
    let paid = refused(&u, Funding::Paid, 3);
    assert_eq!((paid.limit, paid.left), (LimitKind::PaidDrawsPerDay, 2));
}

#[test]
fn zero_means_none_but_bonus_and_absent_means_unlimited() {
    let none = DrawLimits {
        draws_per_day: Some(0),
        ..DrawLimits::default()
    };
    let mut u = user(1);
    let refusal = u.admit(&none, Funding::Free, 1, None).unwrap_err();
    assert!(!refusal.resets, "no day will ever admit it");
    u.grant(1, Moment::FAR_FUTURE);
    assert!(u.admit(&none, Funding::Free, 1, None).is_ok());
    assert!(u.admit(&none, Funding::Paid, 100, None).is_ok());
}

#[test]
fn an_hour_s_quota_is_that_of_free_draws_and_comes_back_with_the_next_hour() {
    let limits = DrawLimits {
        draws_per_day: Some(5),
        draws_per_hour: Some(2),
        ..DrawLimits::default()
    };
    let hour = |number: i64| Some(Moment::from_micros(number * 3_600_000_000));
    let mut u = user(10);
    let admit = |u: &UserRecord, count, at| u.admit(&limits, Funding::Free, count, at);
    u.charge(admit(&u, 2, hour(7)).unwrap(), hour(7));
    let reached = admit(&u, 1, hour(7)).unwrap_err();
    assert_eq!(
        (reached.limit, reached.resets),
        (LimitKind::DrawsPerHour, true)
    );
    assert!(
        !admit(&u, 3, hour(7)).unwrap_err().resets,
        "no hour has three"
    );
    assert!(
        admit(&u, 1, hour(6)).is_err(),
        "a clock that steps back gives nothing"
    );
    assert!(u.admit(&limits, Funding::Paid, 9, hour(7)).is_ok());
    u.grant(1, Moment::FAR_FUTURE);
    assert_eq!(admit(&u, 1, hour(7)).unwrap().bonus, 1);
    u.charge(admit(&u, 2, hour(8)).unwrap(), hour(8));
    let reached = admit(&u, 3, hour(9)).unwrap_err();
    assert_eq!((reached.limit, reached.left), (LimitKind::DrawsPerDay, 2));
    assert_eq!(
        u.hour,
        Some(HourDraws {
            start: hour(8).unwrap(),
            draws: 2
        })
    );
}

#[test]
fn open_grants_are_bounded() {
    let mut u = user(1);
    for i in 0..OPEN_GRANTS_MAX {
        assert!(u.grant(1, Moment::from_micros(1000 + i as i64)));
    }
    assert!(!u.grant(1, Moment::from_micros(5)));
    assert!(u.grant(1, Moment::from_micros(1000)), "same expiry adds up");
}
