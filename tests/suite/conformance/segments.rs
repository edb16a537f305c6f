//! Segments decide limits and pools of a user by what the caller says, draw by draw.

use tombola::{
    model::{
        SegmentId,
        limits::{LimitKind, Quota},
    },
    store::{Cause, DrawAnswer, DrawCommand, Refusal},
};

use crate::support::{
    Answer as _, DrawWords as _, World, audit, campaign_id, draw, hours, segments, user,
};

promises![
    a_pool_is_for_those_in_any_of_its_segments_and_in_none_of_the_others,
    a_pool_that_is_not_for_the_user_is_not_filled_for_the_draw,
    limits_of_the_first_segment_stated_replace_what_they_set,
    each_draw_is_seen_by_the_segments_that_it_states,
    hours_of_a_segment_count_its_own_draws,
    a_limit_of_wins_may_be_a_segment_s,
    many_segments_in_one_batch_do_not_mix,
    a_retry_with_other_segments_is_the_same_request,
    replays_show_the_limits_of_the_segments_of_then,
    segments_are_in_the_ledger_if_the_campaign_names_any,
    a_new_version_may_change_who_is_who,
];

/// A deck for members of the north, one for all but staff, and limits of two segments.
const GAME: &str = "
    limits: {drawsPerDay: 5}
    segmentLimits:
      - {segment: staff, limits: {drawsPerDay: 1, paidDrawsPerDay: 0}}
      - {segment: member, limits: {drawsPerDay: 9}}
    consolation: {id: points}
    prizes: [{id: mug, stock: 2000}, {id: pin, stock: 2000}]
    pools:
      - {id: north, segments: {any: [north, far-north]}, deck: {size: 1000, cards: {mug: 1000}}}
      - {id: all, segments: {none: [staff]}, deck: {size: 1000, cards: {pin: 1000}}}
";

fn with(stated: &[&str]) -> DrawCommand {
    draw("u").with(stated)
}

async fn quota(world: &World, stated: &[&str]) -> Quota {
    let view = world.store().user(&campaign_id("spring"), &user("u")).await;
    view.unwrap().quotas_in(&segments(stated)).draws_today
}

async fn a_pool_is_for_those_in_any_of_its_segments_and_in_none_of_the_others(world: &mut World) {
    world.begin(GAME).await;
    for (stated, prize) in [
        (&[][..], "pin"),
        (&["north"], "mug"),
        (&["far-north", "member"], "mug"),
        (&["north", "staff"], "mug"),
        (&["south"], "pin"),
    ] {
        let name = format!("user-{}", stated.join("-"));
        let answer = world.draw(draw(&name).with(stated)).await;
        assert_eq!(answer.prizes(), [prize], "{stated:?}");
    }
    let answer = world.draw(draw("clerk").with(&["staff"])).await;
    assert_eq!(
        (answer.prizes(), answer.causes()),
        (vec!["-"], vec![Cause::NothingDue])
    );
}

async fn a_pool_that_is_not_for_the_user_is_not_filled_for_the_draw(world: &mut World) {
    world.begin(GAME).await;
    // Nothing is dealt yet. A draw that would need the deck would have to be made twice.
    let answer = world.draw(draw("clerk").with(&["staff"])).await;
    assert_eq!(answer.prizes(), ["-"]);
    assert_eq!(world.prize("mug").await.waiting, 0);
    world.draw(with(&["north"])).await;
    assert!(world.prize("mug").await.waiting > 0);
}

async fn limits_of_the_first_segment_stated_replace_what_they_set(world: &mut World) {
    world.begin(GAME).await;
    for (stated, limit) in [
        (&[][..], 5),
        (&["north"], 5),
        (&["member"], 9),
        (&["member", "staff"], 1),
    ] {
        assert_eq!(quota(world, stated).await.limit, Some(limit), "{stated:?}");
    }
    let answer = world.draw(with(&["member"]).times(8)).await;
    assert_eq!(answer.quotas().draws_today.remaining(), Some(1));
    match world.refused(with(&["north"])).await {
        Refusal::Limit { reached, .. } => {
            assert_eq!((reached.limit, reached.left), (LimitKind::DrawsPerDay, 0));
        }
        other => panic!("{other}"),
    }
    let paid = |stated| draw("clerk").with(stated).paid("order");
    world.refused(paid(&["staff"])).await;
    world.draw(paid(&["member"]).times(20)).await;
}

async fn each_draw_is_seen_by_the_segments_that_it_states(world: &mut World) {
    world.begin(GAME).await;
    world.draw(with(&[]).times(5)).await;
    world.refused(with(&[])).await;
    world.draw(with(&["member"]).times(4)).await;
    world.refused(with(&["member"])).await;
    assert_eq!(quota(world, &[]).await.remaining(), Some(0));
    assert_eq!(world.record("u").await.free_today, 9);
}

async fn hours_of_a_segment_count_its_own_draws(world: &mut World) {
    world
        .begin(&GAME.replace("{drawsPerDay: 9}", "{drawsPerHour: 2, drawsPerDay: 9}"))
        .await;
    world.draw(with(&[]).times(2)).await;
    let answer = world.draw(with(&["member"]).times(2)).await;
    let quota = answer.quotas().draws_this_hour.unwrap();
    assert_eq!((quota.used, quota.remaining()), (2, Some(0)));
    match world.refused(with(&["member"])).await {
        Refusal::Limit { reached, .. } => assert_eq!(reached.limit, LimitKind::DrawsPerHour),
        other => panic!("{other}"),
    }
    assert_eq!(world.draw(with(&[])).await.quotas().draws_this_hour, None);
    world.pass(hours(1)).await;
    world.draw(with(&["member"]).times(2)).await;
}

async fn a_limit_of_wins_may_be_a_segment_s(world: &mut World) {
    world
        .begin(&GAME.replace("{drawsPerDay: 9}", "{winsPerUser: 2}"))
        .await;
    let answer = world.draw(with(&["member"]).times(4)).await;
    assert_eq!(
        (answer.wins(), answer.causes()),
        (2, vec![Cause::WinsLimit; 2])
    );
    assert_eq!(answer.quotas().wins_total.limit, Some(2));
    assert_eq!(world.draw(with(&[])).await.wins(), 1);
}

async fn many_segments_in_one_batch_do_not_mix(world: &mut World) {
    world.begin(GAME).await;
    let kinds = [&[][..], &["north"], &["staff"], &["member", "south"]];
    let calls: Vec<_> = (0..200)
        .map(|number| draw(&format!("u{}", number / 4)).with(kinds[number % 4]))
        .collect();
    let answers = world.storm(calls.clone()).await;
    for (number, answer) in answers.into_iter().enumerate() {
        match (number % 4, answer) {
            (0 | 3, Ok(answer)) => assert_eq!(answer.prizes(), ["pin"]),
            (1, Ok(answer)) => assert_eq!(answer.prizes(), ["mug"]),
            // Unless it was the user's first draw of the day.
            (2, Ok(answer)) => {
                assert_eq!((answer.prizes(), answer.entry.counts.draws), (vec!["-"], 1))
            }
            (2, Err(_)) => {}
            (_, answer) => panic!("{number}: {answer:?}"),
        }
    }
}

async fn a_retry_with_other_segments_is_the_same_request(world: &mut World) {
    world.begin(GAME).await;
    let first = world.draw(with(&["north"]).named("r")).await;
    for stated in [&[][..], &["staff"], &["north", "member"]] {
        let again = world.draw(with(stated).named("r")).await;
        assert!(again.replayed);
        assert_eq!(again.entry, first.entry);
    }
    let refusal = world.refused(with(&["north"]).named("r").times(2)).await;
    assert_eq!(refusal, Refusal::RequestIdReused);
}

async fn replays_show_the_limits_of_the_segments_of_then(world: &mut World) {
    world.begin(GAME).await;
    let first = world.draw(with(&["member", "north"]).named("r")).await;
    assert_eq!(first.quotas().draws_today.limit, Some(9));
    let same = |again: &DrawAnswer| {
        assert!(again.replayed);
        assert_eq!(
            (&again.entry, again.quotas()),
            (&first.entry, first.quotas())
        );
    };
    same(&world.draw(with(&[]).named("r")).await);
    world.reopen().await;
    // The second time it is not the user's latest draw.
    for _ in 0..2 {
        same(&world.draw(with(&[]).named("r")).await);
        let command = draw("u").named("r");
        let store = world.store();
        let found = store.find_draw(&command.campaign, &command.user, &command.request);
        same(&found.await.unwrap());
        world.draw(with(&[])).await;
    }
}

async fn segments_are_in_the_ledger_if_the_campaign_names_any(world: &mut World) {
    world.begin(GAME).await;
    let stated = ["far-north", "x".repeat(128).as_str(), "a.b:c@d-e_f"].map(str::to_owned);
    let stated: Vec<&str> = stated.iter().map(String::as_str).collect();
    let answer = world.draw(with(&stated).paid("order")).await;
    let plain = world.draw(draw("v")).await;
    for answer in [&answer, &plain] {
        let entries = audit::ledger(&**world.store()).await;
        let entry = entries
            .iter()
            .find(|entry| entry.id == answer.ledger)
            .unwrap();
        let body = tombola::store::entry::Body::Draw((*answer.entry).clone());
        assert_eq!(entry.body, body);
    }
    assert_eq!(answer.entry.segments, segments(&stated));
    assert_eq!(plain.entry.segments, Vec::<SegmentId>::new());
    let anybody = GAME
        .replace("segments: {any: [north, far-north]}, ", "")
        .replace("segments: {none: [staff]}, ", "");
    let from = anybody.find("segmentLimits").unwrap();
    let until = anybody.find("consolation").unwrap();
    let anybody = format!("{}{}", &anybody[..from], &anybody[until..]);
    world.change(&anybody).await;
    let ignored = world.draw(draw("w").with(&["staff"])).await;
    assert_eq!(ignored.entry.segments, Vec::<SegmentId>::new());
    assert_eq!(ignored.prizes(), ["mug"]);
}

async fn a_new_version_may_change_who_is_who(world: &mut World) {
    world.begin(GAME).await;
    assert_eq!(world.draw(with(&["south"])).await.prizes(), ["pin"]);
    world
        .change(&GAME.replace("[north, far-north]", "[south]"))
        .await;
    assert_eq!(world.draw(with(&["south"])).await.prizes(), ["mug"]);
    assert_eq!(world.draw(with(&["north"])).await.prizes(), ["pin"]);
}
