//! Bonus draws that callers grant: each request is one grant, and a day's limit holds (P4, P5).

use tombola::{
    model::{
        Moment,
        limits::{LimitKind, OPEN_GRANTS_MAX},
    },
    store::{BonusAnswer, BonusCommand, Operation, Refusal, StoreError, entry::Body},
};

use crate::support::{
    Answer as _, DrawWords as _, World, all_of, at, audit, bonus, draw, hours, request, seconds,
    users,
};

promises![
    a_grant_gives_draws_and_says_so,
    the_same_request_is_one_grant,
    a_request_names_a_draw_or_a_grant,
    a_draw_cannot_be_found_under_the_id_of_a_grant,
    grants_of_a_day_are_limited_and_those_of_operators_are_not,
    a_storm_of_grants_over_midnight_gets_each_day_its_limit,
    grants_and_draws_under_parallel_calls_add_up,
    without_a_limit_nothing_is_counted,
    draws_lapse_at_their_moment_and_grants_of_one_moment_are_one,
    a_user_has_only_so_many_moments,
    a_grant_that_is_used_up_makes_room_for_another,
    a_grant_that_has_lapsed_is_refused,
    grants_before_the_start_and_in_a_pause_and_none_after_the_end,
    none_is_made_after_its_deadline,
    replays_show_the_limits_as_they_were,
    a_grant_is_forgotten_with_the_draws_of_its_day,
    grants_are_in_the_ledger,
];

/// Everyone has one draw a day, and may be granted three.
const GAME: &str = "
    limits: {drawsPerDay: 1, grantedPerDay: 3}
    consolation: {id: points}
    prizes: [{id: mug, stock: 1000}]
    pools: [{id: mugs, deck: {size: 1000, cards: {mug: 1000}}}]
";

async fn refused(world: &World, command: BonusCommand) -> Refusal {
    let before = (world.ledger_length().await, world.record("u").await);
    match world.store().grant_bonus(command).await {
        Err(StoreError::Refused(refusal)) => {
            let after = (world.ledger_length().await, world.record("u").await);
            assert_eq!(after, before, "{refusal}");
            refusal
        }
        other => panic!("not refused: {other:?}"),
    }
}

async fn granted(world: &World, command: BonusCommand) -> BonusAnswer {
    world.store().grant_bonus(command).await.unwrap()
}

fn granted_today(answer: &BonusAnswer) -> (u64, Option<u64>) {
    let quota = answer.quotas().granted_today.unwrap();
    (quota.used, quota.remaining())
}

async fn a_grant_gives_draws_and_says_so(world: &mut World) {
    world.begin(GAME).await;
    let answer = granted(world, bonus("u", 2)).await;
    assert_eq!((answer.replayed, answer.at), (false, world.time()));
    assert_eq!(granted_today(&answer), (2, Some(1)));
    let quotas = answer.quotas();
    assert_eq!((quotas.draws_today.used, quotas.draws_today.bonus), (0, 2));
    let reset = quotas.granted_today.unwrap().reset;
    assert_eq!(reset, Some(at("2026-11-21T00:00:00+08:00")));
    assert_eq!(world.draw(draw("u").times(3)).await.wins(), 3);
    world.refused(draw("u")).await;
    let record = world.record("u").await;
    assert_eq!((record.draws, record.bonus_used), (3, 2));
    assert_eq!(record.granted_today, 2, "what was used counts");
    assert_eq!(world.stats().await.users, 1);
}

async fn the_same_request_is_one_grant(world: &mut World) {
    world.begin(GAME).await;
    let command = bonus("u", 2);
    let first = granted(world, command.clone()).await;
    world.draw(draw("u")).await;
    world.reopen().await;
    let again = granted(world, command.clone()).await;
    assert!(again.replayed);
    assert_eq!((again.ledger, again.at), (first.ledger, first.at));
    assert_eq!(
        (&again.entry, again.quotas()),
        (&first.entry, first.quotas())
    );
    for other in [
        BonusCommand {
            draws: 1,
            ..command.clone()
        },
        BonusCommand {
            expires: world.time() + hours(1),
            ..command.clone()
        },
    ] {
        assert_eq!(refused(world, other).await, Refusal::RequestIdReused);
    }
    assert_eq!(world.record("u").await.bonus_left(), 2);
}

async fn a_request_names_a_draw_or_a_grant(world: &mut World) {
    world.begin(GAME).await;
    let drawn = draw("u");
    world.draw(drawn.clone()).await;
    let taken = BonusCommand {
        request: drawn.request.clone(),
        ..bonus("u", 1)
    };
    assert_eq!(
        refused(world, taken.clone()).await,
        Refusal::RequestIdReused
    );
    let command = bonus("u", 1);
    granted(world, command.clone()).await;
    // Whether it is the latest request of the user or an earlier one.
    assert_eq!(refused(world, taken).await, Refusal::RequestIdReused);
    let id = command.request.as_str();
    let refusal = world.refused(draw("u").named(id)).await;
    assert_eq!(refusal, Refusal::RequestIdReused);
    world.draw(draw("u")).await;
    let refusal = world.refused(draw("u").named(id)).await;
    assert_eq!(refusal, Refusal::RequestIdReused);
    // Of another user the same id is another request.
    world.draw(draw("v").named(id)).await;
}

async fn a_draw_cannot_be_found_under_the_id_of_a_grant(world: &mut World) {
    world.begin(GAME).await;
    let command = bonus("u", 1);
    granted(world, command.clone()).await;
    for _ in 0..2 {
        let found = world
            .store()
            .find_draw(&command.campaign, &command.user, &command.request)
            .await;
        assert_eq!(found.unwrap_err(), Refusal::DrawNotFound.into());
        world.draw(draw("u")).await;
    }
}

async fn grants_of_a_day_are_limited_and_those_of_operators_are_not(world: &mut World) {
    world.begin(GAME).await;
    granted(world, bonus("u", 2)).await;
    match refused(world, bonus("u", 2)).await {
        Refusal::Limit {
            reached, retry_at, ..
        } => {
            assert_eq!(reached.limit, LimitKind::GrantedPerDay);
            assert_eq!((reached.asked, reached.left, reached.resets), (2, 1, true));
            assert_eq!(retry_at, Some(at("2026-11-21T00:00:00+08:00")));
        }
        other => panic!("{other}"),
    }
    match refused(world, bonus("u", 4)).await {
        Refusal::Limit {
            reached, retry_at, ..
        } => assert_eq!((reached.resets, retry_at), (false, None), "no day has four"),
        other => panic!("{other}"),
    }
    world
        .operate(Operation::Grant {
            users: users(&["u"]),
            draws: 9,
            expires: Moment::FAR_FUTURE,
        })
        .await;
    let answer = granted(world, bonus("u", 1)).await;
    assert_eq!(granted_today(&answer), (3, Some(0)));
    assert_eq!(world.record("u").await.bonus_left(), 12);
    world.pass(hours(24)).await;
    assert_eq!(world.record("u").await.granted_today, 0);
    let answer = granted(world, bonus("u", 3)).await;
    assert_eq!(granted_today(&answer), (3, Some(0)));
}

async fn a_storm_of_grants_over_midnight_gets_each_day_its_limit(world: &mut World) {
    let campaign = world.begin(GAME).await;
    for day in 1..6 {
        for before in [1, 0] {
            world
                .set_time(campaign.start + hours(24 * day) - seconds(before))
                .await;
            let answers = storm(world, 30).await;
            let fresh = day == 1 || before == 0;
            assert_eq!(answers, if fresh { 3 } else { 0 }, "{day}");
        }
    }
    assert_eq!(world.record("u").await.bonus_left(), 6 * 3);
}

/// How many of these grants of one draw are made at once.
async fn storm(world: &World, grants: usize) -> usize {
    let store = world.store().clone();
    let answers = all_of(grants, move |_| {
        let store = store.clone();
        async move { store.grant_bonus(bonus("u", 1)).await }
    });
    let answers = answers.await.into_iter();
    let made = answers.filter(|answer| match answer {
        Ok(_) => true,
        Err(StoreError::Refused(Refusal::Limit { .. })) => false,
        Err(error) => panic!("{error}"),
    });
    made.count()
}

async fn grants_and_draws_under_parallel_calls_add_up(world: &mut World) {
    let game = GAME.replace("drawsPerDay: 1, grantedPerDay: 3", "drawsPerDay: 0");
    world.begin(&game).await;
    let shared = world.clone();
    let made = all_of(200, move |number| {
        let world = shared.clone();
        async move {
            if number % 2 == 0 {
                granted(&world, bonus("u", 2)).await;
                return 0;
            }
            match world.try_draw(draw("u")).await {
                Ok(_) => 1,
                Err(StoreError::Refused(Refusal::Limit { .. })) => 0,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let drawn: u64 = made.await.into_iter().sum();
    let record = world.record("u").await;
    assert_eq!((record.draws, record.bonus_used), (drawn, drawn));
    assert_eq!(record.bonus_left(), 200 - drawn);
}

async fn without_a_limit_nothing_is_counted(world: &mut World) {
    let unlimited = GAME.replace(", grantedPerDay: 3", "");
    world.begin(&unlimited).await;
    let answer = granted(world, bonus("u", 10_000)).await;
    assert_eq!(answer.quotas().granted_today, None);
    assert_eq!(world.record("u").await.granted_today, 0);
    // It counts from the version on that sets the limit, and what was counted stays.
    world.change(GAME).await;
    granted(world, bonus("u", 2)).await;
    world.change(&unlimited).await;
    granted(world, bonus("u", 5)).await;
    world.change(GAME).await;
    let answer = granted(world, bonus("u", 1)).await;
    assert_eq!(granted_today(&answer), (3, Some(0)));
    refused(world, bonus("u", 1)).await;
}

async fn draws_lapse_at_their_moment_and_grants_of_one_moment_are_one(world: &mut World) {
    world.begin(GAME).await;
    let soon = world.time() + hours(2);
    for draws in [1, 2] {
        granted(
            world,
            BonusCommand {
                expires: soon,
                ..bonus("u", draws)
            },
        )
        .await;
    }
    world
        .operate(Operation::Grant {
            users: users(&["u"]),
            draws: 4,
            expires: soon + hours(1),
        })
        .await;
    let bonus = world.record("u").await.bonus;
    let open: Vec<_> = bonus.iter().map(|it| (it.expires, it.left)).collect();
    assert_eq!(open, [(soon, 3), (soon + hours(1), 4)]);
    world.draw(draw("u").times(2)).await; // one of the day, and the soonest to lapse
    assert_eq!(world.record("u").await.bonus[0].left, 2);
    world.set_time(soon).await;
    assert_eq!(world.record("u").await.bonus_left(), 4);
    world.set_time(soon + hours(1)).await;
    world.refused(draw("u")).await;
}

async fn a_user_has_only_so_many_moments(world: &mut World) {
    world.begin(&GAME.replace(", grantedPerDay: 3", "")).await;
    let lapsing = |number: usize| BonusCommand {
        // Not in the order in which they lapse.
        expires: at("2026-12-01T00:00:00Z") + hours((number as u64 * 7) % 32),
        ..bonus("u", 1)
    };
    for number in 0..OPEN_GRANTS_MAX {
        granted(world, lapsing(number)).await;
    }
    match refused(world, bonus("u", 1)).await {
        Refusal::ChangeRefused(problems) => {
            assert!(problems.to_string().contains("open grants"), "{problems}");
        }
        other => panic!("{other}"),
    }
    granted(world, lapsing(3)).await;
    let record = world.record("u").await;
    assert!(record.bonus.is_sorted_by_key(|bonus| bonus.expires));
    assert_eq!(record.bonus_left(), OPEN_GRANTS_MAX as u64 + 1);
}

async fn a_grant_that_is_used_up_makes_room_for_another(world: &mut World) {
    world.begin(&GAME.replace(", grantedPerDay: 3", "")).await;
    let lapse = |number: usize| at("2026-12-01T00:00:00Z") + hours(number as u64);
    for number in 0..OPEN_GRANTS_MAX {
        let lapsing = BonusCommand {
            expires: lapse(number),
            ..bonus("u", 1)
        };
        granted(world, lapsing).await;
    }
    world.draw(draw("u").times(2)).await; // one of the day, and the soonest to lapse
    let open = world.record("u").await.bonus;
    assert_eq!(open.len(), OPEN_GRANTS_MAX - 1);
    assert!(open.iter().all(|bonus| bonus.left == 1), "{open:?}");
    world
        .operate(Operation::Grant {
            users: users(&["u"]),
            draws: 5,
            expires: lapse(OPEN_GRANTS_MAX),
        })
        .await;
    let record = world.record("u").await;
    assert_eq!(record.bonus_left(), OPEN_GRANTS_MAX as u64 + 4);
}

async fn a_grant_that_has_lapsed_is_refused(world: &mut World) {
    world.begin(GAME).await;
    let lapsed = BonusCommand {
        expires: world.time(),
        ..bonus("u", 1)
    };
    match refused(world, lapsed).await {
        Refusal::ChangeRefused(problems) => {
            assert!(problems.to_string().contains("lapse at once"), "{problems}");
        }
        other => panic!("{other}"),
    }
}

async fn grants_before_the_start_and_in_a_pause_and_none_after_the_end(world: &mut World) {
    let campaign = world.begin(GAME).await;
    world.set_time(campaign.start - hours(30)).await;
    granted(world, bonus("early", 1)).await;
    world.set_time(campaign.start).await;
    world.operate(Operation::Pause).await;
    granted(world, bonus("u", 1)).await;
    world.operate(Operation::Resume).await;
    assert_eq!(world.draw(draw("early").times(2)).await.wins(), 2);
    world.set_time(campaign.end).await;
    let refusal = refused(world, bonus("u", 1)).await;
    assert_eq!(refusal, Refusal::Ended(campaign.end));
    let absent = BonusCommand {
        campaign: crate::support::campaign_id("nowhere"),
        ..bonus("u", 1)
    };
    let refusal = world.store().grant_bonus(absent).await.unwrap_err();
    assert_eq!(refusal, Refusal::CampaignNotFound.into());
}

async fn none_is_made_after_its_deadline(world: &mut World) {
    world.begin(GAME).await;
    let late = BonusCommand {
        not_after: world.time() - seconds(1),
        ..bonus("u", 1)
    };
    assert_eq!(refused(world, late).await, Refusal::DeadlineExceeded);
    world.operate(Operation::Close).await;
    assert_eq!(refused(world, bonus("u", 1)).await, Refusal::Closed);
}

async fn replays_show_the_limits_as_they_were(world: &mut World) {
    world.begin(GAME).await;
    let drawn = draw("u");
    let first_draw = world.draw(drawn.clone()).await;
    let mut made = Vec::new();
    for draws in [1, 2] {
        let command = bonus("u", draws);
        made.push((command.clone(), granted(world, command).await));
        world.draw(draw("u")).await;
    }
    world
        .change(&GAME.replace("grantedPerDay: 3", "grantedPerDay: 9"))
        .await;
    for (command, first) in made {
        let again = granted(world, command).await;
        assert_eq!((again.replayed, again.quotas()), (true, first.quotas()));
        assert_eq!(again.entry, first.entry);
    }
    assert_eq!(world.draw(drawn).await.quotas(), first_draw.quotas());
}

async fn a_grant_is_forgotten_with_the_draws_of_its_day(world: &mut World) {
    world.begin(GAME).await;
    let command = BonusCommand {
        request: request("invited-1"),
        ..bonus("u", 1)
    };
    granted(world, command.clone()).await;
    world.pass(hours(25)).await;
    while world.store().forget().await.unwrap() {}
    assert!(!granted(world, command).await.replayed, "a new grant");
    assert_eq!(world.record("u").await.bonus_left(), 2);
}

async fn grants_are_in_the_ledger(world: &mut World) {
    world.begin(GAME).await;
    let answer = granted(world, bonus("u", 2)).await;
    let entries = audit::ledger(&**world.store()).await;
    let entry = entries.iter().find(|entry| entry.id == answer.ledger);
    let entry = entry.unwrap();
    assert_eq!(entry.body, Body::Bonus((*answer.entry).clone()));
    assert_eq!((entry.at, entry.body.kind()), (answer.at, "bonus"));
}
