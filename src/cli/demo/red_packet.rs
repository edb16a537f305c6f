//! The envelope of the demo. Users grab from it, each with two clicks at once, and the rest is
//! refunded when it expires.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::{fault::Fault, pass, report::section};
use crate::{
    cli::envelope_view,
    injector::Injector,
    proto::{
        CreateEnvelopeRequest, GetEnvelopeRequest, GetStatsRequest, GrabEnvelopeRequest,
        GrabOutcome, ListGrabsRequest, campaign_service_client::CampaignServiceClient,
        envelope_service_client::EnvelopeServiceClient,
    },
    store::clock::ShiftedClock,
};

/// CNY 88.88 in ten packets, of which eight users grab one each.
const TOTAL_MINOR: i64 = 8_888;
const PACKETS: u32 = 10;
const USERS: u32 = 8;
/// How often each user clicks at once.
const CLICKS: u32 = 2;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates an envelope, lets users grab, lets it expire, and prints the result.
pub(super) async fn show(
    channel: &Channel,
    clock: &ShiftedClock,
    injector: &Arc<Injector>,
) -> Result<(), Fault> {
    let mut server = EnvelopeServiceClient::new(channel.clone());
    let envelope_id = format!("new-year-{:08x}", rand::random::<u32>());
    server
        .create_envelope(CreateEnvelopeRequest {
            envelope_id: envelope_id.clone(),
            sender_id: "boss".into(),
            total_minor: TOTAL_MINOR,
            currency: "CNY".into(),
            packets: PACKETS,
            ..CreateEnvelopeRequest::default()
        })
        .await?;
    let again = clicks(&server, &envelope_id).await?;
    pass(DAY, clock, injector).await?;

    let request = GetEnvelopeRequest {
        envelope_id: envelope_id.clone(),
    };
    let envelope = server.get_envelope(request).await?.into_inner().envelope;
    let envelope = envelope.unwrap_or_default();
    let request = ListGrabsRequest {
        envelope_id,
        ..ListGrabsRequest::default()
    };
    let grabs = server.list_grabs(request).await?.into_inner().grabs;
    section(&format!(
        "An envelope: {USERS} users grabbed, each with {CLICKS} clicks at once; {again} clicks \
         got the packet of before. A day later the rest went back.\n\n{}",
        envelope_view::shown(&envelope, &grabs)
    ));
    let mut operators = CampaignServiceClient::new(channel.clone());
    let stats = operators.get_stats(GetStatsRequest::default()).await?;
    if stats.into_inner().balanced {
        Ok(())
    } else {
        Err("the sums of envelopes do not add up".into())
    }
}

/// Sends all clicks at once; returns how many got the packet of an earlier click.
async fn clicks(
    server: &EnvelopeServiceClient<Channel>,
    envelope_id: &str,
) -> Result<usize, Fault> {
    let mut clicks = JoinSet::new();
    for click in 0..USERS * CLICKS {
        let mut server = server.clone();
        let request = GrabEnvelopeRequest {
            envelope_id: envelope_id.into(),
            user_id: format!("user-{}", click % USERS),
        };
        clicks.spawn(async move { server.grab_envelope(request).await });
    }
    let mut again = 0;
    while let Some(click) = clicks.join_next().await {
        let outcome = click??.into_inner().outcome();
        again += usize::from(outcome == GrabOutcome::AlreadyGrabbed);
    }
    Ok(again)
}
