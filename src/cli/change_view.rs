//! The differences between two versions of a campaign, as text.

use super::{
    output::{Side, Table, counted},
    time::shown_in_zone,
};
use crate::{
    model::text::grouped,
    proto::{CampaignState, CampaignStatus, Change, WindowChange},
};

/// One line per difference: `~` changed, `+` new, `-` gone.
pub(super) fn changes(changes: &[Change]) -> String {
    let lines: Vec<String> = changes.iter().map(line).collect();
    lines.join("\n")
}

fn line(
    Change {
        path,
        before,
        after,
    }: &Change,
) -> String {
    match (before.is_empty(), after.is_empty()) {
        (true, _) => format!("+ {path}: {after}"),
        (false, true) => format!("- {path}: {before}"),
        (false, false) => format!("~ {path}: {before} -> {after}"),
    }
}

/// A line for each prize that gets a cap while users may have won it already.
pub(super) fn new_caps(status: &CampaignStatus, changes: &[Change]) -> String {
    let prizes = status.campaign.iter().flat_map(|it| &it.prizes);
    let is_begun = status.state() != CampaignState::Scheduled;
    let lines = prizes.filter(|_| is_begun).filter_map(|prize| {
        let cap = prize.per_user.as_ref()?;
        let path = format!("prizes[{}].perUser.", prize.id);
        let bounds = [cap.per_day, cap.total].into_iter().flatten().count();
        let new = changes
            .iter()
            .filter(|change| change.path.starts_with(&path) && change.before.is_empty());
        // A cap that was there before has counted.
        (new.count() == bounds).then(|| {
            format!(
                "perUser of {} is new: what users won of it before does not count",
                prize.id
            )
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// One line per hour: units before, units after, and units already injected.
pub(super) fn windows(windows: &[WindowChange], zone: &str) -> String {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("hour", Left),
        ("pool", Left),
        ("prize", Left),
        ("before", Right),
        ("after", Right),
        ("already injected", Right),
    ]);
    for window in windows {
        table.row([
            shown_in_zone(window.start_time.as_ref(), zone),
            window.pool_id.clone(),
            window.prize_id.clone(),
            grouped(window.before),
            grouped(window.after),
            grouped(window.injected),
        ]);
    }
    table.render()
}

/// `spring-wheel: version 3, running`
pub(super) fn headline(status: &CampaignStatus) -> String {
    let id = status.campaign.as_ref().map_or("", |campaign| &campaign.id);
    let clock = if status.test_clock {
        ", on a test clock"
    } else {
        ""
    };
    format!(
        "{id}: version {}, {}{clock}",
        status.version,
        state(status.state())
    )
}

/// The state as a word.
pub(super) fn state(state: CampaignState) -> &'static str {
    match state {
        CampaignState::Unspecified => "unknown",
        CampaignState::Scheduled => "scheduled",
        CampaignState::Running => "running",
        CampaignState::Paused => "paused",
        CampaignState::Ending => "ending",
        CampaignState::Closed => "closed",
    }
}

/// The zone of a campaign; empty if there is none.
pub(super) fn zone(status: &CampaignStatus) -> &str {
    status
        .campaign
        .as_ref()
        .map_or("", |campaign| &campaign.time_zone)
}

/// For example `2 differences` or `no difference`.
pub(super) fn count(differences: usize) -> String {
    match differences {
        0 => "no difference".into(),
        n => counted(n as u64, "difference"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Campaign, Prize, PrizeCap};

    #[test]
    fn a_cap_that_is_new_while_users_draw_is_named() {
        let cap = |per_day, total| Some(PrizeCap { total, per_day });
        let prize = |id: &str, per_user| Prize {
            id: id.into(),
            per_user,
            ..Prize::default()
        };
        let change = |path: &str, before: &str| Change {
            path: path.into(),
            before: before.into(),
            after: "2".into(),
        };
        let mut status = CampaignStatus {
            campaign: Some(Campaign {
                prizes: vec![
                    prize("new", cap(Some(2), Some(2))),
                    prize("raised", cap(None, Some(2))),
                    prize("extended", cap(Some(2), Some(2))),
                    prize("none", None),
                ],
                ..Campaign::default()
            }),
            ..CampaignStatus::default()
        };
        status.set_state(CampaignState::Running);
        let changes = [
            change("prizes[new].perUser.perDay", ""),
            change("prizes[new].perUser.total", ""),
            change("prizes[raised].perUser.total", "1"),
            change("prizes[extended].perUser.perDay", ""),
        ];
        let text = "perUser of new is new: what users won of it before does not count";
        assert_eq!(new_caps(&status, &changes), text);
        status.set_state(CampaignState::Scheduled);
        assert_eq!(new_caps(&status, &changes), "");
    }

    #[test]
    fn differences_show_what_is_new_gone_and_changed() {
        let change = |path: &str, before: &str, after: &str| Change {
            path: path.into(),
            before: before.into(),
            after: after.into(),
        };
        let text = changes(&[
            change("name", "\"a\"", "\"b\""),
            change("limits.drawsPerDay", "", "3"),
            change("consolation", "{}", ""),
        ]);
        assert_eq!(
            text,
            "~ name: \"a\" -> \"b\"\n+ limits.drawsPerDay: 3\n- consolation: {}"
        );
    }
}
