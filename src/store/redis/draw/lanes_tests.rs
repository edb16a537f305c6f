//! The answers of draws if a reply of the script, or a part of it, cannot be read.

use proptest::prelude::*;
use redis::Value;

use super::*;
use crate::{
    model::{
        RequestId, UserId,
        convert::{campaign_from_proto, tests::spring_wheel},
        limits::Funding,
    },
    store::{
        Executed,
        redis::{
            batch::tests::{core, group},
            format::{codec::Packer, keys},
        },
    },
};

const DRAWS: usize = 4;
/// The latest draw, and of the counts only three.
const LATEST_AND_PLAIN: u64 = 2 + 8;
const DAY: u64 = 20_779;

fn job(number: usize) -> Job {
    let command = DrawCommand {
        campaign: campaign_from_proto(&spring_wheel()).unwrap().id,
        user: UserId::parse("user", &format!("u-{number}")).unwrap(),
        request: RequestId::parse("request", &format!("r-{number}")).unwrap(),
        count: 2,
        funding: Funding::Free,
        payment_ref: String::new(),
        consolation_only: false,
        segments: Vec::new(),
        expire: None,
        not_after: Moment::FAR_FUTURE,
        chance: None,
    };
    Job::new(Ask::Draw(Arc::new(command)))
}

fn draws(core: &Core) -> Group {
    let campaign = Arc::new(campaign_from_proto(&spring_wheel()).unwrap());
    let slots = keys::slots(&campaign, &Vec::new());
    let layout = Layout::new(&core.partitions[0], campaign, 1, slots);
    group(Arc::new(layout), (0..DRAWS).map(job).collect())
}

/// The results of a draw: a unit of this prize and the consolation prize.
fn results(packer: &mut Packer, prize: u64) {
    packer.count(2).count(prize);
    packer
        .0
        .extend(crate::store::redis::format::codec::encode_unit(
            1_795_960_801_000_000,
            crate::store::Unit {
                window: 1_795_960_800,
                fork: 0,
                number: 17,
            },
        ));
    packer.count(1);
}

/// What the script replies to a draw that it made.
fn made(job: &Job, prize: u64) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.big_endian(DAY * 16 + LATEST_AND_PLAIN, 3);
    packer.count(2).count(2).count(1); // free draws, draws, wins
    packer.big_endian(3 * 86_400_000_000, 5);
    packer.0.extend(job.request);
    packer.count(9).count(2 * 8).count(1); // sequence number, two free draws, version
    results(&mut packer, prize);
    packer.done()
}

fn letter(letter: u8, detail: &[u8]) -> Vec<u8> {
    let mut packer = Packer(vec![letter]);
    packer.big_endian(detail.len() as u64, 2);
    packer.0.extend(detail);
    packer.done()
}

/// A draw of before, as a field of its own has it.
fn remembered() -> Vec<u8> {
    let mut packer = Packer::default();
    packer.big_endian(1_795_960_802_000_000, 7);
    for count in [2, 0, 2, 0, 1, 0] {
        packer.count(count);
    }
    packer.count(9).count(2 * 8).count(1);
    results(&mut packer, 0);
    packer.done()
}

fn read(replies: &[Vec<u8>]) -> Vec<Result<Drawn>> {
    let value = Value::Array(vec![
        Value::BulkString(replies.concat()),
        Value::BulkString(Vec::new()),
    ]);
    answers(value).unwrap().unwrap()
}

fn answers(value: Value) -> Result<Option<Vec<Result<Drawn>>>> {
    let core = core();
    let now = Moment::from_micros(1_795_960_803_000_000);
    let answers = Job::answers(&core, &draws(&core), now, value)?;
    let drawn = |answer| match answer {
        Answer::Drawn(drawn) => drawn,
        Answer::Granted(_) | Answer::WrongGuess(_) => panic!("a draw was answered otherwise"),
    };
    Ok(answers.map(|all| all.into_iter().map(|answer| answer.map(drawn)).collect()))
}

fn executed<T>(answer: &Result<T>) -> Option<Executed> {
    match answer {
        Err(StoreError::Corrupt { executed, detail }) => {
            assert!(detail.contains("campaign spring-wheel"), "{detail}");
            Some(*executed)
        }
        _ => None,
    }
}

fn all_made() -> Vec<Vec<u8>> {
    (0..DRAWS).map(|number| made(&job(number), 0)).collect()
}

#[test]
fn draws_read_back() {
    let mut replies = all_made();
    replies[1] = letter(b'R', &remembered());
    replies[2] = letter(b'U', &[]);
    let answers = read(&replies);
    for (number, replayed) in [(0, false), (1, true), (3, false)] {
        match &answers[number] {
            Ok(Drawn::Done(answer)) => {
                assert_eq!((answer.replayed, answer.ledger.sequence), (replayed, 9));
                assert_eq!(answer.entry.results.len(), 2);
            }
            other => panic!("{number}: {other:?}"),
        }
    }
    assert!(matches!(
        answers[2],
        Err(StoreError::Refused(Refusal::RequestIdReused))
    ));
}

#[test]
fn a_reply_that_is_cut_off_fails_the_draws_behind_the_cut_as_unknown() {
    let whole = all_made().concat();
    let one = whole.len() / DRAWS;
    for length in 0..whole.len() {
        let answers = read(&[whole[..length].to_vec()]);
        assert_eq!(answers.len(), DRAWS);
        for (number, answer) in answers.iter().enumerate() {
            if (number + 1) * one <= length {
                assert!(matches!(answer, Ok(Drawn::Done(_))), "{length} {number}");
            } else {
                assert_eq!(
                    executed(answer),
                    Some(Executed::Unknown),
                    "{length} {number}"
                );
            }
        }
    }
}

#[test]
fn a_draw_whose_end_is_known_fails_alone() {
    let foreign = [
        (
            letter(b'R', b"what somebody wrote there"),
            Executed::Unknown,
        ),
        (letter(b'R', &remembered()[..20]), Executed::Unknown),
        (
            letter(b'R', &[remembered(), b"x".to_vec()].concat()),
            Executed::Unknown,
        ),
        (letter(b'Z', b"new"), Executed::Unknown),
        (letter(b'Q', b"no record"), Executed::No),
        (letter(b'F', b""), Executed::No),
        (letter(b'A', b"9"), Executed::No),
        (letter(b'E', b""), Executed::No),
        (made(&job(1), 99), Executed::Unknown),
    ];
    for (reply, truth) in foreign {
        let mut replies = all_made();
        replies[1] = reply;
        let answers = read(&replies);
        for (number, answer) in answers.iter().enumerate() {
            if number == 1 {
                assert_eq!(executed(answer), Some(truth), "{:?}", replies[1]);
            } else {
                assert!(matches!(answer, Ok(Drawn::Done(_))), "{number} {answer:?}");
            }
        }
    }
}

#[test]
fn a_draw_of_another_request_is_nobody_s_answer() {
    let mut replies = all_made();
    replies.swap(1, 2);
    let answers = read(&replies);
    assert!(answers[0].is_ok());
    for answer in &answers[1..] {
        assert_eq!(executed(answer), Some(Executed::Unknown));
    }
}

#[test]
fn more_than_was_asked_for_makes_the_last_draw_unknown() {
    let mut replies = all_made();
    replies.push(vec![0]);
    let answers = read(&replies);
    assert!(answers[..DRAWS - 1].iter().all(Result::is_ok));
    assert_eq!(executed(&answers[DRAWS - 1]), Some(Executed::Unknown));
}

#[test]
fn a_reply_of_another_shape_may_have_been_drawn_and_a_flaw_that_was_found_before_was_not() {
    let bytes = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
    for value in [
        Value::Nil,
        Value::Int(1),
        bytes(b""),
        bytes(b"?"),
        Value::Array(vec![]),
        Value::Array(vec![bytes(b"")]),
        Value::Array(vec![Value::Nil, bytes(b"")]),
    ] {
        let answer = answers(value.clone());
        assert_eq!(executed(&answer), Some(Executed::Unknown), "{value:?}");
    }
    for flaw in [&b"X"[..], b"Xwrong type", b"X\xff\xfe"] {
        assert_eq!(executed(&answers(bytes(flaw))), Some(Executed::No));
    }
    for again in [&b"V"[..], b"Y"] {
        assert!(matches!(answers(bytes(again)), Ok(None)));
    }
    // The list of decks that run low is only a hint: the draws are answered without it.
    let value = Value::Array(vec![bytes(&all_made().concat()), bytes(b"\xc1")]);
    assert!(answers(value).unwrap().unwrap().iter().all(Result::is_ok));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_reply_makes_the_service_panic_or_say_that_a_draw_was_not_made(
        index in 0..400usize, noise in proptest::collection::vec(any::<u8>(), 1..8)
    ) {
        let mut reply = all_made().concat();
        for (offset, byte) in noise.into_iter().enumerate() {
            let length = reply.len();
            reply[(index + offset) % length] = byte;
        }
        // The noise may make a letter, which means that a draw was not made; no error may say so.
        for answer in read(&[reply]) {
            if let Err(StoreError::Corrupt { executed, detail }) = answer
                && detail.contains("does not read back")
            {
                prop_assert_eq!(executed, Executed::Unknown);
            }
        }
    }
}
