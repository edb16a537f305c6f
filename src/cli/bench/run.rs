//! One run: services are started, their calls take turns round by round, so that all have the same machine, and the sums are checked.

use std::{convert::Infallible, io::IsTerminal as _, path::Path, sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tempfile::TempDir;

use super::{
    baselines::{
        Baseline, ours,
        promises::{self, Broken},
    },
    beside::directory,
    campaigns, empty,
    figures::{Figures, Load, Rounds, Series, Spent},
    host::{Ground, Host},
    load::{self, Numbers, Plan, Target},
    options::Settings,
    process::{Process, serving_url},
    record::Record,
    scenario::{CHECKED_USERS, Grpc, Ids, Scenario},
    subject::{Kind, Store, Subject},
};
use crate::cli::{client::Outcome, failure::Failure};

/// How long a round may be that only prepares.
const PREPARATION_TIME_MAX: Duration = Duration::from_secs(60);
/// How often units are injected beside draws.
const INJECTIONS_A_SECOND: u64 = 2;

/// All that is under measure. Whoever has it calls [`House::leave`] in the end.
#[derive(Default)]
pub(super) struct House {
    subjects: Vec<Subject>,
    // The process ends before its directory goes.
    empty: Option<(Process, TempDir)>,
}

impl House {
    /// Takes everything away.
    pub(super) async fn leave(mut self) {
        self.close().await;
    }

    /// The same, to begin anew.
    pub(super) async fn close(&mut self) {
        self.empty = None;
        for subject in std::mem::take(&mut self.subjects) {
            subject.leave().await;
        }
    }

    /// Starts a service, with campaigns for the scenarios and so many units to draw.
    pub(super) async fn open(
        &mut self,
        kind: Kind,
        directory: &Path,
        scenarios: &[Scenario],
        units: u64,
    ) -> Outcome<&mut Subject> {
        let subject = self.add(kind);
        subject.start(directory, scenarios, units).await?;
        Ok(subject)
    }

    /// Makes what a service needs, without starting it.
    pub(super) async fn open_empty(
        &mut self,
        kind: Kind,
        directory: &Path,
    ) -> Outcome<&mut Subject> {
        let subject = self.add(kind);
        subject.begin(directory).await?;
        Ok(subject)
    }

    /// It is in the house before anything of it is made, so that it is taken away whatever comes.
    fn add(&mut self, kind: Kind) -> &mut Subject {
        let place = self.subjects.len();
        self.subjects.push(Subject::new(kind));
        &mut self.subjects[place]
    }

    /// Starts the bare server of the empty call.
    pub(super) async fn empty(&mut self, parent: &Path) -> Outcome<Grpc> {
        let data = directory(parent)?;
        let log = data.path().join("empty.log");
        let arguments = [empty::COMMAND.to_owned()];
        let mut process = Process::spawn_self("the empty server", &arguments, &[], &log)?;
        let url = process.wait_for(serving_url).await?;
        self.empty = Some((process, data));
        Ok(Grpc {
            url,
            scenario: Scenario::Empty,
            campaigns: vec!["bench-0123abcd-hours".into()],
            ids: Ids::Following,
            draws_only: false,
        })
    }

    /// All services.
    pub(super) fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// The service, where there is one.
    pub(super) fn first(&self) -> Outcome<&Subject> {
        self.subjects.first().ok_or_else(no_service)
    }

    /// The same, to make campaigns.
    pub(super) fn first_mut(&mut self) -> Outcome<&mut Subject> {
        self.subjects.first_mut().ok_or_else(no_service)
    }
}

fn no_service() -> Box<Failure> {
    Failure::refused("BUG", "the bench started no service")
}

/// A call that takes its turns.
struct Turns {
    /// Whose it is, by number; none for the bare server of the empty call.
    subject: Option<usize>,
    store: String,
    calls: Calls,
    plan: Plan,
    numbers: Arc<Numbers>,
    rounds: Rounds,
}

/// What is called in turn.
enum Calls {
    Grpc(Arc<Grpc>),
    Baseline(Baseline),
}

impl Calls {
    fn name(&self) -> &'static str {
        match self {
            Self::Grpc(calls) => calls.scenario.name(),
            Self::Baseline(way) => way.name(),
        }
    }

    async fn round(&self, plan: &Plan, numbers: &Arc<Numbers>) -> Outcome<Record> {
        match self {
            Self::Grpc(calls) => call(calls, plan, numbers).await,
            Self::Baseline(way) => way.round(plan, numbers).await.map_err(unconnected),
        }
    }
}

/// Measures.
///
/// # Errors
/// Where something cannot be started, or most calls fail.
pub(super) async fn measure(settings: &Settings, house: &mut House) -> Outcome<Figures> {
    let host = Host::look(&settings.directory);
    let bar = progress(settings);
    let empty = Calls::Grpc(Arc::new(house.empty(&settings.directory).await?));
    for kind in &settings.subjects {
        bar.set_message("a service starts, and its units are injected");
        house
            .open(
                kind.clone(),
                &settings.directory,
                &settings.scenarios,
                settings.units,
            )
            .await?;
    }
    let mut all = vec![Turns::new(None, empty, &settings.plan)];
    for scenario in &settings.scenarios {
        for (number, subject) in house.subjects.iter().enumerate() {
            let calls = subject.calls(*scenario);
            if *scenario == Scenario::Check {
                make_users(&settings.plan, calls.clone()).await?;
            }
            let calls = Calls::Grpc(Arc::new(calls));
            all.push(Turns::new(Some((number, subject)), calls, &settings.plan));
        }
    }
    if settings.baselines {
        bar.set_message("the baselines are filled");
        let subject = house
            .subjects
            .iter()
            .enumerate()
            .find(|(_, one)| one.name == Store::Redis.name());
        let beside = subject.and_then(|(_, subject)| subject.beside.as_ref());
        if let (Some(subject), Some(beside)) = (subject, beside) {
            for way in Baseline::all(beside, settings.units).await? {
                all.push(Turns::new(
                    Some(subject),
                    Calls::Baseline(way),
                    &settings.plan,
                ));
            }
        }
    }
    for round in 0..=settings.rounds {
        for turns in &mut all {
            let name = turns.calls.name();
            bar.set_message(match round {
                0 => format!("{name} on {}, warm-up", turns.store),
                round => format!(
                    "{name} on {}, round {round} of {}",
                    turns.store, settings.rounds
                ),
            });
            turns
                .round(settings, &mut house.subjects, round == 0)
                .await?;
            bar.inc(1);
        }
    }
    let promises = promises(settings, house, &bar).await?;
    bar.set_message("the sums are checked");
    let mut campaigns = Vec::new();
    let mut stores = Vec::new();
    for subject in &house.subjects {
        campaigns.extend(subject.sums().await?);
        stores.push(Ground::of(subject).await);
    }
    bar.finish_and_clear();
    let series: Vec<Series> = all.iter().map(Turns::series).collect();
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

/// On a terminal only.
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

/// What the baselines break, and the service under the same.
async fn promises(
    settings: &Settings,
    house: &mut House,
    bar: &ProgressBar,
) -> Outcome<Vec<Broken>> {
    let mut all = Vec::new();
    if !settings.baselines {
        return Ok(all);
    }
    bar.set_message("promises are put to the test");
    for subject in &mut house.subjects {
        all.extend(ours::provoke(subject).await?);
        match &subject.beside {
            Some(beside) if subject.name == Store::Redis.name() => {
                all.extend(promises::provoke(beside).await?);
            }
            _ => {}
        }
    }
    Ok(all)
}

/// Lets the users draw whose limits are then asked for.
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
    let record = call(&calls, &plan, &Numbers::new(&plan)).await?;
    refuse_failures("draws before check", &record)
}

/// One round of calls.
pub(super) async fn call<T: Target>(
    target: &Arc<T>,
    plan: &Plan,
    numbers: &Arc<Numbers>,
) -> Outcome<Record> {
    load::round(target, plan, numbers)
        .await
        .map_err(unconnected)
}

fn unconnected(fault: load::Fault) -> Box<Failure> {
    Failure::refused("NO_CONNECTION", format!("the load cannot connect: {fault}"))
}

/// Figures of calls that fail are no figures.
pub(super) fn refuse_failures(what: &str, record: &Record) -> Outcome {
    let failed = record.failures();
    if failed * 2 <= record.calls && record.calls > 0 {
        return Ok(());
    }
    let reasons: Vec<String> = record
        .errors
        .iter()
        .map(|(reason, calls)| format!("{reason} ({calls})"))
        .collect();
    let message = match reasons.as_slice() {
        [] => format!("{what}: no call was answered: take a longer --duration and --warm-up"),
        reasons => format!(
            "{what}: {failed} of {} calls failed: {}",
            record.calls,
            reasons.join(", ")
        ),
    };
    let failure = Failure::refused("CALLS_FAIL", message);
    Err(failure.advise("\"tombola bench --scenario empty\" shows whether the load itself works; the service's log says more"))
}

impl Turns {
    fn new(subject: Option<(usize, &Subject)>, calls: Calls, plan: &Plan) -> Self {
        let plan = match &calls {
            Calls::Grpc(_) => plan.clone(),
            Calls::Baseline(way) => way.plan(plan),
        };
        Self {
            subject: subject.map(|(number, _)| number),
            store: subject.map_or("-".into(), |(_, subject)| subject.name.clone()),
            numbers: Numbers::new(&plan),
            rounds: Rounds::default(),
            calls,
            plan,
        }
    }

    /// One round; the warm-up is not counted.
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
        let subject = self.subject.and_then(|number| subjects.get_mut(number));
        let before = Before::of(subject.as_deref().filter(|_| self.is_of_a_service())).await?;
        let record = match subject {
            Some(subject) if self.calls.name() == Scenario::Inject.name() => {
                let round = self.calls.round(&plan, &self.numbers);
                beside_injection(subject, settings.inject_rate, round).await?
            }
            _ => self.calls.round(&plan, &self.numbers).await?,
        };
        let subject = self.subject.and_then(|number| subjects.get(number));
        let subject = subject.filter(|_| self.is_of_a_service());
        let spent = before.spent(subject).await?;
        let what = format!("{} on {}", self.calls.name(), self.store);
        if self.is_of_a_service() {
            refuse_failures(&what, &record)?;
        }
        if !is_warm_up {
            self.rounds.add(record, spent);
        }
        Ok(())
    }

    /// It is no baseline.
    fn is_of_a_service(&self) -> bool {
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

/// Does `work` while units are injected.
pub(super) async fn beside_injection<T>(
    subject: &mut Subject,
    rate: u64,
    work: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    tokio::select! {
        done = work => done,
        Err(failed) = inject(subject, rate) => Err(failed),
    }
}

/// Injects units at a rate until it is dropped, or fails.
async fn inject(subject: &mut Subject, rate: u64) -> Outcome<Infallible> {
    let mut server = subject.operators().await?;
    let mut interval = tokio::time::interval(Duration::from_secs(1) / INJECTIONS_A_SECOND as u32);
    loop {
        interval.tick().await;
        let now = campaigns::now(&mut server).await?;
        let units = (rate / INJECTIONS_A_SECOND).max(1);
        subject.made.make_injected(&mut server, units, now).await?;
    }
}

/// What a service and its Redis had spent before a round.
struct Before {
    cpu: Option<Duration>,
    scripts: Option<Duration>,
}

impl Before {
    async fn of(subject: Option<&Subject>) -> Outcome<Self> {
        let beside = subject.and_then(|subject| subject.beside.as_ref());
        Ok(Self {
            cpu: subject.and_then(|subject| subject.server.as_ref()?.cpu()),
            scripts: match beside {
                Some(beside) => Some(beside.scripts().await?.1),
                None => None,
            },
        })
    }

    /// And how much it spent since then.
    async fn spent(self, subject: Option<&Subject>) -> Outcome<Spent> {
        let after = Self::of(subject).await?;
        let since = |before: Option<Duration>, after: Option<Duration>| {
            Some(after?.saturating_sub(before?).as_secs_f64() * 1e6)
        };
        Ok(Spent {
            server_cpu_us: since(self.cpu, after.cpu),
            redis_us: since(self.scripts, after.scripts),
        })
    }
}
