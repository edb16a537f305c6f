//! Campaign files to begin with: the samples, with dates that lie ahead.

use jiff::{
    Span, Timestamp, Zoned,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use crate::{
    console::visit::Visit,
    model::convert::times::{from_wire, zone_named},
    proto::{GetStatsRequest, ListCampaignsRequest},
};

/// Ids of templates, as their messages have them, and the samples.
pub(super) const TEMPLATES: [(&str, &str); 8] = [
    (
        "spring-wheel",
        include_str!("../../../deploy/campaigns/spring-wheel.yaml"),
    ),
    (
        "red-packets",
        include_str!("../../../deploy/campaigns/red-packets.yaml"),
    ),
    (
        "gacha",
        include_str!("../../../deploy/campaigns/gacha.yaml"),
    ),
    (
        "grand-wheel",
        include_str!("../../../deploy/campaigns/grand-wheel.yaml"),
    ),
    (
        "mall-wheel",
        include_str!("../../../deploy/campaigns/mall-wheel.yaml"),
    ),
    (
        "game-cards",
        include_str!("../../../deploy/campaigns/game-cards.yaml"),
    ),
    (
        "coupon-codes",
        include_str!("../../../deploy/campaigns/coupon-codes.yaml"),
    ),
    (
        "fourteen-million",
        include_str!("../../../deploy/campaigns/fourteen-million.yaml"),
    ),
];

/// The store's time, as far as the visitor may read anything: a store may have a test clock.
pub(super) async fn now(visit: &Visit) -> Timestamp {
    let request = ListCampaignsRequest {
        page_size: 1,
        ..ListCampaignsRequest::default()
    };
    let listed = visit.campaigns().list_campaigns(request).await;
    let first = listed.ok().and_then(|it| it.into_inner().campaigns.pop());
    let read_time = match first {
        Some(status) => status.read_time,
        None => {
            let request = GetStatsRequest::default();
            let stats = visit.campaigns().get_stats(request).await;
            stats.ok().and_then(|stats| stats.into_inner().read_time)
        }
    };
    from_wire(read_time.as_ref()).unwrap_or_else(Timestamp::now)
}

/// A template that begins tomorrow, with the day in its id: ids are never used twice.
pub(super) fn template(id: &str, now: Timestamp) -> Option<String> {
    let (_, sample) = TEMPLATES.iter().find(|(known, _)| *known == id)?;
    // The comment before the first key tells how to apply the file.
    let lines = sample.lines().skip_while(|line| line.starts_with('#'));
    let mut text = lines.fold(String::new(), |text, line| text + line + "\n");
    let zone = field(&text, "timeZone: ").map_or(TimeZone::UTC, zone_named);
    let start: Date = field(&text, "startTime: ")?.get(..10)?.parse().ok()?;
    let tomorrow = Zoned::new(now, zone.clone()).date().tomorrow().ok()?;
    let days = start.until(tomorrow).ok()?.get_days();
    text = moved(&text, days, &zone);
    let mark = tomorrow.strftime("%Y%m%d");
    Some(text.replacen(&format!("id: {id}\n"), &format!("id: {id}-{mark}\n"), 1))
}

/// What follows a key.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()
}

/// The text with all dates moved by days. Times with an offset get the zone's own at their date.
fn moved(text: &str, days: i32, zone: &TimeZone) -> String {
    let mut moved = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let date = rest.get(..10).filter(|date| date.as_bytes()[4] == b'-');
        let date = date.and_then(|date| date.parse::<Date>().ok());
        let Some(date) = date.and_then(|date| date.checked_add(Span::new().days(days)).ok()) else {
            moved.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let time = rest
            .get(..19)
            .and_then(|time| time.parse::<DateTime>().ok());
        let has_offset = matches!(rest.as_bytes().get(19), Some(b'+' | b'-'));
        let zoned = time.filter(|_| has_offset && rest.len() >= 25);
        let zoned =
            zoned.and_then(|time| date.to_datetime(time.time()).to_zoned(zone.clone()).ok());
        let length = match zoned {
            Some(zoned) => {
                moved.push_str(&zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string());
                25
            }
            None => {
                moved.push_str(&date.to_string());
                10
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::file;

    #[test]
    fn templates_are_right_whenever_they_are_taken_and_begin_tomorrow() {
        // Through a year with both changes of the clocks, and a leap day.
        for day in (0..400).step_by(9) {
            let now: Timestamp = "2027-06-01T15:30:00Z".parse().unwrap();
            let now = now.checked_add(Span::new().hours(24 * day)).unwrap();
            for (id, _) in TEMPLATES {
                let text = template(id, now).unwrap();
                let campaigns = file::check(&text).unwrap_or_else(|problems| {
                    panic!("{id} at {now}: {problems}\n{text}");
                });
                let start = campaigns[0].start_time.as_ref().unwrap().seconds;
                let ahead = start - now.as_second();
                assert!((0..48 * 3600).contains(&ahead), "{id} at {now}: {ahead}");
                assert!(campaigns[0].id.starts_with(id) && campaigns[0].id.len() == id.len() + 9);
            }
        }
    }

    #[test]
    fn dates_move_and_offsets_follow_the_zone() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let text = "start: 2026-12-01T00:00:00+01:00 # ü 1-2-3\nfrom: \"2026-12-31T20:00\"\n";
        let moved = moved(text, 182, &zone);
        assert_eq!(
            moved,
            "start: 2027-06-01T00:00:00+02:00 # ü 1-2-3\nfrom: \"2027-07-01T20:00\"\n"
        );
    }
}
