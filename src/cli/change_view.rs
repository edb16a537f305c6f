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
