//! Segments of campaigns and of requests.

use super::*;
use crate::{model::convert::segments_from_proto, proto::SegmentRule};

fn rule(any: &[&str], none: &[&str]) -> Option<SegmentRule> {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    Some(SegmentRule {
        any: ids(any),
        none: ids(none),
    })
}

fn limits_of(segment: &str, draws_per_day: Option<u32>) -> proto::SegmentLimits {
    proto::SegmentLimits {
        segment: segment.into(),
        limits: Some(proto::DrawLimits {
            draws_per_day,
            ..Default::default()
        }),
    }
}

#[test]
fn segments_read_back_and_say_which_limits_and_pools_a_user_has() {
    let mut message = spring_wheel();
    message.segment_limits = vec![limits_of("gold", Some(9)), limits_of("member", Some(5))];
    message.pools[1].segments = rule(&["north"], &["staff"]);
    let campaign = campaign_from_proto(&message).unwrap();
    assert!(campaign.names_segments());
    assert_eq!(
        campaign_from_proto(&campaign_to_proto(&campaign)).unwrap(),
        campaign
    );
    let stated = |ids: &[&str]| {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        segments_from_proto(&ids).unwrap()
    };
    let a_day = |ids: &[&str]| campaign.limits_of(&stated(ids)).draws_per_day;
    assert_eq!(a_day(&[]), Some(3));
    assert_eq!(
        a_day(&["member", "gold"]),
        Some(9),
        "the first of the campaign"
    );
    let members = campaign.limits_of(&stated(&["member"]));
    assert_eq!(
        (members.draws_per_day, members.wins_per_user),
        (Some(5), Some(5))
    );
    let closed = |ids: &[&str]| campaign.pools_closed_to(&stated(ids)).collect::<Vec<_>>();
    assert_eq!(closed(&["north"]), []);
    assert_eq!(closed(&["south"]), [PoolNo(1)]);
    assert_eq!(closed(&["north", "staff"]), [PoolNo(1)]);
}

#[test]
fn segments_that_cannot_be_meant_are_named() {
    let mut message = spring_wheel();
    let granting = proto::DrawLimits {
        granted_per_day: Some(1),
        ..Default::default()
    };
    message.segment_limits = vec![
        limits_of("gold", Some(9)),
        limits_of("gold", Some(5)),
        limits_of("no blanks", Some(5)),
        limits_of("silver", None),
        proto::SegmentLimits {
            segment: "bronze".into(),
            limits: Some(granting),
        },
    ];
    message.pools[0].segments = rule(&[], &[]);
    message.pools[1].segments = rule(&["north", "north"], &[]);
    message.pools[2].segments = rule(&["north"], &["north"]);
    let problems = campaign_from_proto(&message).unwrap_err().to_string();
    for part in [
        "segmentLimits[1].segment: has limits already, in segmentLimits[0]",
        "segmentLimits[2].segment: has the character ' '",
        "segmentLimits[3].limits: sets no limit",
        "segmentLimits[4].limits.grantedPerDay: is of no segment",
        "pools[0].segments: names no segment",
        "pools[1].segments.any[1]: names \"north\" again",
        "pools[2].segments.none[0]: \"north\" is in any too",
    ] {
        assert!(problems.contains(part), "{part} in {problems}");
    }
    message.segment_limits = vec![limits_of("gold", Some(1)); 51];
    let problems = campaign_from_proto(&message).unwrap_err().to_string();
    assert!(
        problems.contains("segmentLimits: has 51 entries: at most 50"),
        "{problems}"
    );
}

#[test]
fn of_a_list_of_segments_that_is_too_long_only_the_first_ones_are_read() {
    let mut message = spring_wheel();
    message.pools[0].segments = rule(&["a b"; 60], &[]);
    let problems = campaign_from_proto(&message).unwrap_err();
    let paths = problems.0.iter().map(|problem| problem.path.as_str());
    let of_list = paths.filter(|path| path.starts_with("pools[0].segments.any"));
    assert_eq!(of_list.count(), 1 + 50, "{problems}");
}

#[test]
fn a_request_states_up_to_16_segments_each_once() {
    let ids: Vec<String> = (0..17).map(|number| format!("s{number}")).collect();
    let read = segments_from_proto(&ids[..16]).unwrap();
    assert!(read.is_sorted() && read.len() == 16);
    let text = |ids: &[String]| segments_from_proto(ids).unwrap_err().to_string();
    assert!(text(&ids).contains("names 17 segments: at most 16"));
    assert!(text(&["a".into(), "a".into()]).contains("segments[1]: names \"a\" again"));
    assert!(text(&["a b".into()]).contains("segments[0]: has the character ' '"));
}
