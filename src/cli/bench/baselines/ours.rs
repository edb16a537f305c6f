//! The service under what breaks the other ways: answers that are lost, and many calls of a user at once.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::promises::{Broken, ORDERS};
use crate::{
    cli::{
        bench::{campaigns::QUOTA, subject::Subject},
        client::Outcome,
        failure::Failure,
    },
    proto::{DrawRequest, DrawResponse},
};

/// Users who send more calls at once than their quota lets them draw.
const USERS: u64 = 100;
const CALLS_AT_ONCE: u64 = 20;

/// Puts it to the test.
pub(in crate::cli::bench) async fn provoke(subject: &Subject) -> Outcome<Vec<Broken>> {
    Ok(vec![lost_answers(subject).await?, at_once(subject).await?])
}

/// Every order is sent again as after a lost answer: the same outcome, and one unit.
async fn lost_answers(subject: &Subject) -> Outcome<Broken> {
    let mut lottery = subject.lottery().await?;
    let mut other_outcomes = 0;
    for number in 0..ORDERS {
        let request = request(subject, &format!("lost-{number}"), "order");
        let first = lottery.draw(request.clone()).await.map_err(Failure::read)?;
        let again = lottery.draw(request).await.map_err(Failure::read)?;
        let expected = DrawResponse {
            replayed: true,
            ..first.into_inner()
        };
        other_outcomes += u64::from(again.into_inner() != expected);
    }
    let what = "a retry after a lost answer had another outcome";
    Ok(Broken::new(
        &name(subject),
        "P4, P8",
        what,
        other_outcomes,
        ORDERS,
    ))
}

/// Many calls of a user at once, each an order of its own.
async fn at_once(subject: &Subject) -> Outcome<Broken> {
    let lottery = Arc::new(subject.lottery().await?);
    let mut exceeded = 0;
    for user in 0..USERS {
        let mut calls = JoinSet::new();
        for call in 0..CALLS_AT_ONCE {
            let mut lottery = lottery.as_ref().clone();
            let request = request(
                subject,
                &format!("at-once-{user}"),
                &format!("order-{call}"),
            );
            calls.spawn(async move { lottery.draw(request).await.is_ok() });
        }
        let mut drawn = 0;
        while let Some(ended) = calls.join_next().await {
            drawn += u32::from(ended.unwrap_or(false));
        }
        exceeded += u64::from(drawn > QUOTA);
    }
    let what = "a user drew more than the quota by many calls at once";
    Ok(Broken::new(&name(subject), "P5", what, exceeded, USERS))
}

fn request(subject: &Subject, user: &str, order: &str) -> DrawRequest {
    DrawRequest {
        campaign_id: subject.made.tried(),
        user_id: user.into(),
        request_id: order.into(),
        ..DrawRequest::default()
    }
}

fn name(subject: &Subject) -> String {
    format!("tombola, {}", subject.name)
}
