//! The audit: recomputes the sums from the ledger's entries alone, and compares them with the
//! store.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tombola::{
    chance::Seed,
    ledger::audit::{Audit, PrizeSums, StoreEnvelopes, StoreSums},
    model::{
        Campaign, CampaignId, Moment, PoolKind, PoolNo, PrizeNo, Quantities, UserId, zone::Day,
    },
    store::{
        Cause, DrawAnswer, DrawResult, Entry, Lifecycle, Operation, Stats, Store, Unit, WonUnit,
        entry::{Body, DrawEntry, Span, TakenBackCause},
        view::{DrawCounts, PrizeStats},
    },
};

use super::{
    capped_wins::CappedWins,
    entry_order::{check_numbers, check_sequence},
    envelope_audit,
    envelopes::Acknowledged,
    patience::patiently,
};

mod budget;
mod index;
mod limits;
mod own;

/// Every entry of the ledger, partition by partition.
pub async fn ledger(store: &dyn Store) -> Vec<Entry> {
    let none = vec![0; store.info().partitions as usize];
    ledger_after(store, &none).await
}

/// Every entry after the one of this number in its partition, partition by partition.
pub async fn ledger_after(store: &dyn Store, numbers: &[u64]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (partition, mut last) in (0..).zip(numbers.iter().copied()) {
        loop {
            let page = patiently(|| store.ledger(partition, last, 1000)).await;
            let Some(entry) = page.last() else { break };
            last = entry.id.sequence;
            entries.extend(page);
        }
    }
    entries
}

/// The number of each partition's last entry. The ledger only grows, and a fork begins far beyond
/// the last number: while these numbers stay the same, so does the ledger.
pub async fn heads(store: &dyn Store) -> Vec<u64> {
    let mut heads = Vec::new();
    for partition in 0..store.info().partitions {
        heads.push(patiently(|| store.head(partition)).await);
    }
    heads
}

/// Checks the promises that the ledger alone can show.
pub async fn check(store: &dyn Store, acknowledged: &[DrawAnswer]) {
    check_with(store, acknowledged, &Acknowledged::new()).await;
}

/// Does the same as [`check`], also with the acknowledged grabs.
pub async fn check_with(store: &dyn Store, acknowledged: &[DrawAnswer], grabs: &Acknowledged) {
    let (entries, stats, envelopes) = snapshot(store).await;
    envelope_audit::check(&entries, &envelopes, grabs);
    check_sequence(&entries);
    check_numbers(&entries);
    check_acknowledged(&entries, acknowledged);
    let (named, seeds) = own::prepared(store, &entries, &stats).await;
    check_by_audit(&named, &stats, &envelopes, seeds);
    for stats in stats {
        let id = &stats.view.campaign.id;
        let mut book = Book::default();
        for info in stats.view.versions.iter() {
            let version = patiently(|| store.version(id, info.version)).await;
            book.versions.insert(info.version, version);
        }
        for entry in entries
            .iter()
            .filter(|entry| entry.subject.campaign() == Some(id))
        {
            book.read(entry);
        }
        book.check(&stats);
    }
    index::check(store).await;
}

/// The audit of the product finds nothing either.
fn check_by_audit(
    entries: &[Entry],
    stats: &[Stats],
    envelopes: &envelope_audit::Views,
    seeds: HashMap<CampaignId, Seed>,
) {
    let stores = stats.iter().map(|stats| {
        let id = stats.view.campaign.id.clone();
        (id, store_sums(stats))
    });
    let heads = entries
        .iter()
        .map(|entry| (entry.id.partition, entry.id.sequence));
    let sums = envelopes.sums.iter();
    let store = StoreEnvelopes {
        heads: heads.collect(),
        sums: sums
            .map(|sums| (sums.currency.clone(), sums.clone()))
            .collect(),
    };
    let mut audit = Audit::new(stores.collect(), Some(store)).with_seeds(seeds);
    for entry in entries {
        audit.take(entry);
    }
    let outcome = audit.finish().unwrap();
    let found: Vec<_> = outcome.findings.shown().collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// What a store says of a campaign, for the audit.
pub fn store_sums(stats: &Stats) -> StoreSums {
    let prizes = stats.view.campaign.numbered_prizes();
    StoreSums {
        head: stats.head,
        prizes: prizes
            .map(|(no, prize)| {
                let units = &stats.prizes[usize::from(no.0)];
                let sums = PrizeSums {
                    stock: units.stock,
                    left: units.left,
                    waiting: units.waiting,
                    won: units.won,
                    withdrawn: units.withdrawn,
                };
                (prize.id.to_string(), sums)
            })
            .collect(),
        draws: stats.draws,
    }
}

/// Reads the ledger and the store's sums at the same time: an injector may still deal cards after
/// the last draw.
async fn snapshot(store: &dyn Store) -> (Vec<Entry>, Vec<Stats>, envelope_audit::Views) {
    loop {
        let before = heads(store).await;
        let entries = ledger(store).await;
        let mut stats = Vec::new();
        for view in patiently(|| store.campaigns(None, 1000)).await {
            stats.push(patiently(|| store.stats(&view.campaign.id)).await);
        }
        let envelopes = envelope_audit::read(store, &entries).await;
        if heads(store).await == before {
            return (entries, stats, envelopes);
        }
    }
}

/// Every acknowledged draw is an entry with the same answer (P3).
fn check_acknowledged(entries: &[Entry], acknowledged: &[DrawAnswer]) {
    for answer in acknowledged {
        let index = entries.binary_search_by_key(&answer.ledger, |entry| entry.id);
        let entry = &entries[index.expect("P3: an acknowledged draw is in the ledger")];
        assert_eq!(entry.body, Body::Draw((*answer.entry).clone()), "P3");
        assert_eq!(
            (entry.at, entry.subject.campaign()),
            (answer.at, Some(&answer.campaign.id))
        );
    }
}

/// The sums of a campaign's entries.
#[derive(Default)]
struct Book {
    versions: BTreeMap<u32, std::sync::Arc<Campaign>>,
    prizes: BTreeMap<PrizeNo, PrizeStats>,
    won: BTreeSet<(PoolNo, Unit)>,
    /// Positions of users in personal pools that gave nothing.
    blanks: BTreeSet<(UserId, PoolNo, Unit)>,
    taken_back: BTreeSet<(PoolNo, Unit)>,
    delivered: BTreeMap<(PoolNo, Unit), String>,
    revoked: BTreeSet<(PoolNo, Unit)>,
    draws: DrawCounts,
    paused: BTreeSet<PrizeNo>,
    /// By the version in force.
    unlimited: BTreeSet<PrizeNo>,
    /// Prizes with codes, by the version in force.
    coded: BTreeSet<PrizeNo>,
    /// Codes that were given to wins or passed over, by prize.
    codes_given: BTreeMap<PrizeNo, u64>,
    is_paused: bool,
    is_over: bool,
    is_closed: bool,
    days: BTreeMap<(UserId, Day), (u64, u64)>,
    /// Free draws that are no bonus draws.
    own: BTreeMap<(UserId, Day), u64>,
    hours: BTreeMap<(UserId, Moment), u64>,
    bonus_used: BTreeMap<UserId, u64>,
    granted_on: BTreeMap<(UserId, Day), u64>,
    totals: BTreeMap<UserId, (u64, u64)>,
    capped: CappedWins,
    granted: BTreeMap<UserId, u64>,
    /// Minor units won under a budget.
    spent: BTreeMap<Day, u128>,
}

impl Book {
    fn read(&mut self, entry: &Entry) {
        match &entry.body {
            Body::Applied(applied) => {
                assert!(!self.is_over, "no version after the end");
                if applied.stock_anew {
                    self.prizes.clear();
                    self.renumber_prizes(applied.base_version, applied.version);
                }
                let definition = &self.versions[&applied.version];
                let prizes = definition.numbered_prizes();
                self.unlimited = prizes
                    .filter_map(|(no, prize)| prize.unlimited.then_some(no))
                    .collect();
                self.coded = definition.prizes_with_codes().collect();
                self.add(&applied.stock_added, |prize, units| {
                    prize.stock += units;
                    prize.left += units;
                });
            }
            Body::Operated { operation, .. } => self.operate(operation),
            Body::Draw(draw) => self.draw(entry.at, draw),
            Body::Bonus(bonus) => self.bonus(entry.at, bonus),
            Body::Injected(injected) => self.fill(&injected.granted),
            Body::Dealt { granted, .. } => self.fill(granted),
            Body::TakenBack {
                pool,
                units,
                withdrawn,
                spans,
                cause,
            } => {
                let (_, newest) = self.versions.last_key_value().expect("a version");
                if own::is_off_stock(newest, *pool) {
                    // They have waited in stock, and no draw has named them.
                    assert!(*withdrawn && spans.is_empty());
                    self.fill(units);
                } else {
                    self.check_spans(*pool, units, spans);
                }
                self.take_back(units, *withdrawn);
                if *cause == TakenBackCause::Recovered {
                    self.pass_over(units);
                }
            }
            Body::Missed { .. } => {}
            Body::Delivered { win, reference, .. } => self.deliver(win, reference),
            Body::Revoked { win, withdrawn, .. } => self.revoke(win, *withdrawn),
            Body::Closed {} => self.is_closed = true,
            Body::EnvelopeCreated(_)
            | Body::Grab { .. }
            | Body::Refund { .. }
            | Body::Forked { .. }
            | Body::Recovered { .. } => {
                panic!("no campaign has {:?}", entry.body)
            }
        }
    }

    /// Prizes may have other indexes in this version; stopped prizes stay stopped.
    fn renumber_prizes(&mut self, before: u32, after: u32) {
        let (before, after) = (&self.versions[&before], &self.versions[&after]);
        let paused = self.paused.iter();
        self.paused = paused
            .filter_map(|prize| after.prize_no(before.prize(*prize).id.as_str()))
            .collect();
    }

    fn add(&mut self, units: &Quantities, book: impl Fn(&mut PrizeStats, u64)) {
        for (prize, units) in units {
            book(self.prizes.entry(*prize).or_default(), *units);
        }
    }

    fn fill(&mut self, granted: &Quantities) {
        for (no, units) in granted {
            let prize = self.prizes.entry(*no).or_default();
            if self.unlimited.contains(no) && prize.left < *units {
                prize.stock += units - prize.left;
                prize.left = *units;
            }
            assert!(prize.left >= *units, "never more than stock (P1)");
            prize.left -= units;
            prize.waiting += units;
        }
    }

    /// What is taken back is named: units that nobody has won, at least as many as are counted. (Of
    /// a fill that is cut off, the seed says of which prizes they are.)
    fn check_spans(&mut self, pool: PoolNo, units: &Quantities, spans: &[Span]) {
        let named: u64 = spans.iter().map(|span| span.last - span.first + 1).sum();
        assert!(named >= units.values().sum(), "{units:?} in {spans:?}");
        for span in spans {
            for number in span.first..=span.last {
                let Span { window, fork, .. } = *span;
                let unit = Unit {
                    window,
                    fork,
                    number,
                };
                assert!(!self.won.contains(&(pool, unit)), "P1: {unit:?} was won");
                self.taken_back.insert((pool, unit));
            }
        }
    }

    fn take_back(&mut self, units: &Quantities, withdrawn: bool) {
        self.add(units, |prize, units| {
            prize.waiting -= units;
            if withdrawn {
                prize.withdrawn += units;
            } else {
                prize.left += units;
                prize.returned += units;
            }
        });
    }

    /// As many codes as these units are not given to anybody.
    fn pass_over(&mut self, units: &Quantities) {
        for (prize, units) in units.iter().filter(|(prize, _)| self.coded.contains(prize)) {
            *self.codes_given.entry(*prize).or_default() += units;
            self.prizes.entry(*prize).or_default().skipped += units;
        }
    }

    /// Only a win is delivered, and under one reference.
    fn deliver(&mut self, win: &WonUnit, reference: &str) {
        let unit = (win.pool, win.unit);
        assert!(self.won.contains(&unit), "{win:?} was not won");
        assert!(!self.revoked.contains(&unit), "{win:?} was revoked");
        let first = self.delivered.insert(unit, reference.to_owned());
        assert_eq!(first, None, "{win:?} was delivered");
    }

    /// A unit is revoked at most once (P1), and is in stock again or withdrawn (P2).
    fn revoke(&mut self, win: &WonUnit, withdrawn: bool) {
        let unit = (win.pool, win.unit);
        assert!(self.won.contains(&unit), "{win:?} was not won");
        assert!(self.revoked.insert(unit), "P1: {win:?} revoked twice");
        assert!(
            withdrawn || !self.is_over,
            "{win:?} is in stock after the end"
        );
        let has_code = self.coded.contains(&win.prize);
        assert!(withdrawn || !has_code, "{win:?} is in stock without a code");
        let prize = self.prizes.get_mut(&win.prize).unwrap();
        prize.won -= 1;
        prize.revoked += 1;
        if withdrawn {
            prize.withdrawn += 1;
        } else {
            prize.left += 1;
        }
    }

    fn operate(&mut self, operation: &Operation) {
        match operation {
            Operation::Pause => self.is_paused = true,
            Operation::Resume => self.is_paused = false,
            Operation::Close => self.is_over = true,
            Operation::PausePrize { prize } => {
                self.paused.insert(*prize);
            }
            Operation::ResumePrize { prize } => {
                self.paused.remove(prize);
            }
            Operation::Grant { users, draws, .. } => {
                for user in users {
                    *self.granted.entry(user.clone()).or_default() += u64::from(*draws);
                }
            }
            Operation::ImportCodes {
                prize,
                first,
                codes,
                ..
            } => {
                let prize = self.prizes.entry(*prize).or_default();
                assert_eq!(*first, prize.stock, "codes follow each other");
                prize.stock += codes;
                prize.left += codes;
            }
            Operation::Recall { .. } | Operation::Block { .. } | Operation::Unblock { .. } => {}
        }
    }

    fn draw(&mut self, at: Moment, draw: &DrawEntry) {
        assert!(!self.is_over && !self.is_paused, "no draw while it is shut");
        let campaign = self.versions[&draw.version].clone();
        assert!(campaign.start <= at && at < campaign.end, "P5: in its time");
        self.check_pools(at, draw, &campaign);
        let mut counted = 0;
        for result in &draw.results {
            match result {
                DrawResult::NotWon { consolation, cause } => {
                    assert_eq!(*consolation, campaign.consolation.is_some());
                    self.draws.consolations += u64::from(*consolation);
                    self.draws.nothings += u64::from(!consolation);
                    self.not_won(*cause, (at, draw), &campaign, counted);
                }
                DrawResult::Won {
                    prize,
                    pool,
                    unit,
                    release,
                    code,
                    guarantee: _,
                } => {
                    assert_eq!(code.is_some(), campaign.prize(*prize).codes);
                    if let Some(code) = code {
                        let given = self.codes_given.entry(*prize).or_default();
                        assert_eq!(code, given, "each code once, and none left out");
                        assert!(*code < self.prizes[prize].stock, "it was imported");
                        *given += 1;
                    }
                    assert!(self.won.insert((*pool, *unit)), "P1: {unit:?} won twice");
                    let is_back = self.taken_back.contains(&(*pool, *unit));
                    assert!(!is_back, "P1: {unit:?} was taken back");
                    assert!(!self.paused.contains(prize), "P7: of a stopped prize");
                    assert!(release.is_none_or(|release| release <= at), "P7: early");
                    self.spend(at, &campaign, *prize);
                    self.take(&campaign, *pool, *prize);
                    self.draws.wins += 1;
                    counted += u64::from(campaign.prize(*prize).counts_as_win);
                    self.capped.count(&draw.user, at, &campaign, *prize);
                }
            }
        }
        self.check_limits(at, draw, &campaign, counted);
    }

    /// The cause of a result without a unit is possible, after `counted` wins of the same draw.
    fn not_won(
        &mut self,
        cause: Cause,
        (at, draw): (Moment, &DrawEntry),
        campaign: &Campaign,
        counted: u64,
    ) {
        let limits = campaign.limits_of(&draw.segments);
        let limit = limits.wins_per_user.map(u64::from);
        let wins = self.totals.get(&draw.user).map_or(0, |(_, wins)| *wins);
        let is_limited = limit.is_some_and(|limit| wins + counted >= limit);
        let is_capped = |prize| self.capped.is_reached(&draw.user, at, campaign, prize);
        let is_any_capped = campaign.capped_prizes().any(|(prize, _)| is_capped(prize));
        match cause {
            Cause::Forfeited { prize, pool, unit } => {
                assert!(self.won.insert((pool, unit)), "P1: {unit:?} drawn twice");
                assert!(!self.paused.contains(&prize), "a stopped prize is held");
                let is_beyond = campaign.prize(prize).counts_as_win && is_limited;
                let is_over = self.is_over_budget(at, campaign, prize);
                let is_denied = is_beyond || is_capped(prize) || is_over;
                assert!(is_denied, "anybody may have it");
                self.take_back(&Quantities::from([(prize, 1)]), false);
                self.prizes.entry(prize).or_default().forfeited += 1;
            }
            Cause::Blank { pool, unit } => match campaign.pool(pool).kind {
                PoolKind::Personal(_) => {
                    let own = (draw.user.clone(), pool, unit);
                    assert!(self.blanks.insert(own), "{unit:?} drawn twice");
                }
                _ => assert!(self.won.insert((pool, unit)), "P1: {unit:?} drawn twice"),
            },
            Cause::NothingDue => {
                let is_over = self.is_any_over_budget(at, campaign);
                assert!(!is_limited && !is_any_capped && !is_over, "{draw:?}");
            }
            Cause::Budget => {
                let is_over = self.is_any_over_budget(at, campaign);
                assert!(!is_limited && !is_any_capped && is_over, "{draw:?}");
            }
            Cause::WinsLimit => assert!(is_limited, "{draw:?}"),
            Cause::PrizeCap => assert!(!is_limited && is_any_capped, "{draw:?}"),
            Cause::ConsolationOnly => assert!(draw.consolation_only),
            Cause::Blocked => assert!(!draw.consolation_only),
            Cause::Unknown => panic!("this version names the cause: {draw:?}"),
        }
    }

    /// The store has the same sums (P2).
    fn check(&self, stats: &Stats) {
        assert!(stats.balanced(), "P2: {stats:#?}");
        for (no, prize) in (0..).map(PrizeNo).zip(&stats.prizes) {
            let mut expected = self.prizes.get(&no).copied().unwrap_or_default();
            expected.released = prize.released;
            assert_eq!(
                *prize, expected,
                "P2: the store's sums are the ledger's, {no:?}"
            );
            let definition = stats.view.campaign.prize(no);
            assert!(!definition.has_fixed_stock() || prize.stock == definition.stock);
        }
        assert_eq!(stats.draws, self.draws);
        let users: BTreeSet<_> = self.totals.keys().chain(self.granted.keys()).collect();
        assert_eq!(stats.users, users.len() as u64, "users with a record");
        assert_eq!(self.is_closed, stats.view.lifecycle == Lifecycle::Closed);
    }
}
