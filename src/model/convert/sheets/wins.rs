//! Wins, and winners to publish.

use jiff::tz::TimeZone;

use super::{super::times::shown, ledger};
use crate::proto::{DeliveryState, Win};

/// The most characters at each end of an id that a public list shows.
const SHOWN_MAX: usize = 3;
/// The columns of a list to publish.
const PUBLIC: [&str; 6] = ["won", "campaign", "prize", "name", "user", "unit"];
/// The columns that only operators see.
const MORE: [&str; 5] = ["request", "delivery", "reference", "ledger", CODE];
/// The column with the index of the code, which only wins of prizes with codes have.
pub(crate) const CODE: &str = "code";

/// The names of the columns.
pub(crate) fn columns(is_public: bool) -> Vec<&'static str> {
    let more = MORE.iter().filter(|_| !is_public);
    PUBLIC.iter().chain(more).copied().collect()
}

/// A row: a cell for each column.
pub(crate) fn row(win: &Win, zone: &TimeZone, is_public: bool) -> Vec<String> {
    let user = match is_public {
        true => masked(&win.user_id),
        false => win.user_id.clone(),
    };
    let mut cells = vec![
        shown(win.draw_time.as_ref(), zone),
        win.campaign_id.clone(),
        win.prize_id.clone(),
        win.prize_name.clone(),
        user,
        win.unit_id.clone(),
    ];
    if !is_public {
        let delivery = win.delivery.clone().unwrap_or_default();
        let state = match delivery.state() {
            DeliveryState::Pending => "pending",
            DeliveryState::Delivered => "delivered",
            DeliveryState::Revoked => "revoked",
            DeliveryState::Unspecified => "unknown",
        };
        cells.extend([
            win.request_id.clone(),
            state.into(),
            delivery.reference,
            ledger(win.ledger_id),
            win.code_index
                .map(|index| index.to_string())
                .unwrap_or_default(),
        ]);
    }
    cells
}

/// Whether a list to publish has the win: not once it is revoked.
pub(crate) fn is_published(win: &Win) -> bool {
    let state = win.delivery.as_ref().map(|delivery| delivery.state());
    state != Some(DeliveryState::Revoked)
}

/// At most a quarter of an id at each end: winners know themselves, and nobody else does.
pub(crate) fn masked(id: &str) -> String {
    let characters: Vec<char> = id.chars().collect();
    let ends = (characters.len() / 4).min(SHOWN_MAX);
    let (head, tail) = (&characters[..ends], &characters[characters.len() - ends..]);
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{}***{}", text(head), text(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_an_id_is_masked() {
        for (id, public) in [
            ("a", "***"),
            ("bob", "***"),
            ("anna", "a***a"),
            ("user-1234", "us***34"),
            ("anna.smith@example.com", "ann***com"),
            ("用户一二三四五六七八九十", "用户一***八九十"),
        ] {
            assert_eq!(masked(id), public, "{id}");
        }
    }
}
