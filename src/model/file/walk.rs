//! A document to a message: checks every key and value against the message's descriptor and reports
//! all that is wrong.

use jiff::{SignedDuration, Timestamp};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    Value as Field,
};
use serde_json::{Map, Value};

use super::words::{
    describe, entry_path, enum_prefix, is_unreadably_large, join, shorten, whole_number,
};
use crate::model::{convert::COUNT_MAX, problem::Problems, text::nearest};

/// The most problems that are listed: enough to work on.
const PROBLEMS_MAX: usize = 100;

/// Reads documents as messages and collects what is wrong with them. Where something is wrong the
/// message is incomplete.
#[derive(Default)]
pub(super) struct Walk {
    problems: Problems,
    unlisted: usize,
    meant: Vec<String>,
}

impl Walk {
    /// All that was found.
    pub(super) fn finish(mut self) -> Problems {
        if self.unlisted > 0 {
            let more = format!("has {} more problems", self.unlisted);
            self.problems.add("file", more);
        }
        self.problems
    }

    /// The paths of values that could not be read, also of those whose key is misspelt.
    pub(super) fn unread(&self) -> impl Iterator<Item = &str> {
        let problems = self.problems.0.iter();
        let paths = problems.map(|problem| problem.path.as_str());
        paths.chain(self.meant.iter().map(String::as_str))
    }

    /// What was found is all there is; else the list was cut.
    pub(super) fn is_whole(&self) -> bool {
        self.unlisted == 0
    }

    /// Notes a problem.
    pub(super) fn add(&mut self, path: &str, message: String) {
        if self.problems.0.len() < PROBLEMS_MAX {
            self.problems.add(path, message);
        } else {
            self.unlisted += 1;
        }
    }

    /// The message that a map of keys describes; `path` is where it stands, empty at the top.
    pub(super) fn message(
        &mut self,
        desc: &MessageDescriptor,
        path: &str,
        entries: &Map<String, Value>,
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(desc.clone());
        for (key, value) in entries {
            let found = desc
                .fields()
                .find(|field| field.json_name() == key || field.name() == key);
            let Some(field) = found else {
                self.unknown_key(desc, path, key);
                continue;
            };
            let path = join(path, field.json_name());
            if key != field.json_name() && entries.contains_key(field.json_name()) {
                self.add(&path, format!("is given twice, also as `{key}`: keep one"));
                continue;
            }
            if let Some(value) = self.field(&field, &path, value) {
                self.set(&mut message, &field, &path, value);
            }
        }
        message
    }

    /// Fields of one oneof exclude each other.
    fn set(
        &mut self,
        message: &mut DynamicMessage,
        field: &FieldDescriptor,
        path: &str,
        value: Field,
    ) {
        let rival = field
            .containing_oneof()
            .and_then(|oneof| oneof.fields().find(|other| message.has_field(other)));
        match rival {
            Some(rival) if rival != *field => self.add(
                path,
                format!("stands beside `{}`: keep one of the two", rival.json_name()),
            ),
            _ => message.set_field(field, value),
        }
    }

    fn unknown_key(&mut self, desc: &MessageDescriptor, path: &str, key: &str) {
        if self.problems.0.len() >= PROBLEMS_MAX {
            self.unlisted += 1;
            return;
        }
        let fields: Vec<FieldDescriptor> = desc.fields().collect();
        let names: Vec<&str> = fields.iter().map(FieldDescriptor::json_name).collect();
        let hint = match nearest(key, names.iter().copied()) {
            Some(name) => {
                self.meant.push(join(path, name));
                format!("; did you mean {name}?")
            }
            None => format!("; the keys here are {}", names.join(", ")),
        };
        self.add(&join(path, key), format!("is not a known key{hint}"));
    }

    fn field(&mut self, field: &FieldDescriptor, path: &str, value: &Value) -> Option<Field> {
        match value {
            // Elsewhere null means absent. Here `drawsPerDay:` with nothing after it would quietly
            // mean "unlimited".
            Value::Null => {
                self.add(
                    path,
                    "is empty: give it a value or leave the key out".into(),
                );
                None
            }
            Value::Object(entries) if field.is_map() => self.map(field, path, entries),
            _ if field.is_map() => {
                self.wrong(path, value, "a map of keys", "begin with `key: value`")
            }
            Value::Array(items) if field.is_list() => {
                let kind = field.kind();
                let items = items.iter().enumerate();
                let fields = items.map(|(i, item)| {
                    let read = self.single(&kind, &format!("{path}[{i}]"), item);
                    // A value that could not be read keeps its index, or the problems of those
                    // after it would name wrong indexes.
                    read.unwrap_or_else(|| Field::default_value(&kind))
                });
                Some(Field::List(fields.collect()))
            }
            _ if field.is_list() => self.wrong(path, value, "a list", "begin each entry with `- `"),
            _ => self.single(&field.kind(), path, value),
        }
    }

    fn map(
        &mut self,
        field: &FieldDescriptor,
        path: &str,
        entries: &Map<String, Value>,
    ) -> Option<Field> {
        let Kind::Message(entry) = field.kind() else {
            return None;
        };
        let kind = entry.map_entry_value_field().kind();
        let fields = entries.iter().filter_map(|(key, value)| {
            let value = self.single(&kind, &entry_path(path, key), value)?;
            Some((MapKey::String(key.clone()), value))
        });
        Some(Field::Map(fields.collect()))
    }

    fn single(&mut self, kind: &Kind, path: &str, value: &Value) -> Option<Field> {
        match kind {
            Kind::Message(desc) => self.submessage(desc, path, value).map(Field::Message),
            Kind::Enum(desc) => self.choice(desc, path, value).map(Field::EnumNumber),
            Kind::Bool => match value {
                Value::Bool(value) => Some(Field::Bool(*value)),
                _ => self.wrong(path, value, "true or false", "write true or false"),
            },
            Kind::String => match value {
                Value::String(text) => Some(Field::String(text.clone())),
                Value::Number(_) | Value::Bool(_) => {
                    self.wrong(path, value, "text", &format!("write \"{value}\""))
                }
                _ => self.wrong(path, value, "text", "write text in quotes"),
            },
            Kind::Uint64 => self.whole(path, value, 0, u64::MAX.into(), |n| {
                n.try_into().map(Field::U64)
            }),
            Kind::Uint32 => self.whole(path, value, 0, u32::MAX.into(), |n| {
                n.try_into().map(Field::U32)
            }),
            Kind::Int64 => self.whole(path, value, i64::MIN.into(), i64::MAX.into(), |n| {
                n.try_into().map(Field::I64)
            }),
            Kind::Int32 => self.whole(path, value, i32::MIN.into(), i32::MAX.into(), |n| {
                n.try_into().map(Field::I32)
            }),
            _ => {
                self.add(path, "cannot be given in a file".into());
                None
            }
        }
    }

    fn submessage(
        &mut self,
        desc: &MessageDescriptor,
        path: &str,
        value: &Value,
    ) -> Option<DynamicMessage> {
        let mut message = DynamicMessage::new(desc.clone());
        let transcoded = match (desc.full_name(), value) {
            ("google.protobuf.Timestamp", Value::String(text)) => {
                message.transcode_from(&self.time(path, text)?)
            }
            ("google.protobuf.Duration", Value::String(text)) => {
                message.transcode_from(&self.duration(path, text)?)
            }
            ("google.protobuf.Timestamp", _) => {
                return self.wrong(
                    path,
                    value,
                    "a time",
                    "write it like 2026-11-20T00:00:00+08:00",
                );
            }
            ("google.protobuf.Duration", _) => {
                let advice = match value {
                    Value::Number(seconds) => format!("write {seconds}s for seconds"),
                    _ => "write seconds like 3600s".into(),
                };
                return self.wrong(path, value, "a duration", &advice);
            }
            (_, Value::Object(entries)) => return Some(self.message(desc, path, entries)),
            _ => {
                return self.wrong(path, value, "a map of keys", "begin with `key: value`");
            }
        };
        debug_assert!(
            transcoded.is_ok(),
            "a well-known type fits its own descriptor"
        );
        transcoded.ok().map(|()| message)
    }

    fn time(&mut self, path: &str, text: &str) -> Option<prost_types::Timestamp> {
        // Only the year 1 and later have a protobuf timestamp.
        let parsed = text.parse::<Timestamp>().ok();
        match parsed.filter(|time| time.as_second() >= -62_135_596_800) {
            Some(time) => {
                let floor = time.as_nanosecond().div_euclid(1_000_000_000);
                let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
                Some(prost_types::Timestamp {
                    seconds: floor.try_into().ok()?,
                    nanos: nanos.try_into().ok()?,
                })
            }
            None => {
                let what = "is not a time with its offset from UTC";
                let last = if text.starts_with("9999-12-3") {
                    ", no later than 9999-12-30T22:00:00Z"
                } else {
                    ""
                };
                let text = shorten(text);
                self.add(
                    path,
                    format!("`{text}` {what}: write it like 2026-11-20T00:00:00+08:00{last}"),
                );
                None
            }
        }
    }

    fn duration(&mut self, path: &str, text: &str) -> Option<prost_types::Duration> {
        let parsed = text.parse::<SignedDuration>().ok();
        let seconds_form = text.strip_suffix('s').is_some_and(|seconds| {
            seconds
                .bytes()
                .all(|b| b.is_ascii_digit() || b".-".contains(&b))
        });
        match parsed {
            Some(duration) if seconds_form => Some(prost_types::Duration {
                seconds: duration.as_secs(),
                nanos: duration.subsec_nanos(),
            }),
            Some(duration) => {
                let text = shorten(text);
                self.add(
                    path,
                    format!("`{text}` is not in seconds: write {}s", duration.as_secs()),
                );
                None
            }
            None => {
                let text = shorten(text);
                self.add(
                    path,
                    format!("`{text}` is not a duration: write seconds like 3600s"),
                );
                None
            }
        }
    }

    fn choice(&mut self, desc: &EnumDescriptor, path: &str, value: &Value) -> Option<i32> {
        let prefix = enum_prefix(desc);
        let number = match value {
            Value::String(text) => desc
                .values()
                .find(|choice| {
                    choice.name() == text || choice.name().strip_prefix(&prefix) == Some(text)
                })
                .map(|choice| choice.number()),
            Value::Number(number) => number
                .as_i64()
                .and_then(|number| i32::try_from(number).ok())
                .filter(|number| desc.get_value(*number).is_some()),
            _ => None,
        };
        if number.is_none() {
            let names: Vec<String> = desc
                .values()
                .filter_map(|choice| choice.name().strip_prefix(&prefix).map(str::to_owned))
                .filter(|name| name != "UNSPECIFIED")
                .collect();
            let names = names.join(", ");
            self.add(path, format!("{}, not one of {names}", describe(value)));
        }
        number
    }

    fn whole<E>(
        &mut self,
        path: &str,
        value: &Value,
        min: i128,
        max: i128,
        make: impl FnOnce(i128) -> Result<Field, E>,
    ) -> Option<Field> {
        // Every number of 64 bits is a count, and a campaign's rules allow no more.
        let most = if max == i128::from(u64::MAX) {
            i128::from(COUNT_MAX)
        } else {
            max
        };
        let Some(number) = whole_number(value) else {
            if is_unreadably_large(value) {
                let given = match value {
                    Value::String(text) => shorten(text),
                    other => other.to_string(),
                };
                self.add(
                    path,
                    format!("`{given}` is too large: it must be from {min} to {most}"),
                );
                return None;
            }
            let advice = match value {
                Value::String(text) if text.contains([',', '_', ' ']) => "write digits only",
                _ => "write a whole number like 200",
            };
            return self.wrong(path, value, "a whole number", advice);
        };
        let made = (min..=max).contains(&number).then(|| make(number).ok());
        if made.is_none() {
            self.add(
                path,
                format!("is {number}: it must be from {min} to {most}"),
            );
        }
        made.flatten()
    }

    fn wrong<T>(&mut self, path: &str, value: &Value, expected: &str, advice: &str) -> Option<T> {
        let given = describe(value);
        self.add(
            path,
            format!("{given} where {expected} is expected: {advice}"),
        );
        None
    }
}
