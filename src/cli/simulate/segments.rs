//! `--segment`: the segments that users are in.

use std::collections::BTreeSet;

use crate::model::{Campaign, SegmentId, segments::SEGMENTS_MAX};

/// Parses one segment with its share, e.g. `member=30%`; the share is from 0 to 1.
pub(super) fn share(text: &str) -> Result<(SegmentId, f64), String> {
    let advice = || "write a segment and the share of users in it, e.g. member=30%".to_owned();
    let (id, percent) = text.split_once('=').ok_or_else(advice)?;
    let segment = SegmentId::parse("the segment", id.trim()).map_err(|it| it.message)?;
    let percent = percent.trim().strip_suffix('%').ok_or_else(advice)?;
    let percent = percent.trim().parse::<f64>().map_err(|_| advice())?;
    match (0.0..=100.0).contains(&percent) {
        true => Ok((segment, percent / 100.0)),
        false => Err("the share is from 0% to 100%".into()),
    }
}

/// Checks that the campaign asks for each of the segments, and that each is named once.
pub(super) fn check(campaign: &Campaign, shares: &[(SegmentId, f64)]) -> Result<(), String> {
    if shares.len() > SEGMENTS_MAX {
        return Err(format!("write at most {SEGMENTS_MAX} segments"));
    }
    let known: BTreeSet<&SegmentId> = campaign.named_segments().collect();
    let mut named = BTreeSet::new();
    for (segment, _) in shares {
        if !named.insert(segment) {
            return Err(format!("the segment {segment} is there twice"));
        }
        if !known.contains(segment) {
            let known: Vec<String> = known.iter().map(ToString::to_string).collect();
            let known = match known.is_empty() {
                true => "it asks for none".to_owned(),
                false => format!("it asks for {}", known.join(", ")),
            };
            return Err(format!(
                "the campaign does not ask for the segment {segment}: {known}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{convert::campaign_from_proto, file};

    #[test]
    fn a_segment_has_a_share_in_percent() {
        let read = |text| share(text).map(|(segment, share)| (segment.to_string(), share));
        assert_eq!(read("member=30%"), Ok(("member".into(), 0.3)));
        assert_eq!(read(" a = 0.5 % "), Ok(("a".into(), 0.005)));
        for wrong in [
            "member",
            "member=30",
            "member=x%",
            "member=101%",
            "member=-1%",
            "=3%",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("member=nan%").is_err());
    }

    #[test]
    fn a_segment_that_changes_nothing_is_refused() {
        let campaign = |rest: &str| {
            let text = format!(
                "{{id: w, timeZone: UTC, startTime: '2026-12-01T00:00:00Z', \
                 endTime: '2026-12-02T00:00:00Z', prizes: [{{id: a, stock: 1}}], {rest}}}"
            );
            campaign_from_proto(&file::parse(&text).unwrap()[0]).unwrap()
        };
        let pool = |rest| format!("pools: [{{id: p, deck: {{size: 1, cards: {{a: 1}}}}{rest}}}]");
        let named = campaign(&format!(
            "segmentLimits: [{{segment: member, limits: {{drawsPerDay: 1}}}}], {}",
            pool(", segments: {any: [north, member], none: [staff]}")
        ));
        let none = campaign(&pool(""));
        let shares = |text: &str| -> Vec<_> { text.split(',').flat_map(share).collect() };
        let checked = |campaign, text| check(campaign, &shares(text));
        assert_eq!(checked(&named, "member=1%,north=2%,staff=3%"), Ok(()));
        let error = checked(&named, "members=1%").unwrap_err();
        assert!(
            error.ends_with("it asks for member, north, staff"),
            "{error}"
        );
        assert!(checked(&named, "staff=1%,staff=2%").is_err());
        assert!(checked(&none, "staff=1%").unwrap_err().ends_with("none"));
    }
}
