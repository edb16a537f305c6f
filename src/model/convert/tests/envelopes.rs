//! A table of bad envelopes, with the fields and the hints that each must get.

use prost_types::Duration;

use crate::{
    model::{Split, convert::envelope_from_proto},
    proto::CreateEnvelopeRequest,
};

fn good() -> CreateEnvelopeRequest {
    CreateEnvelopeRequest {
        envelope_id: "new-year-1".into(),
        sender_id: "boss".into(),
        total_minor: 8_888,
        currency: "CNY".into(),
        packets: 10,
        ..CreateEnvelopeRequest::default()
    }
}

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

type Edit = fn(&mut CreateEnvelopeRequest);

#[test]
fn what_is_left_out_is_filled_in() {
    let (envelope, users) = envelope_from_proto(&good()).unwrap();
    assert_eq!(envelope.split, Split::Random);
    assert_eq!(envelope.min_minor, 1);
    assert_eq!(envelope.ttl_micros, 24 * 3_600_000_000);
    assert_eq!((envelope.rain_micros, envelope.start), (0, None));
    assert!(users.is_empty() && !envelope.is_restricted());
}

#[test]
fn the_extremes_are_taken() {
    let edits: [Edit; 5] = [
        |r| (r.total_minor, r.packets) = ((1 << 53) - 1, 100_000),
        |r| (r.total_minor, r.packets) = (1, 1),
        |r| r.min_minor = 888,
        |r| (r.ttl, r.rain) = (seconds(30 * 86_400), seconds(30 * 86_400)),
        |r| r.allowed_user_ids = (0..10_000).map(|n| format!("u{n}")).collect(),
    ];
    for edit in edits {
        let mut request = good();
        edit(&mut request);
        envelope_from_proto(&request).unwrap();
    }
}

#[test]
fn those_who_may_grab_are_each_there_once() {
    let mut request = good();
    request.allowed_user_ids = ["b", "a", "b"].map(str::to_owned).into();
    let (envelope, users) = envelope_from_proto(&request).unwrap();
    let ids: Vec<_> = users.iter().map(|user| user.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(envelope.allowed_users, 2);
}

#[test]
fn bad_envelopes_are_reported_field_by_field() {
    let cases: &[(Edit, &str, &str)] = &[
        (|r| r.envelope_id.clear(), "envelope_id", "is empty"),
        (
            |r| r.envelope_id = "x".repeat(129),
            "envelope_id",
            "129 bytes",
        ),
        (
            |r| r.sender_id = "a\nb".into(),
            "sender_id",
            "control characters",
        ),
        (|r| r.total_minor = 0, "total_minor", "is 0"),
        (|r| r.total_minor = -5, "total_minor", "is -5"),
        (|r| r.total_minor = 1 << 53, "total_minor", "2^53 - 1"),
        (|r| r.total_minor = i64::MAX, "total_minor", "2^53 - 1"),
        (
            |r| r.total_minor = 9,
            "total_minor",
            "10 packets of at least 1 need 10 minor units, 9 given",
        ),
        (|r| r.min_minor = 889, "total_minor", "need 8890"),
        (|r| r.min_minor = -1, "min_minor", "is -1"),
        (|r| r.min_minor = i64::MAX, "min_minor", "minor units"),
        (|r| r.currency.clear(), "currency", "ISO 4217"),
        (|r| r.currency = "RMB".into(), "currency", "the yuan is CNY"),
        (|r| r.currency = "cny".into(), "currency", "capital letters"),
        (|r| r.packets = 0, "packets", "is 0"),
        (|r| r.packets = 100_001, "packets", "100,000"),
        (|r| r.split = 7, "split", "7 is not a split"),
        (|r| r.ttl = seconds(0), "ttl", "more than zero"),
        (|r| r.ttl = seconds(-1), "ttl", "more than zero"),
        (
            |r| {
                r.ttl = Some(Duration {
                    seconds: 0,
                    nanos: 999,
                })
            },
            "ttl",
            "more than zero",
        ),
        (|r| r.ttl = seconds(365 * 86_400), "ttl", "30 days"),
        (|r| r.rain = seconds(-1), "rain", "negative"),
        (
            |r| (r.ttl, r.rain) = (seconds(60), seconds(61)),
            "rain",
            "longer",
        ),
        (
            |r| {
                r.start_time = Some(prost_types::Timestamp {
                    seconds: -1,
                    nanos: 0,
                })
            },
            "start_time",
            "1970",
        ),
        (
            |r| r.allowed_user_ids = vec!["ok".into(), "a\tb".into()],
            "allowed_user_ids[1]",
            "'\\t'",
        ),
        (
            |r| r.allowed_user_ids = vec!["u".into(); 10_001],
            "allowed_user_ids",
            "10,000",
        ),
        (
            |r| r.attributes = (0..33).map(|n| (n.to_string(), String::new())).collect(),
            "attributes",
            "32",
        ),
        (
            |r| r.attributes = [("a\0".into(), String::new())].into(),
            "attributes[\"a\\0\"]",
            "control character",
        ),
    ];
    for (edit, path, hint) in cases {
        let mut request = good();
        edit(&mut request);
        let problems = envelope_from_proto(&request).expect_err(path);
        let found: Vec<&str> = problems.0.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(found, [*path], "{problems}");
        assert!(
            problems.0[0].message.contains(hint),
            "{problems} lacks {hint}"
        );
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let request = CreateEnvelopeRequest {
        total_minor: -1,
        min_minor: -1,
        currency: "???".into(),
        split: 9,
        ttl: seconds(0),
        rain: seconds(-1),
        allowed_user_ids: vec![String::new(); 500],
        ..CreateEnvelopeRequest::default()
    };
    let problems = envelope_from_proto(&request).unwrap_err();
    let paths: std::collections::BTreeSet<&str> =
        problems.0.iter().map(|it| it.path.as_str()).collect();
    for path in [
        "envelope_id",
        "sender_id",
        "total_minor",
        "min_minor",
        "packets",
        "currency",
        "split",
        "ttl",
        "rain",
        "allowed_user_ids[0]",
        "allowed_user_ids",
    ] {
        assert!(paths.contains(path), "{path}: {problems}");
    }
    assert!(
        problems.0.len() < 30,
        "five hundred bad ids are reported briefly"
    );
}
