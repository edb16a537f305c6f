use std::num::NonZeroU64;

use super::{
    crowd::{Arrivals, Crowd},
    forecast::Forecast,
    run::{play, play_on},
    simulate, simulate_unless,
};
use crate::{
    model::{Campaign, SegmentId, convert::campaign_from_proto, file},
    store::memory::MemoryStore,
};
use std::{sync::Arc, time::Duration};

fn campaign(rest: &str) -> Arc<Campaign> {
    let text = format!(
        "{{id: wheel, timeZone: Asia/Shanghai, startTime: '2026-12-01T00:00:00+08:00', \
         endTime: '2026-12-03T00:00:00+08:00', {rest}}}"
    );
    Arc::new(campaign_from_proto(&file::parse(&text).unwrap()[0]).unwrap())
}

fn crowd(users: u64, free_per_day: f64) -> Crowd {
    Crowd {
        users: NonZeroU64::new(users).unwrap(),
        free_per_day,
        paid_per_day: 0.0,
        arrivals: Arrivals::peak(),
        segments: Vec::new(),
    }
}

const DECK: &str = "prizes: [{id: coupon, stock: 100000, value: {currencyCode: CNY, units: 2}}], \
                    pools: [{id: cards, \
                             deck: {size: 20, cards: {coupon: 3}, onExhausted: RESHUFFLE}}]";

#[test]
fn a_seed_gives_the_same_run_each_time_and_another_one_another_run() {
    let (campaign, crowd) = (campaign(DECK), crowd(200, 2.0));
    let run = |seed| {
        format!(
            "{:?}",
            play(&campaign, &crowd, seed, &|| false).unwrap().unwrap()
        )
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2).replace("seed: 2", "seed: 1"));
    // As many threads as there are do not change what comes out.
    let forecast = || format!("{:?}", simulate(&campaign, &crowd, 4).unwrap());
    assert_eq!(forecast(), forecast());
}

/// The conformance tests run over a store that keeps its ledger, and simulations over one that does
/// not: it must decide the same.
#[test]
fn a_store_that_keeps_no_ledger_gives_the_draws_of_one_that_does() {
    let rules = "limits: {drawsPerDay: 6, winsPerUser: 9}, consolation: {id: points}, \
         budget: {perDay: {currencyCode: CNY, units: 170}}, \
         prizes: [{id: mug, stock: 100, value: {currencyCode: CNY, units: 3}}, \
         {id: cap, stock: 40, perUser: {perDay: 1}, value: {currencyCode: CNY}}, \
         {id: pin, unlimited: true, countsAsWin: false, value: {currencyCode: CNY}}], \
         guarantees: [{id: fifth, prizes: [cap], within: 5}], \
         pools: [{id: hours, schedule: {perHour: {mug: 2}}}, \
         {id: own, segments: {any: [member]}, personal: {odds: {pin: 20%}}}, \
         {id: deck, deck: {size: 10, cards: {cap: 1, pin: 2}, onExhausted: RESHUFFLE}}]";
    let campaign = campaign(rules);
    let crowd = Crowd {
        segments: vec![(SegmentId::parse("", "member").unwrap(), 0.5)],
        ..crowd(100, 8.0)
    };
    let keeping = |clock| MemoryStore::new(clock, Duration::ZERO);
    for seed in 1..=2 {
        let run = play_on(keeping, &campaign, &crowd, seed, &|| false);
        let run = run.unwrap().unwrap();
        let forgetful = play(&campaign, &crowd, seed, &|| false).unwrap().unwrap();
        assert!(run.draws > 500 && run.users.limited > 0, "{run:?}");
        assert_eq!(format!("{forgetful:?}"), format!("{run:?}"));
    }
}

/// Each 20 draws win exactly 3 units, whoever draws.
#[test]
fn a_deck_gives_what_its_cards_say() {
    let (campaign, crowd) = (campaign(DECK), crowd(500, 3.0));
    for seed in 1..=5 {
        let run = play(&campaign, &crowd, seed, &|| false).unwrap().unwrap();
        // 3,000 draws on average, with a standard deviation of 55.
        assert!((2_700..3_300).contains(&run.draws), "{}", run.draws);
        let won = run.draws - run.nothings;
        let (least, most) = (run.draws / 20 * 3, run.draws.div_ceil(20) * 3);
        assert!((least..=most).contains(&won), "{won} of {}", run.draws);
        assert_eq!(run.prizes[0].left, 100_000 - won);
        assert_eq!(
            run.draws_by_window
                .iter()
                .map(|n| u64::from(*n))
                .sum::<u64>(),
            run.draws
        );
    }
    let forecast = simulate(&campaign, &crowd, 5).unwrap();
    let [cost] = forecast.costs.as_slice() else {
        panic!("one currency");
    };
    // 15% of the draws win something of CNY 2.
    assert!((cost.per_draw.mean - 0.3).abs() < 0.005, "{cost:?}");
    assert!((cost.per_day.mean * 2.0 - cost.total.mean).abs() < 1e-9);
}

/// 10 units an hour are released, and many more draws are made in each hour than that.
#[test]
fn a_schedule_gives_all_that_it_releases_if_enough_draw() {
    let campaign = campaign(
        "prizes: [{id: coupon, stock: 1000}], \
         pools: [{id: hours, schedule: {perHour: {coupon: 10}}}]",
    );
    let forecast = simulate(&campaign, &crowd(10_000, 5.0), 3).unwrap();
    let prize = &forecast.prizes[0];
    assert_eq!((prize.released.low, prize.released.high), (480.0, 480.0));
    assert!(prize.won.low > 475.0, "{:?}", prize.won);
    for hour in &prize.hours {
        assert_eq!((hour.released.low, hour.released.high), (10.0, 10.0));
    }
    assert_eq!(
        (prize.runs_out, prize.runs_out_time.as_deref()),
        (0.0, None)
    );
}

#[test]
fn hours_in_which_nobody_takes_what_is_released_are_told() {
    let campaign = campaign(
        "prizes: [{id: coupon, stock: 1000}], \
         pools: [{id: hours, schedule: {perHour: {coupon: 10}}}]",
    );
    let forecast = simulate(&campaign, &crowd(10, 2.0), 3).unwrap();
    let prize = &forecast.prizes[0];
    assert_eq!(prize.unclaimed_hours.mean, 48.0);
    assert!(prize.won.mean < 60.0, "{:?}", prize.won);
    assert_eq!(prize.hours[0].released.mean, 10.0);
}

/// 5 draws an hour for 10 units. If each unit waits for a minute, and then for the next tick, about
/// one draw in five finds one.
#[test]
fn units_that_go_back_to_stock_are_not_won_later_in_their_hour() {
    let share_won = |unclaimed: &str| {
        let wheel = campaign(&format!(
            "prizes: [{{id: coupon, stock: 1000}}], \
             pools: [{{id: hours, schedule: {{perHour: {{coupon: 10}}{unclaimed}}}}}]"
        ));
        let crowd = Crowd {
            arrivals: Arrivals::Flat,
            ..crowd(10, 12.0)
        };
        let forecast = simulate(&wheel, &crowd, 3).unwrap();
        forecast.prizes[0].won.mean / forecast.draws.mean
    };
    let kept = share_won("");
    assert!(kept > 0.8, "{kept}");
    let returned = share_won(", unclaimed: RETURN, returnAfter: 60s");
    assert!((0.05..0.4).contains(&returned), "{returned}");
}

#[test]
fn stock_that_runs_out_is_told_with_its_time() {
    let campaign = campaign(
        "prizes: [{id: phone, stock: 5}], \
         pools: [{id: cards, deck: {size: 10, cards: {phone: 1}, onExhausted: RESHUFFLE}}]",
    );
    let forecast = simulate(&campaign, &crowd(100, 10.0), 3).unwrap();
    let prize = &forecast.prizes[0];
    assert_eq!(
        (prize.won.low, prize.won.high, prize.left.high),
        (5.0, 5.0, 0.0)
    );
    assert_eq!(prize.runs_out, 1.0);
    let time = prize.runs_out_time.as_deref().unwrap();
    assert!(time.starts_with("2026-12-01T"), "{time}");
}

/// Each card wins 3 yuan, and many more draws are made on each day than the budget pays for.
#[test]
fn days_on_which_the_budget_is_reached_are_told() {
    let wheel = |budget: &str, cards: u32| {
        campaign(&format!(
            "budget: {budget}, \
             prizes: [{{id: mug, stock: 10000, value: {{currencyCode: CNY, units: 3}}}}], \
             pools: [{{id: deck, deck: {{size: 100, cards: {{mug: {cards}}}, \
             onExhausted: RESHUFFLE}}}}]"
        ))
    };
    let each = |forecast: &Forecast| -> Vec<_> {
        let days = forecast.days.iter();
        days.map(|day| (day.won.high, day.budget_reached.unwrap()))
            .collect()
    };
    for cards in [50, 100] {
        let forecast = |budget| simulate(&wheel(budget, cards), &crowd(100, 3.0), 3).unwrap();
        let a_day = forecast("{perDay: {currencyCode: CNY, units: 17}}");
        assert_eq!(each(&a_day), [(5.0, 1.0), (5.0, 1.0)]);
        assert_eq!(a_day.costs[0].total.low, 30.0);
        assert_eq!(a_day.budget_days.unwrap().mean, 2.0);
        let in_all = forecast("{total: {currencyCode: CNY, units: 17}}");
        assert_eq!(each(&in_all), [(5.0, 1.0), (0.0, 1.0)]);
        let enough = forecast("{total: {currencyCode: CNY, units: 9000}}");
        assert_eq!(enough.budget_days.unwrap().high, 0.0);
    }
    let without = simulate(&campaign(DECK), &crowd(10, 1.0), 1).unwrap();
    assert_eq!(without.budget_days, None);
    assert_eq!(without.days[0].budget_reached, None);
}

#[test]
fn the_budget_is_reached_too_if_draws_give_something_else_then() {
    let reached = |pools: &str, units: u32| {
        let wheel = campaign(&format!(
            "budget: {{perDay: {{currencyCode: CNY, units: {units}}}}}, \
             prizes: [{{id: mug, stock: 1000, value: {{currencyCode: CNY, units: 3}}}}, \
             {{id: pin, unlimited: true, value: {{currencyCode: CNY}}}}], {pools}"
        ));
        let forecast = simulate(&wheel, &crowd(100, 3.0), 3).unwrap();
        assert_eq!(forecast.nothings.high, 0.0, "each draw gives something");
        let days = forecast.days.iter();
        let days = days.map(|day| day.budget_reached.unwrap());
        days.collect::<Vec<_>>()
    };
    let pin = "{id: pins, deck: {size: 1, cards: {pin: 1}, onExhausted: RESHUFFLE}}";
    let schedule = format!("pools: [{{id: mugs, schedule: {{perHour: {{mug: 4}}}}}}, {pin}]");
    let personal = "pools: [{id: own, personal: {odds: {mug: 50%, pin: 50%}, fallback: pin}}]";
    let guarantee =
        format!("guarantees: [{{id: second, prizes: [mug], within: 2}}], pools: [{pin}]");
    for pools in [&schedule, personal, &guarantee] {
        assert_eq!(reached(pools, 17), [1.0, 1.0], "{pools}");
        assert_eq!(reached(pools, 2400), [0.0, 0.0], "{pools}");
    }
}

#[test]
fn users_who_reach_a_guarantee_are_counted_and_odds_come_out() {
    let pool = "{id: own, personal: {odds: {star: 2%, pin: 30%}, \
                guarantees: [{id: tenth, prizes: [star], within: 10}]}}";
    let prizes = "[{id: star, unlimited: true}, {id: pin, unlimited: true}]";
    let campaign = campaign(&format!("prizes: {prizes}, pools: [{pool}]"));
    let forecast = simulate(&campaign, &crowd(200, 30.0), 2).unwrap();
    // Each of 200 users draws about 60 times: about every ninth gives a star.
    assert!(forecast.guaranteed.low > 195.0, "{:?}", forecast.guaranteed);
    let expected = (1.0 - 0.98_f64.powi(10)) / 0.02;
    let share = forecast.prizes[0].won.mean / forecast.draws.mean;
    assert!((share * expected - 1.0).abs() < 0.1, "{share}, {expected}");
    let again = simulate(&campaign, &crowd(200, 30.0), 2).unwrap();
    assert_eq!(again.prizes[0].won, forecast.prizes[0].won);
}

#[test]
fn a_guarantee_of_the_campaign_gives_every_tenth_draw_of_a_user_who_wins_nothing_else() {
    let game = |stock: u32| {
        campaign(&format!(
            "prizes: [{{id: cap, stock: {stock}}}, {{id: pin, unlimited: true}}], \
             guarantees: [{{id: tenth, prizes: [cap], within: 10}}], \
             pools: [{{id: pins, deck: {{size: 2, cards: {{pin: 1}}, onExhausted: RESHUFFLE}}}}]"
        ))
    };
    let crowd = crowd(200, 30.0);
    let forecast = simulate(&game(9_000), &crowd, 2).unwrap();
    let (draws, won) = (forecast.draws.mean, forecast.prizes[0].won.mean);
    // Of 200 users each has up to nine draws after the last kept promise.
    assert!(
        won * 10.0 <= draws && draws <= won * 10.0 + 9.0 * 200.0,
        "{draws}, {won}"
    );
    assert!(forecast.guaranteed.low > 195.0, "{:?}", forecast.guaranteed);
    // The other nine draws are half pins, but for the last cards.
    let pins = forecast.prizes[1].won.mean;
    assert!((pins - (draws - won) / 2.0).abs() <= 1.0, "{pins}");
    let scarce = simulate(&game(150), &crowd, 2).unwrap();
    assert_eq!(scarce.prizes[0].won.low, 150.0);
}

#[test]
fn users_who_reach_a_limit_are_counted() {
    let limited = format!("limits: {{drawsPerDay: 2, paidDrawsPerDay: 1}}, {DECK}");
    let crowd = Crowd {
        paid_per_day: 3.0,
        ..crowd(100, 6.0)
    };
    let forecast: Forecast = simulate(&campaign(&limited), &crowd, 4).unwrap();
    // Each of 100 users draws at most twice free and once paid on each of two days, and hardly
    // anybody tries less.
    assert!(
        forecast.draws.high <= 600.0 && forecast.draws.low > 500.0,
        "{:?}",
        forecast.draws
    );
    assert!(forecast.refused["DRAWS_PER_DAY"].mean > 700.0);
    assert!(forecast.refused["PAID_DRAWS_PER_DAY"].mean > 300.0);
    assert_eq!(forecast.limited.low, 100.0);
    let free = simulate(&campaign(DECK), &crowd, 1).unwrap();
    assert_eq!((free.limited.high, free.refused.len()), (0.0, 0));
}

/// Every draw gives a pin or, to who may still have one, a mug.
fn mugs(rest: &str) -> Arc<Campaign> {
    campaign(&format!(
        "{rest}, pools: \
         [{{id: mugs, deck: {{size: 1, cards: {{mug: 1}}, onExhausted: RESHUFFLE}}}}, \
         {{id: pins, deck: {{size: 1, cards: {{pin: 1}}, onExhausted: RESHUFFLE}}}}]"
    ))
}

/// Each of 100 users tries about 12 draws, so hardly anybody makes fewer than 3.
#[test]
fn users_who_reach_the_cap_of_a_prize_are_counted() {
    let capped = |cap: &str| {
        let prizes = format!(
            "prizes: [{{id: mug, unlimited: true, perUser: {cap}}}, {{id: pin, unlimited: true}}]"
        );
        simulate(&mugs(&prizes), &crowd(100, 6.0), 3).unwrap()
    };
    let few = capped("{total: 1}");
    assert_eq!(few.prizes[0].at_cap.unwrap(), few.drawers, "the first draw");
    assert_eq!(few.prizes[1].at_cap, None);
    assert_eq!((few.limited.high, few.at_wins_limit), (0.0, None));
    assert_eq!(few.prizes[0].at_daily_cap, None);
    let of_a_day = capped("{perDay: 3}").prizes[0].at_daily_cap.unwrap();
    assert!((80.0..=100.0).contains(&of_a_day.low), "{of_a_day:?}");
    // Who draws six times on both days reaches this cap, and many do so on one day only.
    let both = capped("{total: 12, perDay: 6}");
    let (in_all, on_a_day) = (&both.prizes[0].at_cap, &both.prizes[0].at_daily_cap);
    let (in_all, on_a_day) = (in_all.unwrap(), on_a_day.unwrap());
    assert!(
        0.0 < in_all.low && in_all.high < on_a_day.low,
        "{in_all:?} {on_a_day:?}"
    );
}

#[test]
fn users_who_win_as_much_as_they_may_are_at_a_limit() {
    let limited = |wins: u32| {
        let rest = "prizes: [{id: mug, unlimited: true}, {id: pin, unlimited: true}]";
        let rest = format!("limits: {{winsPerUser: {wins}}}, {rest}");
        simulate(&mugs(&rest), &crowd(100, 6.0), 3).unwrap()
    };
    let one = limited(1);
    assert_eq!(
        (one.at_wins_limit, one.limited),
        (Some(one.drawers), one.drawers)
    );
    let twelve = limited(12).at_wins_limit.unwrap();
    assert!(0.0 < twelve.low && twelve.high < 80.0, "{twelve:?}");
    let none = limited(0);
    assert_eq!(
        (none.winners.high, none.at_wins_limit),
        (0.0, Some(none.drawers))
    );
}

/// Members may draw once a day and everybody else not at all; staff draw from no pool.
#[test]
fn users_are_in_as_many_segments_as_their_shares_say() {
    let rest = "limits: {drawsPerDay: 0}, \
                segmentLimits: [{segment: member, limits: {drawsPerDay: 1}}], \
                prizes: [{id: coupon, stock: 100000}], \
                pools: [{id: cards, segments: {none: [staff]}, \
                         deck: {size: 1, cards: {coupon: 1}, onExhausted: RESHUFFLE}}]";
    let segment = |id, share| (SegmentId::parse("", id).unwrap(), share);
    let crowd = Crowd {
        segments: vec![segment("staff", 0.25), segment("member", 0.5)],
        ..crowd(2000, 10.0)
    };
    let forecast = simulate(&campaign(rest), &crowd, 2).unwrap();
    // Half of the users draw, 1,000 with a standard deviation of 22; three quarters of them win.
    let (drawers, winners) = (forecast.drawers, forecast.winners);
    assert!(drawers.low > 850.0 && drawers.high < 1150.0, "{drawers:?}");
    let share = winners.mean / drawers.mean;
    assert!((0.65..0.85).contains(&share), "{share}");
    let nobody = Crowd {
        segments: Vec::new(),
        ..crowd
    };
    assert_eq!(
        simulate(&campaign(rest), &nobody, 1).unwrap().drawers.high,
        0.0
    );
}

/// A user tries a number of draws a day that is Poisson-distributed, with a mean of 3, and may make
/// 3 of them: `sum of min(k, 3) e^-3 3^k / k!` are made.
#[test]
fn draws_under_a_limit_are_as_many_as_the_distribution_says() {
    let mean: f64 = 3.0;
    let mut chance = (-mean).exp();
    let mut expected = 0.0;
    for tries in 1..60 {
        chance *= mean / f64::from(tries);
        expected += chance * f64::from(tries.min(3));
    }
    let campaign = campaign(&format!("limits: {{drawsPerDay: 3}}, {DECK}"));
    let forecast = simulate(&campaign, &crowd(2_000, mean), 4).unwrap();
    // 16,000 days of users, each with a standard deviation below 1.
    let made = forecast.draws.mean / 4_000.0;
    let tolerance = 4.0 / 16_000.0_f64.sqrt();
    assert!((made - expected).abs() < tolerance, "{made}, {expected}");
    assert!(forecast.draws.low < forecast.draws.mean && forecast.draws.mean < forecast.draws.high);
}

/// Of users who try half a draw a day on two days, `1 - 1/e` draw at all.
#[test]
fn users_who_draw_are_as_many_as_the_distribution_says() {
    let forecast = simulate(&campaign(DECK), &crowd(4_000, 0.5), 4).unwrap();
    let share = forecast.drawers.mean / 4_000.0;
    let expected = 1.0 - (-1.0_f64).exp();
    let tolerance = 4.0 * (expected * (1.0 - expected) / 16_000.0).sqrt();
    assert!((share - expected).abs() < tolerance, "{share}, {expected}");
}

/// 2,400 draws a day arrive evenly, and each tenth wins: the 120th phone is won after 12 hours.
#[test]
fn stock_runs_out_when_the_draws_say() {
    let campaign = campaign(
        "prizes: [{id: phone, stock: 120}], \
         pools: [{id: cards, deck: {size: 10, cards: {phone: 1}, onExhausted: RESHUFFLE}}]",
    );
    let crowd = Crowd {
        arrivals: Arrivals::Flat,
        ..crowd(100, 24.0)
    };
    let forecast = simulate(&campaign, &crowd, 8).unwrap();
    let time = forecast.prizes[0].runs_out_time.as_deref().unwrap();
    // The moment of the 1,200th draw has a standard deviation of 21 minutes, the mean of 8 runs one
    // of 8.
    let minutes = |time: &str| -> i32 {
        let digits = |range: std::ops::Range<usize>| time[range].parse::<i32>().unwrap();
        digits(11..13) * 60 + digits(14..16)
    };
    assert!(time.starts_with("2026-12-01T"), "{time}");
    assert!((minutes(time) - 12 * 60).abs() < 40, "{time}");
    let prize = &forecast.prizes[0];
    let low = prize.runs_out_time_low.as_deref().unwrap();
    let high = prize.runs_out_time_high.as_deref().unwrap();
    assert!(
        minutes(low) < minutes(time) && minutes(time) < minutes(high),
        "{low} {high}"
    );
    assert!(
        12 * 60 - 90 < minutes(low) && minutes(high) < 12 * 60 + 90,
        "{low} {high}"
    );
}

/// 0.6%, from the 74th draw on 6% more each, and surely the 90th: 1.605205% of all draws.
#[test]
fn a_guarantee_with_a_ramp_gives_the_share_that_is_published() {
    let campaign = campaign(
        "prizes: [{id: ssr, unlimited: true}], \
         pools: [{id: banner, personal: {odds: {ssr: 0.6%}, guarantees: \
         [{id: pity, prizes: [ssr], within: 90, ramp: [{from: 74, add: 6%}]}]}}]",
    );
    let forecast = simulate(&campaign, &crowd(20, 1_000.0), 2).unwrap();
    let share = forecast.prizes[0].won.mean / forecast.draws.mean;
    // 40,000 draws in each of two runs. The number of draws from one to the next has a mean of 62
    // and a standard deviation of 24, so the share has one of 1.1% of itself. Users end between
    // two, which takes about 1.3% off.
    let relative = share / 0.016_052_05;
    assert!((0.95..1.04).contains(&relative), "{share}");
}

#[test]
fn a_simulation_that_is_late_has_the_runs_that_are_done() {
    let (campaign, crowd) = (campaign(DECK), crowd(200, 2.0));
    let asked = std::sync::atomic::AtomicU32::new(0);
    let is_late = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 10;
    let threads = std::num::NonZeroUsize::MIN;
    let forecast = simulate_unless(&campaign, &crowd, 3, threads, &is_late).unwrap();
    assert!(forecast.is_none());
    let forecast = simulate_unless(&campaign, &crowd, 3, threads, &|| false).unwrap();
    assert_eq!(forecast.unwrap().seeds, 3);
    // Each run asks before each of its 48 hours.
    let asked = std::sync::atomic::AtomicU32::new(0);
    let is_late = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 2 * 48 + 10;
    let forecast = simulate_unless(&campaign, &crowd, 3, threads, &is_late).unwrap();
    assert_eq!(forecast.unwrap().seeds, 2);
}
