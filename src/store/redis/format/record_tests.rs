//! Records read back, and damaged ones are errors.

use proptest::prelude::*;

use super::*;
use crate::{
    model::{CampaignId, PrizeNo, limits::Funding},
    store::{
        BonusCommand, DrawCommand, Executed,
        entry::Body,
        redis::{
            envelopes::decode_grabs,
            format::{
                asked::{decode_draws, encode_bonus_part, encode_part},
                codec,
                counts::EXTENSION_BYTES_MAX,
                ids::unpack_id,
            },
        },
    },
};

proptest! {
    #[test]
    fn no_stored_bytes_make_a_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        more in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = decode_record(&bytes);
        let _ = decode_remembered(&bytes);
        let _ = decode_draws(&bytes, &more, 1);
        let _ = decode_grabs(&bytes, &more);
        let _ = codec::decode_unit(&bytes);
        let _ = unpack_id(&mut Unpacker::new(&bytes));
    }
}

#[test]
fn an_extended_record_is_read_and_an_unknown_field_in_it_is_not() {
    let record = UserRecord {
        day: Some(Day(20_779)),
        draws: 3,
        bonus_used: 1,
        bonus: vec![Bonus {
            expires: Moment::from_micros(1_795_960_801_000_000),
            left: 2,
        }],
        ..UserRecord::default()
    };
    let extended = |fields: &[u8]| {
        let mut bytes = encode_record(&record, true);
        bytes[2] = bytes[2] & 0xf0 | EXTENDED | OLDER;
        bytes.extend((fields.len() as u16).to_be_bytes());
        bytes.extend(fields);
        decode_record(&bytes)
    };
    let read = extended(&[]).unwrap();
    assert_eq!((read.record, read.has_older), (record.clone(), true));
    let error = extended(&[100, 1]).unwrap_err();
    assert!(error.to_string().contains("field 100"), "{error}");
    assert_eq!(error.executed(), Executed::No);
    // Prize 7 was won once today and three times in all; then fields that are none.
    let prizes = extended(&[1, 0x93, 7, 1, 3]).unwrap().record.prizes;
    assert_eq!(prizes.iter().collect::<Vec<_>>(), [(PrizeNo(7), 1, 3)]);
    let others = extended(&[2, 0x92, 120, 4, 3, 9, 5, 8]).unwrap().record;
    assert_eq!(others.hour, Some((120, 4).into()));
    assert_eq!((others.granted_today, others.bonus_today), (9, 8));
    for flaw in [
        &[1, 0x92, 7, 1][..],
        &[2, 0x91, 7],
        &[3, 1, 2, 0x92, 120, 4],
        &[3, 0x90],
        &[1, 0x93, 7, 1],
        &[1, 0x90, 1, 0x90],
        &[1],
        &[0, 1],
    ] {
        assert!(extended(flaw).is_err(), "{flaw:?}");
    }
    let long = [&[1, 0xdc, 8, 0][..], &[0; EXTENSION_BYTES_MAX]].concat();
    assert!(extended(&long).is_err());
}

#[test]
fn a_record_of_wins_of_capped_prizes_reads_back() {
    let bonus = Bonus {
        expires: Moment::from_micros(1_795_960_801_000_000),
        left: 2,
    };
    for bonus in [vec![], vec![bonus]] {
        let record = UserRecord {
            day: Some(Day(20_779)),
            wins: 300,
            bonus,
            prizes: (0..100)
                .map(|no| (PrizeNo(no), u32::MAX, 1 << 52))
                .collect(),
            hour: Some((1_795_960_800, u32::MAX).into()),
            granted_today: 300,
            bonus_today: 7,
            ..UserRecord::default()
        };
        let bytes = encode_record(&record, true);
        let read = decode_record(&bytes).unwrap();
        assert_eq!((read.record, read.has_older), (record, true));
        for length in 0..bytes.len() {
            assert!(decode_record(&bytes[..length]).is_err(), "{length}");
        }
    }
}

#[test]
fn a_stored_value_that_is_cut_off_or_goes_on_is_not_read() {
    let record = UserRecord {
        day: Some(Day(20_779)),
        draws: 3,
        bonus_used: 1,
        bonus: vec![Bonus {
            expires: Moment::from_micros(1_795_960_801_000_000),
            left: 2,
        }],
        ..UserRecord::default()
    };
    let bytes = encode_record(&record, false);
    assert_eq!(decode_record(&bytes).unwrap().record, record);
    for length in 0..bytes.len() {
        assert!(decode_record(&bytes[..length]).is_err(), "{length}");
    }
    let more_bonus_than_draws = UserRecord {
        bonus_used: 4,
        ..record
    };
    assert!(decode_record(&encode_record(&more_bonus_than_draws, false)).is_err());
}

#[test]
fn draws_and_grants_of_an_item_of_the_ledger_read_back() {
    let (user, request) = (
        UserId::parse("user", "u").unwrap(),
        RequestId::parse("request", "r").unwrap(),
    );
    let campaign = CampaignId::parse("campaign", "c").unwrap();
    let segments = ["far-north", "member"].map(|id| SegmentId::parse("segment", id).unwrap());
    let draw = |segments: &[SegmentId]| DrawCommand {
        campaign: campaign.clone(),
        user: user.clone(),
        request: request.clone(),
        count: 2,
        funding: Funding::Paid,
        payment_ref: "order".into(),
        consolation_only: false,
        segments: segments.to_vec(),
        expire: None,
        not_after: Moment::FAR_FUTURE,
        chance: None,
    };
    let grant = BonusCommand {
        campaign: campaign.clone(),
        user: user.clone(),
        request: request.clone(),
        draws: 10_000,
        expires: Moment::FAR_FUTURE,
        not_after: Moment::FAR_FUTURE,
    };
    let mut parts = Vec::new();
    encode_part(&draw(&segments), &segments, &mut parts);
    encode_bonus_part(&grant, &mut parts);
    encode_part(&draw(&[]), &[], &mut parts);
    let counts = [0, 2, 2, 0, 1, 0];
    // A draw has two results: nothing, and the consolation prize.
    let answers = [&counts[..], &[0, 1], &counts, &counts, &[0, 1]].concat();
    let entries = decode_draws(&parts, &answers, 7).unwrap();
    let [Body::Draw(first), Body::Bonus(bonus), Body::Draw(last)] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(
        (&first.segments[..], first.results.len()),
        (&segments[..], 2)
    );
    assert_eq!((bonus.draws, bonus.expires), (10_000, Moment::FAR_FUTURE));
    assert_eq!((bonus.version, bonus.counts.draws), (7, 2));
    assert_eq!(
        (last.segments.len(), last.payment_ref.as_str()),
        (0, "order")
    );
    for length in 0..parts.len() {
        assert!(
            decode_draws(&parts[..length], &answers, 7).is_err(),
            "{length}"
        );
    }
}
