//! Every act of the console in a real browser, on every kind of store; two operators at once;
//! identities that may not do what pages offer.

use tombola::proto::{Campaign, CampaignState, CampaignStatus, GetCampaignRequest};

use super::{
    address, all_pages,
    browser::{drive, drive_as},
    fill,
    grounds::Ground,
    needs_settled_ledger,
};
use crate::{access::Gate, process::Server};

/// How the browser is used, and whether lists of the ledger are there.
struct Manner {
    hands: &'static str,
    ledger: &'static str,
}

/// Does every act in the browser, and looks at what the service has then.
async fn act(ground: &Ground, manner: Manner) -> Server {
    let server = ground.start().serve();
    fill(&server).await;
    let origin = format!("http://{}", address(&server));
    let arguments = [manner.hands, manner.ledger].map(str::to_owned);
    drive("people.mjs", &origin, &arguments);
    let status = campaign(&server).await;
    assert_eq!(status.version, 1, "codes and users make no version");
    drive("acts.mjs", &origin, &arguments);
    was_changed(&campaign(&server).await);
    let all = server.run(&["campaigns"]).well();
    assert!(all.contains("closed"), "{all}");
    server
}

/// Two operators act at once.
async fn act_at_once(ground: &Ground) {
    let server = ground.start().serve();
    fill(&server).await;
    let origin = format!("http://{}", address(&server));
    drive("operators.mjs", &origin, &[]);
    // Two plans and two names: what was made of an older version has changed nothing.
    let status = campaign(&server).await;
    assert_eq!(status.version, 5);
    assert_eq!(status.campaign.unwrap().name, "Igor's wheel");
    assert!(status.holds.is_empty());
}

async fn campaign(server: &Server) -> CampaignStatus {
    let request = GetCampaignRequest {
        campaign_id: "wheel".into(),
        version: 0,
    };
    let mut campaigns = server.campaigns().await;
    let response = campaigns.get_campaign(request).await.unwrap();
    response.into_inner().status.unwrap()
}

/// What acts.mjs has changed, as the service has it.
fn was_changed(status: &CampaignStatus) {
    let Campaign {
        name,
        limits,
        segment_limits,
        prizes,
        ..
    } = status.campaign.clone().unwrap();
    assert_eq!(name, "Winter & <co>");
    let limits = limits.unwrap();
    assert_eq!(limits.draws_per_day, Some(40));
    assert_eq!(limits.draws_per_hour, Some(30));
    assert_eq!(limits.wins_per_user, None);
    let vip = segment_limits[0].limits.unwrap();
    assert_eq!(vip.draws_per_day, Some(120));
    assert_eq!(prizes[0].stock, 1_500);
    assert_eq!(prizes[1].name, "Coupon of a café");
    // Stock, four changes, three plans.
    assert_eq!(status.version, 9);
    assert!(status.holds.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_act_is_done_with_the_mouse_on_the_embedded_store() {
    let manner = Manner {
        hands: "mouse",
        ledger: "settled",
    };
    act(&Ground::embedded(), manner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_act_is_done_with_the_keyboard_on_redis_with_postgresql() {
    let manner = Manner {
        hands: "keyboard",
        ledger: "settled",
    };
    act(&Ground::redis_with_postgresql().await.erasing(), manner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_act_that_needs_no_settled_ledger_is_done_on_a_cluster() {
    let manner = Manner {
        hands: "mouse",
        ledger: "unsettled",
    };
    let ground = Ground::cluster();
    let server = act(&ground, manner).await;
    // What pages say of PostgreSQL, as people see it.
    let origin = format!("http://{}", address(&server));
    let mut pages = all_pages();
    pages.retain(|path| needs_settled_ledger(path));
    drive_as("clara", "pages.mjs", &origin, &pages);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_who_act_at_once_overwrite_nothing_on_the_embedded_store() {
    act_at_once(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_who_act_at_once_overwrite_nothing_on_a_cluster() {
    act_at_once(&Ground::cluster()).await;
}

const POLICY: &str = "
roles:
  both: [draw, check, read, deliver, grant, plan, stop, admin, propose, approve]
  reader: [read, check]
  brake: [read, check, stop]
  planner: [read, check, plan]
  courier: [read, check, deliver]
  host: [read, check, grant]
  approver: [read, approve]
identities:
  - {name: ann, tokens: [{sha256: <ann-token>}]}
  - {name: bea, tokens: [{sha256: <bea-token>}]}
  - {name: reader, tokens: [{sha256: <reader-token>}]}
  - {name: brake, tokens: [{sha256: <brake-token>}]}
  - {name: planner, tokens: [{sha256: <planner-token>}]}
  - {name: courier, tokens: [{sha256: <courier-token>}]}
  - {name: host, tokens: [{sha256: <host-token>}]}
  - {name: approver, tokens: [{sha256: <approver-token>}]}
bindings:
  - {identity: ann, role: both, campaigns: ['*'], senders: ['*']}
  - {identity: bea, role: both, campaigns: ['*'], senders: ['*']}
  - {identity: reader, role: reader, campaigns: ['*'], senders: ['*']}
  - {identity: brake, role: brake, campaigns: ['*'], senders: ['*']}
  - {identity: planner, role: planner, campaigns: ['*'], senders: ['*']}
  - {identity: courier, role: courier, campaigns: ['*'], senders: ['*']}
  - {identity: host, role: host, campaigns: ['*'], senders: ['*']}
  - {identity: approver, role: approver, campaigns: ['*'], senders: ['*']}
";

/// Two identities propose and approve in the browser, others are refused, and one loses its token.
async fn identities(ground: &Ground) {
    let gate = Gate::on(ground.start(), POLICY);
    let bea = gate.by("bea-token").await;
    for (id, line) in [("wheel", "approvalRequired: true"), ("free", "")] {
        let yaml = format!(
            r#"
id: {id}
{line}
name: Wheel
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2030-12-31T00:00:00+08:00
prizes: [{{id: mug, stock: 1000}}, {{id: coupon, stock: 500000}}, {{id: ticket, codes: true}}]
pools:
  - {{id: deck, deck: {{size: 2, cards: {{mug: 2}}, onExhausted: RESHUFFLE}}}}
  - {{id: hourly, schedule: {{perHour: {{coupon: 10}}}}}}
  - {{id: tickets, unlockAfterDraws: 100,
     deck: {{size: 10, cards: {{ticket: 1}}, onExhausted: RESHUFFLE}}}}
"#
        );
        bea.apply_file(&yaml).await.unwrap();
    }
    bea.envelope("gift", "bea").await.unwrap();
    bea.draw("free", "user-1").await.unwrap();
    let next = gate.prepare(&POLICY.replace("<ann-token>", "<next-token>"));
    let files = [gate.path("access.yaml"), next].map(|file| file.display().to_string());
    let origin = format!("http://{}", address(&gate.server));
    drive("approvals.mjs", &origin, &files);
    // Nothing of what was refused is done.
    let free = bea.status("free").await;
    assert_eq!((free.version, free.holds.len()), (1, 0));
    assert_eq!(free.state(), CampaignState::Running);
    // A name and a plan.
    assert_eq!(bea.status("wheel").await.version, 3);
}

/// A hostile page has every text of the store, and another site tries every act.
async fn attack(ground: &Ground) {
    let server = ground.start().serve();
    fill(&server).await;
    let origin = format!("http://{}", address(&server));
    drive("hostile.mjs", &origin, &all_pages());
    // A prize with a hostile reason; the other site has paused nothing.
    let holds = campaign(&server).await.holds;
    let held: Vec<_> = holds.iter().map(|hold| hold.prize_id.as_str()).collect();
    assert_eq!(held, ["mug"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_do_what_they_may() {
    identities(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_do_what_they_may_on_redis_with_postgresql() {
    identities(&Ground::redis_with_postgresql().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_stay_texts_and_other_sites_cannot_act() {
    attack(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_stay_texts_and_other_sites_cannot_act_on_redis_with_postgresql() {
    attack(&Ground::redis_with_postgresql().await).await;
}
