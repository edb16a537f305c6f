//! Permissions hold in the console as everywhere: the services refuse, whatever pages offer.

use super::{Browser, grounds::Ground, wait_for};
use crate::access::Gate;

const POLICY: &str = "
roles:
  all: [draw, check, deliver, grant, read, plan, stop, admin]
  reader: [read, check]
  nobody: [draw]
identities:
  - {name: boss, tokens: [{sha256: <boss-token>}]}
  - {name: reader, tokens: [{sha256: <reader-token>}]}
  - {name: north, tokens: [{sha256: <north-token>}]}
  - {name: shop, tokens: [{sha256: <shop-token>}]}
bindings:
  - {identity: boss, role: all, campaigns: ['*'], senders: ['*']}
  - {identity: reader, role: reader, campaigns: ['*'], senders: ['*']}
  - {identity: north, role: all, campaigns: ['north-*'], senders: [north]}
  - {identity: shop, role: nobody, campaigns: ['*'], senders: ['*']}
";

/// A server that knows these identities, with two campaigns and an envelope.
async fn filled(ground: &Ground) -> Gate {
    let gate = Gate::on(ground.start(), POLICY);
    let boss = gate.by("boss-token").await;
    for id in ["north-wheel", "south-wheel"] {
        boss.apply(id).await.unwrap();
    }
    boss.envelope("gift", "boss").await.unwrap();
    gate
}

/// The service refuses each act of somebody who may only read.
fn refuses_acts(gate: &Gate) {
    let mut reader = Browser::signed_in(gate, "reader-token");
    assert!(
        reader
            .get("/campaigns/north-wheel")
            .good()
            .contains("north-wheel")
    );
    for (path, form) in [
        ("/campaigns/north-wheel/pause", ""),
        ("/campaigns/north-wheel/resume", ""),
        ("/campaigns/north-wheel/prizes/mug/pause", ""),
        ("/campaigns/north-wheel/prizes/mug/resume", ""),
        (
            "/campaigns/north-wheel/prizes/mug/stock",
            "units=5&version=1",
        ),
        (
            "/campaigns/north-wheel/users/grant",
            "user=u&draws=1&request_id=g",
        ),
        (
            "/campaigns/north-wheel/change/apply",
            "version=1&name=other",
        ),
        ("/campaigns/north-wheel/close", "typed=north-wheel"),
        ("/campaigns/north-wheel/recall", "typed=north-wheel&pool=p"),
        ("/campaigns/north-wheel/users/block", "user=u"),
        ("/campaigns/north-wheel/users/unblock", "user=u"),
        ("/campaigns/north-wheel/wins/deliver", "unit=x&reference=r"),
        ("/campaigns/north-wheel/wins/revoke", "unit=x&reason=r"),
        ("/envelopes/gift/cancel", "typed=gift"),
        ("/users/forget", "user=u&typed=u"),
    ] {
        let answer = reader.post(path, form);
        assert_eq!(answer.status, 403, "{path}: {}", answer.body);
        assert!(
            answer.body.contains("You lack the permission"),
            "{path}: {}",
            answer.body
        );
    }
    let codes = [("first", "0"), ("codes", "A")];
    let answer = reader.upload("/campaigns/north-wheel/codes/mug", &codes);
    assert_eq!(answer.status, 403, "{}", answer.body);
    for (act, file) in [("grant", "u,1"), ("block", "u"), ("deliver", "x,r")] {
        let answer = reader.upload(
            "/campaigns/north-wheel/many",
            &[("act", act), ("file", file)],
        );
        assert_eq!(answer.status, 403, "{act}: {}", answer.body);
    }
    // What is not offered to readers is refused to them as well: a dry run too.
    let yaml = "id: north-new\ntimeZone: UTC\nstartTime: 2029-01-01T00:00:00Z\n\
                endTime: 2029-01-02T00:00:00Z\nprizes: [{id: mug, stock: 1}]\n\
                pools: [{id: p, schedule: {total: {mug: 1}}}]\n";
    let form = format!("base=0&do=try&yaml={}", super::encoded(yaml));
    let tried = reader.post("/new", &form).good();
    assert!(tried.contains("You lack the permission"), "{tried}");
    assert!(!tried.contains("What it comes to"), "{tried}");
    let plan = "pool=p&base=1&draft=CgcKA211ZxAF&do=apply&reason=r";
    assert_eq!(reader.post("/campaigns/north-wheel/plan", plan).status, 403);
    let page = Browser::signed_in(gate, "boss-token")
        .get("/campaigns/north-wheel")
        .good();
    assert!(page.contains("Pause campaign"), "{page}");
    assert!(page.contains("version 1"), "{page}");
}

/// Lists and pages show only what the visitor may see.
fn hides_what_is_not_the_visitor_s(gate: &Gate) {
    let mut north = Browser::signed_in(gate, "north-token");
    let page = north.get("/").good();
    assert!(
        page.contains("north-wheel") && !page.contains("south-wheel"),
        "{page}"
    );
    let found = north.get("/search?q=wheel").good();
    assert!(
        found.contains("north-wheel") && !found.contains("south-wheel"),
        "{found}"
    );
    for path in [
        "/campaigns/south-wheel",
        "/envelopes/gift",
        "/campaigns/south-wheel/history",
    ] {
        assert_eq!(north.get(path).status, 403, "{path}");
    }
    // The sums of the whole store are for those who may see all of it; the rest of the page is not.
    let system = north.get("/system").good();
    assert!(
        system.contains("You lack the permission") && system.contains("Version"),
        "{system}"
    );
    let paused = north.post("/campaigns/north-wheel/pause", "");
    paused.leads_to("/campaigns/north-wheel?done=paused");
    // The ledger has the identity.
    let path = "/campaigns/north-wheel/history";
    let history = wait_for(&mut north, path, "paused the campaign");
    assert!(history.contains("proven"), "{history}");

    let mut shop = Browser::signed_in(gate, "shop-token");
    assert_eq!(shop.get("/").status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_act_is_refused_by_the_service() {
    let ground = Ground::embedded();
    refuses_acts(&filled(&ground).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_pages_show_only_what_the_visitor_may_see() {
    let ground = Ground::embedded();
    hides_what_is_not_the_visitor_s(&filled(&ground).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_hold_on_a_cluster_with_postgresql() {
    let ground = Ground::cluster_with_postgresql().await;
    let gate = filled(&ground).await;
    refuses_acts(&gate);
    hides_what_is_not_the_visitor_s(&gate);
}
