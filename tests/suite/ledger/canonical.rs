//! The same campaign gives the same canonical bytes on every store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use proptest::{collection::vec, prelude::*};
use tombola::{
    chance::{Nonce, Salt},
    ledger::{DirectoryTarget, entry::StoredEntry},
    model::{Moment, PoolNo, PrizeNo, convert::envelope_from_proto, limits::Funding},
    store::{
        ApplyCommand, BonusCommand, CreateEnvelope, LedgerId, Operation, StoreError, WinOperation,
        WonUnit, entry::Body,
    },
};

use super::{
    found,
    place::{Place, Row},
    settle_all,
};
use crate::{
    simulation::{
        game::{Game, any_game, segments_of},
        run_random,
    },
    support::{
        Answer as _, DrawWords as _, World, author, bonus, draw, embedded::Embedded, envelope,
        envelope_id, hours, on_redis::OnRedis, request, seconds, users, world::key,
    },
};

/// The format of canonical bytes.
const CANONICAL: i16 = 2;

/// Something that is done on both stores.
#[derive(Clone, Debug)]
enum Act {
    Draw {
        user: u8,
        count: u32,
        paid: bool,
        segments: u8,
    },
    Bonus {
        user: u8,
        draws: u32,
    },
    Pass {
        seconds: u64,
    },
    Operate(Operate),
    Deliver {
        win: usize,
    },
    Revoke {
        win: usize,
        withdraw: bool,
    },
    Create {
        packets: u32,
    },
    Grab {
        envelope: usize,
        user: u8,
    },
    MoreStock,
}

#[derive(Clone, Debug)]
enum Operate {
    Pause,
    Resume,
    PausePrize(u16),
    ResumePrize(u16),
    Recall { withdraw: bool },
    Grant(u8),
    Block(u8),
    Unblock(u8),
    Close,
}

fn any_act() -> impl Strategy<Value = Act> {
    let user = || 0..4_u8;
    prop_oneof![
        16 => (user(), 1..8_u32, any::<bool>(), 0..8_u8)
            .prop_map(|(user, count, paid, segments)| Act::Draw { user, count, paid, segments }),
        4 => (user(), 1..4_u32).prop_map(|(user, draws)| Act::Bonus { user, draws }),
        4 => (1..5_000_u64).prop_map(|seconds| Act::Pass { seconds }),
        4 => any_operation().prop_map(Act::Operate),
        2 => any::<usize>().prop_map(|win| Act::Deliver { win }),
        1 => (any::<usize>(), any::<bool>())
            .prop_map(|(win, withdraw)| Act::Revoke { win, withdraw }),
        1 => (1..5_u32).prop_map(|packets| Act::Create { packets }),
        4 => (any::<usize>(), user()).prop_map(|(envelope, user)| Act::Grab { envelope, user }),
        1 => Just(Act::MoreStock),
    ]
}

fn any_operation() -> impl Strategy<Value = Operate> {
    let (prize, user) = (|| 0..4_u16, || 0..4_u8);
    prop_oneof![
        2 => Just(Operate::Pause),
        6 => Just(Operate::Resume),
        2 => prize().prop_map(Operate::PausePrize),
        2 => prize().prop_map(Operate::ResumePrize),
        2 => any::<bool>().prop_map(|withdraw| Operate::Recall { withdraw }),
        4 => user().prop_map(Operate::Grant),
        2 => user().prop_map(Operate::Block),
        3 => user().prop_map(Operate::Unblock),
        1 => Just(Operate::Close),
    ]
}

impl Operate {
    fn operation(&self, now: Moment) -> Operation {
        let user = |user: &u8| users(&[&format!("u{user}")]);
        match self {
            Self::Pause => Operation::Pause,
            Self::Resume => Operation::Resume,
            Self::PausePrize(prize) => Operation::PausePrize {
                prize: PrizeNo(*prize),
            },
            Self::ResumePrize(prize) => Operation::ResumePrize {
                prize: PrizeNo(*prize),
            },
            Self::Recall { withdraw } => Operation::Recall {
                pool: PoolNo(0),
                window: None,
                prize: None,
                withdraw: *withdraw,
            },
            Self::Grant(id) => Operation::Grant {
                users: user(id),
                draws: 2,
                expires: now + hours(48),
            },
            Self::Block(id) => Operation::Block { users: user(id) },
            Self::Unblock(id) => Operation::Unblock { users: user(id) },
            Self::Close => Operation::Close,
        }
    }
}

/// The salt of a campaign, or of what is of none. Pseudonyms depend on salts, which are random, so
/// both stores are given the same ones.
fn salt_of(campaign: &str) -> Salt {
    Salt([if campaign.is_empty() { 2 } else { 1 }; 32])
}

/// One of the two stores, and what was won and created on it.
struct Player {
    world: World,
    place: Place,
    wins: Vec<WonUnit>,
    envelopes: usize,
    /// The entries of draws and of callers' grants, as they were acknowledged.
    acknowledged: Vec<(LedgerId, Body)>,
}

impl Player {
    /// Begins a game.
    async fn begin(world: World, place: Place, game: &Game) -> Self {
        let definition = game.campaign();
        for campaign in ["spring", ""] {
            let salt = salt_of(campaign);
            let kept = world.store().salt(0, campaign, salt).await.unwrap();
            assert_eq!(kept, salt);
        }
        let command = ApplyCommand {
            campaign: definition.clone(),
            base_version: 0,
            nonce: Nonce([1; 32]),
            commitment: "0".repeat(64),
            author: author("begin"),
        };
        world.store().apply(command).await.unwrap();
        world.set_time(definition.start).await;
        Self {
            world,
            place,
            wins: Vec::new(),
            envelopes: 0,
            acknowledged: Vec::new(),
        }
    }

    /// Fills all that is due, so that no draw leaves anything to be filled beside it: how much that
    /// were would depend on the moment.
    async fn fill(&self) {
        self.world.tick().await;
    }

    /// Does what a player or an operator does; what is refused is text.
    async fn act(&mut self, index: usize, act: &Act, game: &Game) -> String {
        self.fill().await;
        let name = format!("request-{index}");
        let done = match act {
            Act::Draw {
                user,
                count,
                paid,
                segments,
            } => {
                let command = draw(&format!("u{user}")).times(*count).named(&name);
                let mut command = command.with(&segments_of(*segments));
                if *paid {
                    command.funding = Funding::Paid;
                    command.payment_ref = format!("order {index}");
                }
                let answer = self.world.try_draw(command).await;
                answer.map(|answer| {
                    self.wins.extend(answer.won_units());
                    let body = Body::Draw((*answer.entry).clone());
                    self.acknowledged.push((answer.ledger, body));
                    format!("{:?}", answer.entry.results)
                })
            }
            Act::Bonus { user, draws } => {
                let command = BonusCommand {
                    request: request(&name),
                    expires: self.world.time() + hours(48),
                    ..bonus(&format!("u{user}"), *draws)
                };
                let answer = self.world.store().grant_bonus(command).await;
                answer.map(|answer| {
                    let body = Body::Bonus((*answer.entry).clone());
                    self.acknowledged.push((answer.ledger, body));
                    format!("{:?}", answer.entry.counts)
                })
            }
            Act::Pass { seconds: n } => {
                self.world.pass(seconds(*n)).await;
                Ok(String::new())
            }
            Act::Operate(operate) => {
                let operation = operate.operation(self.world.time());
                let operated = self.world.operate_as(&name, operation).await;
                operated.map(|_| String::new())
            }
            Act::Deliver { win } => {
                let reference = format!("parcel {index}");
                self.deliver(&name, *win, WinOperation::Deliver { reference })
                    .await
            }
            Act::Revoke { win, withdraw } => {
                let withdraw = *withdraw;
                self.deliver(&name, *win, WinOperation::Revoke { withdraw })
                    .await
            }
            Act::Create { packets } => self.create(*packets).await,
            Act::Grab { envelope, user } => {
                let id = format!("e{}", envelope % self.envelopes.max(1));
                let grabbed = self.world.try_grab(&id, &format!("u{user}")).await;
                grabbed.map(|outcome| format!("{outcome:?}"))
            }
            Act::MoreStock => self.add_stock(&name, game).await,
        };
        self.fill().await;
        match done {
            Ok(text) => text,
            Err(StoreError::Refused(refusal)) => refusal.to_string(),
            Err(error) => panic!("{error}: {act:?}"),
        }
    }

    async fn deliver(
        &self,
        name: &str,
        win: usize,
        operation: WinOperation,
    ) -> Result<String, StoreError> {
        if self.wins.is_empty() {
            return Ok(String::new());
        }
        let win = &self.wins[win % self.wins.len()];
        let operated = self.world.operate_win_as(name, win, operation).await;
        operated.map(|operated| format!("{:?}", operated.delivery))
    }

    async fn create(&mut self, packets: u32) -> Result<String, StoreError> {
        let id = format!("e{}", self.envelopes);
        let mut request = envelope(&id, 1_000, packets);
        request.attributes.insert("text".into(), "luck".into());
        let (envelope, _) = envelope_from_proto(&request).unwrap();
        let command = CreateEnvelope {
            envelope: envelope.into(),
            allowed_users: users(&["u0", "u1", "u2"]).into(),
            created_by: None,
            nonce: Nonce([3; 32]),
            commitment: "0".repeat(64),
            packets: Vec::new(),
        };
        self.envelopes += 1;
        let created = self.world.store().create_envelope(command).await;
        created.map(|_| String::new())
    }

    async fn add_stock(&self, name: &str, game: &Game) -> Result<String, StoreError> {
        let store = self.world.store();
        let mut campaign = (*game.campaign()).clone();
        let view = store.campaign(&campaign.id).await?;
        for (prize, now) in campaign.prizes.iter_mut().zip(&view.campaign.prizes) {
            if !prize.unlimited && !prize.codes {
                prize.stock = now.stock + 1;
            }
        }
        let command = ApplyCommand {
            campaign: campaign.into(),
            base_version: view.version,
            nonce: Nonce([1; 32]),
            commitment: "0".repeat(64),
            author: author(name),
        };
        store.apply(command).await.map(|_| String::new())
    }

    /// Everything that is settled of this store. Each row is read as an entry that gives the same
    /// row again, and all that was acknowledged is there.
    async fn settled(&self) -> Vec<Row> {
        let store = self.world.store().clone();
        let (mut carrier, mut sink) = self.place.settler(&store).await;
        settle_all(&mut carrier, &mut *sink).await;
        let rows = self.place.rows().await;
        let mut bodies = BTreeMap::new();
        for row in &rows {
            let entry = row.clone().entry();
            let campaign = row.campaign.as_deref().unwrap_or_default();
            let pseudonyms = key().pseudonyms(campaign, &salt_of(campaign));
            let again = StoredEntry::of(&entry, &pseudonyms);
            assert_eq!(str::from_utf8(&again.body).unwrap(), text(row));
            assert_eq!(
                (again.user, again.request, again.people),
                (row.user.clone(), row.request.clone(), row.people.clone())
            );
            bodies.insert(entry.id, entry.body);
        }
        for (ledger, body) in &self.acknowledged {
            assert_eq!(bodies.get(ledger), Some(body));
        }
        rows
    }
}

/// Plays a game on both stores to its end; the kinds of entries that it gave.
async fn play(game: Game, acts: Vec<Act>) -> BTreeSet<String> {
    let files = tempfile::tempdir().unwrap();
    let embedded = World::new(Embedded::new()).await;
    let own_file = Place::own_file(&embedded);
    let redis = World::new(OnRedis::single().undivided()).await;
    let directory = Place::Directory(DirectoryTarget {
        path: files.path().join("ledger"),
        file_bytes_max: 1 << 20,
    });
    let mut one = Player::begin(embedded, own_file, &game).await;
    let mut other = Player::begin(redis, directory, &game).await;
    for (index, act) in acts.iter().enumerate() {
        let (by_one, by_other) = (
            one.act(index, act, &game).await,
            other.act(index, act, &game).await,
        );
        assert_eq!(by_one, by_other, "{act:?}");
    }
    // The end of all envelopes, and then of the campaign.
    for player in [&one, &other] {
        for _ in 0..2 {
            player.world.pass(hours(20 * 24)).await;
            // One after the other: a tick refunds several at once, in any order.
            for number in 0..player.envelopes {
                let id = envelope_id(&format!("e{number}"));
                drop(player.world.injector().envelope(&id).await);
            }
            player.fill().await;
        }
    }
    let (of_one, of_other) = (
        by_number(one.settled().await),
        by_number(other.settled().await),
    );
    let tables = one.world.store().ledger_tables().unwrap();
    assert_ne!(found::all_lists(&tables).await, 0);
    for (found, same) in of_one.iter().zip(&of_other) {
        assert_eq!(text(found), text(same));
        let beside = |row: &Row| Row {
            sequence: 0,
            ..row.clone()
        };
        assert_eq!(beside(found), beside(same));
    }
    assert_eq!(of_one.len(), of_other.len());
    of_one.iter().map(kind).collect()
}

fn kind(row: &Row) -> String {
    let json: serde_json::Value = serde_json::from_slice(&row.body).unwrap();
    json["body"]["kind"].as_str().unwrap().to_owned()
}

/// By campaign and number: sequence numbers differ between stores.
fn by_number(mut rows: Vec<Row>) -> Vec<Row> {
    assert!(rows.iter().all(|row| row.format == CANONICAL));
    rows.sort_by_key(|row| (row.campaign.clone(), row.number));
    rows
}

fn text(row: &Row) -> &str {
    str::from_utf8(&row.body).unwrap()
}

#[test]
fn the_same_campaign_has_the_same_canonical_bytes_on_both_stores() {
    let seen = Mutex::new(BTreeSet::new());
    run_random(8, (any_game(), vec(any_act(), 60)), |(game, acts)| async {
        let kinds = play(game, acts).await;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(kinds);
    });
    // Whatever the games were, most of them have each of these.
    for kind in [
        "applied",
        "draw",
        "bonus",
        "operated",
        "envelope_created",
        "refund",
        "closed",
    ] {
        assert!(seen.lock().unwrap().contains(kind), "{kind}: {seen:?}");
    }
    for kind in seen.lock().unwrap().iter() {
        assert!(Body::KINDS.contains(&&**kind), "{kind} cannot be asked for");
    }
}
