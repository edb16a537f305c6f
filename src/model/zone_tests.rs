use jiff::civil::date;
use proptest::prelude::*;

use super::*;

fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap()
}

fn at(text: &str) -> Moment {
    Moment::from_timestamp(text.parse().unwrap())
}

fn windows(name: &str, start: &str, end: &str) -> Vec<Window> {
    zone(name)
        .windows(at(start), at(start), at(end))
        .inspect(|window| assert!(window.start < window.end))
        .collect()
}

fn minutes(window: &Window) -> u64 {
    window.end.since(window.start).as_secs() / 60
}

#[test]
fn an_unknown_name_is_answered_with_near_ones() {
    for (written, hint) in [
        ("Asia/Shangai", "did you mean Asia/Shanghai?"),
        ("asia/shanghai", "did you mean Asia/Shanghai?"),
        ("Shanghai", "did you mean Asia/Shanghai?"),
        ("Asia/Beijing", "did you mean Asia/Shanghai?"),
        ("America/New York", "did you mean America/New_York?"),
        ("utc", "UTC"),
        ("+08:00", "such as Asia/Shanghai"),
        ("Nowhere/At_All", "such as Asia/Shanghai"),
    ] {
        let message = Zone::parse(written).unwrap_err();
        assert!(message.contains(hint), "{message}");
    }
    assert!(Zone::parse("").unwrap_err().contains("empty"));
    assert!(Zone::parse(&"é/".repeat(10_000)).is_err());
    assert_eq!(zone("UTC"), Zone::utc());
}

#[test]
fn windows_are_the_local_full_hours() {
    let day = windows("Asia/Shanghai", "2026-11-28T16:00Z", "2026-11-29T16:00Z");
    assert_eq!(day.len(), 24);
    assert_eq!(day[20].local_hour, date(2026, 11, 29).at(20, 0, 0, 0));
    assert_eq!(day[20].start, at("2026-11-29T12:00Z"));
    for (name, past_the_hour) in [
        ("Asia/Kolkata", 30),
        ("Asia/Kathmandu", 15),
        ("America/St_Johns", 30),
    ] {
        let hours = windows(name, "2026-11-28T00:00Z", "2026-11-29T00:00Z");
        assert_eq!(hours.len(), 25, "{name}: clipped at both ends");
        assert_eq!(minutes(&hours[0]), past_the_hour, "{name}");
        assert_eq!(minutes(&hours[24]), 60 - past_the_hour, "{name}");
        assert!(hours[1..24].iter().all(|hour| minutes(hour) == 60));
    }
}

#[test]
fn days_of_23_and_25_hours_have_as_many_windows() {
    let spring = windows("Europe/Berlin", "2027-03-27T23:00Z", "2027-03-28T22:00Z");
    assert_eq!(spring.len(), 23);
    assert_eq!(spring[2].local_hour.hour(), 3, "02:00 is skipped");
    let autumn = windows("Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T23:00Z");
    assert_eq!(autumn.len(), 25);
    assert_eq!(autumn[2].local_hour, autumn[3].local_hour);
    assert_eq!(autumn[2].end, autumn[3].start);
    assert!(spring.iter().chain(&autumn).all(|w| minutes(w) == 60));
}

#[test]
fn half_an_hour_of_daylight_saving_makes_windows_of_30_and_90_minutes() {
    let spring = windows(
        "Australia/Lord_Howe",
        "2026-10-03T13:30Z",
        "2026-10-04T13:00Z",
    );
    let shape: Vec<_> = spring.iter().map(minutes).collect();
    assert_eq!(shape[..4], [60, 60, 30, 60]);
    assert_eq!(spring[2].local_hour.hour(), 2);
    let autumn = windows(
        "Australia/Lord_Howe",
        "2027-04-03T13:00Z",
        "2027-04-04T13:30Z",
    );
    let shape: Vec<_> = autumn.iter().map(minutes).collect();
    assert_eq!(shape[..4], [60, 90, 60, 60]);
    assert_eq!(shape.len(), 24);
    // The same window from each of its parts.
    for minute in 0..90 {
        let inside = autumn[1].start + std::time::Duration::from_secs(minute * 60);
        let found =
            zone("Australia/Lord_Howe").window_at(inside, Moment::EPOCH, at("2030-01-01T00:00Z"));
        assert_eq!(found, Some(autumn[1]));
    }
}

#[test]
fn a_campaign_clips_its_first_and_last_window() {
    let (start, end) = ("2026-11-20T00:20:00.5+08:00", "2026-11-20T02:10+08:00");
    let hours = windows("Asia/Shanghai", start, end);
    assert_eq!(hours.len(), 3);
    assert_eq!((hours[0].start, hours[2].end), (at(start), at(end)));
    assert_eq!(hours[0].local_hour, date(2026, 11, 20).at(0, 0, 0, 0));
    let zone = zone("Asia/Shanghai");
    assert_eq!(zone.window_at(at(end), at(start), at(end)), None);
    let before = at("2026-11-20T00:20:00+08:00");
    assert_eq!(zone.window_at(before, at(start), at(end)), None);
    let all: Vec<_> = zone.windows(before, at(start), at(end)).collect();
    assert_eq!(
        all, hours,
        "windows begin with the first where `from` is before it"
    );
}

#[test]
fn a_skipped_day_has_no_windows() {
    let hours = windows("Pacific/Apia", "2011-12-30T09:00Z", "2011-12-30T11:00Z");
    assert_eq!(hours[0].local_hour, date(2011, 12, 29).at(23, 0, 0, 0));
    assert_eq!(hours[1].local_hour, date(2011, 12, 31).at(0, 0, 0, 0));
    let zone = zone("Pacific/Apia");
    let jump = at("2011-12-30T10:00Z");
    assert_eq!(zone.next_day_start(hours[0].start), jump);
    assert_eq!(zone.day(jump).0 - zone.day(hours[0].start).0, 2);
}

#[test]
fn days_begin_at_local_midnight_or_where_it_is_skipped() {
    for (name, from, next) in [
        (
            "Asia/Shanghai",
            "2026-11-20T15:59:59.999Z",
            "2026-11-20T16:00Z",
        ),
        ("Asia/Shanghai", "2026-11-20T16:00Z", "2026-11-21T16:00Z"),
        ("Europe/Berlin", "2027-03-27T23:00Z", "2027-03-28T22:00Z"),
        ("Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        // Midnight does not exist: the day begins at 01:00.
        (
            "America/Sao_Paulo",
            "2018-11-03T20:00Z",
            "2018-11-04T03:00Z",
        ),
        ("Asia/Beirut", "2026-03-28T12:00Z", "2026-03-28T22:00Z"),
        // At midnight the clocks go back to 23:00: the day has 25 hours.
        (
            "America/Sao_Paulo",
            "2018-02-17T03:00Z",
            "2018-02-18T03:00Z",
        ),
    ] {
        let (zone, from, next) = (zone(name), at(from), at(next));
        assert_eq!(zone.next_day_start(from), next, "{name}");
        let just_before = Moment::from_micros(next.as_micros() - 1);
        assert_eq!(zone.day(just_before), zone.day(from), "{name}");
        assert_eq!(zone.day(next).0, zone.day(from).0 + 1, "{name}");
    }
}

#[test]
fn local_time_shows_its_offset() {
    let shanghai = zone("Asia/Shanghai");
    assert_eq!(
        shanghai.local(at("2026-11-29T12:00Z")),
        "2026-11-29T20:00+08:00"
    );
    assert_eq!(
        shanghai.local(at("2026-11-29T12:00:07Z")),
        "2026-11-29T20:00:07+08:00"
    );
    assert_eq!(
        Zone::utc().local(at("2026-11-29T12:00Z")),
        "2026-11-29T12:00+00:00"
    );
}

#[test]
fn the_ends_of_time_do_not_panic() {
    for name in ["Asia/Shanghai", "America/St_Johns", "UTC", "Europe/Berlin"] {
        let zone = zone(name);
        for moment in [
            Moment::EPOCH,
            Moment::FAR_FUTURE - std::time::Duration::from_secs(1),
        ] {
            zone.day(moment);
            zone.next_day_start(moment);
            zone.local(moment);
            zone.window_at(moment, Moment::EPOCH, Moment::FAR_FUTURE);
        }
    }
}

proptest! {
    #[test]
    fn windows_tile_any_period_of_any_zone(
        pick in any::<prop::sample::Index>(),
        start_s in 0_i64..4_000_000_000,
        hours in 1_i64..400,
        slack_us in 0_i64..3_600_000_000,
    ) {
        let names: Vec<_> = DATABASE.available().map(|name| name.as_str().to_owned()).collect();
        let zone = zone(pick.get(&names).as_str());
        let start = Moment::from_micros(start_s * 1_000_000 + slack_us);
        let end = Moment::from_micros(start.as_micros() + hours * 3_600_000_000 - slack_us / 2);
        let mut reached = start;
        for window in zone.windows(start, start, end) {
            prop_assert_eq!(window.start, reached, "{}", zone.name());
            prop_assert!(window.end > window.start);
            prop_assert!(window.end.since(window.start).as_secs() <= 7200);
            let last = Moment::from_micros(window.end.as_micros() - 1);
            prop_assert_eq!(zone.window_at(last, start, end), Some(window), "{}", zone.name());
            reached = window.end;
        }
        prop_assert_eq!(reached, end);
    }
}
