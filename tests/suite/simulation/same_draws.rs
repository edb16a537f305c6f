//! Two stores with the same campaign and the same chance: the embedded one, whose draws the rule in
//! `store/rules` decides, and one on Redis, whose draws its script decides. Every draw must give
//! the same results, units and all.

use std::fmt::Write as _;

use proptest::{collection::vec, prelude::*};
use tombola::{
    chance::Nonce,
    model::{Campaign, PrizeNo, limits::Funding},
    store::{
        ApplyCommand, DrawAnswer, DrawCommand, Operation, Result, StoreError, view::PrizeStats,
    },
};

use crate::support::{DrawWords as _, World, author, campaign, draw, seconds};

/// Prizes 0 and 1 have stock for everything; prizes 2 and 3, which are in decks only, for little
/// more than a round of each deck.
/// (Where several pools compete for stock, the order of fills decides, and that may differ.)
const PRIZES: usize = 4;
const SCARCE_FROM: usize = 2;
/// A deck stays below the number of cards from which on more are dealt beside the draws.
const DECK_SIZE_MAX: u64 = 40;

/// A random campaign, and what happens in it.
#[derive(Clone, Debug)]
pub struct Game {
    pools: Vec<Pool>,
    spare_stock: u64,
    has_consolation: bool,
    wins_per_user: Option<u32>,
    counts_as_win: Vec<bool>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Pool {
    unlock_after_draws: u32,
    kind: Kind,
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
}

#[derive(Clone, Debug)]
enum Step {
    Draw { user: u8, count: u32, paid: bool },
    Pass { seconds: u64 },
    Pause { prize: u16 },
    Resume { prize: u16 },
}

/// Any game.
pub fn any_game() -> impl Strategy<Value = Game> {
    (
        vec(any_pool(), 1..=4),
        0..12_u64,
        any::<bool>(),
        prop::option::of(0..6_u32),
        vec(any::<bool>(), PRIZES),
        vec(any_step(), 30),
    )
        .prop_map(
            |(pools, spare_stock, has_consolation, wins_per_user, counts_as_win, steps)| Game {
                pools,
                spare_stock,
                has_consolation,
                wins_per_user,
                counts_as_win,
                steps,
            },
        )
}

fn any_pool() -> impl Strategy<Value = Pool> {
    let unlock = prop_oneof![2 => Just(0), 1 => 1..6_u32];
    (unlock, any_kind()).prop_map(|(unlock_after_draws, kind)| Pool {
        unlock_after_draws,
        kind,
    })
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
    prop_oneof![schedule, deck]
}

fn any_step() -> impl Strategy<Value = Step> {
    let prize = || 0..PRIZES as u16;
    prop_oneof![
        12 => (0..3_u8, 1..8_u32, any::<bool>())
            .prop_map(|(user, count, paid)| Step::Draw { user, count, paid }),
        4 => (1..5_000_u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => prize().prop_map(|prize| Step::Pause { prize }),
        1 => prize().prop_map(|prize| Step::Resume { prize }),
    ]
}

impl Game {
    /// The campaign that is played.
    pub fn campaign(&self) -> std::sync::Arc<Campaign> {
        let mut yaml = String::new();
        if let Some(limit) = self.wins_per_user {
            writeln!(yaml, "limits: {{winsPerUser: {limit}}}").unwrap();
        }
        if self.has_consolation {
            yaml.push_str("consolation: {id: points}\n");
        }
        yaml.push_str("prizes:\n");
        for (no, counts) in self.counts_as_win.iter().enumerate() {
            let stock = if no < SCARCE_FROM {
                1_000_000
            } else {
                self.cards_of_a_round(no) + self.spare_stock
            };
            writeln!(
                yaml,
                "  - {{id: p{no}, stock: {stock}, countsAsWin: {counts}}}"
            )
            .unwrap();
        }
        yaml.push_str("pools:\n");
        for (no, pool) in self.pools.iter().enumerate() {
            let (unlock, kind) = (pool.unlock_after_draws, pool.kind.yaml());
            writeln!(
                yaml,
                "  - {{id: pool{no}, unlockAfterDraws: {unlock}, {kind}}}"
            )
            .unwrap();
        }
        campaign(&yaml)
    }

    /// Cards of a prize in the first rounds of all decks.
    fn cards_of_a_round(&self, prize: usize) -> u64 {
        let cards = self.pools.iter().map(|pool| match &pool.kind {
            Kind::Schedule { .. } => 0,
            Kind::Deck { cards, .. } => cards[prize],
        });
        cards.sum()
    }
}

impl Kind {
    fn yaml(&self) -> String {
        match self {
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

/// Plays a game on both stores.
pub async fn play(
    one: impl Future<Output = World>,
    other: impl Future<Output = World>,
    game: Game,
) {
    let (one, other) = (one.await, other.await);
    let definition = game.campaign();
    for world in [&one, &other] {
        let command = ApplyCommand {
            campaign: definition.clone(),
            base_version: 0,
            nonce: Nonce([1; 32]),
            commitment: "0".repeat(64),
            author: author("begin"),
        };
        world.store().apply(command).await.unwrap();
        world.set_time(definition.start).await;
    }
    for step in &game.steps {
        match step {
            Step::Draw { user, count, paid } => {
                let mut command = draw(&format!("u{user}")).times(*count);
                if *paid {
                    command.funding = Funding::Paid;
                }
                draw_on_both(&one, &other, &command).await;
            }
            Step::Pass { seconds: n } => {
                for world in [&one, &other] {
                    world.pass(seconds(*n)).await;
                }
            }
            Step::Pause { prize } => {
                operate(
                    &one,
                    &other,
                    |prize| Operation::PausePrize { prize },
                    *prize,
                )
                .await
            }
            Step::Resume { prize } => {
                operate(
                    &one,
                    &other,
                    |prize| Operation::ResumePrize { prize },
                    *prize,
                )
                .await
            }
        }
    }
    let (stats, same) = (one.stats().await, other.stats().await);
    assert_eq!(
        (sums(&stats.prizes), stats.draws),
        (sums(&same.prizes), same.draws)
    );
    one.audit().await;
    other.audit().await;
}

/// What draws decide of each prize. How many of the other units are in pools already depends on
/// fills in the background.
fn sums(prizes: &[PrizeStats]) -> Vec<[u64; 5]> {
    let sums = prizes.iter().map(|prize| {
        let not_won = prize.left + prize.waiting;
        [
            prize.stock,
            not_won,
            prize.won,
            prize.withdrawn,
            prize.forfeited,
        ]
    });
    sums.collect()
}

async fn operate(one: &World, other: &World, operation: impl Fn(PrizeNo) -> Operation, prize: u16) {
    for world in [one, other] {
        world.operate(operation(PrizeNo(prize))).await;
    }
}

async fn draw_on_both(one: &World, other: &World, command: &DrawCommand) {
    let entry = |answer: Result<DrawAnswer>| match answer {
        Ok(answer) => Ok(answer.entry),
        Err(StoreError::Refused(refusal)) => Err(refusal.to_string()),
        Err(error) => panic!("{error}: {command:?}"),
    };
    let by_rule = entry(one.try_draw(command.clone()).await);
    let by_script = entry(other.try_draw(command.clone()).await);
    assert_eq!(by_rule, by_script);
    for world in [one, other] {
        // What a draw has left to be filled beside it is filled before time passes.
        world.injector().settle(&command.campaign).await.unwrap();
    }
}
