//! A world to test in: a store with data of its own, an injector, and a clock that only the test
//! moves.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::{sleep, timeout};
use tombola::{
    chance::MasterKey,
    injector::{ImportCodes, ImportedCodes, Injector},
    model::{Campaign, Moment, PoolNo, PrizeNo, limits::UserRecord},
    store::{
        DrawAnswer, DrawCommand, OperateCommand, Operated, Operation, Refusal, Result, Stats,
        Store, StoreError, WinCommand, WinOperated, WinOperation, WindowView, WonUnit,
        entry::{Body, Entry},
        view::{DrawCounts, PrizeStats},
    },
};

use super::{
    answers::Answer as _,
    at, audit, author,
    between::{Between, Meddler},
    campaign,
    envelopes::Acknowledged,
    minutes, user,
    words::{SPRING, all_of, campaign_id, new_request},
};

/// The time at which a world begins: before every campaign of the tests.
pub const LONG_BEFORE: &str = "2026-01-01T00:00:00Z";

/// The master key of every world.
pub fn key() -> MasterKey {
    MasterKey::from_bytes([7; 32])
}

/// Data on which a store can be opened again and again, and their clock.
#[async_trait]
pub trait Host: Send + Sync {
    /// Opens the store on these data; no other store may be open on them.
    async fn open(&self) -> Arc<dyn Store>;
    /// Opens one more store on these data, if several can be open at once.
    async fn open_another(&self) -> Option<Arc<dyn Store>> {
        None
    }
    /// Removes the index of due campaigns, as in data of a version without it. No store may be
    /// open.
    async fn remove_index(&self);
    /// Moves the store's clock, forward or back.
    async fn set_time(&self, now: Moment);
    /// The time that the clock shows.
    fn time(&self) -> Moment;
}

/// A world to test in. A clone uses the same store and clock.
#[derive(Clone)]
pub struct World {
    host: Arc<dyn Host>,
    opened: Option<(Arc<dyn Store>, Arc<Injector>)>,
    acknowledged: Arc<Mutex<Vec<DrawAnswer>>>,
    /// The packets that were acknowledged so far.
    pub grabs: Arc<Mutex<Acknowledged>>,
}

impl World {
    pub async fn new(host: impl Host + 'static) -> Self {
        let mut world = Self {
            host: Arc::new(host),
            opened: None,
            acknowledged: Arc::default(),
            grabs: Arc::default(),
        };
        world.reopen().await;
        world
    }

    /// Closes the store and opens it again on the same data.
    pub async fn reopen(&mut self) {
        self.opened = None;
        let store = self.host.open().await;
        let injector = Injector::new(store.clone(), key(), minutes(5));
        self.opened = Some((store, Arc::new(injector)));
    }

    /// Closes the store, removes the index of due campaigns, and opens the store again.
    pub async fn reopen_without_index(&mut self) {
        self.opened = None;
        self.host.remove_index().await;
        self.reopen().await;
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.opened.as_ref().unwrap().0
    }

    pub fn injector(&self) -> &Arc<Injector> {
        &self.opened.as_ref().unwrap().1
    }

    /// Another replica of the service. It has its own injector, and its own store if the data can
    /// have several.
    pub async fn another_replica(&self) -> Self {
        let another = self.host.open_another().await;
        let store = another.unwrap_or_else(|| self.store().clone());
        let injector = Injector::new(store.clone(), key(), minutes(5));
        Self {
            opened: Some((store, Arc::new(injector))),
            ..self.clone()
        }
    }

    /// One more injector on the same store.
    pub fn another_injector(&self) -> Arc<Injector> {
        Arc::new(Injector::new(self.store().clone(), key(), minutes(5)))
    }

    /// An injector whose steps the test interrupts.
    pub fn injector_with(&self, meddler: impl Meddler + 'static) -> Arc<Injector> {
        Arc::new(Injector::new(self.store_with(meddler), key(), minutes(5)))
    }

    /// The store, of which the test interrupts the steps.
    pub fn store_with(&self, meddler: impl Meddler + 'static) -> Arc<dyn Store> {
        let store = self.store().clone();
        Arc::new(Between { store, meddler })
    }

    /// Moves the clock to a moment in RFC 3339 form.
    pub async fn at(&self, time: &str) {
        self.host.set_time(at(time)).await;
    }

    pub async fn set_time(&self, now: Moment) {
        self.host.set_time(now).await;
    }

    /// Moves the clock forward.
    pub async fn pass(&self, time: std::time::Duration) {
        self.host.set_time(self.host.time() + time).await;
    }

    pub fn time(&self) -> Moment {
        self.host.time()
    }

    /// Applies a campaign and moves the clock to its start.
    pub async fn begin(&self, yaml: &str) -> Arc<Campaign> {
        let campaign = campaign(yaml);
        self.try_apply(campaign.clone(), 0).await.unwrap();
        self.set_time(campaign.start).await;
        campaign
    }

    /// Applies a new version of a campaign, based on the current one.
    pub async fn change(&self, yaml: &str) -> Operated {
        let campaign = campaign(yaml);
        let current = self.store().campaign(&campaign.id).await.unwrap().version;
        self.try_apply(campaign, current).await.unwrap()
    }

    pub async fn try_apply(&self, campaign: Arc<Campaign>, base: u32) -> Result<Operated> {
        let author = author(&new_request());
        self.injector().apply(campaign, base, author).await
    }

    pub async fn tick(&self) {
        self.injector().tick().await.unwrap();
    }

    /// Makes a change to the campaign.
    pub async fn operate(&self, operation: Operation) -> Operated {
        self.try_operate(operation).await.unwrap()
    }

    pub async fn try_operate(&self, operation: Operation) -> Result<Operated> {
        self.operate_as(&new_request(), operation).await
    }

    pub async fn operate_as(&self, request: &str, operation: Operation) -> Result<Operated> {
        let command = OperateCommand {
            campaign: campaign_id(SPRING),
            operation,
            blocks: Vec::new(),
            author: author(request),
        };
        self.injector().operate(command).await
    }

    /// Imports codes of a prize.
    pub async fn import(&self, prize: &str, first: u64, codes: &[String]) -> ImportedCodes {
        self.try_import(prize, first, codes).await.unwrap()
    }

    pub async fn try_import(
        &self,
        prize: &str,
        first: u64,
        codes: &[String],
    ) -> Result<ImportedCodes> {
        let import = ImportCodes {
            campaign: campaign_id(SPRING),
            prize_id: prize.into(),
            first,
            codes: codes.to_vec(),
            author: author(&new_request()),
        };
        self.injector().import_codes(import).await
    }

    /// Operates on a win.
    pub async fn try_operate_win(
        &self,
        win: &WonUnit,
        operation: WinOperation,
    ) -> Result<WinOperated> {
        self.operate_win_as(&new_request(), win, operation).await
    }

    pub async fn operate_win_as(
        &self,
        request: &str,
        win: &WonUnit,
        operation: WinOperation,
    ) -> Result<WinOperated> {
        let command = WinCommand {
            campaign: campaign_id(SPRING),
            win: win.clone(),
            operation,
            author: author(request),
        };
        self.store().operate_win(command).await
    }

    pub async fn try_draw(&self, command: DrawCommand) -> Result<DrawAnswer> {
        let answer = self.injector().draw(command).await?;
        self.acknowledged.lock().unwrap().push(answer.clone());
        Ok(answer)
    }

    pub async fn draw(&self, command: DrawCommand) -> DrawAnswer {
        let shown = format!("{command:?}");
        let answer = self.try_draw(command).await;
        answer.unwrap_or_else(|error| panic!("{error}: {shown}"))
    }

    /// Makes a draw that must be refused, and checks that it cost nothing and changed nothing.
    pub async fn refused(&self, command: DrawCommand) -> Refusal {
        let store = &**self.store();
        let before = self.traces(&command).await;
        let heads = audit::heads(store).await;
        let refusal = match self.try_draw(command.clone()).await {
            Err(StoreError::Refused(refusal)) => refusal,
            other => panic!("not refused: {other:?}"),
        };
        let after = self.traces(&command).await;
        assert_eq!(after, before, "{refusal}");
        let new = audit::ledger_after(store, &heads).await;
        assert!(new.iter().all(is_dealt), "{refusal}: {new:?}");
        refusal
    }

    /// The refusal of a draw from a campaign of which there may be no traces.
    pub async fn refusal_of(&self, command: DrawCommand) -> Refusal {
        match self.try_draw(command).await {
            Err(StoreError::Refused(refusal)) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Makes all these draws at once, each in a task; returns their results in order, once nothing
    /// is filled or dealt beside the draws any more.
    pub async fn storm(&self, commands: Vec<DrawCommand>) -> Vec<Result<DrawAnswer>> {
        let commands = Arc::new(commands);
        let draw = |i: usize| {
            let (world, commands) = (self.clone(), commands.clone());
            async move { world.try_draw(commands[i].clone()).await }
        };
        // Each task that works beside the draws holds the injector.
        let holders = || Arc::strong_count(self.injector());
        let before = holders();
        let answers = all_of(commands.len(), draw).await;
        let rest = async {
            while holders() > before {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let rested = timeout(Duration::from_secs(60), rest).await;
        rested.expect("what works beside the draws must end");
        answers
    }

    /// Draws a hundred at a time until a draw wins nothing; returns the answers.
    pub async fn drain(&self) -> Vec<DrawAnswer> {
        let mut answers = Vec::new();
        loop {
            let hundred = DrawCommand {
                count: 100,
                ..super::draw("drainer")
            };
            answers.push(self.draw(hundred).await);
            if answers.last().unwrap().wins() < 100 {
                return answers;
            }
        }
    }

    /// Draws like [`Self::drain`], and returns the number of wins.
    pub async fn drained(&self) -> usize {
        let answers = self.drain().await;
        answers.iter().map(|answer| answer.wins()).sum()
    }

    pub async fn stats(&self) -> Stats {
        self.store().stats(&campaign_id(SPRING)).await.unwrap()
    }

    /// The sums of a prize's units.
    pub async fn prize(&self, id: &str) -> PrizeStats {
        let stats = self.stats().await;
        let no = stats.view.campaign.prize_no(id).unwrap();
        stats.prizes[usize::from(no.0)]
    }

    pub async fn prize_no(&self, id: &str) -> PrizeNo {
        let view = self.store().campaign(&campaign_id(SPRING)).await.unwrap();
        view.campaign.prize_no(id).unwrap()
    }

    pub async fn record(&self, id: &str) -> UserRecord {
        let view = self.store().user(&campaign_id(SPRING), &user(id)).await;
        view.unwrap().record
    }

    /// Every frozen window of the first pool, in order of start.
    pub async fn windows(&self) -> Vec<WindowView> {
        let id = campaign_id(SPRING);
        let windows = self.store().windows(&id, PoolNo(0), Moment::EPOCH, 10_000);
        windows.await.unwrap()
    }

    /// The number of draws that were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// The times of this user's draws.
    pub async fn draw_times(&self, user: &str) -> Vec<Moment> {
        let entries = audit::ledger(&**self.store()).await;
        let is_mine =
            |entry: &&Entry| matches!(&entry.body, Body::Draw(d) if d.user.as_str() == user);
        entries
            .iter()
            .filter(is_mine)
            .map(|entry| entry.at)
            .collect()
    }

    /// The number of ledger entries, without those of cards dealt ahead of draws.
    pub async fn ledger_length(&self) -> usize {
        let entries = audit::ledger(&**self.store()).await;
        entries.iter().filter(|entry| !is_dealt(entry)).count()
    }

    /// Audits everything that this world did: see [`audit`].
    pub async fn audit(&self) {
        let acknowledged = self.acknowledged.lock().unwrap().clone();
        let grabs = self.grabs.lock().unwrap().clone();
        audit::check_with(&**self.store(), &acknowledged, &grabs).await;
    }

    async fn traces(&self, command: &DrawCommand) -> Traces {
        let stats = self.store().stats(&command.campaign).await.ok();
        let record = self.store().user(&command.campaign, &command.user).await;
        Traces {
            draws: stats.map(|stats| (stats.draws, stats.users)),
            record: record.map(|view| view.record).ok(),
        }
    }
}

/// Cards are dealt ahead of draws, and beside them.
fn is_dealt(entry: &Entry) -> bool {
    matches!(entry.body, Body::Dealt { .. })
}

/// The data besides the ledger that a successful draw changes, and a refused one must not.
#[derive(Debug, PartialEq)]
struct Traces {
    draws: Option<(DrawCounts, u64)>,
    record: Option<UserRecord>,
}
