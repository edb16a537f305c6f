//! No user wins more units of a prize than its cap allows (P5), and caps cost others nothing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tombola::{
    model::{
        Moment, PrizeNo,
        caps::{PrizeCount, PrizeQuota},
    },
    store::{Cause, DrawAnswer, DrawCommand, Operation, WinOperation},
};

use crate::support::{Answer as _, DrawWords as _, World, all_of, at, draw, hours, seconds, users};

promises![
    a_card_of_a_prize_at_its_cap_is_forfeited,
    a_schedule_holds_a_prize_at_its_cap_for_others,
    a_pool_with_nothing_below_its_caps_is_passed_over,
    the_win_that_reaches_a_cap_changes_the_draws_after_it,
    caps_of_several_prizes_and_the_limit_of_wins_hold_together,
    caps_hold_under_a_thousand_parallel_calls,
    a_storm_over_midnight_gets_each_day_its_cap,
    a_day_of_25_hours_has_one_cap,
    a_cap_of_the_day_does_not_raise_the_cap_in_all,
    a_draw_that_finds_nothing_says_that_a_cap_is_reached,
    responses_and_replays_show_the_caps_as_they_were,
    bonus_draws_and_caps_are_kept_side_by_side,
    a_new_version_may_raise_lower_and_end_a_cap,
    a_cap_counts_wins_from_its_version_on,
    a_revoked_win_counts,
    what_is_won_of_a_hundred_capped_prizes_is_counted,
];

/// A deck without blanks: of its mugs a user may have two.
const MUGS_AND_PINS: &str = "
    consolation: {id: points}
    prizes:
      - {id: mug, stock: 100, perUser: {total: 2}}
      - {id: pin, stock: 100}
    pools:
      - {id: first, deck: {size: 20, cards: {mug: 10, pin: 10}}}
      - {id: second, deck: {size: 100, cards: {mug: 50, pin: 50}}}
";

/// A deck of mugs, of which a user may have some a day and some in all.
fn mugs(cap: &str) -> String {
    let prizes = format!("[{{id: mug, stock: 5000, perUser: {cap}}}, {{id: pin, stock: 5000}}]");
    let deck = "{size: 1000, cards: {mug: 1000}, onExhausted: RESHUFFLE}";
    format!("consolation: {{id: points}}\nprizes: {prizes}\npools: [{{id: deck, deck: {deck}}}]\n")
}

async fn counted(world: &World, user: &str, prize: u16) -> PrizeCount {
    world.record(user).await.prizes.of(PrizeNo(prize))
}

async fn a_card_of_a_prize_at_its_cap_is_forfeited(world: &mut World) {
    world.begin(MUGS_AND_PINS).await;
    let answer = world.draw(draw("u").times(20)).await;
    let counts = ["mug", "pin", "-"].map(|prize| answer.count(prize));
    assert_eq!(counts, [2, 10, 8], "the next pool is not tried");
    assert_eq!(answer.forfeited(), 8);
    let mugs = world.prize("mug").await;
    assert_eq!((mugs.won, mugs.waiting, mugs.left), (2, 0, 98));
    assert_eq!((mugs.forfeited, mugs.returned), (8, 8));
    let count = counted(world, "u", 0).await;
    assert_eq!(count, PrizeCount { today: 2, total: 2 });
    assert!(world.stats().await.balanced());
}

async fn a_schedule_holds_a_prize_at_its_cap_for_others(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            consolation: {id: points}
            prizes: [{id: mug, stock: 1000, perUser: {perDay: 1}}, {id: pin, stock: 1000}]
            pools: [{id: hours, schedule: {perHour: {mug: 10, pin: 10}}}]
            ",
        )
        .await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    let answer = world.draw(draw("u").times(30)).await;
    let counts = ["mug", "pin", "-"].map(|prize| answer.count(prize));
    assert_eq!((counts, answer.forfeited()), ([1, 10, 19], 0));
    for other in 0..9 {
        let answer = world.draw(draw(&format!("other-{other}"))).await;
        assert_eq!(answer.prizes(), ["mug"]);
    }
    assert_eq!(world.draw(draw("late")).await.prizes(), ["-"]);
}

async fn a_pool_with_nothing_below_its_caps_is_passed_over(world: &mut World) {
    world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            prizes: [{id: mug, stock: 100, perUser: {total: 1}}, {id: pin, stock: 100}]
            pools:
              - {id: mugs, deck: {size: 10, cards: {mug: 10}}}
              - {id: hours, schedule: {perHour: {mug: 10}}}
              - {id: pins, deck: {size: 10, cards: {pin: 10}}}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes()[0], "mug");
    assert_eq!(answer.prizes()[1..], ["pin"; 5]);
    assert_eq!(world.prize("mug").await.forfeited, 0);
    assert_eq!(world.draw(draw("v")).await.prizes(), ["mug"]);
}

async fn the_win_that_reaches_a_cap_changes_the_draws_after_it(world: &mut World) {
    world.begin(&mugs("{perDay: 3, total: 5}")).await;
    let answer = world.draw(draw("u").times(10)).await;
    assert_eq!(answer.prizes()[..3], ["mug"; 3]);
    assert_eq!(answer.prizes()[3..], ["-"; 7]);
    assert_eq!(answer.forfeited(), 0, "no other prize is in the pool");
}

async fn caps_of_several_prizes_and_the_limit_of_wins_hold_together(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 4}
            prizes:
              - {id: mug, stock: 100, perUser: {total: 1}}
              - {id: pin, stock: 100, perUser: {total: 2}}
              - {id: car, stock: 100}
              - {id: sticker, stock: 100, countsAsWin: false, perUser: {total: 3}}
            pools:
              - id: deck
                deck: {size: 80, cards: {mug: 20, pin: 20, car: 20, sticker: 20}}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(80)).await;
    let counts = ["mug", "pin", "sticker"].map(|prize| answer.count(prize));
    assert!(counts[0] <= 1 && counts[1] <= 2, "{counts:?}");
    assert_eq!(counts[2], 3);
    assert_eq!(answer.wins(), 4 + 3);
    let mut causes = answer.causes().into_iter();
    assert!(
        causes.all(|cause| matches!(cause, Cause::Forfeited { .. } | Cause::WinsLimit)),
        "once nothing is left to win, the deck is passed over"
    );
    let answer = world.draw(draw("u")).await;
    assert_eq!(answer.causes(), [Cause::WinsLimit], "before that of a cap");
}

async fn caps_hold_under_a_thousand_parallel_calls(world: &mut World) {
    world.begin(&mugs("{total: 7}")).await;
    let calls = (0..1000).map(|i| match i % 3 {
        0 => draw("eager").times(1 + i % 4),
        1 => draw("other"),
        _ => draw(&format!("u{i}")),
    });
    let answers = world.storm(calls.collect()).await;
    let won = |user: &str| {
        let answers = answers.iter().map(|answer| answer.as_ref().unwrap());
        let own = answers.filter(|answer| answer.entry.user.as_str() == user);
        own.map(|answer| answer.wins()).sum::<usize>()
    };
    assert_eq!((won("eager"), won("other"), won("u2")), (7, 7, 1));
    assert_eq!(counted(world, "eager", 0).await.total, 7);
}

async fn a_storm_over_midnight_gets_each_day_its_cap(world: &mut World) {
    world.begin(&mugs("{perDay: 5}")).await;
    let midnight = at("2026-11-21T00:00:00+08:00");
    storm_over(world, midnight).await;
    let count = counted(world, "eager", 0).await;
    assert_eq!(
        count,
        PrizeCount {
            today: 5,
            total: 10
        }
    );
}

async fn a_day_of_25_hours_has_one_cap(world: &mut World) {
    let zone = "timeZone: America/New_York\nstartTime: 2026-10-25T00:00:00-04:00\n";
    world.begin(&format!("{zone}{}", mugs("{perDay: 5}"))).await;
    storm_over(world, at("2026-11-01T00:00:00-04:00")).await;
    for hour in 1..25 {
        world
            .set_time(at("2026-11-01T00:00:00-04:00") + hours(hour))
            .await;
        assert_eq!(world.draw(draw("eager")).await.wins(), 0, "{hour}");
    }
    world.set_time(at("2026-11-02T00:00:00-05:00")).await;
    assert_eq!(world.draw(draw("eager").times(10)).await.wins(), 5);
}

async fn a_cap_of_the_day_does_not_raise_the_cap_in_all(world: &mut World) {
    world.begin(&mugs("{perDay: 2, total: 3}")).await;
    assert_eq!(world.draw(draw("u").times(9)).await.wins(), 2);
    world.pass(hours(24)).await;
    assert_eq!(world.draw(draw("u").times(9)).await.wins(), 1);
    world.pass(hours(24)).await;
    assert_eq!(world.draw(draw("u").times(9)).await.wins(), 0);
    let count = counted(world, "u", 0).await;
    assert_eq!(count, PrizeCount { today: 0, total: 3 });
}

async fn a_draw_that_finds_nothing_says_that_a_cap_is_reached(world: &mut World) {
    let campaign = world
        .begin(
            "
            consolation: {id: points}
            prizes: [{id: mug, stock: 5000, perUser: {total: 1}}]
            pools: [{id: hours, schedule: {perHour: {mug: 2}}}]
            ",
        )
        .await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    world.tick().await;
    let first = world.draw(draw("u").times(3)).await;
    assert_eq!(
        (first.wins(), first.causes()),
        (1, vec![Cause::PrizeCap; 2])
    );
    let only = DrawCommand {
        consolation_only: true,
        ..draw("u")
    };
    assert_eq!(world.draw(only).await.causes(), [Cause::ConsolationOnly]);
    world.draw(draw("v")).await;
    let other = world.draw(draw("w")).await;
    assert_eq!(other.causes(), [Cause::NothingDue]);
    world
        .operate(Operation::Block {
            users: users(&["u"]),
        })
        .await;
    assert_eq!(world.draw(draw("u")).await.causes(), [Cause::Blocked]);
    let record = world.record("u").await;
    assert_eq!(
        record.prizes.of(PrizeNo(0)).total,
        1,
        "a barred draw keeps it"
    );
}

/// The used wins of the first prize's cap, of the day and in all.
fn used(quotas: &[PrizeQuota]) -> (u64, u64) {
    let [mug] = quotas else {
        panic!("one prize has a cap: {quotas:?}");
    };
    assert_eq!(mug.prize, PrizeNo(0));
    (mug.today.used, mug.total.used)
}

async fn responses_and_replays_show_the_caps_as_they_were(world: &mut World) {
    world.begin(&mugs("{perDay: 4, total: 9}")).await;
    let mut made = Vec::new();
    for (day, count) in [(0, 1), (0, 2), (1, 3), (2, 9)] {
        world
            .set_time(at("2026-11-20T00:00:00+08:00") + hours(24 * day))
            .await;
        let asked = draw("u").times(count).named(&format!("{day}-{count}"));
        made.push((asked.clone(), world.draw(asked).await));
    }
    let shown: Vec<_> = made
        .iter()
        .map(|(_, it)| used(&it.quotas().prizes))
        .collect();
    assert_eq!(shown, [(1, 1), (3, 3), (3, 6), (3, 9)]);
    let last = made[3].1.quotas();
    assert_eq!(last.prizes[0].today.remaining(), Some(1));
    assert_eq!(last.prizes[0].total.remaining(), Some(0));
    assert_eq!(last.prizes[0].total.reset, None);
    assert_eq!(
        last.prizes[0].today.reset,
        Some(at("2026-11-23T00:00:00+08:00"))
    );
    let view = world
        .store()
        .user(&made[0].0.campaign, &made[0].0.user)
        .await;
    assert_eq!(view.unwrap().quotas().prizes, last.prizes);
    // Requests are remembered for a day.
    for (asked, first) in &made[2..] {
        let again = world.draw(asked.clone()).await;
        assert!(again.replayed);
        assert_eq!(
            (&again.entry, again.quotas()),
            (&first.entry, first.quotas())
        );
        let found = world
            .store()
            .find_draw(&asked.campaign, &asked.user, &asked.request);
        assert_eq!(found.await.unwrap().entry, first.entry);
    }
    world.draw(draw("u")).await;
    let (asked, first) = &made[3];
    let again = world.draw(asked.clone()).await;
    assert_eq!(again.quotas(), first.quotas(), "no longer the latest draw");
    let other = world.refused(asked.clone().times(8)).await;
    assert_eq!(other, tombola::store::Refusal::RequestIdReused);
}

async fn bonus_draws_and_caps_are_kept_side_by_side(world: &mut World) {
    let limits = "limits: {drawsPerUser: 3}\n";
    world
        .begin(&format!("{limits}{}", mugs("{total: 2}")))
        .await;
    let command = draw("u").times(3);
    let first = world.draw(command.clone()).await;
    assert_eq!(first.wins(), 2);
    world
        .operate(Operation::Grant {
            users: users(&["u"]),
            draws: 4,
            expires: Moment::FAR_FUTURE,
        })
        .await;
    let again = world.draw(command.clone()).await;
    assert_eq!((again.replayed, again.quotas()), (true, first.quotas()));
    world.reopen().await;
    assert_eq!(world.draw(draw("u").times(3)).await.wins(), 0);
    let record = world.record("u").await;
    assert_eq!((record.bonus_left(), record.bonus_used), (1, 3));
    assert_eq!(record.prizes.of(PrizeNo(0)).total, 2);
    world.refused(draw("u").times(2)).await;
}

async fn a_new_version_may_raise_lower_and_end_a_cap(world: &mut World) {
    world.begin(&mugs("{total: 2}")).await;
    assert_eq!(world.draw(draw("u").times(9)).await.wins(), 2);
    world.change(&mugs("{total: 5}")).await;
    assert_eq!(world.draw(draw("u").times(9)).await.wins(), 3);
    world.change(&mugs("{total: 1}")).await;
    assert_eq!(world.draw(draw("u").times(9)).await.wins(), 0);
    world
        .change(&mugs("{total: 1}").replace(", perUser: {total: 1}", ""))
        .await;
    let uncapped = world.draw(draw("u").times(9)).await;
    assert_eq!((uncapped.wins(), uncapped.quotas().prizes), (9, vec![]));
    world.change(&mugs("{total: 6}")).await;
    assert_eq!(
        world.draw(draw("u").times(9)).await.wins(),
        1,
        "five counted"
    );
}

async fn a_cap_counts_wins_from_its_version_on(world: &mut World) {
    let uncapped = mugs("{total: 1}").replace(", perUser: {total: 1}", "");
    world.begin(&uncapped).await;
    assert_eq!(world.draw(draw("u").times(5)).await.wins(), 5);
    world.change(&mugs("{total: 2}")).await;
    assert_eq!(world.draw(draw("u").times(5)).await.wins(), 2);
    assert_eq!(counted(world, "u", 0).await.total, 2);
}

async fn a_revoked_win_counts(world: &mut World) {
    world.begin(&mugs("{total: 1}")).await;
    let win = world.draw(draw("u")).await.won_units().remove(0);
    let revoke = WinOperation::Revoke { withdraw: false };
    world.try_operate_win(&win, revoke).await.unwrap();
    assert_eq!(world.draw(draw("u").times(5)).await.wins(), 0);
}

async fn what_is_won_of_a_hundred_capped_prizes_is_counted(world: &mut World) {
    let prizes: Vec<_> = (0..100)
        .map(|no| format!("{{id: p{no}, stock: 40, perUser: {{perDay: 2, total: 3}}}}"))
        .collect();
    let cards: Vec<_> = (0..100).map(|no| format!("p{no}: 4")).collect();
    world
        .begin(&format!(
            "
            prizes: [{}]
            pools: [{{id: deck, deck: {{cards: {{{}}}, onExhausted: RESHUFFLE}}}}]
            ",
            prizes.join(", "),
            cards.join(", ")
        ))
        .await;
    let mut wins = 0;
    for day in 0..3 {
        // Two rounds: wherever in a round the day before has ended, these have every card once.
        for _ in 0..8 {
            wins += world.draw(draw("u").times(100)).await.wins();
        }
        world.reopen().await;
        assert_eq!(wins, [200, 300, 300][day]);
        world.pass(hours(24)).await;
    }
    let record = world.record("u").await;
    assert!((0..100).all(|no| record.prizes.of(PrizeNo(no)).total == 3));
}

/// Eight callers draw without pause while the clock passes midnight. On either side a user gets as
/// many units as the cap of the day is.
async fn storm_over(world: &World, midnight: Moment) {
    let began = midnight - seconds(2);
    world.set_time(began).await;
    let calls = Arc::new(AtomicU64::new(0));
    let answers = all_of(8, |_| {
        let (world, calls) = (world.clone(), calls.clone());
        async move {
            let mut answers = Vec::new();
            for _ in 0..50 {
                answers.push(world.draw(draw("eager")).await);
                let call = calls.fetch_add(1, Ordering::SeqCst);
                world.set_time(began + seconds(call) / 100).await; // goes back a little at times
            }
            answers
        }
    })
    .await;
    let answers: Vec<DrawAnswer> = answers.into_iter().flatten().collect();
    let won = |is_after: bool| {
        let answers = answers.iter();
        let of_side = answers.filter(|answer| (answer.at >= midnight) == is_after);
        of_side.map(|answer| answer.wins()).sum::<usize>()
    };
    assert_eq!((won(false), won(true)), (5, 5));
}
