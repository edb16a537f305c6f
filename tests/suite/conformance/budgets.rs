//! The value of what users win never passes the campaign's budget (P5), and what it holds is won
//! later.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tombola::{
    model::{Moment, PrizeNo},
    store::{Cause, DrawAnswer, Operation, WinOperation},
};

use crate::support::{Answer as _, DrawWords as _, World, all_of, at, draw, hours, seconds};

promises![
    a_card_that_would_pass_the_budget_is_forfeited,
    a_schedule_holds_what_would_pass_the_budget_until_the_day_is_over,
    a_pool_that_the_budget_holds_whole_is_passed_over,
    cheaper_prizes_are_won_until_none_fits,
    a_budget_holds_under_a_thousand_parallel_calls,
    a_storm_over_midnight_gets_each_day_its_budget,
    a_day_of_25_hours_has_one_budget,
    both_bounds_hold_together,
    a_draw_that_finds_nothing_says_that_the_budget_is_reached,
    a_draw_that_must_wait_for_a_fill_spends_nothing,
    a_revoked_win_gives_its_value_back_to_the_budget_in_all_only,
    a_new_version_may_raise_lower_and_end_a_budget,
    a_budget_in_all_counts_what_was_won_before_it_was_set,
    a_budget_survives_a_restart,
    amounts_beyond_32_bits_are_exact,
    what_was_ever_won_may_pass_53_bits,
];

/// A deck of mugs for 3 yuan and pins for 1.
fn wheel(budget: &str) -> String {
    format!(
        "
        consolation: {{id: points}}
        budget: {budget}
        prizes:
          - {{id: mug, stock: 50000, value: {{currencyCode: CNY, units: 3}}}}
          - {{id: pin, stock: 50000, value: {{currencyCode: CNY, units: 1}}}}
        pools: [{{id: deck, deck: {{size: 100, cards: {{mug: 50, pin: 50}}, \
         onExhausted: RESHUFFLE}}}}]
        "
    )
}

/// A deck of mugs only.
fn mugs(budget: &str) -> String {
    wheel(budget).replace("mug: 50, pin: 50", "mug: 100")
}

fn cny(units: u64) -> String {
    format!("{{currencyCode: CNY, units: {units}}}")
}

fn per_day(units: u64) -> String {
    format!("{{perDay: {}}}", cny(units))
}

fn in_all(units: u64) -> String {
    format!("{{total: {}}}", cny(units))
}

/// Minor units won on the day and in all.
async fn spent(world: &World) -> (u64, u64) {
    let spent = world.stats().await.spent();
    (spent.today, spent.total)
}

/// Yuan that these results are worth.
fn worth(answers: &[DrawAnswer]) -> u64 {
    let value = |answer: &DrawAnswer| 3 * answer.count("mug") + answer.count("pin");
    answers.iter().map(value).sum::<usize>() as u64
}

async fn a_card_that_would_pass_the_budget_is_forfeited(world: &mut World) {
    let stickers = "prizes:\n          - {id: sticker, stock: 50000, value: {currencyCode: CNY}}";
    let with_stickers = wheel(&in_all(30))
        .replace("prizes:", stickers)
        .replace("mug: 50, pin: 50", "mug: 50, pin: 30, sticker: 20");
    world.begin(&with_stickers).await;
    let answer = world.draw(draw("u").times(100)).await;
    assert_eq!(spent(world).await, (3_000, 3_000));
    assert_eq!(worth(std::slice::from_ref(&answer)), 30);
    assert_eq!(
        answer.count("sticker"),
        20,
        "what is worth nothing is won on"
    );
    let (mugs, pins) = (world.prize("mug").await, world.prize("pin").await);
    assert_eq!((mugs.won + mugs.forfeited, mugs.waiting), (50, 0));
    assert_eq!(mugs.forfeited + pins.forfeited, answer.forfeited() as u64);
    assert_eq!(
        answer.forfeited(),
        80 - answer.count("mug") - answer.count("pin")
    );
    assert!(world.stats().await.balanced());
}

async fn a_schedule_holds_what_would_pass_the_budget_until_the_day_is_over(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-24T00:00:00+08:00
            budget: {perDay: {currencyCode: CNY, units: 10}}
            prizes:
              - {id: mug, stock: 1000, value: {currencyCode: CNY, units: 4}}
              - {id: sticker, stock: 1000, value: {currencyCode: CNY}}
            pools:
              - id: hours
                schedule:
                  special:
                    - from: 2026-11-20T00:00
                      to: 2026-11-20T01:00
                      perHour: {mug: 5, sticker: 3}
            ",
        )
        .await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    let first = world.draw(draw("u").times(6)).await;
    assert_eq!([first.count("mug"), first.count("sticker")], [2, 3]);
    assert_eq!(
        (first.forfeited(), first.causes()),
        (0, vec![Cause::Budget])
    );
    let held = world.stats().await;
    let budget = held.view.campaign.budget.as_ref().unwrap();
    assert_eq!(budget.held(held.spent()).collect::<Vec<_>>(), [PrizeNo(0)]);
    assert_eq!(world.prize("mug").await.waiting, 3);
    world.set_time(campaign.start + hours(24)).await;
    assert_eq!(spent(world).await, (0, 800));
    let second = world.draw(draw("v").times(3)).await;
    assert_eq!(
        (second.count("mug"), second.causes()),
        (2, vec![Cause::Budget])
    );
    world.pass(hours(24)).await;
    let third = world.draw(draw("v").times(2)).await;
    assert_eq!(
        (third.count("mug"), third.causes()),
        (1, vec![Cause::NothingDue])
    );
}

async fn a_pool_that_the_budget_holds_whole_is_passed_over(world: &mut World) {
    world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            budget: {total: {currencyCode: CNY, units: 5}}
            prizes:
              - {id: mug, stock: 100, value: {currencyCode: CNY, units: 3}}
              - {id: pin, stock: 100, value: {currencyCode: CNY, nanos: 500000000}}
            pools:
              - {id: mugs, deck: {size: 10, cards: {mug: 10}}}
              - {id: hours, schedule: {perHour: {mug: 10}}}
              - {id: pins, deck: {size: 10, cards: {pin: 10}}}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes()[0], "mug");
    assert_eq!(answer.prizes()[1..5], ["pin"; 4]);
    assert_eq!(answer.causes(), [Cause::Budget]);
    assert_eq!(world.prize("mug").await.forfeited, 0);
    assert_eq!(spent(world).await, (500, 500));
}

async fn cheaper_prizes_are_won_until_none_fits(world: &mut World) {
    world.begin(&wheel(&per_day(50))).await;
    let mut won = Vec::new();
    for user in 0..200 {
        won.push(world.draw(draw(&format!("u{user}"))).await);
    }
    assert_eq!(worth(&won), 50, "what single yuan can fill is filled");
    let last = won.last().unwrap();
    assert_eq!(
        last.causes(),
        [Cause::Budget],
        "the deck is passed over then"
    );
}

async fn a_budget_holds_under_a_thousand_parallel_calls(world: &mut World) {
    world.begin(&wheel(&in_all(101))).await;
    let calls = (0..1000).map(|i| draw(&format!("u{i}")).times(1 + i % 4));
    let answers = world.storm(calls.collect()).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(worth(&answers), 101);
    assert_eq!(spent(world).await, (10_100, 10_100));
}

async fn a_storm_over_midnight_gets_each_day_its_budget(world: &mut World) {
    world.begin(&mugs(&per_day(17))).await;
    storm_over(world, at("2026-11-21T00:00:00+08:00")).await;
    assert_eq!(spent(world).await, (1_500, 3_000));
}

async fn a_day_of_25_hours_has_one_budget(world: &mut World) {
    let zone = "timeZone: America/New_York
        startTime: 2026-10-25T00:00:00-04:00
        consolation";
    let in_new_york = mugs(&per_day(17)).replace("consolation", zone);
    world.begin(&in_new_york).await;
    storm_over(world, at("2026-11-01T00:00:00-04:00")).await;
    for hour in 1..25 {
        let time = at("2026-11-01T00:00:00-04:00") + hours(hour);
        world.set_time(time).await;
        assert_eq!(world.draw(draw("eager")).await.wins(), 0, "{hour}");
    }
    world.set_time(at("2026-11-02T00:00:00-05:00")).await;
    assert_eq!(world.draw(draw("eager").times(10)).await.wins(), 5);
}

async fn both_bounds_hold_together(world: &mut World) {
    let both = format!("{{perDay: {}, total: {}}}", cny(6), cny(10));
    world.begin(&mugs(&both)).await;
    for (wins, total) in [(2, 600), (1, 900), (0, 900)] {
        assert_eq!(world.draw(draw("u").times(9)).await.wins(), wins);
        assert_eq!(spent(world).await, (300 * wins as u64, total));
        world.pass(hours(24)).await;
    }
}

async fn a_draw_that_finds_nothing_says_that_the_budget_is_reached(world: &mut World) {
    let campaign = world
        .begin(
            "
            budget: {total: {currencyCode: CNY, units: 4}}
            prizes:
              - id: mug
                stock: 5000
                perUser: {perDay: 1}
                value: {currencyCode: CNY, units: 1}
            pools: [{id: hours, schedule: {perHour: {mug: 5}}}]
            ",
        )
        .await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    for user in ["u", "v", "w"] {
        let answer = world.draw(draw(user).times(2)).await;
        assert_eq!(
            answer.causes(),
            [Cause::PrizeCap],
            "before that of the budget"
        );
    }
    world.draw(draw("x")).await;
    assert_eq!(world.draw(draw("x")).await.causes(), [Cause::PrizeCap]);
    assert_eq!(world.draw(draw("y")).await.causes(), [Cause::Budget]);
    world
        .operate(Operation::PausePrize { prize: PrizeNo(0) })
        .await;
    assert_eq!(world.draw(draw("y")).await.causes(), [Cause::Budget]);
}

/// Each deck is dealt only as far as it is needed, so long draws ask for fills in their middle.
async fn a_draw_that_must_wait_for_a_fill_spends_nothing(world: &mut World) {
    world
        .begin(&wheel(&in_all(2_000)).replace("size: 100", "size: 4000"))
        .await;
    let mut answers = Vec::new();
    for user in 0..40 {
        answers.push(world.draw(draw(&format!("u{user}")).times(100)).await);
        let (_, total) = spent(world).await;
        assert_eq!(total, 100 * worth(&answers));
    }
    assert_eq!(worth(&answers), 200);
}

async fn a_revoked_win_gives_its_value_back_to_the_budget_in_all_only(world: &mut World) {
    let both = format!("{{perDay: {}, total: {}}}", cny(9), cny(12));
    world.begin(&mugs(&both)).await;
    let first = world.draw(draw("u").times(9)).await;
    assert_eq!(first.wins(), 3);
    for (win, withdraw) in first.won_units().iter().zip([false, true]) {
        let revoke = WinOperation::Revoke { withdraw };
        world.try_operate_win(win, revoke).await.unwrap();
    }
    assert_eq!(spent(world).await, (900, 300));
    assert_eq!(
        world.draw(draw("v").times(9)).await.wins(),
        0,
        "on this day"
    );
    world.reopen().await;
    world.pass(hours(24)).await;
    assert_eq!(world.draw(draw("v").times(9)).await.wins(), 3);
    assert_eq!(spent(world).await, (900, 1_200));
    world.pass(hours(24)).await;
    assert_eq!(world.draw(draw("v").times(9)).await.wins(), 0);
}

async fn a_new_version_may_raise_lower_and_end_a_budget(world: &mut World) {
    world.begin(&mugs(&per_day(6))).await;
    let wins = |answer: DrawAnswer| answer.wins();
    assert_eq!(wins(world.draw(draw("u").times(9)).await), 2);
    world.change(&mugs(&per_day(15))).await;
    assert_eq!(wins(world.draw(draw("u").times(9)).await), 3);
    world.change(&mugs(&per_day(3))).await;
    assert_eq!(wins(world.draw(draw("u").times(9)).await), 0);
    let free = mugs("x").replace("budget: x", "");
    world.change(&free).await;
    assert_eq!(wins(world.draw(draw("u").times(9)).await), 9);
    world.change(&mugs(&per_day(18))).await;
    assert_eq!(
        wins(world.draw(draw("u").times(9)).await),
        1,
        "five counted"
    );
    // Dearer mugs: what was won before counts at the new value.
    let dear = mugs(&in_all(80)).replace("units: 3", "units: 5");
    world.change(&dear).await;
    assert_eq!(spent(world).await.1, 7_500);
    assert_eq!(wins(world.draw(draw("u").times(9)).await), 1);
}

async fn a_budget_in_all_counts_what_was_won_before_it_was_set(world: &mut World) {
    world.begin(&mugs("x").replace("budget: x", "")).await;
    assert_eq!(world.draw(draw("u").times(5)).await.wins(), 5);
    let both = format!("{{perDay: {}, total: {}}}", cny(6), cny(22));
    world.change(&mugs(&both)).await;
    assert_eq!(spent(world).await, (0, 1_500), "the day counts from now on");
    assert_eq!(world.draw(draw("u").times(5)).await.wins(), 2);
    world.pass(hours(24)).await;
    assert_eq!(world.draw(draw("u").times(5)).await.wins(), 0);
}

async fn a_budget_survives_a_restart(world: &mut World) {
    world.begin(&mugs(&per_day(9))).await;
    assert_eq!(world.draw(draw("u").times(2)).await.wins(), 2);
    world.reopen().await;
    assert_eq!(spent(world).await, (600, 600));
    assert_eq!(world.draw(draw("u").times(9)).await.wins(), 1);
}

async fn amounts_beyond_32_bits_are_exact(world: &mut World) {
    // A yen is the minor unit: 2^53 - 1 of it is the most that a budget has.
    let most = (1_u64 << 53) - 1;
    world
        .begin(&format!(
            "
            budget: {{total: {{currencyCode: JPY, units: {most}}}}}
            prizes:
              - {{id: car, stock: 5, value: {{currencyCode: JPY, units: {}}}}}
              - {{id: pin, stock: 50, value: {{currencyCode: JPY, units: 1}}}}
            pools:
              - {{id: cars, lockAfterWins: 3, deck: {{size: 5, cards: {{car: 5}}}}}}
              - {{id: pins, deck: {{size: 9, cards: {{pin: 9}}}}}}
            ",
            (most - 2) / 3
        ))
        .await;
    let answer = world.draw(draw("u").times(8)).await;
    let counts = ["car", "pin"].map(|prize| answer.count(prize));
    let left = most - (most - 2) / 3 * 3;
    assert_eq!(counts, [3, left as usize]);
    assert_eq!(spent(world).await, (most, most));
    assert_eq!(world.draw(draw("v")).await.causes(), [Cause::Budget]);
}

async fn what_was_ever_won_may_pass_53_bits(world: &mut World) {
    let value = (1_u64 << 51) + 1;
    world
        .begin(&format!(
            "
            budget: {{total: {{currencyCode: JPY, units: {}}}}}
            prizes: [{{id: car, stock: 9, value: {{currencyCode: JPY, units: {value}}}}}]
            pools: [{{id: cars, deck: {{size: 9, cards: {{car: 9}}}}}}]
            ",
            3 * value - 1
        ))
        .await;
    // Five are won and three revoked, so two are left.
    for (won, revoked) in [(2, 2), (2, 1), (1, 0)] {
        let answer = world.draw(draw("u").times(won)).await;
        assert_eq!(answer.wins(), won as usize);
        for win in answer.won_units().iter().take(revoked) {
            let revoke = WinOperation::Revoke { withdraw: true };
            world.try_operate_win(win, revoke).await.unwrap();
        }
        world.pass(hours(24)).await;
    }
    assert_eq!(spent(world).await.1, 2 * value);
    assert_eq!(world.draw(draw("u")).await.causes(), [Cause::Budget]);
}

/// Eight callers draw without pause while the clock passes midnight. On either side five mugs fit.
async fn storm_over(world: &World, midnight: Moment) {
    let began = midnight - seconds(2);
    world.set_time(began).await;
    let calls = Arc::new(AtomicU64::new(0));
    let answers = all_of(8, |caller| {
        let (world, calls) = (world.clone(), calls.clone());
        async move {
            let mut answers = Vec::new();
            for _ in 0..50 {
                answers.push(world.draw(draw(&format!("u{caller}"))).await);
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
