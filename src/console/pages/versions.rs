//! The versions of a campaign: who made which, when and why, and what each changed.

use maud::{Markup, html};

use super::{definition, lists::Asked};
use crate::{
    console::{
        compute::compute,
        i18n::Language,
        ui::{self, Column, number},
        visit::{Contents, Visit},
    },
    model::{
        change::{Difference, differences},
        convert::unstocked_from_proto,
    },
    proto::{Campaign, CampaignStatus, GetCampaignRequest},
};

/// Differences that the page shows.
const DIFFERENCES_MAX: usize = 200;

/// All versions, and what one of them changed: the one that is asked for, else the latest.
pub(super) async fn shown(visit: &Visit, status: &CampaignStatus, asked: &Asked) -> Markup {
    let latest = status.version;
    let version = asked.version.unwrap_or(latest).clamp(1, latest.max(1));
    let changed = match version {
        0 | 1 => None,
        _ => Some(changed(visit, status, version).await),
    };
    html! {
        (list(visit, status, version))
        @if let Some(changed) = changed { (visit.section(changed)) }
    }
}

fn list(visit: &Visit, status: &CampaignStatus, shown: u32) -> Markup {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let address = |version: u32| {
        let path = format!("/campaigns/{}/history", campaign.id);
        ui::address(&path, &[("version", &version.to_string())]) + "#differences"
    };
    let columns = [
        Column::Number(lang.t("history.version")),
        Column::Text(lang.t("list.time")),
        Column::Text(lang.t("list.operator")),
        Column::Text(lang.t("form.reason")),
        Column::Text(lang.t("history.changed")),
    ];
    let rows = html! {
        @for version in status.versions.iter().rev() { tr {
            td.n { (version.version) }
            td { (ui::time(version.apply_time.as_ref(), &zone)) }
            td { (version.operator) }
            td { (version.reason) }
            td {
                @match version.version {
                    0 | 1 => (lang.t("history.first")),
                    number => a href=(address(number))
                        aria-current=[(number == shown).then_some("true")]
                    {
                        (lang.with("history.since", &(number - 1).to_string()))
                    },
                }
            }
        } }
    };
    html! {
        section.card {
            h2 { (lang.t("history.versions")) }
            (ui::table(lang.t("history.versions"), &columns, &rows))
        }
    }
}

/// What a version changed.
async fn changed(visit: &Visit, status: &CampaignStatus, version: u32) -> Contents {
    let lang = visit.language;
    let id = status.campaign.as_ref().map_or("", |it| it.id.as_str());
    let before = read(visit, id, version - 1).await?;
    let after = read(visit, id, version).await?;
    // Stock is not judged: one that was applied after its start needs it for the hours left only.
    let compare = move || {
        let found = unstocked_from_proto(&before)
            .and_then(|before| Ok(differences(&before, &unstocked_from_proto(&after)?)));
        found.map(|found| (found, after))
    };
    let compared = compute(compare).await?;
    let (found, after) =
        compared.map_err(|problems| tonic::Status::internal(problems.to_string()))?;
    let columns = [
        Column::Text(lang.t("history.what")),
        Column::Text(lang.t("edit.field")),
        Column::Text(lang.t("edit.before")),
        Column::Text(lang.t("edit.after")),
    ];
    let value = |text: &str| {
        html! { @if text.is_empty() { "–" } @else { code { (text) } } }
    };
    let row = |difference: &Difference| {
        html! { tr {
            th scope="row" { (words(lang, &after, &difference.path)) }
            td { code { (difference.path) } }
            td { (value(&difference.before)) }
            td { (value(&difference.after)) }
        } }
    };
    let title = lang.with("history.differences", &version.to_string());
    let rows = html! { @for it in found.iter().take(DIFFERENCES_MAX) { (row(it)) } };
    let more = found.len().saturating_sub(DIFFERENCES_MAX) as u64;
    Ok(html! {
        section.card #differences {
            h2 { (title) }
            @if found.is_empty() { p { (lang.t("history.same")) } }
            @else { (ui::table(&title, &columns, &rows)) }
            @if more > 0 { p.hint { (lang.with("list.others", &number(more))) } }
        }
    })
}

async fn read(visit: &Visit, id: &str, version: u32) -> Result<Campaign, tonic::Status> {
    let request = GetCampaignRequest {
        campaign_id: id.into(),
        version,
    };
    let response = visit.campaigns().get_campaign(request).await?.into_inner();
    Ok(response
        .status
        .and_then(|it| it.campaign)
        .unwrap_or_default())
}

/// What a field of a campaign is, in words: `pools[coupons].schedule.special[…]` is special hours
/// of pool coupons.
fn words(lang: Language, campaign: &Campaign, path: &str) -> String {
    let (head, rest) = path.split_once(['.', '[']).unwrap_or((path, ""));
    let (of, field) = rest.split_once(']').unwrap_or((rest, ""));
    let is_one = path
        .get(head.len()..)
        .is_some_and(|rest| rest.starts_with('['));
    let key = match (head, is_one) {
        ("name", _) => "history.of-name",
        ("startTime" | "endTime" | "timeZone", _) => "history.of-time",
        ("limits", _) => "history.of-limits",
        ("segmentLimits", _) => "history.of-segments",
        ("budget", _) => "history.of-budget",
        ("prizes", true) if field.starts_with(".stock") => "history.of-stock",
        ("prizes", true) => "history.of-prize",
        ("pools", true) if field.starts_with(".schedule.special") => "history.of-special",
        ("pools", true) if field.starts_with(".schedule") => "history.of-plan",
        ("pools", true) if field.starts_with(".deck") => "history.of-deck",
        ("pools", true) => "history.of-pool",
        ("prizes" | "pools", false) => "history.of-order",
        _ => "history.of-other",
    };
    match head {
        "prizes" => lang.with(key, &super::prize_label(campaign, of)),
        _ => lang.with(key, of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Prize;

    #[test]
    fn fields_are_told_in_words() {
        let lang = Language::of_tag("en").unwrap();
        let campaign = Campaign {
            prizes: vec![Prize {
                id: "mug".into(),
                name: "Mug".into(),
                ..Prize::default()
            }],
            ..Campaign::default()
        };
        for (path, told) in [
            ("name", "name of the campaign"),
            ("limits.drawsPerDay", "limits for each user"),
            ("prizes[mug].stock", "stock of Mug (mug)"),
            ("prizes[mug].attributes.color", "prize Mug (mug)"),
            ("prizes[cup]", "prize cup"),
            ("prizes", "which prizes or pools there are, or their order"),
            (
                "pools[hourly].schedule.special[2026-11-29T00:00].multiply",
                "special hours of pool hourly",
            ),
            ("pools[hourly].schedule.perHour.mug", "plan of pool hourly"),
            ("pools[hourly].unlockAfterDraws", "pool hourly"),
            ("budget.perDay", "budget"),
            ("someday", "another setting"),
        ] {
            assert_eq!(words(lang, &campaign, path), told, "{path}");
        }
    }
}
