//! Random campaigns, and what happens in them.

use std::fmt::Write as _;

use proptest::{collection::vec, prelude::*};
use tombola::model::Campaign;

use crate::support::campaign;

/// Prizes 0 and 1 have stock for everything; prizes 2 and 3, which are in decks only, for little
/// more than a round of each deck.
/// (Where several pools compete for stock, the order of fills decides, and that may differ.)
pub(super) const PRIZES: usize = 4;
const SCARCE_FROM: usize = 2;
/// The prize that may have codes.
pub(super) const CODED: usize = 2;
/// More prizes are in personal pools only, each with its value in fen: two unlimited ones that
/// guarantees give, and between them a scarce one.
const OWN_PRIZES: [(&str, &str, u32); 3] = [
    ("p4", "unlimited: true, countsAsWin: false", 90),
    ("p5", "stock: 6", 70),
    ("p6", "unlimited: true, countsAsWin: false", 40),
];
/// The prizes of personal pools.
const IN_OWN_POOLS: [usize; 5] = [0, 1, 4, 5, 6];
/// Those that guarantees give.
const GUARANTEED: [&str; 2] = ["p4", "p6"];
/// A deck stays below the number of cards from which on more are dealt beside the draws.
const DECK_SIZE_MAX: u64 = 40;

/// A random campaign, and what happens in it.
#[derive(Clone, Debug)]
pub struct Game {
    pools: Vec<Pool>,
    spare_stock: u64,
    has_consolation: bool,
    wins_per_user: Option<u32>,
    draws_per_hour: Option<u32>,
    granted_per_day: Option<u32>,
    /// Of the first segments.
    segment_limits: Vec<Limits>,
    counts_as_win: Vec<bool>,
    /// By prize, units of a day and in all.
    caps: Vec<Option<(Option<u32>, Option<u32>)>>,
    /// The second prize is unlimited.
    pub(super) is_unlimited: bool,
    budget: Option<Budget>,
    /// The third prize has codes: as many as it would have stock.
    pub(super) has_codes: bool,
    /// Of the campaign: the draw, and bits of the prizes that are given ([`IN_OWN_POOLS`]).
    guarantees: Vec<(u32, u8)>,
    pub(super) steps: Vec<Step>,
}

/// A budget of a day and in all, and the value of each prize, in fen.
type Budget = (Option<u32>, Option<u32>, Vec<u32>);

#[derive(Clone, Debug)]
struct Pool {
    unlock_after_draws: u32,
    lock_after_wins: u32,
    unlock_after_draws_today: u32,
    /// Segments in one of which a user is, and segments in none of which.
    segments: Option<(u8, u8)>,
    kind: Kind,
}

/// Limits of a segment: draws a day, draws an hour, wins.
type Limits = (Option<u32>, Option<u32>, Option<u32>);

/// The segments of a game, of which users state some: those whose bits are set.
const SEGMENTS: [&str; 3] = ["a", "b", "c"];

pub fn segments_of(bits: u8) -> Vec<&'static str> {
    let numbered = SEGMENTS.iter().enumerate();
    let set = numbered.filter(|(number, _)| bits >> number & 1 == 1);
    set.map(|(_, name)| *name).collect()
}

#[derive(Clone, Debug)]
enum Kind {
    Schedule {
        per_hour: Vec<u64>,
    },
    Deck {
        cards: Vec<u64>,
        blanks: u64,
        reshuffles: bool,
    },
    /// Each user draws alone.
    Own {
        /// Percent, or cards of a deck, of [`IN_OWN_POOLS`].
        weights: Vec<u64>,
        rule: OwnRule,
        falls_back: bool,
    },
}

#[derive(Clone, Debug)]
enum OwnRule {
    /// Odds.
    Odds { guarantees: Vec<OwnGuarantee> },
    /// A deck.
    Deck { reshuffles: bool },
}

#[derive(Clone, Debug)]
struct OwnGuarantee {
    /// Of [`GUARANTEED`]: bits of these.
    prizes: u8,
    within: u32,
    /// From which draw on, and by how many percentage points.
    ramp: Option<(u32, u32)>,
    /// Of both prizes it is the first with even odds, or surely once it was missed.
    is_split: bool,
}

impl OwnGuarantee {
    fn yaml(&self, id: &str, is_first: bool) -> String {
        let prizes = GUARANTEED.iter().enumerate();
        let prizes = prizes.filter(|(index, _)| self.prizes >> index & 1 == 1);
        let prizes: Vec<_> = prizes.map(|(_, prize)| *prize).collect();
        let mut text = format!(
            "id: {id}, prizes: [{}], within: {}",
            prizes.join(", "),
            self.within
        );
        if let Some((from, add)) = self.ramp {
            write!(text, ", ramp: [{{from: {from}, add: {add}%}}]").unwrap();
        }
        // A prize is in one guarantee with `among`.
        if self.is_split && is_first && prizes == GUARANTEED {
            write!(text, ", among: [{}]", prizes[0]).unwrap();
        }
        format!("{{{text}}}")
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Draw {
        user: u8,
        count: u32,
        paid: bool,
        segments: u8,
    },
    Bonus {
        user: u8,
        draws: u32,
        hours: u64,
    },
    Pass {
        seconds: u64,
    },
    Pause {
        prize: u16,
    },
    Resume {
        prize: u16,
    },
}

/// Any game.
pub fn any_game() -> impl Strategy<Value = Game> {
    (
        vec(any_pool(), 1..=4),
        0..12_u64,
        any::<bool>(),
        prop::option::of(0..6_u32),
        prop::option::weighted(0.3, 3..20_u32),
        prop::option::weighted(0.5, 3..9_u32),
        vec(any_limits(), 0..3),
        (vec(any::<bool>(), PRIZES), vec(any_cap(), PRIZES)),
        (any::<bool>(), any_budget(), any::<bool>()),
        prop_oneof![Just(Vec::new()), vec((1..9_u32, 1..32_u8), 1..3)],
        vec(any_step(), 30),
    )
        .prop_map(
            |(
                pools,
                spare_stock,
                has_consolation,
                wins_per_user,
                draws_per_hour,
                granted_per_day,
                segment_limits,
                (counts_as_win, caps),
                (is_unlimited, budget, has_codes),
                guarantees,
                steps,
            )| Game {
                pools,
                spare_stock,
                has_consolation,
                wins_per_user,
                draws_per_hour,
                granted_per_day,
                segment_limits,
                counts_as_win,
                caps,
                is_unlimited,
                budget,
                has_codes,
                guarantees,
                steps,
            },
        )
}

fn any_cap() -> impl Strategy<Value = Option<(Option<u32>, Option<u32>)>> {
    let bound = |most| prop::option::of(1..most);
    let cap = (bound(4_u32), bound(9_u32));
    let cap = cap.prop_filter("a cap has a bound", |(day, all)| {
        day.is_some() || all.is_some()
    });
    prop::option::of(cap)
}

/// The values are less than the least bound.
fn any_budget() -> impl Strategy<Value = Option<Budget>> {
    let bound = |least, most| prop::option::of(least..most);
    let values = vec(prop_oneof![1 => Just(0), 4 => 1..300_u32], PRIZES);
    let budget = (bound(300_u32, 1_500_u32), bound(300_u32, 3_000_u32), values);
    let budget = budget.prop_filter("a budget has a bound", |(day, all, _)| {
        day.is_some() || all.is_some()
    });
    prop::option::weighted(0.4, budget)
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let limit = |most| prop::option::of(0..most);
    let limits = (limit(30_u32), limit(12_u32), limit(6_u32));
    limits.prop_filter("a segment has a limit", |(day, hour, wins)| {
        day.is_some() || hour.is_some() || wins.is_some()
    })
}

fn any_rule() -> impl Strategy<Value = Option<(u8, u8)>> {
    // No segment is in both lists, and one is in one of them.
    let rule = (1..8_u8, any::<u8>()).prop_map(|(named, split)| (named & split, named & !split));
    prop::option::weighted(0.3, rule)
}

fn any_pool() -> impl Strategy<Value = Pool> {
    let unlock = prop_oneof![2 => Just(0), 1 => 1..6_u32];
    let lock = prop_oneof![3 => Just(0), 1 => 1..5_u32];
    let today = prop_oneof![3 => Just(0), 1 => 1..5_u32];
    (unlock, lock, today, any_rule(), any_kind()).prop_map(
        |(unlock_after_draws, lock_after_wins, unlock_after_draws_today, segments, kind)| Pool {
            unlock_after_draws,
            lock_after_wins,
            unlock_after_draws_today,
            segments,
            kind,
        },
    )
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let schedule = vec(0..4_u64, SCARCE_FROM).prop_map(|per_hour| Kind::Schedule { per_hour });
    let cards = vec(0..DECK_SIZE_MAX / 5, PRIZES);
    let deck =
        (cards, 0..DECK_SIZE_MAX / 5, any::<bool>()).prop_map(|(cards, blanks, reshuffles)| {
            Kind::Deck {
                cards,
                blanks,
                reshuffles,
            }
        });
    let rule = prop_oneof![
        2 => vec(any_own_guarantee(), 0..=3).prop_map(|guarantees| OwnRule::Odds { guarantees }),
        1 => any::<bool>().prop_map(|reshuffles| OwnRule::Deck { reshuffles }),
    ];
    let weights = vec(0..20_u64, IN_OWN_POOLS.len());
    let own = (weights, rule, any::<bool>()).prop_map(|(weights, rule, falls_back)| Kind::Own {
        weights,
        rule,
        falls_back,
    });
    prop_oneof![schedule, deck, own]
}

fn any_own_guarantee() -> impl Strategy<Value = OwnGuarantee> {
    let ramp = prop::option::of((1..5_u32, prop_oneof![Just(10), Just(25), Just(60)]));
    (1..4_u8, 1..7_u32, ramp, any::<bool>()).prop_map(|(prizes, within, ramp, is_split)| {
        OwnGuarantee {
            prizes,
            within,
            ramp,
            is_split,
        }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let prize = || 0..(PRIZES + OWN_PRIZES.len()) as u16;
    prop_oneof![
        12 => (0..3_u8, 1..8_u32, any::<bool>(), 0..8_u8)
            .prop_map(|(user, count, paid, segments)| Step::Draw { user, count, paid, segments }),
        2 => (0..3_u8, 1..5_u32, 0..9_u64)
            .prop_map(|(user, draws, hours)| Step::Bonus { user, draws, hours }),
        4 => (1..5_000_u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => prize().prop_map(|prize| Step::Pause { prize }),
        1 => prize().prop_map(|prize| Step::Resume { prize }),
    ]
}

impl Game {
    /// The campaign that is played.
    pub fn campaign(&self) -> std::sync::Arc<Campaign> {
        let mut yaml = String::new();
        let limits = [
            ("winsPerUser", self.wins_per_user),
            ("drawsPerHour", self.draws_per_hour),
            ("grantedPerDay", self.granted_per_day),
        ];
        let limits = limits
            .iter()
            .filter_map(|(name, most)| Some((name, (*most)?)));
        let limits: Vec<_> = limits
            .map(|(name, most)| format!("{name}: {most}"))
            .collect();
        writeln!(yaml, "limits: {{{}}}", limits.join(", ")).unwrap();
        for (segment, (day, hour, wins)) in SEGMENTS.iter().zip(&self.segment_limits) {
            let own = [
                ("drawsPerDay", day),
                ("drawsPerHour", hour),
                ("winsPerUser", wins),
            ];
            let own = own.map(|(name, limit)| limit.map(|limit| format!("{name}: {limit}")));
            let own: Vec<_> = own.into_iter().flatten().collect();
            if segment == &SEGMENTS[0] {
                yaml.push_str("segmentLimits:\n");
            }
            let own = own.join(", ");
            writeln!(yaml, "  - {{segment: {segment}, limits: {{{own}}}}}").unwrap();
        }
        if self.has_consolation {
            yaml.push_str("consolation: {id: points}\n");
        }
        let fen = |fen: u32| {
            let (units, nanos) = (fen / 100, fen % 100 * 10_000_000);
            format!("{{currencyCode: CNY, units: {units}, nanos: {nanos}}}")
        };
        if let Some((day, all, _)) = &self.budget {
            let day = day.map(|most| format!("perDay: {}", fen(most)));
            let all = all.map(|most| format!("total: {}", fen(most)));
            let bounds: Vec<_> = day.into_iter().chain(all).collect();
            writeln!(yaml, "budget: {{{}}}", bounds.join(", ")).unwrap();
        }
        yaml.push_str("prizes:\n");
        for (no, counts) in self.counts_as_win.iter().enumerate() {
            let stock = match no {
                1 if self.is_unlimited => "unlimited: true".to_owned(),
                _ if no < SCARCE_FROM => "stock: 1000000".to_owned(),
                CODED if self.has_codes => "codes: true".to_owned(),
                _ => format!("stock: {}", self.scarce_stock(no)),
            };
            let cap = self.caps[no].map_or_else(String::new, |(day, all)| {
                let day = day.map(|most| format!("perDay: {most}"));
                let all = all.map(|most| format!("total: {most}"));
                let bounds: Vec<_> = day.into_iter().chain(all).collect();
                format!(", perUser: {{{}}}", bounds.join(", "))
            });
            let value = self.budget.as_ref();
            let value = value.map_or_else(String::new, |(_, _, values)| {
                format!(", value: {}", fen(values[no]))
            });
            writeln!(
                yaml,
                "  - {{id: p{no}, {stock}, countsAsWin: {counts}{cap}{value}}}"
            )
            .unwrap();
        }
        for (id, rest, value) in OWN_PRIZES {
            let value = self.budget.as_ref().map(|_| fen(value));
            let value = value.map_or_else(String::new, |value| format!(", value: {value}"));
            writeln!(yaml, "  - {{id: {id}, {rest}{value}}}").unwrap();
        }
        if !self.guarantees.is_empty() {
            yaml.push_str("guarantees:\n");
        }
        for (no, (within, bits)) in self.guarantees.iter().enumerate() {
            let prizes = IN_OWN_POOLS.iter().enumerate();
            let prizes = prizes.filter(|(index, _)| bits >> index & 1 == 1);
            let prizes: Vec<_> = prizes.map(|(_, prize)| format!("p{prize}")).collect();
            let prizes = prizes.join(", ");
            writeln!(
                yaml,
                "  - {{id: promise{no}, prizes: [{prizes}], within: {within}}}"
            )
            .unwrap();
        }
        yaml.push_str("pools:\n");
        for (no, pool) in self.pools.iter().enumerate() {
            let (unlock, kind) = (pool.unlock_after_draws, pool.kind.yaml(no));
            let rule = pool.segments.map_or_else(String::new, |(any, none)| {
                let [any, none] = [any, none].map(|bits| segments_of(bits).join(", "));
                format!("segments: {{any: [{any}], none: [{none}]}}, ")
            });
            writeln!(
                yaml,
                "  - {{id: pool{no}, unlockAfterDraws: {unlock}, lockAfterWins: {}, \
                 unlockAfterDrawsToday: {}, {rule}{kind}}}",
                pool.lock_after_wins, pool.unlock_after_draws_today
            )
            .unwrap();
        }
        campaign(&yaml)
    }

    pub(super) fn scarce_stock(&self, prize: usize) -> u64 {
        self.cards_of_a_round(prize) + self.spare_stock
    }

    /// Cards of a prize in the first rounds of all decks.
    fn cards_of_a_round(&self, prize: usize) -> u64 {
        let cards = self.pools.iter().map(|pool| match &pool.kind {
            Kind::Schedule { .. } | Kind::Own { .. } => 0,
            Kind::Deck { cards, .. } => cards[prize],
        });
        cards.sum()
    }
}

impl Kind {
    fn yaml(&self, no: usize) -> String {
        match self {
            Self::Own {
                weights,
                rule,
                falls_back,
            } => {
                let weights = IN_OWN_POOLS.iter().zip(weights);
                let some: Vec<_> = weights.filter(|(_, weight)| **weight > 0).collect();
                let some = match &some[..] {
                    [] => vec![(&0, &1)],
                    _ => some,
                };
                let fallback = if *falls_back { ", fallback: p0" } else { "" };
                match rule {
                    OwnRule::Odds { guarantees } => {
                        let odds = some.iter().map(|(no, weight)| format!("p{no}: {weight}%"));
                        let odds = odds.collect::<Vec<_>>().join(", ");
                        let guarantees = guarantees.iter().enumerate();
                        let guarantees = guarantees
                            .map(|(index, it)| it.yaml(&format!("g{no}-{index}"), index == 0));
                        let guarantees = guarantees.collect::<Vec<_>>().join(", ");
                        format!(
                            "personal: {{odds: {{{odds}}}, guarantees: [{guarantees}]{fallback}}}"
                        )
                    }
                    OwnRule::Deck { reshuffles } => {
                        let size = some.iter().map(|(_, cards)| **cards).sum::<u64>() + 2;
                        let cards = some.iter().map(|(no, cards)| format!("p{no}: {cards}"));
                        let cards = cards.collect::<Vec<_>>().join(", ");
                        let on_exhausted = if *reshuffles { "RESHUFFLE" } else { "STOP" };
                        format!(
                            "personal: {{deck: {{size: {size}, cards: {{{cards}}}, \
                             onExhausted: {on_exhausted}}}{fallback}}}"
                        )
                    }
                }
            }
            Self::Schedule { per_hour } => {
                format!("schedule: {{perHour: {{{}}}}}", quantities(per_hour))
            }
            Self::Deck {
                cards,
                blanks,
                reshuffles,
            } => {
                let on_exhausted = if *reshuffles { "RESHUFFLE" } else { "STOP" };
                let size = cards.iter().sum::<u64>() + blanks + 1;
                let cards = quantities(cards);
                format!("deck: {{size: {size}, cards: {{{cards}}}, onExhausted: {on_exhausted}}}")
            }
        }
    }
}

/// Units by prize id; a unit of the first prize if there would be none.
fn quantities(units: &[u64]) -> String {
    let some: Vec<_> = units
        .iter()
        .enumerate()
        .filter(|(_, units)| **units > 0)
        .map(|(no, units)| format!("p{no}: {units}"))
        .collect();
    if some.is_empty() {
        "p0: 1".into()
    } else {
        some.join(", ")
    }
}
