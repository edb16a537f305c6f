//! One run of the bench: services start, their calls take turns round by round so that all see the
//! same state of the machine, and the sums are checked.

use std::{io::IsTerminal as _, sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rand::seq::SliceRandom as _;

use crate::{
    baselines::{
        Baseline, ours,
        promises::{self, Broken},
    },
    calls::{CHECKED_USERS, Grpc},
    failure::{Failure, Outcome},
    figures::{Figures, Load, Rounds, Series},
    host::{Environment, Host},
    load::{Numbers, Plan},
    options::Settings,
    output::note,
    record::Record,
    rig::Rig,
    round::{Before, call, during_injection, refuse_failures, unconnected},
    scenario::Scenario,
    subject::{Store, Subject},
};

/// How long a preparation may take.
const PREPARATION_TIME_MAX: Duration = Duration::from_secs(600);

/// A series of calls that takes turns with the others.
struct Turns {
    /// The index of its service; none for the empty server.
    subject: Option<usize>,
    store: String,
    calls: Calls,
    plan: Plan,
    numbers: Arc<Numbers>,
    rounds: Rounds,
}

/// The calls of a series.
enum Calls {
    Grpc(Arc<Grpc>),
    Baseline(Baseline),
}

impl Calls {
    fn name(&self) -> &'static str {
        match self {
            Self::Grpc(calls) => calls.scenario.name(),
            Self::Baseline(baseline) => baseline.name(),
        }
    }

    async fn round(&self, plan: &Plan, numbers: &Arc<Numbers>) -> Outcome<Record> {
        match self {
            Self::Grpc(calls) => call(calls, plan, numbers).await,
            Self::Baseline(baseline) => baseline.round(plan, numbers).await.map_err(unconnected),
        }
    }
}

/// Waits until the machine has written what it was told to: else the next round would wait for what
/// the one before has left.
async fn written() -> Outcome {
    let written = tokio::task::spawn_blocking(rustix::fs::sync).await;
    written.map_err(|error| {
        let message = format!("writes to disk were not awaited: {error}");
        Failure::refused("NOT_WRITTEN", message)
    })
}

/// Runs all series and returns the figures.
///
/// # Errors
/// If something cannot be started, or most calls fail.
pub(crate) async fn measure(settings: &Settings, rig: &mut Rig) -> Outcome<Figures> {
    let host = Host::look(&settings.directory);
    let bar = progress(settings);
    let empty = Calls::Grpc(Arc::new(rig.empty(&settings.directory).await?));
    for kind in &settings.subjects {
        bar.set_message("starting a service and injecting its units");
        rig.open(
            kind.clone(),
            &settings.directory,
            &settings.scenarios,
            settings.units,
        )
        .await?;
    }
    let mut all = vec![Turns::new(None, empty, &settings.plan)];
    for scenario in &settings.scenarios {
        for (index, subject) in rig.subjects().iter().enumerate() {
            let calls = subject.calls(*scenario);
            if *scenario == Scenario::Check {
                make_users(&settings.plan, calls.clone()).await?;
            }
            let calls = Calls::Grpc(Arc::new(calls));
            all.push(Turns::new(Some((index, subject)), calls, &settings.plan));
        }
    }
    if settings.baselines {
        bar.set_message("filling the baselines");
        let subject = rig
            .subjects()
            .iter()
            .enumerate()
            .find(|(_, one)| one.name == Store::Redis.name());
        let redis = subject.and_then(|(_, subject)| subject.redis.as_ref());
        if let (Some(subject), Some(redis)) = (subject, redis) {
            for baseline in Baseline::all(redis, settings.units).await? {
                bar.inc_length(settings.rounds + 1);
                all.push(Turns::new(
                    Some(subject),
                    Calls::Baseline(baseline),
                    &settings.plan,
                ));
            }
        }
    }
    // What comes before in a round makes a difference, so each round has an order of its own.
    let mut order: Vec<usize> = (0..all.len()).collect();
    for round in 0..=settings.rounds {
        order.shuffle(&mut rand::rng());
        for turns in &order {
            let turns = &mut all[*turns];
            written().await?;
            let name = turns.calls.name();
            bar.set_message(match round {
                0 => format!("{name} on {}, warm-up", turns.store),
                round => format!(
                    "{name} on {}, round {round} of {}",
                    turns.store, settings.rounds
                ),
            });
            turns
                .round(settings, rig.subjects_mut(), round == 0)
                .await?;
            bar.inc(1);
        }
    }
    let promises = promises(settings, rig, &bar).await?;
    bar.set_message("checking the sums");
    let mut campaigns = Vec::new();
    let mut stores = Vec::new();
    let mut used_up = Vec::new();
    for subject in rig.subjects() {
        if let Some(protections) = &subject.protections {
            protections.check(&mut subject.operators().await?).await?;
        }
        campaigns.extend(subject.sums().await?);
        stores.push(Environment::of(subject).await);
        let mut server = subject.operators().await?;
        if subject.made.is_used_up(&mut server).await? {
            used_up.push(format!("the schedule on {}", subject.name));
        }
    }
    bar.finish_and_clear();
    let series: Vec<Series> = all.iter().map(Turns::series).collect();
    let baselines = series.iter().filter(|one| one.has_run_out());
    used_up.extend(baselines.map(Series::label));
    for pool in used_up {
        note(&format!(
            "the units of {pool} ran out, and later draws took none: take more with --units, or \
             shorter rounds"
        ));
    }
    let mut figures = Figures {
        tombola: env!("CARGO_PKG_VERSION"),
        host,
        load: Load {
            connections: settings.plan.connections,
            outstanding: settings
                .plan
                .rate
                .is_none()
                .then_some(settings.plan.outstanding),
            rate: settings.plan.rate,
            round_seconds: settings.plan.time.as_secs_f64(),
            rounds: settings.rounds,
        },
        stores,
        series,
        ratios: Vec::new(),
        promises,
        balanced: campaigns.iter().all(|one| one.balanced),
        campaigns,
    };
    figures.relate();
    Ok(figures)
}

/// A progress bar, which is shown only on a terminal.
fn progress(settings: &Settings) -> ProgressBar {
    let turns = 1 + settings.scenarios.len() * settings.subjects.len();
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some((settings.rounds + 1) * turns as u64), target);
    bar.enable_steady_tick(Duration::from_millis(200));
    match ProgressStyle::with_template("{bar:30} {elapsed_precise}  {msg}") {
        Ok(style) => bar.with_style(style.progress_chars("█▌ ")),
        Err(_) => bar,
    }
}

/// Counts the promises that the baselines break, and tests the service under the same conditions.
async fn promises(settings: &Settings, rig: &mut Rig, bar: &ProgressBar) -> Outcome<Vec<Broken>> {
    let mut all = Vec::new();
    if !settings.baselines {
        return Ok(all);
    }
    bar.set_message("testing promises");
    for subject in rig.subjects_mut() {
        all.extend(ours::provoke(subject).await?);
        match &subject.redis {
            Some(redis) if subject.name == Store::Redis.name() => {
                all.extend(promises::provoke(redis).await?);
            }
            _ => {}
        }
    }
    Ok(all)
}

/// Makes draws by the users whose limits the scenario `check` then asks for.
async fn make_users(plan: &Plan, calls: Grpc) -> Outcome {
    let plan = Plan {
        rate: None,
        time: PREPARATION_TIME_MAX,
        calls_max: CHECKED_USERS,
        ..plan.clone()
    };
    let calls = Arc::new(Grpc {
        draws_only: true,
        ..calls
    });
    let record = call(&calls, &plan, &Arc::default()).await?;
    refuse_failures("draws before check", &record)?;
    if record.calls == CHECKED_USERS {
        return Ok(());
    }
    let message = format!(
        "before check, {} of {CHECKED_USERS} users drew within {PREPARATION_TIME_MAX:?}: take more \
         --connections or --outstanding",
        record.calls
    );
    Err(Failure::refused("NOT_PREPARED", message))
}

impl Turns {
    fn new(subject: Option<(usize, &Subject)>, calls: Calls, plan: &Plan) -> Self {
        let plan = match &calls {
            Calls::Grpc(_) => plan.clone(),
            Calls::Baseline(baseline) => baseline.plan(plan),
        };
        Self {
            subject: subject.map(|(index, _)| index),
            store: subject.map_or("-".into(), |(_, subject)| subject.name.clone()),
            numbers: Arc::default(),
            rounds: Rounds::default(),
            calls,
            plan,
        }
    }

    /// Runs one round; the warm-up is not counted.
    async fn round(
        &mut self,
        settings: &Settings,
        subjects: &mut [Subject],
        is_warm_up: bool,
    ) -> Outcome {
        let time = if is_warm_up {
            settings.warm_up
        } else {
            settings.plan.time
        };
        let plan = Plan {
            time,
            ..self.plan.clone()
        };
        let subject = self.subject.and_then(|index| subjects.get_mut(index));
        let before = Before::of(subject.as_deref().filter(|_| self.calls_a_service())).await?;
        let mut record = match subject {
            Some(subject) if self.calls.name() == Scenario::Inject.name() => {
                let round = self.calls.round(&plan, &self.numbers);
                during_injection(subject, settings.inject_rate, round).await?
            }
            _ => self.calls.round(&plan, &self.numbers).await?,
        };
        let subject = self.subject.and_then(|index| subjects.get(index));
        let subject = subject.filter(|_| self.calls_a_service());
        if let Some(subject) = subject {
            record.time += subject.settle().await?;
        }
        let spent = before.spent(subject).await?;
        let what = format!("{} on {}", self.calls.name(), self.store);
        if self.calls_a_service() {
            refuse_failures(&what, &record)?;
        }
        if !is_warm_up {
            self.rounds.add(record, spent);
        }
        Ok(())
    }

    /// Whether it calls a service or the empty server, not a baseline.
    fn calls_a_service(&self) -> bool {
        matches!(self.calls, Calls::Grpc(_))
    }

    fn series(&self) -> Series {
        let concurrency = match self.calls {
            Calls::Grpc(_) => None,
            Calls::Baseline(_) => Some(format!(
                "{} × {}",
                self.plan.connections, self.plan.outstanding
            )),
        };
        Series {
            is_limit: matches!(self.calls, Calls::Baseline(Baseline::Counter(_))),
            ..self
                .rounds
                .series(self.calls.name(), &self.store, concurrency)
        }
    }
}
