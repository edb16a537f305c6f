//! Tests of what `apply` sends, against a fake server.

use std::sync::{Arc, Mutex};

use clap::Parser as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::super::tls_args::TlsArgs;
use super::*;
use crate::{
    model::file,
    proto::{
        self,
        campaign_service_server::{CampaignService, CampaignServiceServer},
    },
};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: ApplyArgs,
}

/// A fake server. It has one campaign, `old`, named "Old", at version 3. It notes the id and the
/// base version of everything applied, except dry runs.
#[derive(Clone, Default)]
struct FakeServer {
    applied: Arc<Mutex<Vec<(String, u32)>>>,
}

type Answer<T> = Result<Response<T>, Status>;

fn absent<T>() -> Answer<T> {
    Err(Status::unimplemented("not needed here"))
}

#[tonic::async_trait]
impl CampaignService for FakeServer {
    async fn apply_campaign(
        &self,
        request: Request<ApplyCampaignRequest>,
    ) -> Answer<ApplyCampaignResponse> {
        let request = request.into_inner();
        let campaign = request.campaign.unwrap_or_default();
        if !request.dry_run {
            let applied = (campaign.id.clone(), request.base_version);
            self.applied.lock().unwrap().push(applied);
        }
        let mut changes = Vec::new();
        if campaign.id == "old" && campaign.name != "Old" {
            changes.push(proto::Change {
                path: "name".into(),
                ..proto::Change::default()
            });
        }
        let status = CampaignStatus {
            campaign: Some(campaign),
            ..CampaignStatus::default()
        };
        Ok(Response::new(ApplyCampaignResponse {
            status: Some(status),
            changes,
            ..ApplyCampaignResponse::default()
        }))
    }

    async fn get_campaign(
        &self,
        request: Request<proto::GetCampaignRequest>,
    ) -> Answer<proto::GetCampaignResponse> {
        if request.into_inner().campaign_id != "old" {
            return Err(Status::not_found("no such campaign"));
        }
        let status = CampaignStatus {
            campaign: Some(definition("old", "Old")),
            version: 3,
            ..CampaignStatus::default()
        };
        Ok(Response::new(proto::GetCampaignResponse {
            status: Some(status),
        }))
    }

    async fn list_campaigns(
        &self,
        _: Request<proto::ListCampaignsRequest>,
    ) -> Answer<proto::ListCampaignsResponse> {
        absent()
    }

    async fn pause_campaign(
        &self,
        _: Request<proto::PauseCampaignRequest>,
    ) -> Answer<proto::PauseCampaignResponse> {
        absent()
    }

    async fn resume_campaign(
        &self,
        _: Request<proto::ResumeCampaignRequest>,
    ) -> Answer<proto::ResumeCampaignResponse> {
        absent()
    }

    async fn close_campaign(
        &self,
        _: Request<proto::CloseCampaignRequest>,
    ) -> Answer<proto::CloseCampaignResponse> {
        absent()
    }

    async fn pause_prize(
        &self,
        _: Request<proto::PausePrizeRequest>,
    ) -> Answer<proto::PausePrizeResponse> {
        absent()
    }

    async fn resume_prize(
        &self,
        _: Request<proto::ResumePrizeRequest>,
    ) -> Answer<proto::ResumePrizeResponse> {
        absent()
    }

    async fn set_plan(&self, _: Request<proto::SetPlanRequest>) -> Answer<proto::SetPlanResponse> {
        absent()
    }

    async fn get_schedule(
        &self,
        _: Request<proto::GetScheduleRequest>,
    ) -> Answer<proto::GetScheduleResponse> {
        absent()
    }

    async fn recall_units(
        &self,
        _: Request<proto::RecallUnitsRequest>,
    ) -> Answer<proto::RecallUnitsResponse> {
        absent()
    }

    async fn grant_draws(
        &self,
        _: Request<proto::GrantDrawsRequest>,
    ) -> Answer<proto::GrantDrawsResponse> {
        absent()
    }

    async fn import_codes(
        &self,
        _: Request<proto::ImportCodesRequest>,
    ) -> Answer<proto::ImportCodesResponse> {
        absent()
    }

    async fn list_codes(
        &self,
        _: Request<proto::ListCodesRequest>,
    ) -> Answer<proto::ListCodesResponse> {
        absent()
    }

    async fn block_users(
        &self,
        _: Request<proto::BlockUsersRequest>,
    ) -> Answer<proto::BlockUsersResponse> {
        absent()
    }

    async fn unblock_users(
        &self,
        _: Request<proto::UnblockUsersRequest>,
    ) -> Answer<proto::UnblockUsersResponse> {
        absent()
    }

    async fn get_user(&self, _: Request<proto::GetUserRequest>) -> Answer<proto::GetUserResponse> {
        absent()
    }

    async fn list_blocked_users(
        &self,
        _: Request<proto::ListBlockedUsersRequest>,
    ) -> Answer<proto::ListBlockedUsersResponse> {
        absent()
    }

    async fn get_stats(
        &self,
        _: Request<proto::GetStatsRequest>,
    ) -> Answer<proto::GetStatsResponse> {
        absent()
    }

    async fn propose_change(
        &self,
        _: Request<proto::ProposeChangeRequest>,
    ) -> Answer<proto::ProposeChangeResponse> {
        absent()
    }

    async fn approve_proposal(
        &self,
        _: Request<proto::ApproveProposalRequest>,
    ) -> Answer<proto::ApproveProposalResponse> {
        absent()
    }

    async fn reject_proposal(
        &self,
        _: Request<proto::RejectProposalRequest>,
    ) -> Answer<proto::RejectProposalResponse> {
        absent()
    }

    async fn get_proposal(
        &self,
        _: Request<proto::GetProposalRequest>,
    ) -> Answer<proto::GetProposalResponse> {
        absent()
    }

    async fn list_proposals(
        &self,
        _: Request<proto::ListProposalsRequest>,
    ) -> Answer<proto::ListProposalsResponse> {
        absent()
    }

    async fn list_alerts(
        &self,
        _: Request<proto::ListAlertsRequest>,
    ) -> Answer<proto::ListAlertsResponse> {
        absent()
    }
}

fn document(id: &str, name: &str) -> String {
    format!(
        "id: {id}\nname: {name}\ntimeZone: Asia/Shanghai\nstartTime: 2026-11-20T00:00:00+08:00\n\
         endTime: 2026-12-20T00:00:00+08:00\nprizes: [{{id: coupon, name: Coupon, stock: 100}}]\n\
         pools: [{{id: deck, deck: {{size: 100, cards: {{coupon: 1}}}}}}]\n"
    )
}

fn definition(id: &str, name: &str) -> Campaign {
    let mut read = file::check(&document(id, name)).unwrap();
    read.remove(0)
}

/// Applies the documents with these flags; returns the outcome and what was applied.
async fn apply(documents: &[String], flags: &[&str]) -> (Outcome, Vec<(String, u32)>) {
    let known = FakeServer::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let service = CampaignServiceServer::new(known.clone());
    let router = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("campaigns.yaml");
    std::fs::write(&file, documents.join("---\n")).unwrap();
    let words = ["apply", "-f", file.to_str().unwrap()];
    let line = Line::parse_from(words.iter().chain(flags));
    let outcome = run(
        &Client {
            server,
            json: false,
            tls: TlsArgs::default(),
            token: super::super::token_args::TokenArgs::default(),
        },
        line.args,
    )
    .await;
    let applied = known.applied.lock().unwrap().clone();
    (outcome, applied)
}

#[tokio::test]
async fn a_new_campaign_is_applied_and_an_unchanged_one_is_not() {
    let documents = [document("new", "New"), document("old", "Old")];
    let (outcome, applied) = apply(&documents, &[]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(applied, [("new".into(), 0)]);
}

#[tokio::test]
async fn a_version_that_nobody_named_is_not_changed_nor_is_anything_else_of_the_file() {
    let documents = [document("new", "New"), document("old", "Changed")];
    let (outcome, applied) = apply(&documents, &[]).await;
    let failure = outcome.unwrap_err();
    assert_eq!(failure.reason, "BASE_VERSION_NEEDED");
    assert!(failure.hint.contains("--base-version old=3"), "{failure}");
    assert_eq!(applied, []);
}

#[tokio::test]
async fn a_named_version_is_changed() {
    let (outcome, applied) = apply(&[document("old", "Changed")], &["--base-version", "3"]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(applied, [("old".into(), 3)]);
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_is_no_failure() {
    let documents = [document("new", "New"), document("old", "Changed")];
    let (outcome, applied) = apply(&documents, &["--dry-run"]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(applied, []);
}

#[tokio::test]
async fn if_changed_applies_what_is_new_or_differs_and_nothing_else() {
    let same = document("old", "Old");
    let (outcome, applied) = apply(std::slice::from_ref(&same), &["--if-changed"]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(applied, []);

    let changed = document("old", "Changed");
    let (outcome, applied) = apply(std::slice::from_ref(&changed), &["--if-changed"]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(applied, [("old".into(), 3)]);

    let documents = [changed, document("new", "New")];
    let (outcome, applied) = apply(&documents, &["--if-changed"]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(applied, [("old".into(), 3), ("new".into(), 0)]);
    let (outcome, applied) = apply(&documents, &["--if-changed", "--dry-run"]).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(applied, []);

    let both = ["apply", "-f", "x", "--if-changed", "--base-version", "3"];
    assert!(Line::try_parse_from(both).is_err());
}

fn campaigns(ids: &[&str]) -> Vec<Campaign> {
    let campaign = |id: &&str| Campaign {
        id: (*id).into(),
        ..Campaign::default()
    };
    ids.iter().map(campaign).collect()
}

#[test]
fn a_base_version_belongs_to_one_campaign() {
    let named = |text: &str| vec![base_version(text).unwrap()];
    assert_eq!(bases(&named("3"), &campaigns(&["a"])).unwrap(), [Some(3)]);
    let both = campaigns(&["a", "b"]);
    assert_eq!(bases(&named("b=7"), &both).unwrap(), [None, Some(7)]);
    assert!(
        bases(&named("7"), &both)
            .unwrap_err()
            .message
            .contains("ID=7")
    );
    assert!(bases(&named("c=7"), &both).is_err());
    assert!(base_version("x").is_err());
}
