//! `tombola operations`: what operators did.

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;

use super::{List, ListArgs, Page, print, zone_of};
use crate::{
    cli::{
        client::{Client, Ledger, Outcome, campaign_id, operator_id, user_id},
        failure::Failure,
        output::Side,
    },
    model::convert::sheets::operations,
    proto::{ListOperationsRequest, OperationKind, RecordedOperation},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Act {
    Apply,
    Pause,
    Resume,
    Close,
    PausePrize,
    ResumePrize,
    Recall,
    Grant,
    Block,
    Unblock,
    CancelEnvelope,
    Recover,
    Deliver,
    Revoke,
    ImportCodes,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola operations --campaign spring-wheel
  tombola operations --by anna --kind block --from 2026-12-01T00:00:00Z")]
pub(in crate::cli) struct OperationsArgs {
    /// Only acts on this campaign
    #[arg(long, env = "TOMBOLA_CAMPAIGN", value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: Option<String>,
    /// Only acts of this operator
    #[arg(long, env = "TOMBOLA_BY", value_name = "OPERATOR", value_parser = operator_id)]
    by: Option<String>,
    /// Only acts that name this user
    #[arg(long, env = "TOMBOLA_USER", value_name = "USER", value_parser = user_id)]
    user: Option<String>,
    /// Only acts of this kind [default: all but deliveries]
    #[arg(long, env = "TOMBOLA_KIND", value_enum)]
    kind: Option<Act>,
    #[command(flatten)]
    list: ListArgs,
}

pub(in crate::cli) async fn run(client: &Client, args: OperationsArgs) -> Outcome {
    let zone = zone_of(client, args.campaign.as_deref()).await;
    let kind = args.kind.map_or(OperationKind::Unspecified, Act::kind);
    let request = ListOperationsRequest {
        campaign_id: args.campaign.unwrap_or_default(),
        user_id: args.user.unwrap_or_default(),
        operator: args.by.unwrap_or_default(),
        kind: kind.into(),
        start_time: args.list.start_time(),
        end_time: args.list.end_time(),
        ..ListOperationsRequest::default()
    };
    let operations = Operations {
        server: client.ledger().await?,
        request,
    };
    print(client, operations, &args.list, &zone).await
}

impl Act {
    fn kind(self) -> OperationKind {
        match self {
            Self::Apply => OperationKind::Apply,
            Self::Pause => OperationKind::Pause,
            Self::Resume => OperationKind::Resume,
            Self::Close => OperationKind::Close,
            Self::PausePrize => OperationKind::PausePrize,
            Self::ResumePrize => OperationKind::ResumePrize,
            Self::Recall => OperationKind::Recall,
            Self::Grant => OperationKind::Grant,
            Self::Block => OperationKind::Block,
            Self::Unblock => OperationKind::Unblock,
            Self::CancelEnvelope => OperationKind::CancelEnvelope,
            Self::Recover => OperationKind::Recover,
            Self::Deliver => OperationKind::Deliver,
            Self::Revoke => OperationKind::Revoke,
            Self::ImportCodes => OperationKind::ImportCodes,
        }
    }
}

pub(super) struct Operations {
    pub(super) server: Ledger,
    pub(super) request: ListOperationsRequest,
}

impl List for Operations {
    type Element = RecordedOperation;
    const NAME: &'static str = "operations";
    const MESSAGE: &'static str = "tombola.v1.RecordedOperation";

    fn columns(&self) -> Vec<(&'static str, Side)> {
        operations::COLUMNS.map(|name| (name, Side::Left)).into()
    }

    fn row(&self, act: &RecordedOperation, zone: &TimeZone) -> Vec<String> {
        operations::row(act, zone)
    }

    async fn page(&mut self, size: u32, token: String) -> Outcome<Page<RecordedOperation>> {
        self.request.page_size = size;
        self.request.page_token = token;
        let page = self.server.list_operations(self.request.clone()).await;
        let page = page.map_err(Failure::read)?.into_inner();
        Ok(Page {
            elements: page.operations,
            next: page.next_page_token,
            complete_until: page.complete_until,
        })
    }
}
