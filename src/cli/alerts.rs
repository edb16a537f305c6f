//! `tombola alerts`: what needs a look, in all campaigns and in the ledger.

use clap::Args;

use super::{
    client::{Client, Outcome},
    failure::Failure,
    output::{Side, Table},
};
use crate::{
    console::alert_in_english,
    model::text::grouped,
    proto::{Alert, AlertSeverity, ListAlertsRequest, ListAlertsResponse},
};

/// Alerts that are asked for.
const ALERTS_MAX: u32 = 1_000;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola alerts

The most urgent come first. The server reads all campaigns and the ledger once a minute, and more
often while somebody asks. An alert on the ledger is shown to those who may read all campaigns.")]
pub(super) struct AlertsArgs {}

pub(super) async fn run(client: &Client, AlertsArgs {}: AlertsArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let request = ListAlertsRequest {
        page_size: ALERTS_MAX,
    };
    let response = server.list_alerts(request).await.map_err(Failure::read)?;
    client.show("ListAlertsResponse", response.get_ref(), text);
    Ok(())
}

/// The campaign that an alert is about; a dash for the whole store.
fn campaign(alert: &Alert) -> &str {
    match alert.campaign_id.as_str() {
        "" => "–",
        id => id,
    }
}

fn text(response: &ListAlertsResponse) -> String {
    let note = match response.incomplete {
        true => "\nsome campaigns, or the ledger, could not be read: there may be more alerts",
        false => "",
    };
    if response.alerts.is_empty() && !response.incomplete {
        return "nothing needs a look".into();
    }
    let columns = ["severity", "campaign", "alert"];
    let mut table = Table::new(columns.map(|name| (name, Side::Left)));
    for alert in &response.alerts {
        let severity = match alert.severity() {
            AlertSeverity::Unspecified | AlertSeverity::Note => "note",
            AlertSeverity::Warning => "warning",
            AlertSeverity::Danger => "danger",
        };
        table.row([
            severity.to_owned(),
            campaign(alert).into(),
            alert_in_english(alert),
        ]);
    }
    let more = response.total - response.alerts.len() as u64;
    match more {
        0 => table.render().trim_end().to_owned() + note,
        more => format!(
            "{}\nand {} more{note}",
            table.render().trim_end(),
            grouped(more)
        ),
    }
}
