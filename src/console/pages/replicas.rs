//! The replicas of the store on the page of the system.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use maud::{Markup, html};

use crate::{
    console::{
        i18n::Language,
        ui::{self, Column},
    },
    model::convert::times::signed_seconds,
    proto::{Replica, ReplicaState},
};

/// The table of all replicas.
pub(super) fn shown(lang: Language, replicas: &[Replica]) -> Markup {
    let name = lang.t("system.replicas");
    let columns = [
        Column::Text(lang.t("system.replica-name")),
        Column::Text(lang.t("system.state")),
        Column::Text(lang.t("system.version")),
        Column::Text(lang.t("system.started")),
        Column::Text(lang.t("system.seen")),
        Column::Number(lang.t("system.skew-column")),
    ];
    let builds = replicas.iter();
    let builds: BTreeSet<_> = builds
        .map(|replica| (&replica.version, &replica.build))
        .collect();
    html! {
        section.card {
            h2 { (name) }
            @if builds.len() > 1 {
                (ui::notice("warn", &html! { (lang.t("system.versions-differ")) }))
            }
            (ui::table(name, &columns, &html! {
                @for replica in replicas { (row(lang, replica)) }
            }))
            p.hint { (lang.t("system.replicas-hint")) }
        }
    }
}

fn row(lang: Language, replica: &Replica) -> Markup {
    html! {
        tr {
            th scope="row" {
                (replica.name)
                @if replica.answering { " " span.badge { (lang.t("system.this-one")) } }
            }
            td { (state(lang, replica.state(), &replica.cause)) }
            td { (replica.version) " " code { (replica.build) } }
            td { (ui::time(replica.start_time.as_ref(), &TimeZone::UTC)) }
            td { (ui::time(replica.seen_time.as_ref(), &TimeZone::UTC)) }
            td.n { @match &replica.clock_skew {
                Some(skew) => { (signed_seconds(skew)) " s" }
                None => { "–" }
            } }
        }
    }
}

/// Whether a replica does its work, and why or where it does not.
pub(super) fn state(lang: Language, state: ReplicaState, cause: &str) -> Markup {
    let is_ready = matches!(state, ReplicaState::Ready | ReplicaState::Impaired);
    let trouble = match state {
        ReplicaState::Ready => None,
        ReplicaState::Impaired => Some(lang.t("system.impaired")),
        ReplicaState::Stopping => Some(lang.t("system.stopping")),
        ReplicaState::NotReady | ReplicaState::Unspecified => Some(lang.t("system.not-ready")),
    };
    html! {
        @if is_ready { span.badge.state-running { (lang.t("system.ready")) } " " }
        @if let Some(trouble) = trouble {
            span.badge.state-paused { (trouble) } " " span lang="en" { (cause) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, build: &str, state: ReplicaState) -> Replica {
        Replica {
            name: name.into(),
            version: "0.1.0".into(),
            build: build.into(),
            state: state.into(),
            cause: "<full>".into(),
            ..Replica::default()
        }
    }

    #[test]
    fn replicas_of_other_builds_and_those_that_are_not_ready_are_shown_as_such() {
        let english = Language::ENGLISH;
        let alike = [
            replica("a", "one", ReplicaState::Ready),
            replica("b", "one", ReplicaState::Ready),
        ];
        let page = shown(english, &alike).into_string();
        assert!(!page.contains("different versions"), "{page}");
        assert!(!page.contains("Not ready") && !page.contains("this one"));
        let mut other = replica("c", "two", ReplicaState::NotReady);
        other.answering = true;
        let page = shown(english, &[alike[0].clone(), other]).into_string();
        for part in [
            "different versions",
            r#"<span class="badge">this one</span>"#,
            r#"<span class="badge state-paused">Not ready</span> <span lang="en">&lt;full&gt;"#,
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
