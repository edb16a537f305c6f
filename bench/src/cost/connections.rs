//! Memory that a service needs for idle connections.

use std::time::Duration;

use tombola::proto::{CheckLimitRequest, lottery_service_client::LotteryServiceClient};

use super::work::Work;
use crate::{
    failure::{Failure, Outcome},
    scenario::Scenario,
    subject::Store,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn measure(work: &mut Work<'_>, store: Store) -> Outcome {
    let idle = work.args.idle;
    let kind = work.own(store);
    let subject = work
        .rig
        .open(kind, &work.directory, &[Scenario::Check], 0)
        .await?;
    let memory = || subject.server.as_ref().and_then(|server| server.memory());
    let campaign_id = subject.made.tried();
    let before = memory();
    let mut connections = Vec::new();
    for number in 0..idle {
        let failed = |error: &dyn std::fmt::Display| {
            let message = format!(
                "connection {number} of {idle} failed: {error}; take fewer with --idle, or raise \
                 ulimit -n"
            );
            Failure::refused("NO_CONNECTION", message)
        };
        let link = subject.address().link(CONNECT_TIMEOUT).await;
        let link = link.map_err(|fault| failed(&*fault))?;
        let mut lottery = LotteryServiceClient::new(link);
        // Each connection has made one call, as a real client's would.
        let request = CheckLimitRequest {
            campaign_id: campaign_id.clone(),
            user_id: format!("user-{number}"),
            segments: Vec::new(),
        };
        lottery
            .check_limit(request)
            .await
            .map_err(Failure::answered)?;
        connections.push(lottery);
    }
    let after = memory();
    if let (Some(before), Some(after)) = (before, after) {
        let store = store.name();
        work.costs.found(
            store,
            "service's memory",
            "at the start",
            before as f64 / 1e6,
            "MB",
        );
        let more = after.saturating_sub(before) as f64 / 1e6;
        let thousand = more * 1000.0 / idle as f64;
        work.costs.found(
            store,
            "idle connections",
            format!("{idle}"),
            thousand,
            "MB per 1,000",
        );
    }
    drop(connections);
    work.close().await
}
