//! Erases a user from the settled ledger: what would be erased, and the id to type.

use axum::{Form, extract::Query, response::Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::{acts, fields::Fields, rows::user_field, sent::Sent};
use crate::{
    console::{
        layout::Place,
        ui::{self, fact, number},
        visit::{Contents, Visit},
    },
    proto::{ForgetUserRequest, ForgetUserResponse},
};

/// Which user.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    /// As people type it.
    #[serde(default)]
    user: String,
    /// To the byte.
    #[serde(default)]
    id: String,
    done: Option<String>,
}

/// The address of a user's page.
pub(super) fn address(user: &str) -> String {
    ui::address("/users/forget", &[user_field(user)])
}

/// The page.
pub(in crate::console) async fn page(visit: Visit, Query(asked): Query<Asked>) -> Response {
    let lang = visit.language;
    let user = match asked.id.as_str() {
        "" => asked.user.trim(),
        id => id,
    };
    let found = found(&visit, user).await;
    let title = format!("{}: {user}", lang.t("forget.title"));
    let contents = html! {
        h1 { (title) }
        @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
        (visit.section(found))
    };
    visit.page(Place::Elsewhere, &title, Ok(contents))
}

async fn found(visit: &Visit, user: &str) -> Contents {
    let lang = visit.language;
    let request = ForgetUserRequest {
        user_id: user.into(),
        dry_run: true,
        operator: visit.operator(),
        reason: String::new(),
    };
    let found = visit.ledger().forget_user(request).await?.into_inner();
    Ok(html! {
        @if found.entries == 0 && found.wins == 0 {
            (ui::empty(&html! { p { (lang.t("forget.nothing")) } }))
        } @else {
            p { (lang.t("forget.hint")) }
            (sums(visit, &found))
            form.line method="post" action="/users/forget" {
                input type="hidden" name="user" value=(user);
                label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
                label { (lang.with("form.type-id", user))
                    input name="typed" required maxlength="128" autocomplete="off";
                }
                button.stop type="submit" { (lang.t("forget.title")) }
            }
        }
        @if found.entries_of_format_1 > 0 {
            (ui::notice("warn", &html! {
                (lang.with("forget.in-bytes", &number(found.entries_of_format_1)))
            }))
        }
        p.hint { (lang.t("forget.stays")) }
    })
}

fn sums(visit: &Visit, found: &ForgetUserResponse) -> Markup {
    let lang = visit.language;
    html! {
        dl.facts {
            (fact(lang.t("forget.entries"), &html! { (number(found.entries)) }))
            (fact(lang.t("tab.wins"), &html! { (number(found.wins)) }))
            (fact(lang.t("nav.envelopes"), &html! { (number(found.envelopes)) }))
        }
        @if !found.campaign_ids.is_empty() {
            p { (lang.t("nav.campaigns")) ": " (found.campaign_ids.join(", ")) }
        }
    }
}

/// Erases a user whose id was typed.
pub(in crate::console) async fn submit(visit: Visit, Form(fields): Form<Fields>) -> Response {
    let user = fields.exact("user");
    let sent = Sent::of(fields.pairs(), &[("reason", "form.reason")], Some(user));
    if let Some(page) = sent.mistyped(&visit) {
        return page;
    }
    let request = ForgetUserRequest {
        user_id: user.into(),
        dry_run: false,
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.ledger().forget_user(request).await;
    acts::finish(&visit, result, (&address(user), "forgotten"), &sent)
}
