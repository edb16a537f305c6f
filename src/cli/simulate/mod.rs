//! `tombola simulate`: plays a campaign file through before its first draw, without a server.

mod arrivals;
mod codes;
mod page;
mod segments;
mod vary;
mod view;

use std::{num::NonZeroU64, path::PathBuf, sync::Arc, time::Instant};

use clap::Args;
use serde_json::json;

use super::{
    client::{Client, Outcome, whole},
    failure::Failure,
    input::{self, FileArgs},
    output::{note, say},
};
use crate::{
    model::{Campaign, PrizeId, SegmentId, convert::campaign_from_proto, text::grouped},
    proto,
    simulation::{
        self,
        crowd::{Crowd, DRAWS_PER_DAY_MAX, USERS_MAX},
        forecast::Forecast,
    },
};

/// The most runs of a simulation.
const SEEDS_MAX: u64 = 1000;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Draws arrive independently of each other, each by a user picked at random, so \
how many draws a user tries on a day varies. A file of --arrivals has the columns hour,weight, \
where hour is 0 to 23, or a local hour of the campaign like 2026-12-01T20:00.

Example:
  tombola simulate -f wheel.yaml --users 200k --free-per-day 3 --paid-per-day 1.5 --arrivals peak
  tombola simulate wheel.yaml --users 200k --segment member=30% --report wheel.html
  tombola simulate wheel.yaml --users 200k --vary \"prizes[coupon].stock=1000..5000\""
)]
pub(super) struct SimulateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// How many users there are, e.g. 5000, 200k or 1.5m
    #[arg(long, env = "TOMBOLA_SIMULATE_USERS", value_name = "N", default_value = "10k",
          value_parser = users)]
    users: NonZeroU64,
    /// The free draws that a user tries on a day, on average
    #[arg(long, env = "TOMBOLA_SIMULATE_FREE_PER_DAY", value_name = "N",
          default_value = "1", value_parser = draws_per_day)]
    free_per_day: f64,
    /// The paid draws that a user tries on a day, on average
    #[arg(long, env = "TOMBOLA_SIMULATE_PAID_PER_DAY", value_name = "N", default_value = "0",
          value_parser = draws_per_day)]
    paid_per_day: f64,
    /// When draws are tried: peak (few at night, most in the evening), flat, or a CSV file
    #[arg(
        long,
        env = "TOMBOLA_SIMULATE_ARRIVALS",
        value_name = "peak|flat|FILE",
        default_value = "peak"
    )]
    arrivals: PathBuf,
    /// A segment with the share of users in it, e.g. member=30%; may be repeated
    #[arg(long = "segment", env = "TOMBOLA_SIMULATE_SEGMENT", value_name = "ID=SHARE",
          value_delimiter = ',', value_parser = segments::share)]
    segments: Vec<(SegmentId, f64)>,
    /// How many codes of a prize with codes are imported, e.g. coupon=5000; may be repeated. Of
    /// prizes that it does not name there are always enough
    #[arg(long = "codes", env = "TOMBOLA_SIMULATE_CODES", value_name = "PRIZE=N",
          value_delimiter = ',', value_parser = codes::import)]
    codes: Vec<(PrizeId, u64)>,
    /// How often the campaign is played through, each time with other chance
    #[arg(long, env = "TOMBOLA_SIMULATE_SEEDS", value_name = "N", default_value_t = 20,
          value_parser = whole::<u32>(1..=SEEDS_MAX))]
    seeds: u32,
    #[arg(
        long,
        env = "TOMBOLA_SIMULATE_VARY",
        value_name = "PATH=A..B",
        help = "Simulate five values of one number of the file, e.g. limits.drawsPerDay=1..5 or \
                  pools[banner].personal.odds.star=0.3%..0.9%; an id with a dot goes in brackets, \
                  e.g. perHour[coupon.10]"
    )]
    vary: Option<vary::Vary>,
    /// Write a page with tables and charts of every hour
    #[arg(long, env = "TOMBOLA_SIMULATE_REPORT", value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print every hour, not only days
    #[arg(long, env = "TOMBOLA_SIMULATE_BY_HOUR")]
    by_hour: bool,
}

/// Runs the simulation.
pub(super) async fn run(client: &Client, args: SimulateArgs) -> Outcome {
    let json = client.json;
    let work = tokio::task::spawn_blocking(move || work(json, &args));
    work.await.unwrap_or_else(|error| {
        Err(Failure::refused(
            "INTERNAL",
            format!("the simulation failed: {error}"),
        ))
    })
}

fn work(json: bool, args: &SimulateArgs) -> Outcome {
    let file = input::shown(args.file.path());
    let mut campaigns = input::campaigns(args.file.path())?;
    let message = match (campaigns.pop(), campaigns.len()) {
        (Some(message), 0) => message,
        (_, others) => {
            let text = format!(
                "{file} has {} campaigns: simulate one at a time",
                others + 1
            );
            return Err(Failure::usage(text));
        }
    };
    let crowd = Crowd {
        users: args.users,
        free_per_day: args.free_per_day,
        paid_per_day: args.paid_per_day,
        arrivals: arrivals::read(&args.arrivals)?,
        segments: args.segments.clone(),
    };
    if crowd.free_per_day + crowd.paid_per_day <= 0.0 {
        return Err(Failure::usage(
            "nobody draws: raise --free-per-day or --paid-per-day",
        ));
    }
    if let Some(vary) = &args.vary {
        let shown = [
            ("--report", args.report.is_some()),
            ("--by-hour", args.by_hour),
        ];
        if let Some((option, _)) = shown.iter().find(|(_, is_given)| *is_given) {
            let text = format!("{option} shows one simulation: leave --vary out");
            return Err(Failure::usage(text));
        }
        return compare(json, &file, &message, vary, &crowd, args);
    }
    let campaign = checked(&file, &message, args)?;
    let forecast = play(&campaign, &crowd, args.seeds)?;
    if let Some(report) = &args.report {
        std::fs::write(report, page::render(&forecast, &campaign)).map_err(|error| {
            let path = report.display();
            Failure::refused("FILE_NOT_WRITTEN", format!("cannot write {path}: {error}"))
        })?;
        note(&format!("the report is in {}", report.display()));
    }
    if json {
        say(&format!("{:#}", json!(forecast)));
    } else {
        say(&view::render(&forecast, args.by_hour));
    }
    Ok(())
}

/// Simulates each value, and shows what becomes different.
fn compare(
    json: bool,
    file: &str,
    message: &proto::Campaign,
    vary: &vary::Vary,
    crowd: &Crowd,
    args: &SimulateArgs,
) -> Outcome {
    let variants = vary.variants(message);
    let variants = variants.map_err(|problems| Failure::problems(file, problems))?;
    // All are checked before the first one is played, which may take minutes.
    let mut campaigns = Vec::new();
    for (value, message) in variants {
        let file = format!("{file} with {}={value}", vary.path);
        campaigns.push((value, checked(&file, &message, args)?));
    }
    let mut forecasts = Vec::new();
    for (value, campaign) in campaigns {
        forecasts.push((value, play(&campaign, crowd, args.seeds)?));
    }
    if json {
        let all = forecasts.iter();
        let all: Vec<_> = all
            .map(|(value, forecast)| {
                let number = value.parse::<u64>().map(serde_json::Value::from);
                let value = number.unwrap_or_else(|_| value.as_str().into());
                json!({"value": value, "forecast": forecast})
            })
            .collect();
        say(&format!(
            "{:#}",
            json!({"path": vary.path, "variants": all})
        ));
    } else {
        say(&view::compare(&vary.path, &forecasts));
    }
    Ok(())
}

/// The campaign that is played, with the codes that are imported.
fn checked(file: &str, message: &proto::Campaign, args: &SimulateArgs) -> Outcome<Arc<Campaign>> {
    let campaign = campaign_from_proto(message);
    let campaign = campaign.map_err(|problems| Failure::problems(file, problems))?;
    segments::check(&campaign, &args.segments).map_err(Failure::usage)?;
    let campaign = codes::with(campaign, &args.codes).map_err(Failure::usage)?;
    Ok(Arc::new(campaign))
}

/// Plays a campaign through, and says how fast.
fn play(campaign: &Arc<Campaign>, crowd: &Crowd, seeds: u32) -> Outcome<Forecast> {
    let begun = Instant::now();
    let forecast = simulation::simulate(campaign, crowd, seeds);
    let forecast = forecast.map_err(|error| {
        Failure::refused(
            "SIMULATION_FAILED",
            format!("the simulation failed: {error}"),
        )
    })?;
    let runs = f64::from(seeds);
    let refused: f64 = forecast.refused.values().map(|refused| refused.mean).sum();
    let (made, refused) = (forecast.draws.mean * runs, refused * runs);
    let rate = (made + refused) / begun.elapsed().as_secs_f64().max(1e-9);
    note(&format!(
        "{} draws made and {} refused, {} a second",
        grouped(made.round() as u64),
        grouped(refused.round() as u64),
        grouped(rate.round() as u64)
    ));
    Ok(forecast)
}

/// A number of users, with `k` for thousands or `m` for millions.
fn users(text: &str) -> Result<NonZeroU64, String> {
    let lower = text.to_lowercase();
    let (digits, factor) = match (lower.strip_suffix('k'), lower.strip_suffix('m')) {
        (Some(digits), _) => (digits, 1e3),
        (_, Some(digits)) => (digits, 1e6),
        _ => (lower.as_str(), 1.0),
    };
    let number = digits.parse::<f64>().ok().map(|number| number * factor);
    // The product may be a little off: 1.001 times 1,000 is 1,000.9999999999999.
    let whole = number.filter(|number| (number - number.round()).abs() < 1e-6);
    let users = whole.map(f64::round);
    let users = users.filter(|users| (1.0..=f64::from(USERS_MAX)).contains(users));
    users
        .and_then(|users| NonZeroU64::new(users as u64))
        .ok_or_else(|| {
            format!(
                "write a whole number from 1 to {}, e.g. 5000, 200k or 1.5m",
                grouped(USERS_MAX.into())
            )
        })
}

fn draws_per_day(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    number
        .filter(|number| (0.0..=DRAWS_PER_DAY_MAX).contains(number))
        .ok_or_else(|| {
            format!(
                "write a number from 0 to {}, e.g. 1.5",
                grouped(DRAWS_PER_DAY_MAX as u64)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_may_be_counted_in_thousands() {
        let read = |text| users(text).ok().map(NonZeroU64::get);
        assert_eq!(read("5000"), Some(5_000));
        assert_eq!(read("200k"), Some(200_000));
        assert_eq!(read("1.5M"), Some(1_500_000));
        assert_eq!(read("1.001k"), Some(1_001));
        assert_eq!(read("1.001m"), Some(1_001_000));
        assert_eq!(read("1.0001k"), None);
        for wrong in ["", "0", "-1", "1.5", "11m", "k", "nan", "inf", "many"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn draws_a_day_may_be_a_fraction() {
        assert_eq!(draws_per_day("1.5"), Ok(1.5));
        for wrong in ["", "-1", "nan", "10001", "two"] {
            assert!(draws_per_day(wrong).is_err(), "{wrong}");
        }
    }
}
