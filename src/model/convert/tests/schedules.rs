//! A campaign with another schedule in one pool is what the whole definition with that schedule
//! would be, and has the same problems.

use super::*;

/// What becomes of the sample with this schedule, and of its whole definition with it.
fn both(schedule: &proto::Schedule) -> [Result<Campaign, Problems>; 2] {
    let mut message = spring_wheel();
    let campaign = campaign_from_proto(&message).unwrap();
    let pool = campaign.pool_no("coupons").unwrap();
    message.pools[usize::from(pool.0)].kind = Some(Kind::Schedule(schedule.clone()));
    [
        with_schedule(&campaign, pool, schedule),
        unstocked_from_proto(&message),
    ]
}

fn special(from: &str, to: &str) -> proto::SpecialHours {
    proto::SpecialHours {
        from: from.into(),
        to: to.into(),
        multiply: 2,
        ..Default::default()
    }
}

#[test]
fn a_new_schedule_gives_the_campaign_that_the_whole_definition_gives() {
    let [changed, whole] = both(&proto::Schedule {
        per_hour: map(&[("coupon", 100)]),
        special: vec![
            special("2026-12-05T20:00", "2026-12-05T22:00"),
            special("2026-12-01T20:00", "2026-12-01T22:00"),
        ],
        missed: proto::Missed::Release.into(),
        ..Default::default()
    });
    assert_eq!(changed.unwrap(), whole.unwrap());
}

#[test]
fn a_bad_schedule_has_the_problems_that_the_whole_definition_has() {
    let planned = |units| proto::Schedule {
        per_hour: map(&[("coupon", units)]),
        ..Default::default()
    };
    let never = special("2027-12-05T20:00", "2027-12-05T22:00");
    let unknown = map(&[("cuopon", 1)]);
    for (schedule, path) in [
        (proto::Schedule::default(), "pools[1].schedule"),
        (
            proto::Schedule {
                per_hour: unknown,
                ..planned(1)
            },
            "pools[1].schedule.perHour.cuopon",
        ),
        (
            proto::Schedule {
                special: vec![never],
                ..planned(1)
            },
            "pools[1].schedule.special[0]",
        ),
        (
            proto::Schedule {
                total: map(&[("car", HOUR_UNITS_MAX)]),
                ..planned(HOUR_UNITS_MAX)
            },
            "pools",
        ),
    ] {
        let [changed, whole] = both(&schedule);
        let problems = changed.unwrap_err();
        assert_eq!(problems, whole.unwrap_err());
        let paths: Vec<&str> = problems.0.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, [path]);
    }
}
