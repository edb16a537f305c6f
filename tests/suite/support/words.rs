//! Helpers to write tests: moments, users, draws and campaigns.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;
use tombola::{
    model::{
        Campaign, CampaignId, Moment, OperatorId, RequestId, SegmentId, UserId,
        convert::{campaign_from_proto, segments_from_proto},
        file,
        limits::Funding,
    },
    store::{Author, BonusCommand, DrawCommand},
};

/// The campaign that tests use unless they name another.
pub const SPRING: &str = "spring";

/// The properties of a campaign that its test does not set.
const DEFAULTS: [(&str, &str); 4] = [
    ("id:", "spring"),
    ("timeZone:", "Asia/Shanghai"),
    ("startTime:", "2026-11-20T00:00:00+08:00"),
    ("endTime:", "2026-12-20T00:00:00+08:00"),
];

/// A moment in RFC 3339 form.
pub fn at(time: &str) -> Moment {
    Moment::from_timestamp(time.parse().unwrap())
}

pub fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

pub fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn user(id: &str) -> UserId {
    UserId::parse("user", id).unwrap()
}

pub fn users(ids: &[&str]) -> Vec<UserId> {
    ids.iter().map(|id| user(id)).collect()
}

pub fn request(id: &str) -> RequestId {
    RequestId::parse("request", id).unwrap()
}

pub fn campaign_id(id: &str) -> CampaignId {
    CampaignId::parse("campaign", id).unwrap()
}

/// Segments, in the order of their ids.
pub fn segments(ids: &[&str]) -> Vec<SegmentId> {
    let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
    segments_from_proto(&ids).unwrap()
}

/// An operator's change with this request id.
pub fn author(id: &str) -> Author {
    Author::named(
        request(id),
        OperatorId::parse("operator", "ops").unwrap(),
        "a test",
    )
}

/// A request id that nobody has used.
pub fn new_request() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("new-{}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// A campaign from a file that sets only what the test is about.
pub fn campaign(yaml: &str) -> Arc<Campaign> {
    let yaml = dedented(yaml);
    let is_given = |key: &str| yaml.lines().any(|line| line.starts_with(key));
    let defaults = DEFAULTS.iter().filter(|(key, _)| !is_given(key));
    let defaults: String = defaults.map(|(k, v)| format!("{k} {v}\n")).collect();
    let file = defaults + &yaml;
    let campaigns = file::parse(&file).unwrap_or_else(|problems| panic!("{problems}\n{file}"));
    let [message] = campaigns.as_slice() else {
        panic!("one campaign in a file of a test:\n{file}");
    };
    match campaign_from_proto(message) {
        Ok(campaign) => Arc::new(campaign),
        Err(problems) => panic!("{problems}\n{file}"),
    }
}

fn dedented(text: &str) -> String {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let margin = lines().map(indent).min().unwrap_or(0);
    lines()
        .map(|line| format!("{}\n", &line[margin..]))
        .collect()
}

/// One free draw by this user, with a new request id.
pub fn draw(user: &str) -> DrawCommand {
    DrawCommand {
        campaign: campaign_id(SPRING),
        user: self::user(user),
        request: request(&new_request()),
        count: 1,
        funding: Funding::Free,
        payment_ref: String::new(),
        consolation_only: false,
        segments: Vec::new(),
        expire: None,
        not_after: Moment::FAR_FUTURE,
        chance: None,
    }
}

/// Bonus draws that a caller grants this user, with a new request id.
pub fn bonus(user: &str, draws: u32) -> BonusCommand {
    BonusCommand {
        campaign: campaign_id(SPRING),
        user: self::user(user),
        request: request(&new_request()),
        draws,
        expires: Moment::FAR_FUTURE,
        not_after: Moment::FAR_FUTURE,
    }
}

/// Further properties of a draw.
pub trait DrawWords {
    fn times(self, count: u32) -> Self;
    fn paid(self, payment_ref: &str) -> Self;
    fn named(self, request: &str) -> Self;
    fn of(self, campaign: &str) -> Self;
    fn consolation_only(self) -> Self;
    fn with(self, segments: &[&str]) -> Self;
    fn expiring(self, at: Moment) -> Self;
    fn not_after(self, at: Moment) -> Self;
}

impl DrawWords for DrawCommand {
    fn times(self, count: u32) -> Self {
        Self { count, ..self }
    }

    fn paid(self, payment_ref: &str) -> Self {
        Self {
            funding: Funding::Paid,
            payment_ref: payment_ref.into(),
            ..self
        }
    }

    fn named(self, request: &str) -> Self {
        Self {
            request: self::request(request),
            ..self
        }
    }

    fn of(self, campaign: &str) -> Self {
        Self {
            campaign: campaign_id(campaign),
            ..self
        }
    }

    fn consolation_only(self) -> Self {
        Self {
            consolation_only: true,
            ..self
        }
    }

    fn with(self, segments: &[&str]) -> Self {
        Self {
            segments: self::segments(segments),
            ..self
        }
    }

    fn expiring(self, at: Moment) -> Self {
        Self {
            expire: Some(at),
            ..self
        }
    }

    fn not_after(self, at: Moment) -> Self {
        Self {
            not_after: at,
            ..self
        }
    }
}

/// Runs `count` tasks in parallel; returns their results in order.
pub async fn all_of<F>(count: usize, task: impl Fn(usize) -> F) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for i in 0..count {
        let task = task(i);
        tasks.spawn(async move { (i, task.await) });
    }
    // The first task that fails fails the test, even if others never end.
    let mut results = BTreeMap::new();
    while let Some(done) = tasks.join_next().await {
        results.extend([done.unwrap()]);
    }
    results.into_values().collect()
}
