//! Ids of users, requests and operators are any text, and two different ones are never confused.

use tombola::{
    model::{Moment, OperatorId},
    store::{GrabOutcome, OperateCommand, Operation, Refusal, StoreError},
};

use crate::support::{
    Answer as _, DrawWords as _, EnvelopeWords as _, Outcome as _, World, author, draw, envelope,
    foreign_ids::{FOREIGN_IDS, longest},
    request, user, users,
    words::{campaign_id, new_request},
};

promises![
    every_id_is_a_user_of_its_own,
    every_request_id_is_a_draw_of_its_own,
    users_and_requests_that_read_alike_when_joined_are_different,
    users_of_any_id_are_granted_and_blocked,
    an_operator_and_a_change_have_any_id,
    users_of_any_id_grab_once,
];

const YAML: &str = "
    limits: {drawsPerDay: 40, drawsPerUser: 100}
    consolation: {id: points}
    prizes: [{id: coupon, stock: 10000}]
    pools: [{id: deck, deck: {cards: {coupon: 10000}}}]
";

/// All ids that the tests use.
fn all_ids() -> Vec<String> {
    let ids = FOREIGN_IDS.iter().map(|id| (*id).to_owned());
    ids.chain([longest()]).collect()
}

async fn every_id_is_a_user_of_its_own(world: &mut World) {
    world.begin(YAML).await;
    for (count, id) in (1..).zip(all_ids()) {
        let answer = world.draw(draw(&id).times(count).named("r")).await;
        assert!(!answer.replayed, "{id:?}");
    }
    world.reopen().await;
    let campaign = campaign_id("spring");
    for (count, id) in (1..).zip(all_ids()) {
        let again = world.draw(draw(&id).times(count).named("r")).await;
        assert!(again.replayed, "{id:?}");
        assert_eq!(again.entry.user.as_str(), id);
        assert_eq!(world.record(&id).await.draws, u64::from(count), "{id:?}");
        let (who, what) = (user(&id), request("r"));
        let found = world.store().find_draw(&campaign, &who, &what).await;
        assert_eq!(found.unwrap().entry, again.entry, "{id:?}");
    }
    assert_eq!(world.stats().await.users, all_ids().len() as u64);
}

/// The latest draw of a user is in the user's record, older ones are in separate fields. Both must
/// be found.
async fn every_request_id_is_a_draw_of_its_own(world: &mut World) {
    world.begin(YAML).await;
    let mut first = Vec::new();
    for id in all_ids() {
        let answer = world.draw(draw("老板").named(&id)).await;
        assert!(!answer.replayed, "{id:?}");
        first.push(answer);
    }
    world.reopen().await;
    for (id, first) in all_ids().iter().zip(&first) {
        let again = world.draw(draw("老板").named(id)).await;
        assert!(again.replayed, "{id:?}");
        assert_eq!((again.ledger, &again.entry), (first.ledger, &first.entry));
        assert_eq!(again.entry.request.as_str(), id);
    }
    let campaign = campaign_id("spring");
    let (who, never) = (user("老板"), request("\u{2028}"));
    let missing = world.store().find_draw(&campaign, &who, &never).await;
    let missing = missing.unwrap_err();
    assert_eq!(missing, StoreError::Refused(Refusal::DrawNotFound));
}

async fn users_and_requests_that_read_alike_when_joined_are_different(world: &mut World) {
    world.begin(YAML).await;
    let pairs = [("a b", "c"), ("a", "b c"), ("a b c", " "), ("a ", "b c")];
    for (who, what) in pairs {
        let answer = world.draw(draw(who).named(what)).await;
        assert!(!answer.replayed, "{who:?} {what:?}");
    }
    for (who, what) in pairs {
        let again = world.draw(draw(who).named(what)).await;
        assert!(again.replayed, "{who:?} {what:?}");
        let found = (again.entry.user.as_str(), again.entry.request.as_str());
        assert_eq!(found, (who, what));
    }
}

async fn users_of_any_id_are_granted_and_blocked(world: &mut World) {
    world.begin(YAML).await;
    let ids = all_ids();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let granted = Operation::Grant {
        users: users(&ids),
        draws: 2,
        expires: Moment::FAR_FUTURE,
    };
    let granted = world.operate(granted).await;
    assert_eq!(granted.users as usize, ids.len());
    let (blocked, free): (Vec<_>, Vec<_>) = (0..).zip(&ids).partition(|(i, _)| i % 2 == 0);
    let to_block = blocked.iter().map(|(_, id)| user(id)).collect();
    let block = Operation::Block { users: to_block };
    assert_eq!(world.operate(block).await.users as usize, blocked.len());
    world.reopen().await;
    for (_, id) in &blocked {
        assert_eq!(world.draw(draw(id)).await.wins(), 0, "{id:?}");
    }
    for (_, id) in &free {
        assert_eq!(world.draw(draw(id)).await.wins(), 1, "{id:?}");
        assert_eq!(world.record(id).await.bonus_left(), 2, "{id:?}");
    }
    let end = Operation::Unblock { users: users(&ids) };
    assert_eq!(world.operate(end).await.users as usize, blocked.len());
    for (_, id) in &blocked {
        assert_eq!(world.draw(draw(id)).await.wins(), 1, "{id:?}");
    }
}

async fn an_operator_and_a_change_have_any_id(world: &mut World) {
    world.begin(YAML).await;
    for id in all_ids() {
        let grant = Operation::Grant {
            users: users(&["u"]),
            draws: 1,
            expires: Moment::FAR_FUTURE,
        };
        let operator = OperatorId::parse("operator", &id).unwrap();
        let command = OperateCommand {
            campaign: campaign_id("spring"),
            operation: grant,
            blocks: Vec::new(),
            author: tombola::store::Author {
                operator,
                ..author(&id)
            },
        };
        let first = world.injector().operate(command.clone()).await.unwrap();
        let again = world.injector().operate(command).await.unwrap();
        assert_eq!((first.replayed, again.replayed), (false, true), "{id:?}");
        assert_eq!(first.ledger, again.ledger);
    }
    assert_eq!(world.record("u").await.bonus_left(), all_ids().len() as u64);
    let mut campaign = tombola::model::Campaign::clone(
        &world
            .store()
            .campaign(&campaign_id("spring"))
            .await
            .unwrap()
            .campaign,
    );
    campaign.name = "renamed".into();
    let operator = OperatorId::parse("operator", "spiffe://a/\u{202e}").unwrap();
    let by = tombola::store::Author {
        operator: operator.clone(),
        ..author(&new_request())
    };
    let applied = world.injector().apply(campaign.into(), 1, by);
    applied.await.unwrap();
    world.reopen().await;
    let view = world.store().campaign(&campaign_id("spring")).await;
    assert_eq!(view.unwrap().versions.last().unwrap().operator, operator);
}

async fn users_of_any_id_grab_once(world: &mut World) {
    let ids = all_ids();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (list, others) = ids.split_at(ids.len() - 4);
    let packets = u32::try_from(ids.len()).unwrap();
    let mut request = envelope("e", 100_000, packets).only_for(list);
    request.sender_id = "老板".into();
    world.create(&request).await;
    for id in list {
        assert!(world.grab("e", id).await.got().is_some(), "{id:?}");
    }
    world.reopen().await;
    assert!(world.try_create(&request).await.unwrap().replayed);
    for id in list {
        let again = world.grab("e", id).await;
        assert!(
            again.got().is_none() && again.packet().is_some(),
            "{id:?}: {again:?}"
        );
    }
    for id in others {
        assert_eq!(world.grab("e", id).await, GrabOutcome::NotAllowed, "{id:?}");
    }
    let grabs = world.grabs_of("e").await;
    let grabbed: Vec<&str> = grabs.iter().map(|grab| grab.user.as_str()).collect();
    assert_eq!(grabbed, list, "in the order of their grabs");
    assert_eq!(world.envelope("e").await.envelope.sender.as_str(), "老板");
}
