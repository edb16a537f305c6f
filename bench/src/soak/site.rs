//! One store under a soak, with its services, its load and its operator.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use tombola::proto::ListCampaignsRequest;

use super::{
    args::Times,
    callers::Load,
    flat,
    links::Links,
    operator::{Operator, apply},
    report::StoreSoak,
    samples::{self, Sample},
    services::Services,
    stage::Stage,
    story::{Main, StoryClock},
};
use crate::{
    campaigns::{self, Sums},
    failure::{Failure, Outcome},
    host::Environment,
    load::{NOT_ANSWERED, Plan},
    output::note,
    process::Process,
    record::Record,
    round::{call, refuse_failures},
    subject::Subject,
};

/// Connections of the load to each service.
const CONNECTIONS: usize = 8;
/// Calls in progress on each of them while the peak is measured.
const OUTSTANDING: usize = 16;
/// How long the peak is measured, after as long a time to warm up.
const PEAK_TIME: Duration = Duration::from_secs(4);
/// The share of the peak that the load is.
const PEAK_PART: f64 = 4.0;
/// The campaigns' names begin with it.
const NAME: &str = "soak";

/// A store under a soak.
pub(super) struct Site<'a> {
    subject: &'a Subject,
    services: Services<'a>,
    stage: Arc<Stage>,
    links: Links,
    load: Load,
    times: Times,
    peak_per_second: Option<f64>,
    rate: u64,
}

impl<'a> Site<'a> {
    /// Starts the services of a store.
    pub(super) async fn start(
        subject: &'a Subject,
        parent: &Path,
        clock: StoryClock,
        (times, users): (Times, u64),
    ) -> Outcome<Self> {
        if let Some(redis) = &subject.redis {
            let rewrite = ["CONFIG", "SET", "auto-aof-rewrite-percentage", "100"];
            redis.ask::<String>(&rewrite).await?;
        }
        let count = if subject.redis.is_some() { 2 } else { 1 };
        let stage = Arc::new(Stage::new(clock, count));
        Ok(Self {
            services: Services::start(subject, parent, &stage, (count, times)).await?,
            links: Links::new(&stage, count),
            load: Load {
                stage: Arc::clone(&stage),
                services: count,
                users,
                campaign: format!("{NAME}-peak"),
                // Half of what requests are remembered for.
                replay_age_max: SignedDuration::try_from(times.day() / 2).unwrap_or_default(),
            },
            subject,
            stage,
            times,
            peak_per_second: None,
            rate: 1,
        })
    }

    /// Sets the rate of the load, to a quarter of the peak unless it is named.
    pub(super) async fn set_rate(&mut self, named: Option<u64>) -> Outcome {
        if let Some(rate) = named {
            self.rate = rate;
            return Ok(());
        }
        note(&format!("{}: measuring the peak", self.subject.name));
        // A guess: the plan of the schedule follows it.
        let rate = 10_000;
        let id = self.load.campaign.clone();
        let main = Main::new(id.clone(), &self.stage.clock, &self.times, rate);
        apply(&self.links, &main.on(0), 0, &id).await?;
        self.stage.set_small(id);
        let plan = Plan {
            time: PEAK_TIME.min(self.times.load / 4),
            ..self.plan()
        };
        let (load, numbers) = (Arc::new(self.load.clone()), Arc::default());
        let mut peak = 0.0;
        for _ in 0..2 {
            let record = call(&load, &plan, &numbers).await?;
            refuse_failures("the peak", &record)?;
            peak = record.calls as f64 / record.time.as_secs_f64();
        }
        self.peak_per_second = Some(peak);
        self.rate = (peak / PEAK_PART).ceil() as u64;
        note(&format!(
            "{}: a peak of {peak:.0} calls a second",
            self.subject.name
        ));
        Ok(())
    }

    /// Runs the whole story, and checks what is left of it.
    pub(super) async fn run(mut self) -> Outcome<StoreSoak> {
        let id = format!("{NAME}-main");
        let main = Main::new(id.clone(), &self.stage.clock, &self.times, self.rate);
        apply(&self.links, &main.on(0), 0, &id).await?;
        self.stage.set_small(id.clone());
        self.load.campaign = id;
        let samples = {
            let operator = Operator {
                links: &self.links,
                main: &main,
                day: self.times.day(),
            };
            let load = under_load(self.subject, &self.links, &self.load, &main, {
                let rate = Some(self.rate);
                (
                    Plan {
                        rate,
                        ..self.plan()
                    },
                    self.times.sample_every(),
                )
            });
            tokio::select! {
                samples = load => samples?,
                Err(failure) = self.services.come_and_go() => return Err(failure),
                never = operator.work() => match never {},
            }
        };
        self.services.complete().await?;
        self.finish(&main, samples).await
    }

    /// Settles, sums up and audits.
    async fn finish(self, main: &Main, samples: Vec<Sample>) -> Outcome<StoreSoak> {
        note(&format!("{}: settling and auditing", self.subject.name));
        let any = self.stage.pick(0);
        let any = any.ok_or_else(|| Failure::refused("BUG", "no service runs"))?;
        let begun = Instant::now();
        let settled =
            async { campaigns::wait_until_settled(&mut any.address.operators().await?).await };
        let settled: Outcome = settled.await;
        let settling = begun.elapsed();
        let (sums, versions) = sums(&self.links, &self.subject.name, &main.id).await?;
        let begun = Instant::now();
        let audited = self.audit(&any.address.url).await;
        let audit = begun.elapsed();
        let environment = Environment::of(self.subject).await;
        let services = self.services.end().await;
        let books = self.stage.books();
        let draws_counted = sums.iter().map(|one| one.draws).sum();
        let mut faults = books.first_faults;
        let mut add = |is_fault: bool, text: String| is_fault.then(|| faults.push(text));
        add(
            books.faults > 0,
            format!("{} faults of calls", books.faults),
        );
        for one in sums.iter().filter(|one| !one.balanced) {
            add(true, format!("the sums of {} do not add up", one.campaign));
        }
        let off = samples.iter().filter(|one| !one.balanced).count();
        add(off > 0, format!("the sums did not add up in {off} samples"));
        // Calls that were not sent in time are only counted: that is a matter of speed.
        let lost = samples
            .iter()
            .filter_map(|one| one.refused.get(NOT_ANSWERED));
        let lost: u64 = lost.sum();
        add(lost > 0, format!("{lost} calls without an answer"));
        add(
            books.draws != draws_counted,
            format!("{} draws were answered, {draws_counted} made", books.draws),
        );
        for failure in [settled, audited].into_iter().filter_map(Result::err) {
            add(true, failure.message);
        }
        for fault in &services.faults {
            add(true, fault.clone());
        }
        for line in &services.errors {
            add(true, format!("a service logged: {line}"));
        }
        Ok(StoreSoak {
            environment,
            peak_per_second: self.peak_per_second,
            rate: self.rate,
            services,
            trends: flat::trends(&samples),
            samples,
            versions,
            sums,
            draws_answered: books.draws,
            draws_counted,
            replays: books.replays,
            retries: books.retries,
            settling_seconds: settling.as_secs_f64(),
            audit_seconds: audit.as_secs_f64(),
            faults,
        })
    }

    async fn audit(&self, url: &str) -> Outcome {
        const AUDIT: &str = "\"tombola audit\"";
        let bug = || Failure::refused("BUG", "a soak has its own store");
        let data = self.subject.data().ok_or_else(bug)?;
        let mut command = Process::command(self.subject.program().ok_or_else(bug)?);
        command.args(["audit", "--server", url]);
        match &self.subject.postgres {
            Some(postgres) => command.env("TOMBOLA_POSTGRES_URL", &postgres.url),
            None => command.arg("--data").arg(data),
        };
        let process = Process::spawn(AUDIT, &mut command, &data.join("audit.log"));
        let failed = |error| Failure::refused("NO_PROCESS", format!("no {AUDIT}: {error}"));
        process.map_err(failed)?.finish().await
    }

    fn plan(&self) -> Plan {
        Plan {
            connections: CONNECTIONS,
            outstanding: OUTSTANDING,
            rate: None,
            time: self.times.load,
            calls_max: u64::MAX,
        }
    }
}

/// Calls at a rate until the campaign ends, in rounds with a sample after each.
async fn under_load(
    subject: &Subject,
    links: &Links,
    load: &Load,
    main: &Main,
    (mut plan, every): (Plan, Duration),
) -> Outcome<Vec<Sample>> {
    let (load, numbers, begun) = (Arc::new(load.clone()), Arc::default(), Instant::now());
    let mut samples = Vec::new();
    loop {
        let left = links.stage.clock.until(main.end);
        if left < every / 4 {
            return Ok(samples);
        }
        plan.time = every.min(left);
        let record: Record = call(&load, &plan, &numbers).await?;
        let second = begun.elapsed().as_secs_f64();
        let sample = Sample::take(subject, links, &main.id, (second, &record)).await?;
        samples.push(sample);
    }
}

/// The sums of all campaigns and envelopes, and the version of one campaign.
async fn sums(links: &Links, store: &str, main: &str) -> Outcome<(Vec<Sums>, u32)> {
    let (mut all, mut versions) = (Vec::new(), 0);
    let mut request = ListCampaignsRequest::default();
    loop {
        let page = links.call(0, async |to| {
            to.operators.list_campaigns(request.clone()).await
        });
        let page = page.await.map_err(Failure::answered)?.into_inner();
        for status in page.campaigns {
            let id = status
                .campaign
                .map_or(String::new(), |campaign| campaign.id);
            if id == main {
                versions = status.version;
            }
            let stats = samples::stats(links, &id).await?;
            all.push(Sums::of(store, &id, &stats));
        }
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let envelopes = samples::stats(links, "").await?;
    all.extend(Sums::of_envelopes(store, &envelopes));
    Ok((all, versions))
}
