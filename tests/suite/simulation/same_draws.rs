//! Two stores with the same campaign and the same chance: the embedded one, whose draws the rule in
//! `store/rules` decides, and one on Redis, whose draws its script decides. Every draw must give
//! the same results, units and all.

use tombola::{
    chance::{Nonce, Salt},
    model::{Moment, PrizeNo, limits::Funding},
    store::{
        ApplyCommand, BonusAnswer, BonusCommand, BonusEntry, DrawAnswer, DrawCommand, Operation,
        Result, StoreError, view::PrizeStats,
    },
};

use super::game::{CODED, Game, PRIZES, Step, segments_of};
use crate::support::{DrawWords as _, World, author, bonus, draw, hours, seconds};

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
        if game.has_codes && game.scarce_stock(CODED) > 0 {
            let codes = (0..game.scarce_stock(CODED)).map(|index| format!("CODE-{index}"));
            let id = format!("p{CODED}");
            world.import(&id, 0, &Vec::from_iter(codes)).await;
        }
        let id = definition.id.as_str();
        let partition = world.store().partition_of(id);
        let salt = world.store().salt(partition, id, Salt([2; 32])).await;
        assert_eq!(salt.unwrap().0, [2; 32], "users have the same chance");
        world.set_time(definition.start).await;
    }
    for step in &game.steps {
        match step {
            Step::Draw {
                user,
                count,
                paid,
                segments,
            } => {
                let stated = segments_of(*segments);
                let mut command = draw(&format!("u{user}")).times(*count).with(&stated);
                if *paid {
                    command.funding = Funding::Paid;
                }
                draw_on_both(&one, &other, &command).await;
            }
            Step::Bonus {
                user,
                draws,
                hours: n,
            } => {
                let command = BonusCommand {
                    expires: one.time() + hours(*n),
                    ..bonus(&format!("u{user}"), *draws)
                };
                let by_rule = granted(one.store().grant_bonus(command.clone()).await);
                let by_script = granted(other.store().grant_bonus(command).await);
                assert_eq!(by_rule, by_script);
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
        (sums(&stats.prizes, game.is_unlimited), stats.draws),
        (sums(&same.prizes, game.is_unlimited), same.draws)
    );
    one.audit().await;
    other.audit().await;
}

/// What draws decide of each prize. How many of the other units are in pools already depends on
/// fills in the background, and so does what an unlimited prize was given.
fn sums(prizes: &[PrizeStats], is_unlimited: bool) -> Vec<[u64; 5]> {
    let sums = prizes.iter().enumerate().map(|(no, prize)| {
        let given = if is_unlimited && no == 1 || [PRIZES, PRIZES + 2].contains(&no) {
            0
        } else {
            prize.stock
        };
        let not_won = given.saturating_sub(prize.won + prize.withdrawn);
        [given, not_won, prize.won, prize.withdrawn, prize.forfeited]
    });
    sums.collect()
}

async fn operate(one: &World, other: &World, operation: impl Fn(PrizeNo) -> Operation, prize: u16) {
    for world in [one, other] {
        world.operate(operation(PrizeNo(prize))).await;
    }
}

/// What a grant is answered, or why it is refused.
fn granted(answer: Result<BonusAnswer>) -> std::result::Result<(Moment, BonusEntry), String> {
    match answer {
        Ok(answer) => Ok((answer.at, (*answer.entry).clone())),
        Err(StoreError::Refused(refusal)) => Err(refusal.to_string()),
        Err(error) => panic!("{error}"),
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
