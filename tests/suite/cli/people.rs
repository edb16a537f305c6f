//! What operators see of users and of what is paused.

use tombola::proto::{GetUserRequest, ListBlockedUsersRequest, ListBlockedUsersResponse};
use tonic::{Code, Status};

use super::Desk;

#[test]
fn a_user_is_shown_in_full() {
    let desk = Desk::with_wheel();
    let grant = "grant wheel u-1 --draws 2 --expire 2026-12-06T12:00:00+08:00";
    desk.run(grant, &[]).well();
    desk.run("grant wheel u-1 --draws 4", &[]).well();
    desk.run("draw wheel u-1 --count 4", &[]).well();
    desk.run(
        "block wheel u-1 --operator anna --reason",
        &["scripted draws"],
    )
    .well();
    let shown = desk.run("user show wheel u-1", &[]).well();
    for words in [
        "draws    4, 1 of them bonus draws",
        "blocked  since 2026-12-05T",
        "by anna: scripted draws",
        "free draws today",
        "2026-12-06T12:00:00+08:00",
        "with the campaign",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let user = &desk.json("user show wheel u-1")["user"];
    assert_eq!(user["draws"], "4", "{user:#}");
    assert_eq!(user["bonusDraws"][0]["draws"], "1", "{user:#}");
    assert_eq!(user["bonusDraws"][1]["draws"], "4", "{user:#}");
    assert_eq!(user["limits"]["drawsToday"]["remaining"], "0", "{user:#}");
    assert_eq!(user["block"]["reason"], "scripted draws", "{user:#}");
    let new = desk.run("user show wheel nobody", &[]).well();
    assert!(
        new.contains("draws    0") && new.contains("blocked  no"),
        "{new}"
    );
    let missing = desk.run("user show spring u-1", &[]);
    missing.badly(1, &["there is no campaign spring"]);
}

#[test]
fn blocked_users_are_listed_with_who_and_why() {
    let desk = Desk::with_wheel();
    let none = desk.run("user blocked wheel", &[]).well();
    assert_eq!(none.trim(), "no user is blocked");
    // Several calls to block them, several pages to list them.
    let ids: Vec<String> = (1..=2_100).map(|number| format!("u-{number}")).collect();
    let file = desk.file("users.txt", &ids.join("\n"));
    desk.run(
        "block wheel --operator anna --reason scripts --users-file",
        &[&file],
    )
    .well();
    let listed = desk.json("user blocked wheel");
    let users = listed["users"].as_array().unwrap();
    assert_eq!(
        (users.len(), &listed["blockedUsers"]),
        (2_100, &"2100".into())
    );
    assert!(users.iter().all(|user| user["operator"] == "anna"));
    let text = desk.run("user blocked wheel", &[]).well();
    assert_eq!(text.matches("anna").count(), 2_100);
    assert!(text.contains("+08:00") && text.contains("scripts"));
    desk.run("user blocked spring", &[])
        .badly(1, &["there is no campaign spring"]);
}

#[test]
fn a_campaign_shows_who_paused_what() {
    let desk = Desk::with_wheel();
    desk.run(
        "prize pause wheel coupon --operator anna --reason",
        &["wrong codes"],
    )
    .well();
    desk.run("pause wheel --operator ben", &[]).well();
    let shown = desk.run("campaign wheel", &[]).well();
    for words in ["the campaign", "ben", "prize coupon", "anna", "wrong codes"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let status = &desk.json("campaign wheel")["status"];
    let holds = status["holds"].as_array().unwrap();
    assert_eq!(holds.len(), 2, "{status:#}");
    assert_eq!(holds[0]["operator"], "ben", "{status:#}");
    assert_eq!(holds[1]["prizeId"], "coupon", "{status:#}");
    assert!(holds[1]["holdTime"].is_string(), "{status:#}");
    desk.run("resume wheel", &[]).well();
    desk.run("prize resume wheel coupon", &[]).well();
    let status = &desk.json("campaign wheel")["status"];
    assert_eq!(status["holds"].as_array().unwrap().len(), 0, "{status:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_blocked_users_is_bounded_and_goes_on_by_its_token() {
    let desk = Desk::with_wheel();
    desk.run("block wheel u-1 u-2 u-3", &[]).well();
    let mut server = desk.server.campaigns().await;
    let mut list = async |page_size: u32, page_token: &str| {
        let request = ListBlockedUsersRequest {
            campaign_id: "wheel".into(),
            page_size,
            page_token: page_token.into(),
        };
        let page = server.list_blocked_users(request).await;
        page.map(tonic::Response::into_inner)
    };
    let ids = |page: &ListBlockedUsersResponse| -> Vec<String> {
        page.users.iter().map(|user| user.user_id.clone()).collect()
    };
    let first = list(2, "").await.unwrap();
    assert_eq!(
        (ids(&first), first.blocked_users),
        (vec!["u-1".into(), "u-2".into()], 3)
    );
    let last = list(2, &first.next_page_token).await.unwrap();
    assert_eq!(
        (ids(&last), last.next_page_token.as_str()),
        (vec!["u-3".into()], "")
    );
    let refused = |error: Status, field: &str| {
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().contains(field), "{error}");
    };
    refused(list(2, "u-2").await.unwrap_err(), "page_token");
    refused(list(1_001, "").await.unwrap_err(), "page_size");
    let nobody = GetUserRequest {
        campaign_id: "wheel".into(),
        user_id: String::new(),
    };
    refused(server.get_user(nobody).await.unwrap_err(), "user_id");
}

#[test]
fn a_caller_s_bonus_draws_are_granted_once_and_within_their_limit() {
    let desk = Desk::new();
    let file = desk.file(
        "invited.yaml",
        "
id: invited
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
limits: {drawsPerDay: 1, grantedPerDay: 3}
prizes: [{id: mug, stock: 10}]
pools: [{id: hours, schedule: {total: {mug: 1}}}]
",
    );
    desk.run("apply -f", &[&file]).well();
    let bonus = "bonus invited ann 2 --request-id friend-1";
    let granted = desk.json(bonus);
    assert_eq!(granted["limits"]["drawsToday"]["bonus"], "2", "{granted:#}");
    let again = desk.json(bonus);
    assert_eq!(again["replayed"], true, "{again:#}");
    assert_eq!(again["limits"], granted["limits"]);
    let shown = desk.run("bonus invited ann 1 --expire +24h", &[]).well();
    assert!(shown.contains("ann got 1 bonus draw "), "{shown}");
    desk.run("bonus invited ann 1", &[])
        .badly(1, &["bonus draws"]);
    desk.run("bonus invited ann 0", &[]).badly(64, &["DRAWS"]);
    let draw = desk.json("draw invited ann --count 4");
    assert_eq!(draw["results"].as_array().unwrap().len(), 4, "{draw:#}");
}
