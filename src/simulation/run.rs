//! One run: a campaign from its start to its end, with the crowd of one seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tokio::runtime;

use super::{
    crowd::{Arrival, Crowd},
    users::{UserSums, Users},
};
use crate::{
    chance::{MasterKey, Nonce, Salt, Seed, Stream},
    injector::{Injector, alarm::WATCH},
    model::{
        Campaign, CampaignId, Moment, OperatorId, PoolKind, PrizeNo, RequestId, SegmentId, UserId,
        budget::{Spent, SpentDay},
        limits::LimitKind,
        schedule::Unclaimed,
        zone::{Day, Window},
    },
    store::{
        ApplyCommand, Author, Cause, DrawCommand, DrawResult, Refusal, Result, Stats, Store,
        StoreError,
        clock::{Clock, ManualClock},
        memory::MemoryStore,
    },
};

/// How long before its start an hour is injected; what `tombola serve` does by default.
const LEAD: Duration = Duration::from_secs(300);
/// How long before its start the campaign is applied.
const APPLIED_BEFORE: Duration = Duration::from_secs(3600);
/// How long after its arrival the store may begin a draw: the clock stands meanwhile.
const PATIENCE: Duration = Duration::from_secs(3600);
/// After how many draws of a window it is asked whether the run is late.
const DRAWS_BETWEEN: usize = 1_000;

/// What came of a run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) seed: u32,
    /// Draws that were made.
    pub(super) draws: u64,
    /// Draws that were refused, by the limit.
    pub(super) refused: BTreeMap<&'static str, u64>,
    pub(super) consolations: u64,
    pub(super) nothings: u64,
    pub(super) users: UserSums,
    /// By window: draws that were made.
    pub(super) draws_by_window: Vec<u32>,
    /// By prize number.
    pub(super) prizes: Vec<PrizeRun>,
    /// Local days on which the budget held a prize: a unit of it waited at the end of an hour, its
    /// card was forfeited, nothing else was there, or draws could take it off stock.
    pub(super) budget_days: BTreeSet<Day>,
}

/// What came of one prize.
#[derive(Clone, Debug, Default)]
pub(super) struct PrizeRun {
    /// A schedule releases it: cards that wait in a deck are not unclaimed.
    is_scheduled: bool,
    /// Personal pools or guarantees give it.
    is_off_stock: bool,
    /// It is unlimited, or stock had a unit of it at the end of the last window.
    is_there: bool,
    /// Units that were released so far.
    released: u64,
    /// Units that were not given out in the end.
    pub(super) left: u64,
    /// When the last unit was won, if all were.
    pub(super) ran_out: Option<Moment>,
    pub(super) windows: Vec<PrizeWindow>,
}

/// Units of a prize in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PrizeWindow {
    pub(super) released: u32,
    pub(super) won: u32,
    /// Released and neither won nor taken back at the end of the window.
    pub(super) unclaimed: u32,
}

/// Makes an empty store on a clock.
pub(super) type NewStore = fn(Arc<dyn Clock>) -> MemoryStore;

/// Plays a campaign through with the chance of a seed; none if it becomes late.
pub(super) fn play(
    campaign: &Arc<Campaign>,
    crowd: &Crowd,
    seed: u32,
    is_late: &dyn Fn() -> bool,
) -> Result<Option<Run>> {
    play_on(MemoryStore::forgetful, campaign, crowd, seed, is_late)
}

/// As [`play`], on such a store.
pub(super) fn play_on(
    new_store: NewStore,
    campaign: &Arc<Campaign>,
    crowd: &Crowd,
    seed: u32,
    is_late: &dyn Fn() -> bool,
) -> Result<Option<Run>> {
    // One thread, so that background fills happen in the same order each time.
    let runtime = runtime::Builder::new_current_thread().build();
    let runtime =
        runtime.map_err(|error| StoreError::corrupt(format!("no runtime starts: {error}")))?;
    runtime.block_on(async {
        let mut stage = Stage::open(new_store, campaign, crowd, seed).await?;
        let windows: Vec<Window> = windows(campaign).collect();
        let means = crowd.draws_by_window(campaign, &windows);
        for (index, (window, mean)) in windows.iter().zip(means).enumerate() {
            if is_late() || !stage.play(index, window, mean, is_late).await? {
                return Ok(None);
            }
        }
        stage.end().await.map(Some)
    })
}

/// The windows of a campaign.
pub(super) fn windows(campaign: &Campaign) -> impl Iterator<Item = Window> + '_ {
    let (start, end) = (campaign.start, campaign.end);
    campaign.zone.windows(start, start, end)
}

/// Bytes that depend on a seed and on what they are for.
fn bytes(seed: u32, purpose: &[u8]) -> [u8; 32] {
    let digest = Sha256::new().chain_update(b"tombola simulation ");
    digest
        .chain_update(seed.to_be_bytes())
        .chain_update(purpose)
        .finalize()
        .into()
}

/// A run that goes on.
struct Stage<'a> {
    campaign: &'a Arc<Campaign>,
    crowd: &'a Crowd,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    injector: Arc<Injector>,
    /// A schedule returns units that nobody took.
    returns_units: bool,
    /// The last tick between draws.
    ticked: Moment,
    chance: Stream,
    request: RequestId,
    users: Users,
    /// By the number of the user; empty if nobody is in a segment.
    memberships: Vec<Vec<SegmentId>>,
    /// What was won of the budget.
    spent: (SpentDay, u64),
    run: Run,
}

impl<'a> Stage<'a> {
    /// Applies the campaign some time before its start.
    async fn open(
        new_store: NewStore,
        campaign: &'a Arc<Campaign>,
        crowd: &'a Crowd,
        seed: u32,
    ) -> Result<Self> {
        let clock = Arc::new(ManualClock::at(campaign.start - APPLIED_BEFORE));
        let store: Arc<dyn Store> = Arc::new(new_store(Arc::clone(&clock) as _));
        let key = MasterKey::from_bytes(bytes(seed, b"key"));
        let nonce = Nonce(bytes(seed, b"nonce"));
        let commitment = key.campaign_seed(&campaign.id, &nonce).commitment();
        let request = RequestId::parse("", "simulation");
        let operator = OperatorId::parse("", "simulation");
        let (Ok(request), Ok(operator)) = (request, operator) else {
            unreachable!("the ids are fixed");
        };
        let command = ApplyCommand {
            campaign: Arc::clone(campaign),
            base_version: 0,
            nonce,
            commitment,
            author: Author {
                request: request.clone(),
                operator,
                reason: String::new(),
                on_behalf_of: None,
                // A campaign that requires approvals needs identities.
                authenticated: true,
                approved: None,
            },
        };
        store.apply(command).await?;
        // Personal pools depend on users' pseudonyms, so these are the same each time too.
        let partition = store.partition_of(campaign.id.as_str());
        let salt = Salt(bytes(seed, b"salt"));
        store.salt(partition, campaign.id.as_str(), salt).await?;
        let injector = Injector::new(Arc::clone(&store), key, LEAD).not_watching_draws();
        let injector = Arc::new(injector);
        injector.tick().await?;
        Ok(Self {
            campaign,
            crowd,
            clock,
            store,
            injector,
            returns_units: returns_units(campaign),
            ticked: campaign.start - APPLIED_BEFORE,
            chance: Seed::from_bytes(bytes(seed, b"crowd")).stream(&[b"arrivals"]),
            request,
            memberships: crowd.memberships(
                &mut Seed::from_bytes(bytes(seed, b"segments")).stream(&[b"memberships"]),
            ),
            users: Users::new(campaign, crowd.users.get()),
            spent: (SpentDay::default(), 0),
            run: Run {
                seed,
                draws: 0,
                refused: BTreeMap::new(),
                consolations: 0,
                nothings: 0,
                users: UserSums::default(),
                draws_by_window: Vec::new(),
                budget_days: BTreeSet::new(),
                prizes: campaign
                    .numbered_prizes()
                    .map(|(no, prize)| PrizeRun {
                        is_scheduled: is_scheduled(campaign, no),
                        is_off_stock: campaign.prizes_off_stock().any(|other| other == no),
                        is_there: prize.unlimited || prize.stock > 0,
                        ..PrizeRun::default()
                    })
                    .collect(),
            },
        })
    }

    /// Plays one window: the injector's tick before it, its draws, and what stands at its end. It
    /// stops in between, and says `false`, if it becomes late.
    async fn play(
        &mut self,
        index: usize,
        window: &Window,
        mean: f64,
        is_late: &dyn Fn() -> bool,
    ) -> Result<bool> {
        self.clock.set(window.start - LEAD.min(APPLIED_BEFORE));
        self.injector.tick().await?;
        self.run.draws_by_window.push(0);
        for prize in &mut self.run.prizes {
            prize.windows.push(PrizeWindow::default());
        }
        let crowd = self.crowd;
        let mut chance = std::mem::replace(&mut self.chance, Seed::from_bytes([0; 32]).stream(&[]));
        for (count, arrival) in crowd.arrivals(window, mean, &mut chance).enumerate() {
            if count % DRAWS_BETWEEN == DRAWS_BETWEEN - 1 && is_late() {
                return Ok(false);
            }
            self.draw(index, arrival).await?;
        }
        self.chance = chance;
        // The last moment of the window: its unclaimed units are still there.
        self.clock.set(window.end - Duration::from_micros(1));
        self.injector.tick().await?;
        self.note(index, &self.store.stats(&self.campaign.id).await?);
        Ok(true)
    }

    /// Ticks before a draw if a minute has passed, as services do each minute: until a tick takes
    /// units back that nobody took in time, draws still find them. If several minutes have passed,
    /// the last of their ticks does what all of them would have done.
    async fn tick_before(&mut self, at: Moment) -> Result<()> {
        let passed = at.since(self.ticked).as_secs() / WATCH.as_secs();
        if !self.returns_units || passed == 0 {
            return Ok(());
        }
        self.ticked = self.ticked + WATCH * u32::try_from(passed).unwrap_or(u32::MAX);
        self.clock.set(self.ticked);
        self.injector.tick().await
    }

    async fn draw(&mut self, index: usize, arrival: Arrival) -> Result<()> {
        self.tick_before(arrival.at).await?;
        self.clock.set(arrival.at);
        let user = format!("user-{:08}", arrival.user);
        let Ok(user) = UserId::parse("", &user) else {
            unreachable!("the id is fixed but for its digits");
        };
        let segments = self.memberships.get(arrival.user as usize);
        let command = DrawCommand {
            campaign: CampaignId::clone(&self.campaign.id),
            user,
            request: self.request.clone(),
            count: 1,
            funding: arrival.funding,
            payment_ref: String::new(),
            consolation_only: false,
            segments: segments.cloned().unwrap_or_default(),
            expire: None,
            not_after: arrival.at + PATIENCE,
            chance: None,
        };
        match self.injector.draw(command).await {
            Ok(answer) => {
                self.users.drew(arrival.user, &answer);
                self.run.draws += 1;
                self.run.draws_by_window[index] += 1;
                for result in &answer.entry.results {
                    match *result {
                        DrawResult::Won { prize, .. } => self.run.won(prize, index, arrival.at),
                        DrawResult::NotWon {
                            consolation: true, ..
                        } => self.run.consolations += 1,
                        DrawResult::NotWon { .. } => self.run.nothings += 1,
                    }
                }
                self.spend(arrival.at, &answer.entry.results);
                Ok(())
            }
            Err(StoreError::Refused(Refusal::Limit { reached, .. })) => {
                self.users.refused(arrival.user);
                *self.run.refused.entry(name(reached.limit)).or_default() += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Counts what was won of the budget, and notes the day if the budget holds a prize.
    fn spend(&mut self, at: Moment, results: &[DrawResult]) {
        let Some(budget) = &self.campaign.budget else {
            return;
        };
        let today = self.campaign.zone.day(at);
        let mut spent = self.spent_on(today);
        let mut prizes = (0..).map(PrizeNo).zip(&self.run.prizes);
        if prizes.any(|(no, prize)| prize.is_off_stock && prize.is_there && budget.holds(no, spent))
        {
            self.run.budget_days.insert(today);
        }
        for result in results {
            let is_held = match *result {
                DrawResult::Won { prize, .. } => {
                    spent.add(budget.value(prize));
                    false
                }
                DrawResult::NotWon {
                    cause: Cause::Forfeited { prize, .. },
                    ..
                } => budget.holds(prize, spent),
                DrawResult::NotWon { cause, .. } => cause == Cause::Budget,
            };
            if is_held {
                self.run.budget_days.insert(today);
            }
        }
        self.spent.0.set(today, spent);
        self.spent.1 = spent.total;
    }

    /// What was won of the budget.
    fn spent_on(&self, today: Day) -> Spent {
        let (day, total) = self.spent;
        Spent {
            today: day.on(today),
            total,
        }
    }

    /// Notes what is released and unclaimed at the end of a window.
    fn note(&mut self, index: usize, stats: &Stats) {
        let today = self.campaign.zone.day(self.clock.now());
        let spent = self.spent_on(today);
        let prizes = (0..).map(PrizeNo).zip(&mut self.run.prizes);
        for ((no, prize), stats) in prizes.zip(&stats.prizes) {
            prize.is_there = self.campaign.prize(no).unlimited || stats.left > 0;
            let window = &mut prize.windows[index];
            window.released = narrow(stats.released.saturating_sub(prize.released));
            prize.released = stats.released;
            let taken = stats.won + stats.revoked + stats.returned;
            if prize.is_scheduled {
                window.unclaimed = narrow(stats.released.saturating_sub(taken).min(stats.waiting));
            }
            let budget = self.campaign.budget.as_ref();
            if window.unclaimed > 0 && budget.is_some_and(|budget| budget.holds(no, spent)) {
                self.run.budget_days.insert(today);
            }
        }
    }

    /// Ends the campaign, and counts its users.
    async fn end(mut self) -> Result<Run> {
        self.clock.set(self.campaign.end);
        self.injector.tick().await?;
        let stats = self.store.stats(&self.campaign.id).await?;
        let campaign = self.campaign.prizes.iter();
        for ((prize, stats), planned) in self.run.prizes.iter_mut().zip(&stats.prizes).zip(campaign)
        {
            prize.left = stats.left + stats.waiting;
            if prize.left > 0 || planned.unlimited {
                prize.ran_out = None;
            }
        }
        self.run.users = self.users.sums();
        Ok(self.run)
    }
}

impl Run {
    fn won(&mut self, prize: PrizeNo, index: usize, at: Moment) {
        let prize = &mut self.prizes[usize::from(prize.0)];
        prize.windows[index].won += 1;
        // If nothing is left in the end, this was the last one.
        prize.ran_out = Some(at);
    }
}

/// Whether a schedule returns units that nobody took.
fn returns_units(campaign: &Campaign) -> bool {
    let mut schedules = campaign.schedules();
    schedules.any(|(_, plan)| plan.unclaimed != Unclaimed::Keep)
}

/// Whether a schedule plans units of a prize.
fn is_scheduled(campaign: &Campaign, prize: PrizeNo) -> bool {
    let mut pools = campaign.pools.iter();
    pools.any(|pool| matches!(&pool.kind, PoolKind::Schedule(plan) if plan.plans(prize)))
}

fn narrow(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// The name of a limit as callers see it in errors.
fn name(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::DrawsPerHour => "DRAWS_PER_HOUR",
        LimitKind::DrawsPerDay => "DRAWS_PER_DAY",
        LimitKind::PaidDrawsPerDay => "PAID_DRAWS_PER_DAY",
        LimitKind::DrawsPerUser => "DRAWS_PER_USER",
        LimitKind::GrantedPerDay => "GRANTED_PER_DAY",
    }
}
