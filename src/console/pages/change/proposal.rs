//! What a form changes in a campaign: read from the form, and written into the definition.

use std::collections::BTreeMap;

use jiff::{civil::DateTime, tz::TimeZone};

use super::budget;
use crate::{
    console::i18n::Language,
    model::convert::times::{from_wire, to_wire},
    proto::{Campaign, DrawLimits, Prize, PrizeCap},
};

/// How forms write moments: local time, as browsers do.
const LOCAL: &str = "%Y-%m-%dT%H:%M:%S";

/// Where the value of a limit is.
type Value<T> = fn(&mut T) -> &mut Option<u32>;

/// A limit: the name of its field and of its message, and where the value is.
pub(super) type LimitField<T> = (&'static str, &'static str, Value<T>);

/// All limits, in the order in which pages show them.
pub(super) const LIMITS: [LimitField<DrawLimits>; 6] = [
    ("draws_per_day", "limits.draws-per-day", |it| {
        &mut it.draws_per_day
    }),
    ("draws_per_hour", "limits.draws-per-hour", |it| {
        &mut it.draws_per_hour
    }),
    ("paid_draws_per_day", "limits.paid-draws-per-day", |it| {
        &mut it.paid_draws_per_day
    }),
    ("draws_per_user", "limits.draws-per-user", |it| {
        &mut it.draws_per_user
    }),
    ("wins_per_user", "limits.wins-per-user", |it| {
        &mut it.wins_per_user
    }),
    ("granted_per_day", "limits.granted-per-day", |it| {
        &mut it.granted_per_day
    }),
];

/// The most units of a prize that a user may win.
pub(super) const CAPS: [LimitField<PrizeCap>; 2] = [
    ("cap_per_day", "edit.cap-day", |it| &mut it.per_day),
    ("cap_total", "edit.cap-total", |it| &mut it.total),
];

/// All fields that people fill in, and the names of their messages.
pub(super) const SHOWN: [(&str, &str); 15] = [
    ("name", "edit.name"),
    ("end", "edit.end-local"),
    (LIMITS[0].0, LIMITS[0].1),
    (LIMITS[1].0, LIMITS[1].1),
    (LIMITS[2].0, LIMITS[2].1),
    (LIMITS[3].0, LIMITS[3].1),
    (LIMITS[4].0, LIMITS[4].1),
    (LIMITS[5].0, LIMITS[5].1),
    ("budget_currency", "envelope.currency"),
    ("budget_per_day", "edit.budget-day"),
    ("budget_total", "edit.budget-total"),
    ("prize_name", "units.prize"),
    (CAPS[0].0, CAPS[0].1),
    (CAPS[1].0, CAPS[1].1),
    ("reason", "form.reason"),
];

/// A moment as a form has it.
pub(super) fn local(moment: Option<&prost_types::Timestamp>, zone: &TimeZone) -> String {
    let at = from_wire(moment).map(|at| at.to_zoned(zone.clone()));
    at.map_or_else(String::new, |at| at.strftime(LOCAL).to_string())
}

/// Writes the fields of a form into a campaign; those that the form does not have stay.
///
/// # Errors
/// What is wrong with each field, in the visitor's language.
pub(super) fn change(
    campaign: &mut Campaign,
    zone: &TimeZone,
    fields: &BTreeMap<String, String>,
    lang: Language,
) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    let field = |name: &str| fields.get(name).map(|value| value.trim());
    if let Some(name) = field("name") {
        campaign.name = name.into();
    }
    // Browsers leave out seconds that are zero.
    let same = |a: &str, b: &str| a == b || a.strip_suffix(":00") == Some(b);
    if let Some(end) = field("end")
        && !same(&local(campaign.end_time.as_ref(), zone), end)
    {
        match moment(end, zone) {
            Some(end) => campaign.end_time = Some(end),
            None => problems.push(lang.with("edit.bad-time", end)),
        }
    }
    if let Some(id) = field("prize") {
        match campaign.prizes.iter_mut().find(|prize| prize.id == id) {
            Some(prize) => change_prize(prize, fields, lang, &mut problems),
            None => problems.push(lang.with("edit.no-prize", id)),
        }
    }
    if let Err(problem) = budget::change(campaign, fields, lang) {
        problems.push(problem);
    }
    let limits = match field("segment") {
        None | Some("") => Some(&mut campaign.limits),
        Some(segment) => {
            let mut segments = campaign.segment_limits.iter_mut();
            let found = segments.find(|known| known.segment == segment);
            if found.is_none() {
                problems.push(lang.with("edit.no-segment", segment));
            }
            found.map(|found| &mut found.limits)
        }
    };
    let values = values(&LIMITS, fields, lang, &mut problems);
    if let Some(limits) = limits
        && !values.is_empty()
    {
        let limits = limits.get_or_insert_default();
        for (limit, value) in values {
            *limit(limits) = value;
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Writes the name and the caps of a prize. Two empty caps are none.
fn change_prize(
    prize: &mut Prize,
    fields: &BTreeMap<String, String>,
    lang: Language,
    problems: &mut Vec<String>,
) {
    if let Some(name) = fields.get("prize_name") {
        prize.name = name.trim().into();
    }
    let mut cap = prize.per_user.unwrap_or_default();
    for (value_of, value) in values(&CAPS, fields, lang, problems) {
        *value_of(&mut cap) = value;
    }
    let is_none = cap == PrizeCap::default();
    prize.per_user = (!is_none).then_some(cap);
}

/// The limits that a form has. An empty field is no limit.
fn values<T>(
    limits: &[LimitField<T>],
    fields: &BTreeMap<String, String>,
    lang: Language,
    problems: &mut Vec<String>,
) -> Vec<(Value<T>, Option<u32>)> {
    let mut values = Vec::new();
    for (name, key, limit) in limits {
        let value = fields.get(*name).map(|value| value.trim());
        match value.map(|value| (value, value.parse())) {
            None => {}
            Some(("", _)) => values.push((*limit, None)),
            Some((_, Ok(value))) => values.push((*limit, Some(value))),
            Some((_, Err(_))) => {
                problems.push(format!("{}: {}", lang.t(key), lang.t("edit.bad-limit")));
            }
        }
    }
    values
}

/// A local time in a zone; none if it is no time, or if it is there twice or not at all because
/// clocks change.
pub(in crate::console::pages) fn moment(
    text: &str,
    zone: &TimeZone,
) -> Option<prost_types::Timestamp> {
    let local: DateTime = text.parse().ok()?;
    let zoned = zone.to_ambiguous_zoned(local).unambiguous().ok()?;
    Some(to_wire(zoned.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::convert::times::zone_named, proto::SegmentLimits};

    fn campaign() -> Campaign {
        Campaign {
            name: "Wheel".into(),
            end_time: Some(to_wire("2026-12-20T00:00:00-05:00".parse().unwrap())),
            limits: Some(DrawLimits {
                draws_per_day: Some(3),
                wins_per_user: Some(1),
                ..DrawLimits::default()
            }),
            prizes: vec![Prize {
                id: "mug".into(),
                ..Prize::default()
            }],
            segment_limits: vec![SegmentLimits {
                segment: "vip".into(),
                limits: None,
            }],
            ..Campaign::default()
        }
    }

    fn changed(fields: &[(&str, &str)]) -> Result<Campaign, Vec<String>> {
        changed_from(campaign(), fields)
    }

    fn changed_from(
        mut campaign: Campaign,
        fields: &[(&str, &str)],
    ) -> Result<Campaign, Vec<String>> {
        let fields = fields.iter();
        let fields = fields.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let zone = zone_named("America/New_York");
        let lang = Language::of_tag("en").unwrap();
        change(&mut campaign, &zone, &fields.collect(), lang).map(|()| campaign)
    }

    #[test]
    fn what_a_form_does_not_have_stays() {
        assert_eq!(changed(&[]), Ok(campaign()));
        let same = [("name", "Wheel"), ("end", "2026-12-20T00:00:00")];
        assert_eq!(changed(&same), Ok(campaign()));
        let limits = [("draws_per_day", "5"), ("wins_per_user", "")];
        let limits = changed(&limits).unwrap().limits.unwrap();
        assert_eq!(
            (limits.draws_per_day, limits.wins_per_user),
            (Some(5), None)
        );
        let vip = changed(&[("segment", "vip"), ("draws_per_day", "0")]).unwrap();
        assert_eq!(vip.limits, campaign().limits);
        let limits = vip.segment_limits[0].limits.unwrap();
        assert_eq!(limits.draws_per_day, Some(0));
        let named = changed(&[("prize", "mug"), ("prize_name", " A mug ")]).unwrap();
        assert_eq!(named.prizes[0].name, "A mug");
    }

    #[test]
    fn caps_of_a_prize_are_set_and_taken_away() {
        let cap = |fields: &[(&str, &str)]| {
            let mut campaign = campaign();
            campaign.prizes[0].per_user = Some(PrizeCap {
                total: Some(9),
                per_day: None,
            });
            changed_from(campaign, fields).map(|it| it.prizes[0].per_user)
        };
        let of = |total, per_day| Ok(Some(PrizeCap { total, per_day }));
        assert_eq!(cap(&[]), of(Some(9), None));
        let named = [("prize", "mug"), ("prize_name", "Mug")];
        assert_eq!(cap(&named), of(Some(9), None));
        let both = [("prize", "mug"), ("cap_total", " 5 "), ("cap_per_day", "2")];
        assert_eq!(cap(&both), of(Some(5), Some(2)));
        let none = [("prize", "mug"), ("cap_total", ""), ("cap_per_day", "")];
        assert_eq!(cap(&none), Ok(None));
        let wrong = [("prize", "mug"), ("cap_total", "-1"), ("cap_per_day", "x")];
        assert_eq!(cap(&wrong).unwrap_err().len(), 2);
    }

    #[test]
    fn times_are_of_the_campaign_s_zone_and_there_once() {
        let end = |text: &str| changed(&[("end", text)]).map(|it| it.end_time.unwrap().seconds);
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
        assert_eq!(end("2026-12-24T18:00"), Ok(at("2026-12-24T18:00:00-05:00")));
        assert_eq!(
            end("2027-07-01T00:00:00"),
            Ok(at("2027-07-01T00:00:00-04:00"))
        );
        // Clocks go forward over the first and back over the second.
        for bad in ["2027-03-14T02:30", "2026-11-01T01:30", "tomorrow", ""] {
            assert_eq!(end(bad).unwrap_err().len(), 1, "{bad}");
        }
    }

    #[test]
    fn an_end_that_nobody_has_changed_stays_whenever_it_is() {
        // The second 01:30 of the night in which clocks go back.
        let end_time = Some(to_wire("2026-11-01T01:30:00-05:00".parse().unwrap()));
        let ending = Campaign {
            end_time,
            ..campaign()
        };
        let shown = local(end_time.as_ref(), &zone_named("America/New_York"));
        assert_eq!(shown, "2026-11-01T01:30:00");
        for sent in ["2026-11-01T01:30:00", "2026-11-01T01:30"] {
            let named = changed_from(ending.clone(), &[("name", "W"), ("end", sent)]).unwrap();
            assert_eq!((&*named.name, named.end_time), ("W", end_time), "{sent}");
        }
    }

    #[test]
    fn every_wrong_field_is_named() {
        let problems = changed(&[
            ("prize", "car"),
            ("prize_name", "Car"),
            ("segment", "new"),
            ("draws_per_day", "-1"),
            ("wins_per_user", "many"),
        ]);
        assert_eq!(problems.unwrap_err().len(), 4);
    }
}
