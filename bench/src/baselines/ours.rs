//! Runs the service under the conditions that break the baselines: lost answers, and many calls of
//! one user at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::task::JoinSet;
use tombola::proto::{DrawRequest, DrawResponse};

use super::promises::{Broken, ORDERS};
use crate::{
    campaigns::QUOTA,
    failure::{Failure, Outcome},
    subject::Subject,
};

/// Three seconds before midnight by the test clock. Users call often enough to draw on both days.
const BEFORE_MIDNIGHT: &str = "2030-01-01T23:59:57Z";
const MIDNIGHT_CALLS: u32 = 50;
const MIDNIGHT_PAUSE: Duration = Duration::from_millis(100);
const DAY_SECONDS: i64 = 86_400;
/// Users who send more calls at once than their quota allows.
const USERS: u64 = 100;
const CALLS_AT_ONCE: u64 = 20;

/// Provokes each condition and counts what broke.
pub(crate) async fn provoke(subject: &mut Subject) -> Outcome<Vec<Broken>> {
    let mut all = vec![lost_answers(subject).await?, at_once(subject).await?];
    // Its service is started shortly before midnight.
    subject.serve_at(BEFORE_MIDNIGHT).await?;
    all.push(midnight(subject).await?);
    Ok(all)
}

/// Users draw as often as their quota allows, before and after midnight. The store's clock says on
/// which day a draw was. Who could not use up a day's quota has tested nothing.
async fn midnight(subject: &Subject) -> Outcome<Broken> {
    let lottery = subject.lottery().await?;
    let mut users = JoinSet::new();
    for user in 0..USERS {
        let requests: Vec<DrawRequest> = (0..MIDNIGHT_CALLS)
            .map(|call| {
                request(
                    subject,
                    &format!("midnight-{user}"),
                    &format!("order-{call}"),
                )
            })
            .collect();
        let mut lottery = lottery.clone();
        users.spawn(async move {
            let mut drawn: BTreeMap<i64, u32> = BTreeMap::new();
            for request in requests {
                if let Ok(answer) = lottery.draw(request).await {
                    let time = answer.into_inner().draw_time.unwrap_or_default();
                    *drawn.entry(time.seconds / DAY_SECONDS).or_default() += 1;
                }
                tokio::time::sleep(MIDNIGHT_PAUSE).await;
            }
            drawn
        });
    }
    let (mut exceeded, mut tested, mut days) = (0, 0, BTreeSet::new());
    while let Some(ended) = users.join_next().await {
        let drawn = ended.unwrap_or_default();
        exceeded += u64::from(drawn.values().any(|draws| *draws > QUOTA));
        tested += u64::from(drawn.values().any(|draws| *draws >= QUOTA));
        days.extend(drawn.into_keys());
    }
    let what = format!(
        "a user drew more than the quota in one day, over {}",
        if days.len() > 1 {
            "a midnight"
        } else {
            "a day without a midnight"
        }
    );
    Ok(Broken::by_tombola(
        &subject.name,
        "P5",
        &what,
        exceeded,
        tested,
    ))
}

/// Sends every order twice, as after a lost answer. Both must have the same outcome and one unit.
async fn lost_answers(subject: &Subject) -> Outcome<Broken> {
    let mut lottery = subject.lottery().await?;
    let mut other_outcomes = 0;
    for number in 0..ORDERS {
        let request = request(subject, &format!("lost-{number}"), "order");
        let first = lottery
            .draw(request.clone())
            .await
            .map_err(Failure::answered)?;
        let again = lottery.draw(request).await.map_err(Failure::answered)?;
        let expected = DrawResponse {
            replayed: true,
            ..first.into_inner()
        };
        other_outcomes += u64::from(again.into_inner() != expected);
    }
    let what = "a retry after a lost answer had another outcome";
    Ok(Broken::by_tombola(
        &subject.name,
        "P4, P8",
        what,
        other_outcomes,
        ORDERS,
    ))
}

/// Sends many calls of a user at once, each with an order of its own. Who could not use up the
/// quota has tested nothing.
async fn at_once(subject: &Subject) -> Outcome<Broken> {
    let lottery = Arc::new(subject.lottery().await?);
    let (mut exceeded, mut tested) = (0, 0);
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
        tested += u64::from(drawn >= QUOTA);
    }
    let what = "a user drew more than the quota by many calls at once";
    Ok(Broken::by_tombola(
        &subject.name,
        "P5",
        what,
        exceeded,
        tested,
    ))
}

fn request(subject: &Subject, user: &str, order: &str) -> DrawRequest {
    DrawRequest {
        campaign_id: subject.made.tried(),
        user_id: user.into(),
        request_id: order.into(),
        ..DrawRequest::default()
    }
}
