//! The languages of the console. Each has one file of messages, and all files have the same keys:
//! another language is one more file in [`LANGUAGES`].

use std::{collections::HashMap, sync::LazyLock};

use axum::http::{HeaderMap, header::ACCEPT_LANGUAGE};

use super::session::cookie;

/// The cookie with the language that a visitor has chosen. It is no secret.
pub(super) const COOKIE: &str = "tombola-language";

/// Tag (BCP 47), its own name, and its messages. The first is that of visitors who prefer none.
const LANGUAGES: [(&str, &str, &str); 2] = [
    ("en", "English", include_str!("messages/en.txt")),
    ("zh", "中文", include_str!("messages/zh.txt")),
];

static MESSAGES: LazyLock<Vec<HashMap<&str, &str>>> = LazyLock::new(|| {
    let files = LANGUAGES.iter();
    files.map(|(.., file)| parse(file).collect()).collect()
});

/// The messages of a file: a key, ` = ` and a text on each line; `#` begins a comment.
fn parse(file: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(" = "))
}

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Language(usize);

impl Language {
    /// The language of the command line.
    pub(super) const ENGLISH: Self = Self(0);

    /// All languages.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..LANGUAGES.len()).map(Self)
    }

    /// The language of a tag.
    pub(super) fn of_tag(tag: &str) -> Option<Self> {
        Self::all().find(|language| language.tag() == tag)
    }

    /// The language of a visitor: chosen before, or preferred by the browser.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let chosen = cookie(headers, COOKIE).and_then(Self::of_tag);
        let accepted = || {
            let value = headers.get(ACCEPT_LANGUAGE)?.to_str().ok()?;
            preferred(value)
        };
        chosen.or_else(accepted).unwrap_or(Self::ENGLISH)
    }

    /// Its tag.
    pub(super) fn tag(self) -> &'static str {
        LANGUAGES.get(self.0).map_or("en", |(tag, ..)| tag)
    }

    /// Its name, in itself.
    pub(super) fn name(self) -> &'static str {
        LANGUAGES.get(self.0).map_or("", |(_, name, _)| name)
    }

    /// The message of a key. A test holds that every language has it.
    pub(super) fn t(self, key: &'static str) -> &'static str {
        self.find(key).unwrap_or(key)
    }

    /// The message of a key that is made of data, such as the name of a state.
    pub(super) fn find(self, key: &str) -> Option<&'static str> {
        MESSAGES.get(self.0)?.get(key).copied()
    }

    /// The message of a key with `{}` replaced by a value.
    pub(super) fn with(self, key: &'static str, value: &str) -> String {
        self.t(key).replacen("{}", value, 1)
    }
}

/// The first language of an `Accept-Language` that there is, by its weights.
fn preferred(value: &str) -> Option<Language> {
    let ranges = value.split(',').filter_map(|range| {
        let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
        let weight: f32 = weight.trim().strip_prefix("q=")?.parse().ok()?;
        let primary = tag.trim().split('-').next()?.to_ascii_lowercase();
        (weight > 0.0).then_some((Language::of_tag(&primary)?, weight))
    });
    let best = ranges.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(language, _)| language)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use crate::proto;

    /// Files whose names look like keys.
    const NO_KEYS: [&str; 2] = ["live.js", "plan.js"];

    fn keys(file: &'static str) -> BTreeSet<&'static str> {
        let all: Vec<_> = parse(file).map(|(key, _)| key).collect();
        let keys: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(keys.len(), all.len(), "a key is there twice");
        keys
    }

    /// The sources of the console.
    fn sources(directory: &Path, text: &mut String) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("i18n.rs")
            {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn every_language_has_every_message_and_no_other() {
        let first = keys(LANGUAGES[0].2);
        for (tag, _, file) in LANGUAGES {
            assert_eq!(keys(file), first, "{tag}");
            for (key, text) in parse(file) {
                let holes = |text: &str| text.matches("{}").count();
                let en = Language(0).find(key).unwrap();
                assert_eq!(holes(text), holes(en), "{tag}: {key}");
            }
        }
        let mut text = String::new();
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console"),
            &mut text,
        );
        // Keys are written as a whole wherever they are used.
        let used: BTreeSet<_> = text
            .split('"')
            .filter(|word| word.contains('.') && first.contains(word))
            .collect();
        let by_data = [
            "state.",
            "reason.",
            "act.",
            "cause.",
            "outcome.",
            "window.",
            "delivery.",
            "envelope-state.",
            "event.",
            "done.",
            "template.",
            "template-hint.",
            "funding.",
            "unit.",
            "proposal.",
            "proposed.",
            "lane.",
        ];
        for key in &first {
            let is_by_data = by_data.iter().any(|family| key.starts_with(family));
            assert!(is_by_data || used.contains(key), "nothing says {key}");
        }
        // And whatever looks like a key is one, however it comes to the page.
        let families: BTreeSet<_> = first
            .iter()
            .filter_map(|key| key.split('.').next())
            .collect();
        let is_part = |part: &str| {
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| is_letter(byte) || byte.is_ascii_digit())
        };
        for word in text.split('"') {
            let Some((family, name)) = word.split_once('.') else {
                continue;
            };
            if families.contains(family) && is_part(name) && !NO_KEYS.contains(&word) {
                assert!(first.contains(word), "no language has {word}");
            }
        }
        // What was done is said in the address of a page.
        for key in &first {
            if let Some(done) = key.strip_prefix("done.") {
                assert!(text.contains(&format!("\"{done}\"")), "nothing says {key}");
            }
        }
    }

    #[test]
    fn every_name_of_the_api_that_pages_show_is_translated() {
        fn names<E: TryFrom<i32>>(family: &str, name: impl Fn(E) -> &'static str) {
            let prefix = name(E::try_from(0).ok().unwrap());
            let prefix = prefix.trim_end_matches("UNSPECIFIED");
            let mut found = 0;
            for number in 1..100 {
                let Ok(value) = E::try_from(number) else {
                    continue;
                };
                let short = name(value).strip_prefix(prefix).unwrap();
                let key = format!("{family}.{short}");
                assert!(Language(0).find(&key).is_some(), "{key}");
                found += 1;
            }
            assert!(found > 0, "{family}");
        }
        names("state", |value: proto::CampaignState| value.as_str_name());
        names("window", |value: proto::WindowState| value.as_str_name());
        names("act", |value: proto::OperationKind| value.as_str_name());
        names("cause", |value: proto::DrawCause| value.as_str_name());
        names("outcome", |value: proto::Outcome| value.as_str_name());
        names("delivery", |value: proto::DeliveryState| {
            value.as_str_name()
        });
        names("envelope-state", |value: proto::EnvelopeState| {
            value.as_str_name()
        });
        names("event", |value: proto::EnvelopeEventKind| {
            value.as_str_name()
        });
        names("reason", |value: proto::ErrorReason| value.as_str_name());
        names("funding", |value: proto::Funding| value.as_str_name());
        names("proposal", |value: proto::ProposalState| {
            value.as_str_name()
        });
        names("proposed", |value: proto::ProposedAct| value.as_str_name());
        names("lane", |value: proto::LaneKind| value.as_str_name());
    }

    #[test]
    fn the_browser_s_preference_counts_by_its_weights() {
        let tag = |value| preferred(value).map(Language::tag);
        assert_eq!(tag("zh-CN,zh;q=0.9,en;q=0.8"), Some("zh"));
        assert_eq!(tag("de-DE, en;q=0.7, zh;q=0.3"), Some("en"));
        assert_eq!(tag("zh;q=0.3,en;q=0.7"), Some("en"));
        assert_eq!(tag("zh;q=0"), None);
        assert_eq!(tag("fr"), None);
    }
}
