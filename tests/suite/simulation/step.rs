//! Runs a step, and compares its result, and then the whole store, with the model.

use std::{future::Future, sync::Arc};

use proptest::sample::Index;
use tombola::{
    model::{Campaign, Moment, PoolNo, PrizeNo},
    store::{
        BonusCommand, DrawAnswer, DrawCommand, DrawResult, Operation, Refusal, Result, StoreError,
        WinOperation, WonUnit,
    },
};

use super::{
    envelopes::Envelopes,
    model::{
        BUDGET_A_DAY, BUDGET_IN_ALL, CHARM_WITHIN, DECK_WINS, DRAWS_IN_ALL, Expected, FREE_A_DAY,
        FREE_AN_HOUR, Fate, GOLD, GOLD_A_DAY, GOLD_AN_HOUR, GOLD_WINS, GRANTED_A_DAY, Game, Model,
        OWN, PAID_A_DAY, PROMISED_WITHIN, ROUND, STAR_RISEN, STAR_WITHIN, STICKER, STICKERS_A_DAY,
        STICKERS_IN_ALL, TOKEN, TOKENS, WINS_IN_ALL, WORTH,
    },
    operations::{Step, USERS},
};
use crate::support::{DrawWords as _, World, bonus, campaign, draw, hours, seconds, user, users};

/// A running simulation.
struct Simulation {
    world: World,
    model: Model,
    envelopes: Envelopes,
    campaign: Arc<Campaign>,
    stock: u64,
    version: u32,
    game: Game,
}

/// Runs a simulation.
pub async fn run(world: impl Future<Output = World>, steps: Vec<Step>, game: Game) {
    let world = world.await;
    let campaign = world.begin(&yaml(2000, 3, game)).await;
    let mut simulation = Simulation {
        world,
        model: Model::new(game),
        envelopes: Envelopes::default(),
        campaign,
        stock: 2000,
        version: 1,
        game,
    };
    for step in steps {
        let is_tick = matches!(step, Step::Tick);
        simulation.step(step).await;
        simulation.check(is_tick).await;
    }
}

fn yaml(stock: u64, per_hour: u64, game: Game) -> String {
    let own = match game {
        Game::Odds => format!(
            "odds: {{coupon: 40%, star: 5%, moon: 5%}}
              fallback: sticker
              guarantees:
                - id: star
                  prizes: [star, moon]
                  within: {STAR_WITHIN}
                  ramp: [{{from: {STAR_RISEN}, add: 100%}}]
                  among: [star]
                - {{id: charm, prizes: [charm], within: {CHARM_WITHIN}}}"
        ),
        Game::Deck => {
            let [blanks, coupons, stars] = ROUND;
            let size = blanks + coupons + stars;
            format!(
                "fallback: sticker
              deck:
                size: {size}
                cards: {{coupon: {coupons}, star: {stars}}}
                onExhausted: RESHUFFLE"
            )
        }
    };
    let cny = |units: u64| format!("{{currencyCode: CNY, units: {units}}}");
    let (a_day, in_all) = (cny(BUDGET_A_DAY), cny(BUDGET_IN_ALL));
    let [coupon, mug, sticker, star, token, moon, charm] = WORTH.map(cny);
    format!(
        "
        endTime: 2026-11-27T00:00:00+08:00
        limits:
          drawsPerDay: {FREE_A_DAY}
          drawsPerHour: {FREE_AN_HOUR}
          paidDrawsPerDay: {PAID_A_DAY}
          grantedPerDay: {GRANTED_A_DAY}
          drawsPerUser: {DRAWS_IN_ALL}
          winsPerUser: {WINS_IN_ALL}
        segmentLimits:
          - segment: {GOLD}
            limits:
              drawsPerDay: {GOLD_A_DAY}
              drawsPerHour: {GOLD_AN_HOUR}
              winsPerUser: {GOLD_WINS}
        consolation: {{id: points}}
        budget: {{perDay: {a_day}, total: {in_all}}}
        prizes:
          - {{id: coupon, stock: {stock}, value: {coupon}}}
          - {{id: mug, codes: true, value: {mug}}}
          - id: sticker
            value: {sticker}
            unlimited: true
            countsAsWin: false
            perUser: {{perDay: {STICKERS_A_DAY}, total: {STICKERS_IN_ALL}}}
          - {{id: star, unlimited: true, countsAsWin: false, value: {star}}}
          - {{id: token, stock: {TOKENS}, value: {token}}}
          - {{id: moon, unlimited: true, countsAsWin: false, value: {moon}}}
          - {{id: charm, unlimited: true, countsAsWin: false, value: {charm}}}
        guarantees: [{{id: kept, prizes: [token, coupon], within: {PROMISED_WITHIN}}}]
        pools:
          - id: hours
            unlockAfterDrawsToday: 1
            schedule:
              perHour: {{coupon: {per_hour}, sticker: 1}}
              unclaimed: RETURN
              returnAfter: 7200s
          - id: deck
            segments: {{none: [{GOLD}]}}
            lockAfterWins: {DECK_WINS}
            deck: {{size: 20, cards: {{mug: 6, sticker: 4}}, onExhausted: RESHUFFLE}}
          - id: own
            segments: {{any: [{GOLD}]}}
            personal:
              {own}
        "
    )
}

fn name(user: u8) -> String {
    format!("u{user}")
}

fn code(index: u64) -> String {
    format!("MUG-{index:05}")
}

impl Simulation {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Draw {
                user,
                count,
                paid,
                consolation_only,
                gold,
            } => {
                let mut command = draw(&name(user)).times(count);
                if paid {
                    command = command.paid("order");
                }
                command.consolation_only = consolation_only;
                if gold {
                    command = command.with(&[GOLD]);
                }
                self.draw(command).await;
            }
            Step::Storm { user, calls } => self.storm(user, calls).await,
            Step::Retry { pick, other } => self.retry(pick, other).await,
            Step::Advance { seconds: n } => self.world.pass(seconds(n)).await,
            Step::SetBack { seconds: n } => {
                self.world.set_time(self.world.time() - seconds(n)).await;
            }
            Step::Tick => self.world.tick().await,
            Step::Settle => {
                let injector = self.world.injector();
                injector.settle(&self.campaign.id).await.unwrap();
            }
            Step::Import { codes } => self.import(codes).await,
            Step::Apply { restock, per_hour } => self.apply(restock, per_hour).await,
            Step::Reopen => self.world.reopen().await,
            Step::Pause => {
                self.model.is_paused |= self.operate(Operation::Pause).await;
            }
            Step::Resume => {
                self.model.is_paused &= !self.operate(Operation::Resume).await;
            }
            Step::PausePrize { prize } => self.stop(prize, true).await,
            Step::ResumePrize { prize } => self.stop(prize, false).await,
            Step::Grant {
                user,
                draws,
                hours: n,
            } => self.grant(&name(user), draws, n).await,
            Step::Bonus {
                user,
                draws,
                hours: n,
            } => self.bonus(&name(user), draws, n).await,
            Step::RetryBonus { pick, other } => self.retry_bonus(pick, other).await,
            Step::Block { user } => self.block(&name(user), true).await,
            Step::Unblock { user } => self.block(&name(user), false).await,
            Step::Recall { prize, withdraw } => {
                let recall = Operation::Recall {
                    pool: PoolNo(0),
                    window: None,
                    prize: prize.map(PrizeNo),
                    withdraw,
                };
                self.operate(recall).await;
            }
            Step::Envelope(step) => self.envelopes.step(&self.world, step).await,
            Step::Deliver { pick, reference } => self.deliver(pick, reference).await,
            Step::Revoke { pick, withdraw } => self.revoke(pick, withdraw).await,
            Step::Close => {
                self.model.is_closed |= self.operate(Operation::Close).await;
            }
        }
    }

    /// The campaign's time: partitions may have different times once the clock was set back.
    async fn now(&self) -> Moment {
        let anyone = user("u0");
        let view = self.world.store().user(&self.campaign.id, &anyone).await;
        view.unwrap().now
    }

    async fn draw(&mut self, command: DrawCommand) {
        let answer = self.world.try_draw(command.clone()).await;
        self.compare(command, answer).await;
    }

    /// Compares an answer with the model.
    async fn compare(&mut self, command: DrawCommand, answer: Result<DrawAnswer>) {
        let now = self.now().await;
        match (self.model.expect(&command, now, &self.campaign), answer) {
            (Expected::Replay(first), Ok(answer)) => {
                assert!(answer.replayed, "P4");
                assert_eq!((answer.ledger, answer.at), (first.ledger, first.at), "P4");
                assert_eq!(answer.entry, first.entry, "P4");
                assert_eq!(answer.quotas(), first.quotas(), "P4");
            }
            (Expected::Made(user), Ok(answer)) => {
                assert_eq!(answer.at, now);
                self.check_codes(&answer).await;
                self.model.book(command, answer, user);
            }
            (Expected::Refused(fits), Err(StoreError::Refused(refusal))) => {
                assert!(fits(&refusal), "{refusal}: {command:?}");
            }
            (expected, answer) => panic!("{expected:?}, but {answer:?}: {command:?}"),
        }
    }

    /// Which of the calls is refused cannot be predicted, but the model knows how many are.
    async fn storm(&mut self, user: u8, calls: u32) {
        let commands: Vec<_> = (0..calls).map(|_| draw(&name(user))).collect();
        let answers = self.world.storm(commands.clone()).await;
        let mut pairs: Vec<_> = commands.into_iter().zip(answers).collect();
        let order = |answer: &Result<DrawAnswer>| {
            let sequence = answer.as_ref().map(|answer| answer.ledger.sequence);
            sequence.unwrap_or(u64::MAX)
        };
        pairs.sort_by_key(|(_, answer)| order(answer));
        for (command, answer) in pairs {
            self.compare(command, answer).await;
        }
    }

    async fn retry(&mut self, pick: Index, other: bool) {
        let now = self.now().await;
        let fresh: Vec<_> = self.model.fresh(now).collect();
        if fresh.is_empty() {
            return;
        }
        let mut command = pick.get(&fresh).0.clone();
        command.count += u32::from(other);
        self.draw(command).await;
    }

    async fn apply(&mut self, restock: u64, per_hour: u64) {
        let stock = self.stock + restock;
        let next = campaign(&yaml(stock, per_hour, self.game));
        match self.world.try_apply(next.clone(), self.version).await {
            Ok(operated) => {
                self.version = operated.version;
                (self.stock, self.campaign) = (stock, next);
            }
            Err(StoreError::Refused(_)) => self.assert_over().await,
            Err(error) => panic!("{error}"),
        }
    }

    /// Imports the next codes of mugs.
    async fn import(&mut self, codes: u64) {
        let first = self.model.codes_imported;
        let texts: Vec<_> = (first..first + codes).map(code).collect();
        match self.world.try_import("mug", first, &texts).await {
            Ok(_) => self.model.codes_imported += codes,
            Err(StoreError::Refused(_)) => self.assert_over().await,
            Err(error) => panic!("{error}"),
        }
    }

    /// The codes of a new answer are the texts that were imported.
    async fn check_codes(&self, answer: &DrawAnswer) {
        let texts = self.world.injector().codes_of(answer).await.unwrap();
        for (result, text) in answer.entry.results.iter().zip(texts) {
            let index = match result {
                DrawResult::Won { code, .. } => *code,
                DrawResult::NotWon { .. } => None,
            };
            assert_eq!(text, index.map(code), "{result:?}");
        }
    }

    /// Makes a change; returns whether it was done. Only a campaign that is over refuses one.
    async fn operate(&mut self, operation: Operation) -> bool {
        let is_recall = matches!(operation, Operation::Recall { .. });
        match self.world.try_operate(operation).await {
            Ok(operated) => !operated.replayed,
            // A recall of a prize that the pool does not plan.
            Err(StoreError::Refused(Refusal::ChangeRefused(_))) if is_recall => false,
            Err(StoreError::Refused(_)) => {
                self.assert_over().await;
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn assert_over(&self) {
        let now = self.now().await;
        assert!(self.model.is_closed || now >= self.campaign.end, "refused");
    }

    async fn stop(&mut self, prize: u16, stops: bool) {
        let no = PrizeNo(prize);
        let operation = if stops {
            Operation::PausePrize { prize: no }
        } else {
            Operation::ResumePrize { prize: no }
        };
        match (self.operate(operation).await, stops) {
            (true, true) => drop(self.model.stopped.insert(prize)),
            (true, false) => drop(self.model.stopped.remove(&prize)),
            (false, _) => {}
        }
    }

    async fn grant(&mut self, user: &str, draws: u32, for_hours: u64) {
        let expires = self.now().await + hours(for_hours);
        let operation = Operation::Grant {
            users: users(&[user]),
            draws,
            expires,
        };
        if self.operate(operation).await {
            let granted = self.model.users.entry(user.to_owned()).or_default();
            granted.grant(draws, expires);
        }
    }

    async fn bonus(&mut self, user: &str, draws: u32, for_hours: u64) {
        let now = self.now().await;
        let command = BonusCommand {
            expires: now + hours(for_hours),
            ..bonus(user, draws)
        };
        let answer = self.world.store().grant_bonus(command.clone()).await;
        match (
            self.model.expect_bonus(&command, now, &self.campaign),
            answer,
        ) {
            (Some(expected), Ok(answer)) => {
                assert!(!answer.replayed);
                self.model.users.insert(user.to_owned(), expected);
                self.model.grants.push((command, answer));
            }
            (None, Err(StoreError::Refused(_))) => {}
            (expected, answer) => panic!("{expected:?}, but {answer:?}: {command:?}"),
        }
    }

    async fn retry_bonus(&mut self, pick: Index, other: bool) {
        let now = self.now().await;
        let grants = self.model.grants.iter();
        let fresh: Vec<_> = grants
            .filter(|(_, answer)| now < answer.at + hours(24))
            .collect();
        if fresh.is_empty() {
            return;
        }
        let (command, first) = pick.get(&fresh);
        let command = BonusCommand {
            draws: command.draws + u32::from(other),
            ..command.clone()
        };
        match self.world.store().grant_bonus(command).await {
            Ok(answer) => {
                assert!(answer.replayed && !other, "P4");
                assert_eq!((answer.ledger, answer.at), (first.ledger, first.at), "P4");
                assert_eq!(answer.entry, first.entry, "P4");
                assert_eq!(answer.quotas(), first.quotas(), "P4");
            }
            Err(error) => {
                assert!(other, "{error}");
                assert_eq!(error, Refusal::RequestIdReused.into());
            }
        }
    }

    async fn block(&mut self, user: &str, blocks: bool) {
        let one = users(&[user]);
        let operation = if blocks {
            Operation::Block { users: one }
        } else {
            Operation::Unblock { users: one }
        };
        match (self.operate(operation).await, blocks) {
            (true, true) => drop(self.model.blocked.insert(user.to_owned())),
            (true, false) => drop(self.model.blocked.remove(user)),
            (false, _) => {}
        }
    }

    async fn deliver(&mut self, pick: Index, reference: u8) {
        if self.model.wins.is_empty() {
            return;
        }
        let (win, fate) = pick.get(&self.model.wins).clone();
        let reference = format!("parcel-{reference}");
        let operation = WinOperation::Deliver {
            reference: reference.clone(),
        };
        let operated = self.world.try_operate_win(&win, operation).await;
        match (fate, operated) {
            (Fate::Pending, Ok(operated)) => {
                assert!(!operated.replayed);
                self.set_fate(&win, Fate::Delivered(reference));
            }
            (Fate::Delivered(first), Ok(operated)) => {
                assert!(operated.replayed && first == reference, "{operated:?}");
            }
            (Fate::Delivered(first), Err(error)) => {
                assert_ne!(first, reference);
                assert_eq!(error, Refusal::WinDelivered(first).into());
            }
            (Fate::Revoked, Err(StoreError::Refused(Refusal::WinRevoked(_)))) => {}
            (fate, operated) => panic!("{fate:?}, but {operated:?}: {win:?}"),
        }
    }

    async fn revoke(&mut self, pick: Index, withdraw: bool) {
        if self.model.wins.is_empty() {
            return;
        }
        let (win, fate) = pick.get(&self.model.wins).clone();
        let operation = WinOperation::Revoke { withdraw };
        let operated = self.world.try_operate_win(&win, operation).await;
        match (fate, operated) {
            (Fate::Pending | Fate::Delivered(_), Ok(operated)) => {
                assert!(!operated.replayed);
                self.set_fate(&win, Fate::Revoked);
                self.model.tokens += u64::from(win.prize.0 == TOKEN && !withdraw);
            }
            (Fate::Revoked, Err(StoreError::Refused(Refusal::WinRevoked(_)))) => {}
            (fate, operated) => panic!("{fate:?}, but {operated:?}: {win:?}"),
        }
    }

    fn set_fate(&mut self, win: &WonUnit, fate: Fate) {
        let mut wins = self.model.wins.iter_mut();
        wins.find(|(known, _)| known == win).unwrap().1 = fate;
    }

    /// Runs the audit, and checks every user's record.
    async fn check(&mut self, is_ticked: bool) {
        self.world.audit().await;
        self.envelopes.check(&self.world, is_ticked).await;
        let now = self.now().await;
        let spent = self.world.stats().await.spent();
        let (today, total) = self.model.spent(self.campaign.zone.day(now));
        assert_eq!((spent.today, spent.total), (today * 100, total * 100));
        for user in (0..USERS).map(name) {
            let id = crate::support::user(&user);
            let view = self.world.store().user(&self.campaign.id, &id).await;
            let view = view.unwrap();
            let record = &view.record;
            let model = self.model.user(&user).at(now, &self.campaign);
            let record_counts = (record.free_today, record.paid_today, record.limited_draws());
            let model_counts = (model.free_today, model.paid_today, u64::from(model.counted));
            assert_eq!(record_counts, model_counts, "{user}");
            assert_eq!(
                (record.wins, record.bonus_used),
                (model.wins, u64::from(model.bonus_used))
            );
            assert_eq!(record.bonus_left(), model.bonus_left() as u64, "{user}");
            assert_eq!(record.granted_today, model.granted_today, "{user}");
            let stickers = record.prizes.of(PrizeNo(STICKER));
            assert_eq!((stickers.today, stickers.total), model.stickers, "{user}");
            let own = record.progress.of(PoolNo(OWN));
            let since = own.counters.values().map(|it| it.since).sum::<u32>();
            let is_missed = own.counters.values().any(|it| it.missed);
            assert_eq!(
                (own.position, since, is_missed),
                (
                    model.own.position,
                    model.own.since.iter().sum(),
                    model.own.missed
                ),
                "{user}"
            );
            let promised = record.progress.of(PoolNo::GUARANTEES);
            let since = promised.counters.values().map(|it| it.since).sum::<u32>();
            assert_eq!((promised.position, since), model.promised, "{user}");
            let hour = view.quotas().draws_this_hour.unwrap();
            assert_eq!(hour.used, u64::from(model.free_this_hour), "{user}");
        }
    }
}
