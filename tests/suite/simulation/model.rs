//! A minimal model of a campaign: users' counts, remembered answers, and what is stopped. It does
//! not use the rules of the crate, so that it does not repeat their mistakes.

use std::collections::{BTreeMap, BTreeSet};

use tombola::{
    model::{Campaign, Moment, PoolNo, limits::Funding, zone::Day},
    store::{
        BonusAnswer, BonusCommand, Cause, DrawAnswer, DrawCommand, DrawResult, Refusal, Unit,
        WonUnit,
    },
};

use crate::support::{Answer as _, hours};

/// Limits of the simulated campaign.
pub const FREE_A_DAY: u32 = 3;
pub const FREE_AN_HOUR: u32 = 2;
/// A segment of users with limits of their own.
pub const GOLD: &str = "gold";
pub const GOLD_A_DAY: u32 = 5;
pub const GOLD_AN_HOUR: u32 = 4;
pub const GRANTED_A_DAY: u32 = 4;
pub const PAID_A_DAY: u32 = 2;
pub const DRAWS_IN_ALL: u32 = 14;
pub const WINS_IN_ALL: u64 = 3;
pub const GOLD_WINS: u64 = 2;
/// The prize that does not count as a win, and has caps.
pub const STICKER: u16 = 2;
pub const STICKERS_A_DAY: u32 = 2;
pub const STICKERS_IN_ALL: u64 = 3;
/// The prize with codes.
pub const MUG: u16 = 1;
/// What units are worth, by prize, and the budget of a day and in all, in yuan.
pub const WORTH: [u64; 7] = [2, 3, 0, 0, 1, 1, 0];
pub const BUDGET_A_DAY: u64 = 7;
pub const BUDGET_IN_ALL: u64 = 20;
/// The pool that is a deck, and the wins with which it is locked.
const DECK: u16 = 1;
pub const DECK_WINS: u64 = 2;
/// The personal pool, which is for gold users alone. Stickers are its fallback.
pub const OWN: u16 = 2;
/// Its prizes that guarantees give, which do not count as wins. A star is worth nothing, a moon is.
pub const STAR: u16 = 3;
pub const MOON: u16 = 5;
pub const CHARM: u16 = 6;
/// The draw that gives a star or a moon at the latest, and the one before it, whose chance is 1. It
/// is a star with even odds, and surely once it was a moon.
pub const STAR_WITHIN: u32 = 4;
pub const STAR_RISEN: u32 = 3;
/// The draw that gives a charm at the latest. Nothing else does.
pub const CHARM_WITHIN: u32 = 6;
/// Cards of the personal pool if it is a deck: blanks, coupons, stars, and of those two any that
/// could not be given.
pub const ROUND: [u64; 3] = [2, 2, 1];

/// What users draw from: a schedule, a deck, and in its place for users in the segment `gold` a
/// personal pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Game {
    /// With odds, and guarantees of all kinds.
    #[default]
    Odds,
    /// With a deck for each user.
    Deck,
}

/// The prizes that a guarantee of the campaign gives, the first that can be given, and the draw
/// that gives one at the latest. Of the first there are a few; the second never runs out.
const PROMISED: [u16; 2] = [TOKEN, COUPON];
pub const TOKEN: u16 = 4;
pub const TOKENS: u64 = 3;
const COUPON: u16 = 0;
pub const PROMISED_WITHIN: u32 = 4;

/// A campaign as the model expects it.
#[derive(Default)]
pub struct Model {
    game: Game,
    /// In stock.
    pub tokens: u64,
    pub users: BTreeMap<String, User>,
    pub remembered: Vec<(DrawCommand, DrawAnswer)>,
    pub grants: Vec<(BonusCommand, BonusAnswer)>,
    pub stopped: BTreeSet<u16>,
    pub blocked: BTreeSet<String>,
    pub is_paused: bool,
    pub is_closed: bool,
    won: BTreeSet<(u16, Unit)>,
    /// The wins, and what became of each.
    pub wins: Vec<(WonUnit, Fate)>,
    /// Codes of mugs that were imported, and that were won.
    pub codes_imported: u64,
    codes_won: u64,
    /// What was won on each day, in yuan.
    won_on: BTreeMap<Day, u64>,
}

/// What became of a win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Pending,
    /// Under this reference.
    Delivered(String),
    Revoked,
}

/// A user as the model expects it.
#[derive(Clone, Debug, Default)]
pub struct User {
    day: Option<Day>,
    pub free_today: u32,
    /// The zone of the campaign has whole hours in UTC.
    hour: i64,
    pub free_this_hour: u32,
    pub paid_today: u32,
    /// By callers.
    pub granted_today: u32,
    /// Draws that count against `drawsPerUser`.
    pub counted: u32,
    pub bonus_used: u32,
    pub wins: u64,
    /// On the day, and in all.
    pub stickers: (u32, u64),
    pub own: Own,
    /// Draws that the guarantee of the campaign has counted, and those since it was last kept.
    pub promised: (u64, u32),
    /// The expiry of each unused bonus draw, soonest first.
    bonus: Vec<Moment>,
}

/// What was counted of a user in the personal pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Draws that reached it.
    pub position: u64,
    /// Those since its last star or moon, and since its last charm.
    pub since: [u32; 2],
    /// The last of stars and moons was a moon.
    pub missed: bool,
    /// Of a deck: blanks, coupons, stars of this round, and all that is no blank.
    cards: [u64; 4],
}

impl User {
    /// The user at `now`: a new day begins, and grants expire.
    pub fn at(&self, now: Moment, campaign: &Campaign) -> Self {
        let mut user = self.clone();
        let today = campaign.zone.day(now);
        if user.day < Some(today) {
            user.day = Some(today);
            (user.free_today, user.paid_today, user.stickers.0) = (0, 0, 0);
            user.granted_today = 0;
        }
        let hour = now.as_seconds() / 3_600;
        if user.hour < hour {
            (user.hour, user.free_this_hour) = (hour, 0);
        }
        user.bonus.retain(|lapses| *lapses > now);
        user
    }

    pub fn bonus_left(&self) -> usize {
        self.bonus.len()
    }

    fn has_all_stickers(&self) -> bool {
        let (today, in_all) = self.stickers;
        today >= STICKERS_A_DAY || in_all >= STICKERS_IN_ALL
    }

    /// A user who is in the segment `gold`, or not.
    fn has_all_wins(&self, is_gold: bool) -> bool {
        self.wins >= if is_gold { GOLD_WINS } else { WINS_IN_ALL }
    }

    fn may_have(&self, prize: u16, is_gold: bool) -> bool {
        match prize {
            STICKER => !self.has_all_stickers(),
            STAR | MOON | CHARM => true,
            _ => !self.has_all_wins(is_gold),
        }
    }

    fn win(&mut self, prize: u16) {
        match prize {
            STICKER => {
                self.stickers.0 += 1;
                self.stickers.1 += 1;
            }
            STAR | MOON | CHARM => {}
            _ => self.wins += 1,
        }
    }

    /// A result of a draw that reaches the personal pool if no pool before it gave anything.
    /// `is_held` says which prizes nobody may have.
    fn reach_own(&mut self, game: Game, result: &DrawResult, is_held: impl Fn(u16) -> bool) {
        let (given, is_blank) = match *result {
            DrawResult::Won { pool, .. } if pool.0 != OWN => return, // an earlier one gave it
            DrawResult::Won {
                prize, guarantee, ..
            } => (Some((prize.0, guarantee)), false),
            DrawResult::NotWon { cause, .. } => match cause {
                Cause::Blocked | Cause::ConsolationOnly => return,
                Cause::Blank { unit, .. } => {
                    assert_eq!(unit.number, self.own.position, "{result:?} of {self:?}");
                    (None, true)
                }
                _ => (None, false),
            },
        };
        let can_give = |prize| !is_held(prize) && self.may_have(prize, true);
        let is_drawn = given.is_none_or(|(prize, _)| prize == STICKER) && !is_blank;
        if is_drawn {
            // What was drawn could not be given.
            let no_star = is_held(STAR) && (game == Game::Deck || is_held(MOON));
            assert!(no_star || !can_give(COUPON), "{result:?} of {self:?}");
            assert_eq!(given.is_some(), can_give(STICKER), "{result:?} of {self:?}");
        }
        match game {
            Game::Odds => self.keep_promises(given, is_held),
            Game::Deck => self.take_card(given, is_blank),
        }
        self.own.position += 1;
    }

    /// What a draw of the personal pool gives, by its guarantees.
    fn keep_promises(&mut self, given: Option<(u16, Option<u16>)>, is_held: impl Fn(u16) -> bool) {
        let [since, since_charm] = self.own.since.map(|since| since + 1);
        let free = [STAR, MOON]
            .iter()
            .filter(|prize| !is_held(**prize))
            .count();
        let is_due = since >= STAR_WITHIN && free > 0;
        let is_charm_due = !is_due && since_charm >= CHARM_WITHIN && !is_held(CHARM);
        let has_risen = !is_charm_due && since >= STAR_RISEN && free > 0;
        let is_star = matches!(given, Some((STAR | MOON, _)));
        let is_charm = matches!(given, Some((CHARM, _)));
        assert!(is_star || !(is_due || has_risen), "{given:?} of {self:?}");
        assert_eq!(is_charm, is_charm_due, "{given:?} of {self:?}");
        if let Some((prize, by)) = given {
            let is_next = is_star && self.own.missed && free == 2;
            let expected = if is_due || is_next {
                Some(0)
            } else {
                is_charm_due.then_some(1)
            };
            assert_eq!(by, expected, "{given:?} of {self:?}");
            assert!(!is_next || prize == STAR, "{given:?} of {self:?}");
        }
        if is_star {
            self.own.missed = matches!(given, Some((MOON, _)));
        }
        self.own.since = [
            if is_star { 0 } else { since },
            if is_charm { 0 } else { since_charm },
        ];
    }

    /// Counts a card of the user's own deck: no round has more of any kind than its cards.
    fn take_card(&mut self, given: Option<(u16, Option<u16>)>, is_blank: bool) {
        let [blanks, coupons, stars] = ROUND;
        let size = blanks + coupons + stars;
        if self.own.position.is_multiple_of(size) {
            self.own.cards = [0; 4];
        }
        let prize = given.map(|(prize, by)| {
            assert_eq!(by, None, "{given:?}");
            prize
        });
        let [of_blanks, of_coupons, of_stars, others] = &mut self.own.cards;
        *of_blanks += u64::from(is_blank);
        *of_coupons += u64::from(prize == Some(COUPON));
        *of_stars += u64::from(prize == Some(STAR));
        *others += u64::from(!is_blank);
        let most = [blanks, coupons, stars, coupons + stars];
        let is_within = self
            .own
            .cards
            .iter()
            .zip(most)
            .all(|(had, most)| *had <= most);
        assert!(is_within, "{given:?} of {self:?}");
    }

    /// A result of a draw that the guarantee of the campaign counts: it gives a prize that can be
    /// given if it is due, and else nothing.
    fn count_promised(&mut self, result: &DrawResult, can_give: impl Fn(u16) -> bool) {
        let barred = [Cause::Blocked, Cause::ConsolationOnly];
        let given = match *result {
            DrawResult::NotWon { cause, .. } if barred.contains(&cause) => return,
            DrawResult::NotWon { .. } => None,
            DrawResult::Won {
                prize,
                pool,
                guarantee,
                ..
            } => Some((prize.0, pool == PoolNo::GUARANTEES, guarantee)),
        };
        let (counted, since) = self.promised;
        let mut prizes = PROMISED.into_iter().filter(|prize| can_give(*prize));
        let due = prizes.next().filter(|_| since + 1 >= PROMISED_WITHIN);
        match due {
            Some(prize) => assert_eq!(given, Some((prize, true, Some(0))), "{self:?}"),
            None => assert!(given.is_none_or(|given| !given.1), "{result:?} {self:?}"),
        }
        let is_kept = given.is_some_and(|(prize, ..)| PROMISED.contains(&prize));
        self.promised = (counted + 1, if is_kept { 0 } else { since + 1 });
    }

    fn has_free_draw(&self, is_gold: bool) -> bool {
        let (a_day, an_hour) = match is_gold {
            true => (GOLD_A_DAY, GOLD_AN_HOUR),
            false => (FREE_A_DAY, FREE_AN_HOUR),
        };
        let in_all = self.counted < DRAWS_IN_ALL;
        self.free_today < a_day && self.free_this_hour < an_hour && in_all
    }

    fn can_draw_once(&self, funding: Funding, is_gold: bool) -> bool {
        let in_all = self.counted < DRAWS_IN_ALL;
        match funding {
            Funding::Free => self.has_free_draw(is_gold) || !self.bonus.is_empty(),
            Funding::Paid => self.paid_today < PAID_A_DAY && in_all,
        }
    }

    fn draw_once(&mut self, funding: Funding, is_gold: bool) {
        match funding {
            Funding::Free if self.has_free_draw(is_gold) => {
                self.free_today += 1;
                self.free_this_hour += 1;
                self.counted += 1;
            }
            Funding::Free => {
                self.bonus.remove(0);
                self.bonus_used += 1;
            }
            Funding::Paid => {
                self.paid_today += 1;
                self.counted += 1;
            }
        }
    }

    pub fn grant(&mut self, draws: u32, lapses: Moment) {
        self.bonus.extend((0..draws).map(|_| lapses));
        self.bonus.sort_unstable();
    }
}

/// The expected result of a draw.
#[derive(Debug)]
pub enum Expected {
    /// The earlier answer again.
    Replay(DrawAnswer),
    /// A new answer; then the user is as given here, except for wins and stickers.
    Made(User),
    /// A refusal for which this predicate is true.
    Refused(fn(&Refusal) -> bool),
}

impl Model {
    /// Nothing has happened yet.
    pub fn new(game: Game) -> Self {
        Self {
            game,
            tokens: TOKENS,
            ..Self::default()
        }
    }

    /// Requests that the store must still remember at `now`.
    pub fn fresh(&self, now: Moment) -> impl Iterator<Item = &(DrawCommand, DrawAnswer)> {
        let is_fresh = move |answer: &DrawAnswer| now < answer.at + hours(24);
        let remembered = self.remembered.iter();
        remembered.filter(move |(_, answer)| is_fresh(answer))
    }

    pub fn expect(&self, command: &DrawCommand, now: Moment, campaign: &Campaign) -> Expected {
        let named = |(earlier, _): &&(DrawCommand, DrawAnswer)| {
            (&earlier.user, &earlier.request) == (&command.user, &command.request)
        };
        if let Some((earlier, answer)) = self.fresh(now).find(named) {
            return if same_contents(earlier, command) {
                Expected::Replay(answer.clone())
            } else {
                Expected::Refused(|refusal| *refusal == Refusal::RequestIdReused)
            };
        }
        if self.is_closed || now >= campaign.end {
            let is_over =
                |refusal: &Refusal| matches!(refusal, Refusal::Closed | Refusal::Ended(_));
            return Expected::Refused(is_over);
        }
        if now < campaign.start {
            return Expected::Refused(|refusal| matches!(refusal, Refusal::NotStarted(_)));
        }
        if self.is_paused {
            return Expected::Refused(|refusal| *refusal == Refusal::Paused);
        }
        let mut user = self.user(command.user.as_str()).at(now, campaign);
        let is_gold = command.segments.iter().any(|it| it.as_str() == GOLD);
        for _ in 0..command.count {
            if !user.can_draw_once(command.funding, is_gold) {
                return Expected::Refused(|refusal| matches!(refusal, Refusal::Limit { .. }));
            }
            user.draw_once(command.funding, is_gold);
        }
        Expected::Made(user)
    }

    /// The user after a caller's grant under a new request; none if it is refused.
    pub fn expect_bonus(
        &self,
        command: &BonusCommand,
        now: Moment,
        campaign: &Campaign,
    ) -> Option<User> {
        let mut user = self.user(command.user.as_str()).at(now, campaign);
        user.granted_today += command.draws;
        let is_admitted = !self.is_closed
            && now < campaign.end
            && command.expires > now
            && user.granted_today <= GRANTED_A_DAY;
        user.grant(command.draws, command.expires);
        is_admitted.then_some(user)
    }

    /// What was won on a day, and in all without what was revoked, in yuan.
    pub fn spent(&self, day: Day) -> (u64, u64) {
        let today = self.won_on.get(&day).copied().unwrap_or(0);
        let wins = self.wins.iter().filter(|(_, fate)| *fate != Fate::Revoked);
        let total = wins.map(|(win, _)| WORTH[usize::from(win.prize.0)]).sum();
        (today, total)
    }

    pub fn user(&self, id: &str) -> User {
        self.users.get(id).cloned().unwrap_or_default()
    }

    /// Notes a new answer, and checks it.
    pub fn book(&mut self, command: DrawCommand, answer: DrawAnswer, mut user: User) {
        assert!(!answer.replayed);
        assert_eq!(answer.entry.results.len(), command.count as usize);
        let id = command.user.as_str().to_owned();
        let today = user.day.unwrap();
        let (mut spent_today, mut spent) = self.spent(today);
        let is_gold = command.segments.iter().any(|it| it.as_str() == GOLD);
        for result in &answer.entry.results {
            let passes = |prize: u16| {
                let worth = WORTH[usize::from(prize)];
                let is_over = spent_today + worth > BUDGET_A_DAY || spent + worth > BUDGET_IN_ALL;
                worth > 0 && is_over
            };
            let is_any_over = (0..WORTH.len() as u16).any(passes);
            let known = user.clone();
            user.count_promised(result, |prize| {
                let is_left = prize != TOKEN || self.tokens > 0;
                let is_free = !self.stopped.contains(&prize) && known.may_have(prize, is_gold);
                is_left && is_free && !passes(prize)
            });
            if is_gold {
                let is_held = |prize| self.stopped.contains(&prize) || passes(prize);
                user.reach_own(self.game, result, is_held);
            }
            let reaches_deck = user.wins < DECK_WINS;
            let (prize, pool, unit, release) = match *result {
                DrawResult::Won {
                    prize,
                    pool,
                    unit,
                    release,
                    code,
                    guarantee,
                } => {
                    let is_promised = pool == PoolNo::GUARANTEES;
                    let is_own = is_gold && release.is_none() && !is_promised;
                    assert_eq!(pool.0 == OWN, is_own, "{result:?}");
                    assert!(pool.0 != DECK || reaches_deck, "{result:?}");
                    let has_guarantees = pool.0 == OWN || is_promised;
                    assert!(guarantee.is_none() || has_guarantees, "{result:?}");
                    self.tokens -= u64::from(prize.0 == TOKEN);
                    let next = (prize.0 == MUG).then_some(self.codes_won);
                    assert_eq!(code, next, "each code once, and none left out");
                    self.codes_won += u64::from(code.is_some());
                    assert!(self.codes_won <= self.codes_imported, "P1: {code:?}");
                    (prize.0, pool.0, unit, release)
                }
                DrawResult::NotWon { cause, .. } => match cause {
                    Cause::Forfeited { prize, pool, unit } => {
                        assert_eq!(pool.0, DECK, "schedules hold what a user may not have");
                        assert!(reaches_deck, "{result:?}");
                        (prize.0, pool.0, unit, None)
                    }
                    // Its number is that of a user's draw.
                    Cause::Blank {
                        pool: PoolNo(OWN), ..
                    } => continue,
                    Cause::Blank { pool, unit } => {
                        assert!(reaches_deck, "{result:?}");
                        assert!(self.won.insert((pool.0, unit)), "{unit:?} drawn twice");
                        continue;
                    }
                    Cause::ConsolationOnly => {
                        assert!(command.consolation_only, "nobody asked for that");
                        continue;
                    }
                    Cause::Blocked => {
                        assert!(self.blocked.contains(&id), "blocked");
                        continue;
                    }
                    Cause::WinsLimit => {
                        assert!(user.has_all_wins(is_gold), "with {} wins", user.wins);
                        continue;
                    }
                    Cause::NothingDue => {
                        assert!(!user.has_all_wins(is_gold), "with {} wins", user.wins);
                        assert!(!user.has_all_stickers(), "{:?}", user.stickers);
                        assert!(!is_any_over, "{spent_today}, {spent}");
                        continue;
                    }
                    Cause::PrizeCap => {
                        assert!(!user.has_all_wins(is_gold), "with {} wins", user.wins);
                        assert!(user.has_all_stickers(), "{:?}", user.stickers);
                        continue;
                    }
                    Cause::Budget => {
                        assert!(!user.has_all_wins(is_gold), "with {} wins", user.wins);
                        assert!(!user.has_all_stickers(), "{:?}", user.stickers);
                        assert!(is_any_over, "{spent_today}, {spent}");
                        continue;
                    }
                    Cause::Unknown => panic!("a result without a unit says why"),
                },
            };
            assert!(self.won.insert((pool, unit)), "P1: {unit:?} drawn twice");
            assert!(release.is_none_or(|release| release <= answer.at), "P7");
            assert!(!self.stopped.contains(&prize), "P7: a stopped prize");
            assert!(!self.blocked.contains(&id), "a blocked user touched a pool");
            assert!(!command.consolation_only, "consolation only");
            let has_won = matches!(result, DrawResult::Won { .. });
            let may_have = user.may_have(prize, is_gold) && !passes(prize);
            assert_eq!(has_won, may_have, "P5: {result:?} of {user:?}");
            if has_won {
                user.win(prize);
                spent_today += WORTH[usize::from(prize)];
                spent += WORTH[usize::from(prize)];
            }
        }
        self.won_on.insert(today, spent_today);
        let wins = answer.won_units().into_iter();
        self.wins.extend(wins.map(|win| (win, Fate::Pending)));
        self.users.insert(id, user);
        self.remembered.push((command, answer));
    }
}

fn same_contents(one: &DrawCommand, other: &DrawCommand) -> bool {
    (one.count, one.funding, one.consolation_only)
        == (other.count, other.funding, other.consolation_only)
        && one.payment_ref == other.payment_ref
}
