//! Forms of acts on users and their wins.

use jiff::civil::Date;
use maud::{Markup, html};

use crate::{
    console::{i18n::Language, ui},
    proto::{Campaign, DeliveryState, User, Win},
};

/// The request id of one form: a form that is sent twice acts once.
pub(super) fn request_id() -> Markup {
    let id = format!("console-{:016x}", rand::random::<u64>());
    html! { input type="hidden" name="request_id" value=(id); }
}

/// Marks a win as delivered, or revokes it.
pub(super) fn delivery(lang: Language, win: &Win, back: &str) -> Markup {
    let state = win.delivery.as_ref().map(|delivery| delivery.state());
    let state = state.unwrap_or_default();
    let is_pending = matches!(state, DeliveryState::Pending | DeliveryState::Unspecified);
    let base = format!("/campaigns/{}/wins", win.campaign_id);
    let hidden = html! {
        input type="hidden" name="unit" value=(win.unit_id);
        input type="hidden" name="back" value=(back);
    };
    html! {
        @if state != DeliveryState::Revoked {
            details.act {
                summary { (lang.t("win.change")) span.hidden { " " (win.unit_id) } }
                @if is_pending {
                    form.line method="post" action={ (base) "/deliver" } {
                        (hidden)
                        label { (lang.t("win.reference"))
                            input name="reference" required maxlength="256";
                        }
                        button type="submit" { (lang.t("win.deliver")) }
                    }
                }
                form.line method="post" action={ (base) "/revoke" } {
                    (hidden)
                    (request_id())
                    label { (lang.t("form.reason")) input name="reason" required maxlength="1024"; }
                    button.stop type="submit" { (lang.t("win.revoke")) }
                }
                p.hint { (lang.t("win.revoke-hint")) }
                form.line method="post" action={ (base) "/revoke" } {
                    (hidden)
                    (request_id())
                    input type="hidden" name="units" value="withdraw";
                    label { (lang.t("form.reason")) input name="reason" required maxlength="1024"; }
                    label { (lang.with("form.type-id", &win.unit_id))
                        input name="typed" required maxlength="256" autocomplete="off";
                    }
                    button.stop type="submit" { (lang.t("win.withdraw")) }
                }
                p.hint { (lang.t("win.withdraw-hint")) }
            }
        }
    }
}

/// Grants a user draws, and blocks or unblocks the user.
pub(super) fn user(lang: Language, campaign: &Campaign, user: &User) -> Markup {
    let base = format!("/campaigns/{}/users", campaign.id);
    let id = html! { input type="hidden" name="user" value=(user.user_id); };
    html! {
        form.line method="post" action={ (base) "/grant" } {
            (id)
            (request_id())
            label { (lang.t("user.grant-draws"))
                input name="draws" type="number" min="1" max="10000" value="1" required
                    inputmode="numeric";
            }
            label { (lang.t("user.grant-until")) " (" (campaign.time_zone) ")"
                input name="expire" type="datetime-local" step="1";
            }
            label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
            button type="submit" { (lang.t("user.grant")) }
        }
        @if user.block.is_some() {
            form.line method="post" action={ (base) "/unblock" } {
                (id)
                (request_id())
                label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
                button.go type="submit" { (lang.t("user.unblock")) }
            }
        } @else {
            form.line method="post" action={ (base) "/block" } {
                (id)
                (request_id())
                label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
                button.stop type="submit" { (lang.t("user.block")) }
            }
            p.hint { (lang.t("user.block-hint")) }
        }
    }
}

/// Looks a user up.
pub(super) fn find_user(lang: Language, campaign: &str, user: &str) -> Markup {
    html! {
        form.line method="get" action={ "/campaigns/" (campaign) "/users" } role="search" {
            label { (lang.t("list.user"))
                input name="user" value=(user) required maxlength="128" autocomplete="off";
            }
            button.primary type="submit" { (lang.t("user.find")) }
        }
    }
}

/// Cancels an envelope, whose id must be typed.
pub(super) fn cancel(lang: Language, envelope: &str) -> Markup {
    html! {
        details.act {
            summary { (lang.t("envelope.cancel")) }
            p { (lang.t("envelope.cancel-hint")) }
            form.line method="post" action={ "/envelopes/" (envelope) "/cancel" } {
                (request_id())
                label { (lang.with("form.type-id", envelope))
                    input name="typed" required maxlength="128" autocomplete="off";
                }
                label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
                button.stop type="submit" { (lang.t("envelope.cancel")) }
            }
        }
    }
}

/// A field of a filter.
#[derive(Clone, Debug)]
pub(in crate::console) struct Filter<'a> {
    /// Its name in addresses.
    pub(super) name: &'static str,
    /// The key of its label.
    pub(super) label: &'static str,
    pub(super) value: &'a str,
    /// What it can be besides empty, if it is not any text.
    pub(super) choices: Option<Choices>,
}

/// Values of an enum of the API, without the beginning that all have.
#[derive(Clone, Debug)]
pub(in crate::console) struct Choices {
    /// What the keys of their messages begin with.
    family: &'static str,
    names: Vec<&'static str>,
}

impl Choices {
    /// All values but 0, which stands for none.
    pub(super) fn of<E: TryFrom<i32>>(
        family: &'static str,
        prefix: &str,
        name: impl Fn(&E) -> &'static str,
    ) -> Self {
        let values = (1..100).filter_map(|number| E::try_from(number).ok());
        let names = values.map(|value| name(&value).trim_start_matches(prefix));
        Self {
            family,
            names: names.collect(),
        }
    }
}

impl<'a> Filter<'a> {
    /// Any text.
    pub(super) fn text(name: &'static str, label: &'static str, value: &'a str) -> Self {
        Self {
            name,
            label,
            value,
            choices: None,
        }
    }

    /// One of some values.
    pub(super) fn choice(
        name: &'static str,
        label: &'static str,
        value: &'a str,
        choices: Choices,
    ) -> Self {
        Self {
            name,
            label,
            value,
            choices: Some(choices),
        }
    }

    fn field(&self, lang: Language) -> Markup {
        html! {
            label { (lang.t(self.label))
                @if let Some(choices) = &self.choices {
                    select name=(self.name) {
                        option value="" { (lang.t("list.any")) }
                        @for name in &choices.names {
                            option value=(name) selected[*name == self.value] {
                                (ui::named(lang, choices.family, "", name))
                            }
                        }
                    }
                } @else {
                    // The longest id of a unit has 200 bytes.
                    input name=(self.name) value=(self.value) maxlength="256";
                }
            }
        }
    }
}

/// A filter of a list: its fields, and the first and the last day.
pub(super) fn filter(
    lang: Language,
    path: &str,
    fields: &[Filter<'_>],
    days: Option<[&str; 2]>,
) -> Markup {
    let days = days.map(|[from, to]| {
        [
            ("from", lang.t("list.from"), from),
            ("to", lang.t("list.to"), to),
        ]
    });
    let days = days.as_ref().map_or(&[][..], |days| days);
    let values = fields.iter().map(|field| field.value);
    let mut values = values.chain(days.iter().map(|(.., value)| *value));
    let is_used = values.any(|value| !value.is_empty());
    html! {
        form.line.filter method="get" action=(path) role="search" {
            @for field in fields { (field.field(lang)) }
            @for (name, label, value) in days {
                label { (label) input type="date" name=(name) value=(day(value)); }
            }
            button type="submit" { (lang.t("list.filter")) }
            @if is_used { a href=(ui::address(path, &[])) { (lang.t("list.unfilter")) } }
        }
    }
}

/// A day as a field for days takes it. Browsers show nothing of another text, and warn.
fn day(value: &str) -> &str {
    match value.parse::<Date>() {
        Ok(date) if date.to_string() == value => value,
        _ => "",
    }
}
