//! Parts that many pages have.

use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::i18n::Language;
use crate::{
    model::{convert::times, text::grouped},
    proto::{CampaignState, WindowState},
};

/// A message in a box: `good`, `info`, `warn` or `bad`.
pub(super) fn notice(kind: &str, text: &Markup) -> Markup {
    let role = if kind == "bad" { "alert" } else { "status" };
    html! { div class={ "notice " (kind) } role=(role) { (text) } }
}

/// What was done, as the address of a page says.
pub(super) fn done(lang: Language, done: Option<&str>) -> Option<Markup> {
    let text = lang.find(&format!("done.{}", done?))?;
    Some(notice("good", &html! { (text) }))
}

/// The path of a page of the console; the first page if it is anything else, such as the address
/// of another site.
pub(super) fn own_path(path: &str) -> &str {
    let is_own = path.starts_with('/')
        && !path.starts_with("//")
        && path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_own { path } else { "/" }
}

/// An address with its query; values that are empty are left out.
pub(super) fn address(path: &str, query: &[(&str, &str)]) -> String {
    let mut address = path.to_owned();
    let mut mark = '?';
    for (name, value) in query.iter().filter(|(_, value)| !value.is_empty()) {
        address.push(mark);
        mark = '&';
        address.push_str(name);
        address.push('=');
        address.push_str(&encoded(value));
    }
    address
}

/// A value as a part of an address (RFC 3986, section 2.3).
pub(super) fn encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut part, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            part.push(char::from(byte));
        } else {
            part.push_str(&format!("%{byte:02X}"));
        }
        part
    })
}

/// A moment in a zone, to the second.
pub(super) fn time(moment: Option<&prost_types::Timestamp>, zone: &TimeZone) -> Markup {
    let Some(at) = times::from_wire(moment) else {
        return html! { "–" };
    };
    let exact = times::shown(moment, zone);
    let local = at.to_zoned(zone.clone());
    html! {
        time datetime=(exact) title=(exact) { (local.strftime("%Y-%m-%d %H:%M:%S")) }
    }
}

/// A time span: `5m`, `1h 30m`, with the units of the language.
pub(super) fn span(lang: Language, span: &prost_types::Duration) -> String {
    let text = times::span(span);
    let parts = text.split(' ').map(|part| {
        let digits = part.trim_end_matches(char::is_alphabetic);
        let unit = &part[digits.len()..];
        let unit = lang.find(&format!("unit.{unit}")).unwrap_or(unit);
        format!("{digits}{}{unit}", if unit.is_ascii() { "" } else { " " })
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// A number with thousands separators.
pub(super) fn number(value: u64) -> String {
    grouped(value)
}

/// The state of a campaign.
pub(super) fn state(lang: Language, state: CampaignState) -> Markup {
    let name = state.as_str_name().trim_start_matches("CAMPAIGN_STATE_");
    let text = lang.find(&format!("state.{name}")).unwrap_or(name);
    html! { span class={ "badge state-" (name.to_ascii_lowercase()) } { (text) } }
}

/// The state of an hour.
pub(super) fn window_state(lang: Language, state: WindowState) -> Markup {
    let name = state.as_str_name().trim_start_matches("WINDOW_STATE_");
    let text = lang.find(&format!("window.{name}")).unwrap_or(name);
    html! { span class={ "badge window-" (name.to_ascii_lowercase()) } { (text) } }
}

/// The message of a name of the API, such as `cause.BLANK`; the name itself if it is new.
pub(super) fn named(lang: Language, family: &str, prefix: &str, name: &str) -> String {
    let short = name.trim_start_matches(prefix);
    let text = lang.find(&format!("{family}.{short}"));
    text.map_or_else(|| short.to_owned(), str::to_owned)
}

/// A table that scrolls within the page if it is too wide.
pub(super) fn scroll(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// A column of a table by its name.
pub(super) enum Column<'a> {
    Text(&'a str),
    Number(&'a str),
}

/// A table with its head.
pub(super) fn table(name: &str, columns: &[Column<'_>], rows: &Markup) -> Markup {
    let head = html! {
        @for column in columns {
            @match column {
                Column::Text(name) => th scope="col" { (name) },
                Column::Number(name) => th.n scope="col" { (name) },
            }
        }
    };
    scroll(
        name,
        &html! { table { thead { tr { (head) } } tbody { (rows) } } },
    )
}

/// The way to the next page of a list.
pub(super) fn next(lang: Language, path: &str, query: &[(&str, &str)], token: &str) -> Markup {
    let query = [query, &[("page", token)]].concat();
    html! {
        @if !token.is_empty() {
            p.pager { a.button rel="next" href=(address(path, &query)) { (lang.t("list.next")) } }
        }
    }
}

/// A number that `live.js` keeps fresh: `key` is unique on the page.
pub(super) fn live(key: &str, value: &str) -> Markup {
    html! { span data-live=(key) { (value) } }
}

/// A big number with its name.
pub(super) fn fact(name: &str, value: &Markup) -> Markup {
    html! { div.fact { dt { (name) } dd { (value) } } }
}

/// What is empty, and how to begin.
pub(super) fn empty(text: &Markup) -> Markup {
    html! { div.empty { (text) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_back_lead_to_the_console() {
        for own in ["/", "/campaigns/a?done=paused", "/search?q=%E8%80%81"] {
            assert_eq!(own_path(own), own);
        }
        for foreign in [
            "",
            "//evil.example",
            "/\\evil",
            "https://evil.example",
            "/a\r\nb: c",
        ] {
            assert_eq!(own_path(foreign), "/", "{foreign:?}");
        }
    }

    #[test]
    fn spans_have_units_of_the_language() {
        let span = |tag, seconds| {
            let language = Language::of_tag(tag).unwrap();
            let span = prost_types::Duration { seconds, nanos: 0 };
            super::span(language, &span)
        };
        assert_eq!(span("en", 5_400), "1h 30m");
        assert_eq!(span("zh", 5_400), "1 小时 30 分钟");
        assert_eq!(span("zh", 45), "45 秒");
    }

    #[test]
    fn addresses_are_encoded() {
        assert_eq!(address("/search", &[("q", ""), ("page", "")]), "/search");
        assert_eq!(
            address("/search", &[("q", "a&b=老 \"<"), ("page", "3.4")]),
            "/search?q=a%26b%3D%E8%80%81%20%22%3C&page=3.4"
        );
    }
}
