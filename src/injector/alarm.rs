//! The injector's alarm clock: it ticks when cron says so, and each minute to make up for missed
//! cron events. Cron goes by the machine's clock, the minutes by the store's.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeZone as _, Utc};
use croner::{
    Cron,
    parser::{CronParser, Seconds},
};
use thiserror::Error;
use tokio::time::sleep;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use tracing::{error, info, warn};

use super::Injector;

/// The injector ticks at least this often, whatever cron says.
pub(crate) const WATCH: Duration = Duration::from_secs(60);
/// ... but on a fast test clock, where a minute is shorter, not more often than this.
const WATCH_MIN: Duration = Duration::from_millis(250);
/// The most by which a tick is moved at random, so that services do not all tick at once.
const JITTER_MAX: Duration = Duration::from_secs(10);

/// A cron expression that wakes the injector before each full hour.
#[derive(Clone, Debug)]
pub struct Alarm {
    expression: String,
    lead: Duration,
}

/// A cron expression that cannot be used.
#[derive(Debug, Error)]
pub enum AlarmError {
    /// Not a cron expression.
    #[error(
        "`{expression}` is not a cron expression with seconds ({detail}): write one like `0 55 * * \
         * *`"
    )]
    Malformed {
        /// What was given.
        expression: String,
        /// Why.
        detail: String,
    },
    /// It leaves hours out.
    #[error("`{0}` does not fire in every hour: write one that does, like `0 55 * * * *`")]
    NotHourly(String),
    /// The scheduler could not be started.
    #[error("the cron scheduler could not be started: {0}")]
    Scheduler(#[from] JobSchedulerError),
}

impl Alarm {
    /// Reads a cron expression with seconds, in UTC, that fires at least once in every hour.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tombola::injector::alarm::Alarm;
    /// let alarm = Alarm::parse("0 55 * * * *").unwrap();
    /// assert_eq!(alarm.lead(), Duration::from_secs(300));
    /// assert!(Alarm::parse("0 0 12 * * *").is_err());
    /// ```
    pub fn parse(expression: &str) -> Result<Self, AlarmError> {
        let cron = CronParser::builder()
            .seconds(Seconds::Required)
            .build()
            .parse(expression)
            .map_err(|error| AlarmError::Malformed {
                expression: expression.into(),
                detail: error.to_string(),
            })?;
        let lead = lead(&cron).ok_or_else(|| AlarmError::NotHourly(expression.into()))?;
        Ok(Self {
            expression: expression.into(),
            lead,
        })
    }

    /// How long before a full hour the last firing of the hour before it is: the time at which the
    /// next hour is injected.
    pub fn lead(&self) -> Duration {
        self.lead
    }
}

/// The smallest time between a firing and the full hour after it, over a week; none if an hour
/// of it has no firing.
fn lead(cron: &Cron) -> Option<Duration> {
    let day: DateTime<Utc> = Utc.with_ymd_and_hms(2030, 1, 1, 0, 0, 0).single()?;
    let mut lead = Duration::from_secs(3600);
    for hour in 0..24 * 7 {
        let start = day + chrono::Duration::hours(hour);
        let end = start + chrono::Duration::hours(1);
        let mut last = None;
        let mut from = start;
        while let Ok(next) = cron.find_next_occurrence(&from, false) {
            if next > end {
                break;
            }
            last = Some(next);
            from = next;
        }
        let before_hour = (end - last?).num_seconds();
        lead = lead.min(Duration::from_secs(before_hour.unsigned_abs()));
    }
    Some(lead)
}

/// Wakes the injector until it is dropped: at once, as cron says, and each minute.
pub async fn run(injector: Arc<Injector>, alarm: Alarm) -> Result<(), AlarmError> {
    let scheduler = JobScheduler::new().await?;
    let woken = Arc::clone(&injector);
    let delay_max = delay_max(alarm.lead);
    let job = Job::new_async(alarm.expression.as_str(), move |_, _| {
        let injector = Arc::clone(&woken);
        Box::pin(async move {
            sleep(random_part(delay_max)).await;
            tick(&injector).await;
        })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    info!(
        cron = alarm.expression,
        lead_seconds = alarm.lead.as_secs(),
        "the injector runs"
    );
    let speed = injector.store().info().clock_speed;
    loop {
        tick(&injector).await;
        let pause = (WATCH - random_part(JITTER_MAX)) / speed;
        sleep(pause.max(WATCH_MIN)).await;
    }
}

/// How much later than cron fires the injector may begin: little of the time that is left until the
/// hour.
fn delay_max(lead: Duration) -> Duration {
    JITTER_MAX.min(lead / 10)
}

/// A part of a duration, which is another one in each process.
fn random_part(whole: Duration) -> Duration {
    whole.mul_f64(rand::random::<f64>())
}

async fn tick(injector: &Arc<Injector>) {
    match injector.tick().await {
        Ok(()) => {}
        Err(crate::store::StoreError::Corrupt { detail, .. }) => {
            error!(
                detail,
                "the injector found stored data that contradict themselves"
            );
        }
        Err(error) => {
            warn!(%error, "the injector could not do all its work; it tries again within a minute")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_is_read_off_the_expression() {
        let lead = |expression| Alarm::parse(expression).unwrap().lead().as_secs();
        assert_eq!(lead("0 55 * * * *"), 300);
        assert_eq!(lead("30 59 * * * *"), 30);
        assert_eq!(
            lead("0 */10 * * * *"),
            0,
            "it fires at the full hour itself"
        );
        assert_eq!(lead("0 5-50/5 * * * *"), 600);
    }

    #[test]
    fn a_tick_is_late_by_little_of_the_lead_and_never_by_more() {
        let seconds = Duration::from_secs;
        assert_eq!(delay_max(seconds(300)), seconds(10));
        assert_eq!(delay_max(seconds(30)), seconds(3));
        assert_eq!(delay_max(seconds(0)), seconds(0));
        assert!((0..100).all(|_| random_part(seconds(3)) <= seconds(3)));
    }

    #[test]
    fn an_expression_that_leaves_hours_out_is_refused() {
        for expression in ["0 55 9 * * *", "0 55 * * * MON", "nonsense", "55 * * * *"] {
            let refused = Alarm::parse(expression);
            assert!(refused.is_err(), "{expression}");
        }
    }
}
