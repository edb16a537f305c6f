//! 10,000 users draw ten at a time in parallel, each from a deck of their own.

use std::collections::BTreeMap;

use crate::support::{
    Answer as _, DrawWords as _, World, all_of, draw, embedded::Embedded, on_redis::OnRedis,
    world::Host,
};

const USERS: usize = 10_000;
/// Calls at once.
const CALLERS: usize = 64;

#[test]
fn each_of_ten_thousand_users_gets_exactly_the_cards_of_a_round() {
    play(Embedded::new());
}

#[test]
fn each_of_ten_thousand_users_on_redis_gets_exactly_the_cards_of_a_round() {
    play(OnRedis::single());
}

fn play(host: impl Host + 'static) {
    super::run(async {
        let world = World::new(host).await;
        world
            .begin(
                "
                prizes:
                  - {id: hero, stock: 10000, grand: true}
                  - {id: mug, stock: 60000}
                pools:
                  - id: own
                    personal:
                      deck: {size: 20, cards: {hero: 1, mug: 6}}
                ",
            )
            .await;
        let callers = all_of(CALLERS, |caller| {
            let world = world.clone();
            async move {
                let mut answers = Vec::new();
                // Both ten-pulls of a user, by different callers, at about the same time.
                for number in 0..2 * USERS / CALLERS + 1 {
                    let call = number * CALLERS + caller;
                    if call < 2 * USERS {
                        let user = format!("u{}", call / 2);
                        answers.push(world.draw(draw(&user).times(10)).await);
                    }
                }
                answers
            }
        });
        let mut found = BTreeMap::<String, [usize; 3]>::new();
        for answer in callers.await.into_iter().flatten() {
            let counts = found.entry(answer.entry.user.to_string()).or_default();
            for (count, prize) in counts.iter_mut().zip(["hero", "mug", ""]) {
                *count += answer.count(prize);
            }
        }
        assert_eq!(found.len(), USERS);
        for (user, counts) in found {
            assert_eq!(counts, [1, 6, 13], "{user}");
        }
        for prize in ["hero", "mug"] {
            assert_eq!(world.prize(prize).await.left, 0);
        }
        assert!(world.stats().await.balanced());
    });
}
