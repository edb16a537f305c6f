use super::*;
use crate::{
    model::{PrizeNo, caps::PrizeCounts},
    store::Unit,
};

#[test]
fn a_draw_entry_reads_back_as_it_was_written() {
    let entry = Body::Draw(DrawEntry {
        version: 3,
        user: UserId::parse("user", "u1").unwrap(),
        request: RequestId::parse("request", "r1").unwrap(),
        funding: Funding::Paid,
        payment_ref: "order 7".into(),
        consolation_only: false,
        results: vec![
            DrawResult::Won {
                prize: PrizeNo(1),
                pool: PoolNo(0),
                unit: Unit {
                    window: 1_795_960_800,
                    fork: 0,
                    number: 17,
                },
                release: Some(Moment::from_micros(1_795_960_801_000_000)),
                code: None,
                guarantee: None,
            },
            DrawResult::Won {
                prize: PrizeNo(1),
                pool: PoolNo(0),
                unit: Unit {
                    window: 3,
                    fork: 0x00ab_cdef,
                    number: 4,
                },
                release: None,
                code: None,
                guarantee: None,
            },
            DrawResult::Won {
                prize: PrizeNo(2),
                pool: PoolNo(0),
                unit: Unit {
                    window: 3,
                    fork: 0,
                    number: 5,
                },
                release: None,
                code: Some(4_999_999),
                guarantee: None,
            },
            DrawResult::NotWon {
                consolation: true,
                cause: Cause::NothingDue,
            },
        ],
        segments: Vec::new(),
        counts: UserCounts::default(),
    });
    let json = serde_json::to_string(&entry).unwrap();
    assert!(
        json.ends_with("\"wins\":0,\"bonus_left\":0}}"),
        "as before there were caps: {json}"
    );
    assert!(
        json.contains(
            "[1,0,1795960800,17,1795960801000000],[1,0,3,4,0,11259375],\
             [2,0,3,5,0,0,4999999],3]"
        ),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<Body>(&json).unwrap(), entry);
}

#[test]
fn a_draw_s_counts_have_the_wins_of_capped_prizes() {
    let mut prizes = PrizeCounts::default();
    prizes.add(PrizeNo(4));
    let counts = UserCounts {
        prizes,
        ..UserCounts::default()
    };
    let json = serde_json::to_string(&counts).unwrap();
    assert!(
        json.ends_with("\"bonus_left\":0,\"prizes\":[[4,1,1]]}"),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<UserCounts>(&json).unwrap(), counts);
}

#[test]
fn an_entry_with_quantities_reads_back_as_it_was_written() {
    let entry = Body::TakenBack {
        pool: PoolNo(1),
        cause: TakenBackCause::Ended,
        units: Quantities::from([(PrizeNo(0), 3), (PrizeNo(12), 1)]),
        withdrawn: false,
        spans: vec![Span {
            window: 1_795_960_800,
            fork: 7,
            generation: 1,
            first: 4,
            last: 9,
        }],
    };
    let json = serde_json::to_string(&entry).unwrap();
    assert!(json.contains("[[1795960800,7,1,4,9]]"), "{json}");
    assert_eq!(serde_json::from_str::<Body>(&json).unwrap(), entry);
}

#[test]
fn entries_of_earlier_versions_are_read() {
    let applied = concat!(
        r#"{"kind":"applied","version":2,"base_version":1,"definition_sha256":"d","#,
        r#""commitment":"c","stock_added":{"0":5},"author":{"request":"r","operator":"o"}}"#
    );
    let taken_back =
        r#"{"kind":"taken_back","pool":1,"cause":"ended","units":{"0":3},"withdrawn":false}"#;
    let injected = concat!(
        r#"{"kind":"injected","pool":0,"window":3600000000,"generation":1,"version":2,"#,
        r#""from":3600000000,"until":7200000000,"planned":{"0":5},"granted":{"0":2}}"#
    );
    for json in [applied, taken_back, injected] {
        let body: Body = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&body).unwrap(), json);
    }
}
