//! Parts of the store that are halted or cannot be read, and what to do.

use maud::{Markup, html};

use crate::{
    console::{i18n::Language, ui},
    proto::{HaltedPartition, ListCampaignsResponse},
};

/// What a list of campaigns says of the store.
pub(super) fn shown(lang: Language, list: &ListCampaignsResponse) -> Markup {
    html! {
        (halted(lang, &list.halted))
        @if !list.unread.is_empty() {
            (ui::notice("bad", &html! {
                strong { (lang.t("unread.title")) }
                ul { @for unread in &list.unread { li {
                    @match unread.campaign_id.as_str() {
                        "" => (lang.with("halt.partition", &unread.partition.to_string())),
                        id => (id),
                    }
                    ": " span lang="en" { (unread.message) }
                } } }
            }))
        }
    }
}

/// Says that parts of the store are halted, and how they go on.
pub(super) fn halted(lang: Language, halted: &[HaltedPartition]) -> Markup {
    html! {
        @if !halted.is_empty() {
            (ui::notice("bad", &html! {
                strong { (lang.t("halt.title")) } " " (lang.t("halt.text")) " "
                code { "tombola recover" }
                ul { @for part in halted { li {
                    (lang.with("halt.partition", &part.partition.to_string()))
                    ": " span lang="en" { (part.message) }
                } } }
            }))
        }
    }
}
