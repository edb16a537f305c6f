//! What operators see of users and holds: who is blocked, what is paused, since when, by whom and
//! why.

use tombola::{
    model::{Moment, OperatorId, UserId},
    store::{
        Author, Hold, HoldNote, Lifecycle, OperateCommand, Operation, Refusal, StoreError,
        UserDetails,
    },
};

use crate::support::{
    DrawWords as _, World, author, campaign, draw, hours, user, users,
    words::{SPRING, campaign_id, new_request},
};

promises![
    a_user_is_shown_with_draws_wins_bonus_draws_and_limits,
    a_user_who_never_drew_has_used_nothing,
    a_block_is_noted_until_it_ends,
    blocked_users_are_listed_by_id_page_by_page,
    a_pause_is_noted_until_it_ends,
    a_pause_ends_with_its_campaign,
    holds_follow_their_prizes_when_a_version_renumbers_them,
    people_of_an_unknown_campaign_are_refused,
];

const YAML: &str = "
    limits: {drawsPerDay: 2, paidDrawsPerDay: 1, drawsPerUser: 5, winsPerUser: 9}
    consolation: {id: points}
    prizes: [{id: coupon, stock: 10000}, {id: mug, stock: 0}]
    pools: [{id: deck, deck: {cards: {coupon: 10000}}}]
";

/// Operates on the campaign as somebody, for a reason.
async fn operate_by(world: &World, operator: &str, reason: &str, operation: Operation) {
    let command = OperateCommand {
        campaign: campaign_id(SPRING),
        operation,
        blocks: Vec::new(),
        author: Author {
            operator: OperatorId::parse("operator", operator).unwrap(),
            reason: reason.into(),
            ..author(&new_request())
        },
    };
    world.injector().operate(command).await.unwrap();
}

fn note(at: Moment, operator: &str, reason: &str) -> Option<HoldNote> {
    Some(HoldNote {
        at,
        operator: OperatorId::parse("operator", operator).unwrap(),
        reason: reason.into(),
    })
}

async fn details(world: &World, id: &str) -> UserDetails {
    let (campaign, user) = (campaign_id(SPRING), user(id));
    let details = world.store().user_details(&campaign, &user);
    details.await.unwrap()
}

async fn holds(world: &World) -> Vec<Hold> {
    let view = world.store().campaign(&campaign_id(SPRING)).await.unwrap();
    view.holds.to_vec()
}

/// All pages of blocked users of this size: their ids, and the total that each page states.
async fn listed(world: &World, size: usize) -> Vec<(Vec<String>, u64)> {
    let mut pages = Vec::new();
    let mut after: Option<UserId> = None;
    loop {
        let page = world
            .store()
            .blocked_users(&campaign_id(SPRING), after.as_ref(), size)
            .await
            .unwrap();
        let ids = page.users.iter().map(|blocked| blocked.user.to_string());
        pages.push((ids.collect(), page.total));
        match page.users.last() {
            Some(last) if page.users.len() == size => after = Some(last.user.clone()),
            _ => return pages,
        }
    }
}

async fn a_user_is_shown_with_draws_wins_bonus_draws_and_limits(world: &mut World) {
    let campaign = world.begin(YAML).await;
    let grant = |draws, expires| Operation::Grant {
        users: users(&["u"]),
        draws,
        expires,
    };
    let soon = campaign.start + hours(30);
    world.operate(grant(3, Moment::FAR_FUTURE)).await;
    world.operate(grant(1, Moment::FAR_FUTURE)).await;
    world.operate(grant(2, soon)).await;
    world.draw(draw("u").times(3)).await;
    world.draw(draw("u").paid("order")).await;
    let shown = details(world, "u").await;
    let (record, quotas) = (&shown.view.record, shown.view.quotas());
    assert_eq!((record.draws, record.bonus_used, record.wins), (4, 1, 4));
    let bonus = record.bonus.iter().map(|bonus| (bonus.left, bonus.expires));
    let expected = [(1, soon), (4, Moment::FAR_FUTURE)];
    assert_eq!(bonus.collect::<Vec<_>>(), expected);
    assert_eq!((quotas.draws_today.used, quotas.draws_today.bonus), (2, 5));
    assert_eq!(quotas.paid_draws_today.remaining(), Some(0));
    assert_eq!(quotas.draws_total.remaining(), Some(2));
    assert_eq!(quotas.wins_total.remaining(), Some(5));
    assert!(shown.block.is_none());
    world.pass(hours(30)).await;
    let shown = details(world, "u").await.view;
    assert_eq!(shown.quotas().draws_today.used, 0, "a new day");
    assert_eq!(shown.record.bonus_left(), 4, "a grant has lapsed");
}

async fn a_user_who_never_drew_has_used_nothing(world: &mut World) {
    world.begin(YAML).await;
    let shown = details(world, "nobody").await;
    assert_eq!((shown.view.record.draws, shown.view.record.wins), (0, 0));
    assert_eq!(shown.view.quotas().draws_today.remaining(), Some(2));
    assert!(shown.block.is_none());
    assert_eq!(world.stats().await.users, 0, "looking makes no record");
}

async fn a_block_is_noted_until_it_ends(world: &mut World) {
    world.begin(YAML).await;
    let block = |ids: &[&str]| Operation::Block { users: users(ids) };
    let begun = world.time();
    operate_by(world, "anna", "scripts", block(&["u", "v"])).await;
    world.pass(hours(1)).await;
    // Whom this blocks anew has a note of its own, the others keep theirs.
    operate_by(world, "ben", "", block(&["v", "w"])).await;
    world.reopen().await;
    for (id, expected) in [
        ("u", note(begun, "anna", "scripts")),
        ("v", note(begun, "anna", "scripts")),
        ("w", note(begun + hours(1), "ben", "")),
    ] {
        let block = details(world, id).await.block.unwrap();
        assert_eq!((block.user, block.note), (user(id), expected), "{id}");
    }
    let unblock = Operation::Unblock {
        users: users(&["v"]),
    };
    operate_by(world, "anna", "a mistake", unblock).await;
    assert!(details(world, "v").await.block.is_none());
    assert_eq!(listed(world, 10).await, [(vec!["u".into(), "w".into()], 2)]);
    operate_by(world, "ben", "again", block(&["v"])).await;
    let block = details(world, "v").await.block.unwrap();
    assert_eq!(block.note, note(begun + hours(1), "ben", "again"));
}

async fn blocked_users_are_listed_by_id_page_by_page(world: &mut World) {
    world.begin(YAML).await;
    assert_eq!(listed(world, 10).await, [(vec![], 0)]);
    // In the order of their bytes; one is the beginning of the next.
    let ids = ["a", "a b", "a!", "ab", "b", "\u{8001}", "\u{8001}\u{677f}"];
    let mut mixed = users(&ids);
    mixed.reverse();
    world.operate(Operation::Block { users: mixed }).await;
    let all = ids.map(str::to_owned).to_vec();
    for size in [1, 2, 3, 7, 8] {
        let pages = listed(world, size).await;
        assert!(pages.iter().all(|(_, total)| *total == 7), "{pages:?}");
        let found: Vec<_> = pages.into_iter().flat_map(|(ids, _)| ids).collect();
        assert_eq!(found, all, "{size}");
    }
    let id = campaign_id(SPRING);
    let beyond = world.store().blocked_users(&id, Some(&user("c")), 2).await;
    let beyond = beyond.unwrap().users;
    assert_eq!(
        beyond[0].user,
        user("\u{8001}"),
        "a user who is not blocked"
    );
}

async fn a_pause_is_noted_until_it_ends(world: &mut World) {
    world.begin(YAML).await;
    let prize = world.prize_no("mug").await;
    let begun = world.time();
    operate_by(
        world,
        "anna",
        "wrong codes",
        Operation::PausePrize { prize },
    )
    .await;
    world.pass(hours(1)).await;
    operate_by(world, "ben", "", Operation::Pause).await;
    world.pass(hours(1)).await;
    for again in [Operation::Pause, Operation::PausePrize { prize }] {
        operate_by(world, "chris", "me too", again).await;
    }
    let campaign = Hold {
        prize: None,
        note: note(begun + hours(1), "ben", ""),
    };
    let mug = Hold {
        prize: Some(prize),
        note: note(begun, "anna", "wrong codes"),
    };
    assert_eq!(holds(world).await, [campaign, mug.clone()]);
    world.reopen().await;
    world.operate(Operation::Resume).await;
    assert_eq!(holds(world).await, [mug]);
    world.operate(Operation::ResumePrize { prize }).await;
    assert_eq!(holds(world).await, []);
    world.operate(Operation::Pause).await;
    world.operate(Operation::Close).await;
    assert_eq!(holds(world).await, [], "a closed campaign is not paused");
}

async fn a_pause_ends_with_its_campaign(world: &mut World) {
    let campaign = world.begin(YAML).await;
    world.operate(Operation::Pause).await;
    world.set_time(campaign.end).await;
    world.tick().await;
    let view = world.store().campaign(&campaign_id(SPRING)).await.unwrap();
    assert_eq!(
        (view.lifecycle, &*view.holds),
        (Lifecycle::Closed, [].as_slice())
    );
}

async fn holds_follow_their_prizes_when_a_version_renumbers_them(world: &mut World) {
    let definition = |prizes: &str| {
        format!(
            "
            prizes: [{prizes}]
            pools: [{{id: deck, deck: {{size: 100, cards: {{mug: 50}}}}}}]
            "
        )
    };
    let [car, mug, pen] = [
        "{id: car, stock: 1}",
        "{id: mug, stock: 50}",
        "{id: pen, stock: 0}",
    ];
    let first = campaign(&definition(&[car, mug, pen].join(", ")));
    world.try_apply(first, 0).await.unwrap();
    for (operator, id) in [("anna", "car"), ("ben", "mug"), ("chris", "pen")] {
        let prize = world.prize_no(id).await;
        operate_by(world, operator, "", Operation::PausePrize { prize }).await;
    }
    world.change(&definition(&[pen, mug].join(", "))).await;
    let named = holds(world).await.into_iter().map(|hold| {
        let operator = hold.note.unwrap().operator;
        (hold.prize.unwrap().0, operator.to_string())
    });
    let expected = [(0, "chris".into()), (1, "ben".into())];
    assert_eq!(named.collect::<Vec<_>>(), expected);
}

async fn people_of_an_unknown_campaign_are_refused(world: &mut World) {
    let unknown = StoreError::Refused(Refusal::CampaignNotFound);
    let id = campaign_id("none");
    let details = world.store().user_details(&id, &user("u")).await;
    assert_eq!(details.unwrap_err(), unknown);
    let blocked = world.store().blocked_users(&id, None, 10).await;
    assert_eq!(blocked.unwrap_err(), unknown);
}
