//! Segments of a campaign file, and of requests.

use std::collections::BTreeMap;

use super::{
    campaign::read_limits,
    report::{at, noted},
};
use crate::{
    model::{
        id::SegmentId,
        limits::DrawLimits,
        problem::{Problem, Problems},
        segments::{SEGMENTS_MAX, SegmentLimits, SegmentRule},
    },
    proto,
};

/// The most segments of which a campaign has limits, and of each list of a pool's rule.
const NAMED_MAX: usize = 50;

/// Reads the segments that a caller states: each once, in the order of their ids.
///
/// # Errors
/// Too many of them, the same one twice, or an id that is none.
pub fn segments_from_proto(stated: &[String]) -> Result<Vec<SegmentId>, Problems> {
    let mut problems = Problems::default();
    if stated.len() > SEGMENTS_MAX {
        let count = stated.len();
        problems.add(
            "segments",
            format!("names {count} segments: at most {SEGMENTS_MAX}"),
        );
        return Err(problems);
    }
    let mut segments = read_ids("segments", stated, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Reads the limits of segments, of a campaign with these limits of everybody.
pub(super) fn read_segment_limits(
    messages: &[proto::SegmentLimits],
    of_all: &DrawLimits,
    problems: &mut Problems,
) -> Vec<SegmentLimits> {
    if messages.len() > NAMED_MAX {
        let count = messages.len();
        let path = "segmentLimits";
        problems.add(path, format!("has {count} entries: at most {NAMED_MAX}"));
        return Vec::new();
    }
    let mut first = BTreeMap::new();
    let mut read = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let path = format!("segmentLimits[{i}]");
        let named = at(&path, "segment");
        let earlier = *first.entry(&message.segment).or_insert(i);
        if earlier < i {
            let text = format!("has limits already, in segmentLimits[{earlier}]: write them there");
            problems.add(named.as_str(), text);
            continue;
        }
        let segment = noted(SegmentId::parse(&named, &message.segment), problems);
        let own = message.limits.as_ref().map(read_limits).unwrap_or_default();
        if own == DrawLimits::default() {
            problems.add(
                at(&path, "limits"),
                "sets no limit: write the limits that are other than everybody's",
            );
        }
        if own.granted_per_day.is_some() {
            problems.add(
                at(&path, "limits.grantedPerDay"),
                "is of no segment, since grants state none: write it in limits, for everybody",
            );
        }
        read.extend(segment.map(|segment| SegmentLimits::new(segment, own, of_all)));
    }
    read
}

/// Reads for whom a pool is.
pub(super) fn read_rule(
    path: &str,
    message: &proto::SegmentRule,
    problems: &mut Problems,
) -> SegmentRule {
    if message.any.is_empty() && message.none.is_empty() {
        problems.add(
            path,
            "names no segment: add any, none or both, or leave it out for a pool for everybody",
        );
    }
    for (name, ids) in [("any", &message.any), ("none", &message.none)] {
        if ids.len() > NAMED_MAX {
            let text = format!("names {} segments: at most {NAMED_MAX}", ids.len());
            problems.add(at(path, name), text);
        }
    }
    // Ids are compared with each other, which would take long with many of them.
    let [any, none] = [&message.any, &message.none].map(|ids| &ids[..ids.len().min(NAMED_MAX)]);
    for (i, id) in none.iter().enumerate() {
        if any.contains(id) {
            problems.add(
                format!("{path}.none[{i}]"),
                format!("{id:?} is in any too: the pool is for its users or it is not"),
            );
        }
    }
    SegmentRule {
        any: read_ids(&at(path, "any"), any, problems),
        none: read_ids(&at(path, "none"), none, problems),
    }
}

/// Reads a list of segments, each once.
fn read_ids(path: &str, ids: &[String], problems: &mut Problems) -> Vec<SegmentId> {
    let mut read: Vec<SegmentId> = Vec::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        let path = format!("{path}[{i}]");
        match SegmentId::parse(&path, id) {
            Ok(segment) if read.contains(&segment) => problems.0.push(Problem {
                path,
                message: format!("names {id:?} again: name each segment once"),
            }),
            Ok(segment) => read.push(segment),
            Err(problem) => problems.0.push(problem),
        }
    }
    read
}

/// For whom a pool is, as a proto message.
pub fn rule_to_proto(rule: &SegmentRule) -> proto::SegmentRule {
    let ids = |segments: &[SegmentId]| segments.iter().map(ToString::to_string).collect();
    proto::SegmentRule {
        any: ids(&rule.any),
        none: ids(&rule.none),
    }
}
