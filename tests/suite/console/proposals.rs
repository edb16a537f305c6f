//! A change that one person proposes and another approves, by pages alone.

use std::time::Instant;

use tombola::proto::{
    ApplyCampaignRequest, Campaign, GetStatsRequest, ListProposalsRequest, ProposeChangeRequest,
    WindowState, propose_change_request::Change,
};

use super::{Browser, address, browser::drive_as};
use crate::{access::Gate, process::PATIENCE};

const POLICY: &str = "
roles:
  both: [check, read, plan, stop, admin, propose, approve]
  proposer: [read, check, propose]
identities:
  - {name: ann, tokens: [{sha256: <ann-token>}]}
  - {name: bea, tokens: [{sha256: <bea-token>}]}
  - {name: pat, tokens: [{sha256: <pat-token>}]}
bindings:
  - {identity: ann, role: both, campaigns: ['*'], senders: ['*']}
  - {identity: bea, role: both, campaigns: ['*'], senders: ['*']}
  - {identity: pat, role: proposer, campaigns: ['*'], senders: ['*']}
";

/// Sends a form that must lead to a new proposal; the address of its page.
#[track_caller]
fn proposed(browser: &mut Browser, path: &str, form: &str) -> String {
    let answer = browser.post(path, form);
    assert_eq!(answer.status, 303, "{}", answer.body);
    let target = answer.header("location").unwrap();
    let address = target.strip_suffix("?done=proposed").unwrap();
    assert!(address.contains("/proposals/"), "{address}");
    address.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_proposes_another_approves_or_rejects() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    gate.by("ann-token").await.apply("wheel").await.unwrap();
    let (mut pat, mut ann) = (
        Browser::signed_in(&gate, "pat-token"),
        Browser::signed_in(&gate, "ann-token"),
    );
    let raise = "units=5&version=1&reason=more+mugs";
    let page = proposed(&mut pat, "/campaigns/wheel/prizes/mug/stock", raise);
    let own = pat.get(&page).good();
    assert!(
        own.contains("prizes[mug].stock") && own.contains("more mugs"),
        "{own}"
    );
    assert!(!own.contains("id=\"approve\""), "nobody approves it alone");
    let refused = pat.post(&format!("{page}/approve"), "request_id=own");
    assert_eq!(refused.status, 403, "{}", refused.body);
    for list in ["/", "/campaigns/wheel"] {
        assert!(ann.get(list).good().contains(&page), "{list}");
    }
    assert!(ann.get(&page).good().contains("id=\"approve\""));
    ann.post(&format!("{page}/approve"), "request_id=yes&reason=fine")
        .leads_to(&format!("{page}?done=approved"));
    let approved = ann.get(&page).good();
    assert!(
        approved.contains("approved") && approved.contains("1005"),
        "{approved}"
    );
    assert!(!ann.get("/").good().contains(&page));
    let again = ann.post(&format!("{page}/approve"), "request_id=again");
    assert_eq!(again.status, 409, "{}", again.body);

    // Whoever may plan needs nobody here: the campaign does not require it.
    ann.post(
        "/campaigns/wheel/change/apply",
        "version=2&name=Wheel&request_id=name",
    )
    .leads_to("/campaigns/wheel/change?done=changed");
    let close = "typed=wheel&reason=over";
    let page = proposed(&mut pat, "/campaigns/wheel/close", close);
    let rejected = format!("{page}?done=rejected");
    ann.post(&format!("{page}/reject"), "request_id=no&reason=not+yet")
        .leads_to(&rejected);
    let shown = ann.get(&rejected).good();
    assert!(
        shown.contains("rejected") && shown.contains("not yet"),
        "{shown}"
    );
    ann.language = "zh";
    assert!(ann.get(&page).good().contains("已驳回"));
    // The brake needs nobody else.
    ann.post("/campaigns/wheel/pause", "")
        .leads_to("/campaigns/wheel?done=paused");
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_are_read_on_a_desk_and_on_a_phone() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    gate.by("ann-token").await.apply("wheel").await.unwrap();
    let (mut pat, mut ann) = (
        Browser::signed_in(&gate, "pat-token"),
        Browser::signed_in(&gate, "ann-token"),
    );
    let reason = super::encoded(super::HOSTILE);
    let raise = format!("units=5&version=1&reason={reason}");
    let stock = "/campaigns/wheel/prizes/mug/stock";
    let approved = proposed(&mut pat, stock, &raise);
    ann.post(&format!("{approved}/approve"), "request_id=yes&reason=fine")
        .leads_to(&format!("{approved}?done=approved"));
    let close = format!("typed=wheel&reason={reason}");
    let rejected = proposed(&mut pat, "/campaigns/wheel/close", &close);
    ann.post(&format!("{rejected}/reject"), "request_id=no&reason=later")
        .leads_to(&format!("{rejected}?done=rejected"));
    let open = proposed(&mut pat, stock, &raise.replace("version=1", "version=2"));
    let pages = ["/", "/campaigns/wheel", &open, &approved, &rejected].map(str::to_owned);
    let versions = ["/campaigns/wheel/history?version=2".to_owned()];
    let origin = format!("http://{}", address(&gate.server));
    let pages = [&pages[..], &versions].concat();
    drive_as("ann-token", "pages.mjs", &origin, &pages);
    let page = ann.get(&open).good();
    assert!(
        !page.contains(super::HOSTILE) && page.contains("&lt;script&gt;"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_requires_approval_says_so_and_its_forms_propose() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    gate.by("ann-token")
        .await
        .apply_with("wheel", "approvalRequired: true")
        .await
        .unwrap();
    let (mut ann, mut bea) = (
        Browser::signed_in(&gate, "ann-token"),
        Browser::signed_in(&gate, "bea-token"),
    );
    for tab in ["", "/change", "/schedule"] {
        let page = ann.get(&format!("/campaigns/wheel{tab}")).good();
        assert!(
            page.contains("need the approval of another person"),
            "{page}"
        );
    }
    let form = "version=1&name=Other&request_id=rename";
    let page = proposed(&mut ann, "/campaigns/wheel/change/apply", form);
    let again = proposed(&mut ann, "/campaigns/wheel/change/apply", form);
    assert_eq!(page, again, "a form that is sent twice proposes once");
    let own = ann.post(&format!("{page}/approve"), "request_id=own");
    assert_eq!(own.status, 403, "{}", own.body);
    assert!(own.body.contains("Nobody approves a change of their own"));
    bea.post(&format!("{page}/approve"), "request_id=yes")
        .leads_to(&format!("{page}?done=approved"));
    assert!(ann.get("/campaigns/wheel").good().contains("Other"));
}

/// A campaign with a schedule, whose hours are injected as they come.
fn hourly(units: u32) -> Campaign {
    let yaml = format!(
        "
id: wheel
approvalRequired: true
timeZone: Asia/Shanghai
startTime: 2026-11-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
prizes: [{{id: mug, stock: 500000}}]
pools: [{{id: hourly, schedule: {{perHour: {{mug: {units}}}}}}}]
"
    );
    tombola::model::file::parse(&yaml).unwrap().pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_proposes_once() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let ann = gate.by("ann-token").await;
    let request = ApplyCampaignRequest {
        campaign: Some(hourly(10)),
        ..Default::default()
    };
    ann.campaigns().apply_campaign(request).await.unwrap();
    let mut pat = Browser::signed_in(&gate, "pat-token");
    for (path, form) in [
        ("/prizes/mug/stock", "units=5&version=1&request_id=one"),
        ("/recall", "pool=hourly&typed=wheel&request_id=two"),
        ("/close", "typed=wheel&request_id=three"),
    ] {
        let path = format!("/campaigns/wheel{path}");
        let page = proposed(&mut pat, &path, form);
        assert_eq!(proposed(&mut pat, &path, form), page, "{path}");
    }
    let request = ListProposalsRequest {
        campaign_id: "wheel".into(),
        ..Default::default()
    };
    let listed = ann.campaigns().list_proposals(request).await.unwrap();
    assert_eq!(listed.into_inner().proposals.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_says_if_more_proposals_wait_than_it_lists() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let ann = gate.by("ann-token").await;
    let mut pat = Browser::signed_in(&gate, "pat-token");
    // A campaign has at most 20 of them, and the page lists 50.
    for (id, count) in [("first", 20), ("second", 20), ("third", 11)] {
        ann.apply(id).await.unwrap();
        for units in 1..=count {
            let path = format!("/campaigns/{id}/prizes/mug/stock");
            let form = format!("units={units}&version=1&reason=more+mugs");
            proposed(&mut pat, &path, &form);
        }
    }
    let says = "The first 50 are shown";
    let page = pat.get("/").good();
    assert_eq!(page.matches("/proposals/").count(), 50, "{page}");
    assert!(page.contains(says), "{page}");
    let own = pat.get("/campaigns/third").good();
    assert_eq!(own.matches("/proposals/").count(), 11, "{own}");
    assert!(!own.contains(says), "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_sees_what_the_plan_does() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let ann = gate.by("ann-token").await;
    let request = ApplyCampaignRequest {
        campaign: Some(hourly(10)),
        ..Default::default()
    };
    ann.campaigns().apply_campaign(request).await.unwrap();
    let begun = Instant::now();
    loop {
        let request = GetStatsRequest {
            campaign_id: "wheel".into(),
        };
        let stats = ann.campaigns().get_stats(request).await.unwrap();
        let windows = stats.into_inner().windows;
        if windows
            .iter()
            .any(|hour| hour.state() == WindowState::Injected)
        {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{windows:?}");
    }
    let request = ProposeChangeRequest {
        campaign_id: "wheel".into(),
        change: Some(Change::Campaign(hourly(37))),
        base_version: 1,
        ..Default::default()
    };
    let proposed = ann.campaigns().propose_change(request).await.unwrap();
    let id = proposed.into_inner().proposal.unwrap().proposal_id;
    let mut bea = Browser::signed_in(&gate, "bea-token");
    let page = bea.get(&format!("/campaigns/wheel/proposals/{id}")).good();
    let part = |id: &str| {
        let (_, part) = page.split_once(&format!(r#"id="{id}""#)).unwrap();
        part.split("</section>").next().unwrap()
    };
    // Before, after, and what is injected of the hour.
    let hours = part("hours");
    for cell in ["10", "37", "hourly", "mug"] {
        assert!(hours.contains(&format!(">{cell}</td>")), "{cell}: {hours}");
    }
    let needs = part("needs");
    assert!(
        needs.contains("Needed in all") && needs.contains("500,000"),
        "{needs}"
    );
}
