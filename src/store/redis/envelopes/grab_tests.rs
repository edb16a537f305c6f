//! The answers of grabs if a reply of the script, or a part of it, cannot be read.

use redis::Value;

use super::{codec::Base, *};
use crate::{
    model::{UserId, convert::envelope_from_proto},
    proto::CreateEnvelopeRequest,
    store::{
        Executed, LedgerId,
        redis::{
            batch::tests::{core, group},
            format::codec::Packer,
        },
    },
};

const GRABS: usize = 3;

fn grabs(core: &Core) -> Group {
    let (envelope, _) = envelope_from_proto(&CreateEnvelopeRequest {
        envelope_id: "one".into(),
        sender_id: "sender".into(),
        total_minor: 1_000,
        currency: "CNY".into(),
        packets: 10,
        ..CreateEnvelopeRequest::default()
    })
    .unwrap();
    let partition = &core.partitions[0];
    let known = Known {
        keys: partition.envelope(&envelope.id),
        partition: Arc::clone(partition),
        mark: [7; 8],
        start: Moment::EPOCH,
        expiry: Moment::FAR_FUTURE,
        base: Base {
            created: Moment::EPOCH,
            ledger: LedgerId {
                partition: 0,
                sequence: 70,
            },
        },
        envelope: Arc::new(envelope),
    };
    let calls = (0..GRABS).map(|number| {
        let user = UserId::parse("user", &format!("u-{number}")).unwrap();
        Grab {
            user: IdDigest::user(&user),
            command: GrabCommand {
                envelope: known.envelope.id.clone(),
                user,
                not_after: Moment::FAR_FUTURE,
            },
        }
    });
    let calls = calls.collect();
    group(Arc::new(known), calls)
}

fn packet(number: u64, amount: u64) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.count(number).count(amount).big_endian(5_000_000, 7);
    packer.count(number).done()
}

fn grabbed(number: u64, amount: u64) -> Vec<u8> {
    [b"G".to_vec(), packet(number, amount)].concat()
}

fn had(packet: &[u8]) -> Vec<u8> {
    let mut packer = Packer(vec![b'A']);
    packer.big_endian(packet.len() as u64, 2);
    packer.0.extend(packet);
    packer.done()
}

fn answers(value: Value) -> Result<Option<Vec<Result<Grabbed>>>> {
    let core = core();
    Grab::answers(&core, &grabs(&core), Moment::EPOCH, value)
}

fn read(replies: &[Vec<u8>]) -> Vec<Result<Grabbed>> {
    let reply = [b"0".to_vec(), replies.concat()].concat();
    answers(Value::BulkString(reply)).unwrap().unwrap()
}

fn executed<T>(answer: &Result<T>) -> Option<Executed> {
    match answer {
        Err(StoreError::Corrupt { executed, detail }) => {
            assert!(detail.contains("envelope one"), "{detail}");
            Some(*executed)
        }
        _ => None,
    }
}

#[test]
fn a_packet_of_before_that_cannot_be_read_fails_alone() {
    let foreign = [
        b"what somebody wrote there".to_vec(),
        Vec::new(),
        packet(1, 100)[..9].to_vec(),
        [packet(1, 100), b"x".to_vec()].concat(),
        packet(11, 100),
        packet(0, 100),
        packet(1, 1_001),
    ];
    for stored in foreign {
        let answers = read(&[grabbed(3, 100), had(&stored), grabbed(4, 100)]);
        assert_eq!(executed(&answers[1]), Some(Executed::Unknown), "{stored:?}");
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{stored:?}");
    }
    assert!(read(&[had(&packet(1, 100)), b"E".to_vec(), b"P".to_vec()])[0].is_ok());
}

#[test]
fn a_reply_that_is_cut_off_fails_the_grabs_behind_the_cut_as_unknown() {
    let whole = [grabbed(3, 100), grabbed(4, 100), grabbed(5, 100)].concat();
    let one = whole.len() / GRABS;
    for length in 0..whole.len() {
        let answers = read(&[whole[..length].to_vec()]);
        assert_eq!(answers.len(), GRABS);
        for (number, answer) in answers.iter().enumerate() {
            if (number + 1) * one <= length {
                assert!(answer.is_ok(), "{length} {number}");
            } else {
                assert_eq!(
                    executed(answer),
                    Some(Executed::Unknown),
                    "{length} {number}"
                );
            }
        }
    }
    let more = read(&[whole, b"E".to_vec()]);
    assert!(more[0].is_ok() && more[1].is_ok());
    assert_eq!(executed(&more[2]), Some(Executed::Unknown));
}

#[test]
fn a_reply_of_another_shape_may_have_grabbed_and_a_flaw_that_was_found_before_has_not() {
    let bytes = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
    for value in [Value::Nil, Value::Array(vec![]), bytes(b""), bytes(b"?")] {
        let answer = answers(value.clone());
        assert_eq!(executed(&answer), Some(Executed::Unknown), "{value:?}");
    }
    for flaw in [&b"X"[..], b"Xpacket 3 is missing", b"X\xff"] {
        assert_eq!(executed(&answers(bytes(flaw))), Some(Executed::No));
    }
    for answer in answers(bytes(b"0???")).unwrap().unwrap() {
        assert_eq!(executed(&answer), Some(Executed::Unknown));
    }
}
