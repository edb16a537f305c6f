//! Draws.

use jiff::tz::TimeZone;

use super::{super::times::shown, ledger};
use crate::proto::{self, DrawCause, Funding, RecordedDraw, RecordedResult};

/// The names of the columns.
pub(crate) const COLUMNS: [&str; 10] = [
    "drawn", "campaign", "user", "results", "funding", "payment", "request", "ledger", SEGMENTS,
    CODES,
];
/// The column with the segments that the caller stated, which few draws have.
pub(crate) const SEGMENTS: &str = "segments";
/// The column with the indexes of codes, which only wins of prizes with codes have.
pub(crate) const CODES: &str = "codes";

/// A row: a cell for each column.
pub(crate) fn row(draw: &RecordedDraw, zone: &TimeZone) -> Vec<String> {
    let funding = match draw.funding() {
        Funding::Paid => "paid",
        Funding::Free | Funding::Unspecified => "free",
    };
    vec![
        shown(draw.draw_time.as_ref(), zone),
        draw.campaign_id.clone(),
        draw.user_id.clone(),
        results(draw),
        funding.into(),
        draw.payment_ref.clone(),
        draw.request_id.clone(),
        ledger(draw.ledger_id),
        draw.segments.join(" "),
        codes(draw),
    ]
}

/// The indexes of the codes of a draw: `17 18`.
fn codes(draw: &RecordedDraw) -> String {
    let codes = draw.results.iter().filter_map(|result| result.code_index);
    let codes: Vec<String> = codes.map(|index| index.to_string()).collect();
    codes.join(" ")
}

/// The results of a draw: `coupon, 2 x points (nothing due)`.
pub(crate) fn results(draw: &RecordedDraw) -> String {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for text in draw.results.iter().map(result) {
        match counted.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counted.push((text, 1)),
        }
    }
    let texts = counted.into_iter().map(|(text, count)| match count {
        1 => text,
        count => format!("{count} x {text}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn result(recorded: &RecordedResult) -> String {
    let result = recorded.result.clone().unwrap_or_default();
    let given = match (result.outcome(), result.prize_id.as_str()) {
        (proto::Outcome::Nothing, _) => "nothing",
        (proto::Outcome::Consolation, "") => "consolation",
        (proto::Outcome::Won, "") => "won",
        (_, prize) => prize,
    };
    let cause = match recorded.cause() {
        DrawCause::Unspecified => return given.to_owned(),
        DrawCause::NothingDue => "nothing due".to_owned(),
        DrawCause::WinsLimit => "limit of wins".to_owned(),
        DrawCause::Blocked => "blocked".to_owned(),
        DrawCause::ConsolationOnly => "consolation only".to_owned(),
        DrawCause::Blank => "blank".to_owned(),
        DrawCause::Forfeited => format!("forfeited {}", recorded.forfeited_prize_id),
        DrawCause::PrizeCap => "cap of a prize".to_owned(),
        DrawCause::Budget => "budget".to_owned(),
    };
    format!("{given} ({cause})")
}
