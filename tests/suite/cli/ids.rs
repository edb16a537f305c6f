//! Ids that callers choose, end to end: RPCs, commands and the log.

use tombola::proto::{
    ApplyCampaignRequest, BlockUsersRequest, Campaign, CheckLimitRequest, CreateEnvelopeRequest,
    DrawRequest, GetDrawRequest, GrabEnvelopeRequest, GrabOutcome, GrantDrawsRequest,
    ListGrabsRequest, Outcome, Prize, envelope_service_client::EnvelopeServiceClient,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::WHEEL;
use crate::{
    faults::redis::House,
    process::{NOW, Server, Start},
    support::foreign_ids::{FOREIGN_IDS, longest},
};

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_callers_are_any_text_on_the_embedded_store() {
    let data = tempfile::tempdir().unwrap();
    callers_own_their_ids(&Start::on(data.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_callers_are_any_text_on_redis() {
    let house = House::with(&[]);
    let start = house.start().at(NOW.into());
    start.init().well();
    callers_own_their_ids(&start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_new_is_a_step_of_an_address_on_the_embedded_store() {
    let data = tempfile::tempdir().unwrap();
    steps_are_refused(&Start::on(data.path()).serve()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_new_is_a_step_of_an_address_on_redis() {
    let house = House::with(&[]);
    let start = house.start().at(NOW.into());
    start.init().well();
    steps_are_refused(&start.serve()).await;
}

/// Applies a campaign, or only checks it.
async fn apply_one(
    server: &Server,
    campaign: &Campaign,
    base_version: u32,
    dry_run: bool,
) -> Result<(), Status> {
    let request = ApplyCampaignRequest {
        campaign: Some(campaign.clone()),
        base_version,
        dry_run,
        operator: "olga".into(),
        ..ApplyCampaignRequest::default()
    };
    let mut campaigns = server.campaigns().await;
    campaigns.apply_campaign(request).await.map(drop)
}

/// The fields that a refusal names, all since browsers take their ids out of an address.
fn steps(status: &Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "INVALID_REQUEST");
    let violations = &details.bad_request().unwrap().field_violations;
    for violation in violations {
        let why = "which browsers take out of an address: use another id";
        assert!(violation.description.contains(why), "{violation:?}");
    }
    violations.iter().map(|found| found.field.clone()).collect()
}

async fn steps_are_refused(server: &Server) {
    let wheel = tombola::model::file::parse(WHEEL).unwrap().pop().unwrap();
    let of_step = |step: &str| {
        let mut campaign = wheel.clone();
        campaign.prizes.push(Prize {
            id: step.into(),
            stock: 1,
            ..Prize::default()
        });
        campaign.pools[1].id = step.into();
        campaign
    };
    for step in [".", ".."] {
        let named = Campaign {
            id: step.into(),
            ..of_step(step)
        };
        for dry_run in [true, false] {
            let refused = apply_one(server, &named, 0, dry_run).await.unwrap_err();
            assert_eq!(steps(&refused), ["id", "prizes[2].id", "pools[1].id"]);
        }
    }
    apply_one(server, &wheel, 0, false).await.unwrap();
    let refused = apply_one(server, &of_step(".."), 1, false).await;
    let refused = refused.unwrap_err();
    assert_eq!(steps(&refused), ["prizes[2].id", "pools[1].id"]);

    let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
    for id in [".", ".."] {
        let create = CreateEnvelopeRequest {
            envelope_id: id.into(),
            sender_id: "ann".into(),
            total_minor: 100,
            currency: "CNY".into(),
            packets: 10,
            ..CreateEnvelopeRequest::default()
        };
        let refused = envelopes.create_envelope(create).await.unwrap_err();
        assert_eq!(steps(&refused), ["envelope_id"], "{id}");
    }
}

async fn callers_own_their_ids(start: &Start<'_>) {
    let mut server = start.serve();
    apply(&server);
    draws_are_made(&server).await;
    users_are_granted_and_blocked(&server).await;
    packets_are_grabbed(&server).await;
    bad_ids_are_refused(&server).await;
    commands_take_them(&server);
    server.kill();
    let server = start.serve();
    draws_are_found_again(&server).await;
}

fn apply(server: &Server) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wheel.yaml");
    std::fs::write(&file, WHEEL).unwrap();
    let operator = "spiffe://example.org/ns/\u{202e}ops";
    let line = [
        "apply",
        "-f",
        file.to_str().unwrap(),
        "--operator",
        operator,
    ];
    server.run(&line).well();
    server.says(r"spiffe://example.org/ns/\u{202e}ops");
    let shown = server.run(&["campaign", "wheel"]).well();
    assert!(shown.contains(r"ns/\u{202e}ops"), "{shown}");
    let json = server.run(&["campaign", "wheel", "--json"]).well();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["status"]["versions"][0]["operator"], operator);
}

fn request(user: &str, request: &str) -> DrawRequest {
    DrawRequest {
        campaign_id: "wheel".into(),
        user_id: user.into(),
        request_id: request.into(),
        consolation_only: true,
        ..DrawRequest::default()
    }
}

async fn draws_are_made(server: &Server) {
    let mut lottery = server.lottery().await;
    for id in FOREIGN_IDS {
        let drawn = lottery.draw(request(id, id)).await.unwrap().into_inner();
        assert!(!drawn.replayed, "{id:?}");
        assert_eq!(drawn.request_id, id);
        let limits = drawn.limits.unwrap();
        assert_eq!(limits.draws_today.unwrap().used, 1, "{id:?}");
    }
    draws_are_found_again(server).await;
}

async fn draws_are_found_again(server: &Server) {
    let mut lottery = server.lottery().await;
    for id in FOREIGN_IDS {
        let again = lottery.draw(request(id, id)).await.unwrap().into_inner();
        assert!(again.replayed, "{id:?}");
        let find = GetDrawRequest {
            campaign_id: "wheel".into(),
            user_id: id.into(),
            request_id: id.into(),
        };
        let found = lottery.get_draw(find).await.unwrap().into_inner();
        assert_eq!(found.draw.unwrap().results, again.results, "{id:?}");
    }
}

async fn users_are_granted_and_blocked(server: &Server) {
    let (mut campaigns, mut lottery) = (server.campaigns().await, server.lottery().await);
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
    let grant = GrantDrawsRequest {
        campaign_id: "wheel".into(),
        user_ids: vec![composed.into(), longest()],
        draws: 3,
        operator: "老板".into(),
        ..GrantDrawsRequest::default()
    };
    assert_eq!(
        campaigns.grant_draws(grant).await.unwrap().get_ref().users,
        2
    );
    for (id, bonus) in [(composed, 3), (decomposed, 0), (&longest(), 3)] {
        let check = CheckLimitRequest {
            campaign_id: "wheel".into(),
            user_id: id.into(),
            segments: Vec::new(),
        };
        let limits = lottery.check_limit(check).await.unwrap().into_inner();
        let quota = limits.limits.unwrap().draws_today.unwrap();
        assert_eq!(quota.bonus, bonus, "{id:?}");
    }
    let block = BlockUsersRequest {
        campaign_id: "wheel".into(),
        user_ids: vec![decomposed.into()],
        operator: "=ops+1".into(),
        ..BlockUsersRequest::default()
    };
    campaigns.block_users(block).await.unwrap();
    for (id, is_blocked) in [(composed, false), (decomposed, true)] {
        let draw = DrawRequest {
            count: 3,
            consolation_only: false,
            ..request(id, "")
        };
        let drawn = lottery.draw(draw).await.unwrap().into_inner();
        let is_consolation = drawn.results[0].outcome() == Outcome::Consolation;
        assert!(is_consolation || !is_blocked, "{id:?}");
    }
}

async fn packets_are_grabbed(server: &Server) {
    let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
    let create = CreateEnvelopeRequest {
        envelope_id: "e".into(),
        sender_id: "\"老板\"".into(),
        total_minor: 10_000,
        currency: "CNY".into(),
        packets: 100,
        ..CreateEnvelopeRequest::default()
    };
    let created = envelopes.create_envelope(create).await.unwrap();
    let envelope = created.into_inner().envelope.unwrap();
    assert_eq!(envelope.sender_id, "\"老板\"");
    for outcome in [GrabOutcome::Grabbed, GrabOutcome::AlreadyGrabbed] {
        for id in FOREIGN_IDS {
            let grab = GrabEnvelopeRequest {
                envelope_id: "e".into(),
                user_id: id.into(),
            };
            let grabbed = envelopes.grab_envelope(grab).await.unwrap();
            assert_eq!(grabbed.get_ref().outcome(), outcome, "{id:?}");
        }
    }
    let list = ListGrabsRequest {
        envelope_id: "e".into(),
        ..ListGrabsRequest::default()
    };
    let grabs = envelopes.list_grabs(list).await.unwrap().into_inner().grabs;
    let users: Vec<&str> = grabs.iter().map(|grab| grab.user_id.as_str()).collect();
    assert_eq!(users, FOREIGN_IDS);
}

/// The fields that a refusal names.
fn violations(status: &Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    for violation in violations {
        let rule = "1 to 128 bytes of UTF-8 text without control characters";
        assert!(violation.description.contains(rule), "{violation:?}");
    }
    violations.iter().map(|found| found.field.clone()).collect()
}

async fn bad_ids_are_refused(server: &Server) {
    let (mut campaigns, mut lottery) = (server.campaigns().await, server.lottery().await);
    let too_long = format!("{}x", longest());
    for bad in [&too_long, "a\0b", "a\nb", "\t", "\u{7f}", "\u{85}"] {
        let refused = lottery.draw(request(bad, bad)).await.unwrap_err();
        assert_eq!(violations(&refused), ["user_id", "request_id"], "{bad:?}");
        let block = BlockUsersRequest {
            campaign_id: "wheel".into(),
            user_ids: vec!["fine".into(), bad.into()],
            operator: bad.into(),
            ..BlockUsersRequest::default()
        };
        let refused = campaigns.block_users(block).await.unwrap_err();
        assert_eq!(violations(&refused), ["user_ids[1]", "operator"], "{bad:?}");
    }
    let nobody = lottery.draw(request("", "r")).await.unwrap_err();
    assert_eq!(violations(&nobody), ["user_id"]);
}

fn commands_take_them(server: &Server) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.txt");
    std::fs::write(&file, "auth0|1\r\n\n老板 2\n#3\na,b\n").unwrap();
    let file = file.to_str().unwrap();
    let block = ["block", "wheel", "--json", "--users-file", file];
    let output = server.run(&block).well();
    assert!(output.contains("\"users\": 4"), "{output}");
    std::fs::write(file, "auth0|1\n padded\n").unwrap();
    server
        .run(&block)
        .badly(1, &["line 2", "white space", "nothing was sent"]);
    let drawn = server.run(&["draw", "wheel", "it's \u{202e}me", "--consolation-only"]);
    assert!(drawn.well().contains("consolation"));
    let grabs = server.run(&["envelope", "show", "e"]).well();
    assert!(grabs.contains(r"\u{2028}\u{202e}"), "{grabs}");
    assert!(!grabs.contains('\u{202e}'), "{grabs}");
}
