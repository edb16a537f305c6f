//! A campaign as YAML that people edit and [`super::parse`] reads back to the same message.

use std::fmt::Write as _;

use jiff::Timestamp;
use prost_reflect::{DynamicMessage, Kind, MapKey, ReflectMessage as _, Value as Field};

use super::words::enum_prefix;
use crate::{model::zone::Zone, proto};

/// Entries that fit into one line of this many characters are written in one.
const FLOW_CHARS_MAX: usize = 90;

/// A campaign as a file: camelCase keys in the order of the schema, short enum values, times in the
/// campaign's own zone; what has its default value is left out. [`super::parse`] gives the same
/// message again.
///
/// ```
/// use tombola::{model::file, proto};
/// let mut campaign = proto::Campaign { id: "wheel".into(), ..Default::default() };
/// campaign.limits = Some(proto::DrawLimits { draws_per_day: Some(3), ..Default::default() });
/// assert_eq!(file::to_yaml(&campaign), "id: wheel\nlimits: {drawsPerDay: 3}\n");
/// ```
pub fn to_yaml(message: &proto::Campaign) -> String {
    let zone = Zone::parse(&message.time_zone).unwrap_or_else(|_| Zone::utc());
    let root = node(&super::dynamic("tombola.v1.Campaign", message), &zone);
    let mut out = String::new();
    match &root {
        Node::Map(entries) if !entries.is_empty() => block_map(&mut out, entries, 0),
        _ => out.push_str("{}\n"),
    }
    out
}

/// What is written: scalars are ready to print.
enum Node {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

fn node(message: &DynamicMessage, zone: &Zone) -> Node {
    match message.descriptor().full_name() {
        "google.protobuf.Timestamp" => return Node::Scalar(time(message, zone)),
        "google.protobuf.Duration" => return Node::Scalar(duration(message)),
        _ => {}
    }
    // By number, which is the order of the schema.
    let desc = message.descriptor();
    let mut fields: Vec<_> = desc.fields().filter(|f| message.has_field(f)).collect();
    fields.sort_by_key(|field| field.number());
    let entries = fields.into_iter().map(|field| {
        let value = field_node(&message.get_field(&field), &field.kind(), zone);
        (field.json_name().to_owned(), value)
    });
    Node::Map(entries.collect())
}

fn field_node(value: &Field, kind: &Kind, zone: &Zone) -> Node {
    match value {
        Field::Message(message) => node(message, zone),
        Field::List(items) => Node::List(items.iter().map(|i| field_node(i, kind, zone)).collect()),
        Field::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries = entries.into_iter().map(|(key, value)| {
                let key = match key {
                    MapKey::String(key) => text(key),
                    other => format!("{other:?}"),
                };
                (key, field_node(value, kind, zone))
            });
            Node::Map(entries.collect())
        }
        Field::String(value) => Node::Scalar(text(value)),
        Field::Bool(value) => Node::Scalar(value.to_string()),
        Field::U64(value) => Node::Scalar(value.to_string()),
        Field::U32(value) => Node::Scalar(value.to_string()),
        Field::I64(value) => Node::Scalar(value.to_string()),
        Field::I32(value) => Node::Scalar(value.to_string()),
        Field::EnumNumber(number) => Node::Scalar(match kind {
            Kind::Enum(desc) => desc.get_value(*number).map_or_else(
                || number.to_string(),
                |choice| {
                    let prefix = enum_prefix(desc);
                    let name = choice.name();
                    name.strip_prefix(&prefix).unwrap_or(name).to_owned()
                },
            ),
            _ => number.to_string(),
        }),
        // No message of a campaign has these; the walk refuses them.
        Field::F32(_) | Field::F64(_) | Field::Bytes(_) => Node::Scalar("null".into()),
    }
}

fn seconds_and_nanos(message: &DynamicMessage) -> (i64, i32) {
    let field = |name| message.get_field_by_name(name);
    let seconds = field("seconds").and_then(|v| v.as_i64());
    let nanos = field("nanos").and_then(|v| v.as_i32());
    (seconds.unwrap_or(0), nanos.unwrap_or(0))
}

fn time(message: &DynamicMessage, zone: &Zone) -> String {
    let (seconds, nanos) = seconds_and_nanos(message);
    Timestamp::new(seconds, nanos)
        .map(|time| zone.rfc3339(time))
        .unwrap_or_else(|_| text(&format!("{seconds} seconds after 1970")))
}

fn duration(message: &DynamicMessage) -> String {
    let (seconds, nanos) = seconds_and_nanos(message);
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let fraction = match nanos.unsigned_abs() {
        0 => String::new(),
        nanos => format!(".{nanos:09}"),
    };
    format!("{sign}{}{fraction}s", seconds.unsigned_abs())
}

/// Text, in quotes unless every YAML reader takes it for text without them.
fn text(value: &str) -> String {
    let plain = value.starts_with(|c: char| c.is_alphabetic())
        && value.len() <= 200
        && !value.ends_with(' ')
        && value
            .chars()
            .all(|c| (c.is_alphanumeric() || "._/@+- ".contains(c)) && printable(c));
    let lower = value.to_lowercase();
    let special = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if plain && !special.contains(&lower.as_str()) {
        return value.into();
    }
    let mut quoted = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            _ if printable(c) => quoted.push(c),
            _ => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether YAML allows the character as it is and people can see it.
fn printable(c: char) -> bool {
    let in_range = match c {
        ' '..='~' | '\u{a1}'..='\u{1fff}' | '\u{2030}'..='\u{d7ff}' => true,
        '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ffef}' => true,
        _ => c >= '\u{10000}',
    };
    in_range && u32::from(c) & 0xfffe != 0xfffe
}

fn block_map(out: &mut String, entries: &[(String, Node)], indent: usize) {
    for (i, (key, value)) in entries.iter().enumerate() {
        // The first key of a list entry stands behind its dash.
        if i > 0 || indent == 0 || out.ends_with('\n') {
            pad(out, indent);
        }
        if key.len() > 100 {
            out.push_str("? ");
            out.push_str(key);
            out.push('\n');
            pad(out, indent);
        } else {
            out.push_str(key);
        }
        out.push(':');
        match value {
            Node::Scalar(scalar) => line(out, scalar),
            _ => match flow(value).filter(|flow| indent + key.len() + flow.len() <= FLOW_CHARS_MAX)
            {
                Some(flow) => line(out, &flow),
                None => {
                    out.push('\n');
                    block(out, value, indent + 2);
                }
            },
        }
    }
}

fn block(out: &mut String, node: &Node, indent: usize) {
    match node {
        Node::Scalar(scalar) => line(out, scalar),
        Node::Map(entries) => block_map(out, entries, indent),
        Node::List(items) => {
            for item in items {
                pad(out, indent);
                out.push('-');
                match flow(item).filter(|flow| indent + flow.len() <= FLOW_CHARS_MAX) {
                    Some(flow) => line(out, &flow),
                    None => {
                        out.push(' ');
                        block(out, item, indent + 2);
                    }
                }
            }
        }
    }
}

/// The node in one line; none if lists of maps are in it, which are read better one below the
/// other.
fn flow(node: &Node) -> Option<String> {
    match node {
        Node::Scalar(scalar) => Some(scalar.clone()),
        Node::List(items) => {
            let items: Option<Vec<String>> = items
                .iter()
                .map(|item| match item {
                    Node::Map(_) => None,
                    _ => flow(item),
                })
                .collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        Node::Map(entries) => {
            let entries: Option<Vec<String>> = entries
                .iter()
                .map(|(key, value)| Some(format!("{key}: {}", flow(value)?)))
                .collect();
            Some(format!("{{{}}}", entries?.join(", ")))
        }
    }
}

fn line(out: &mut String, text: &str) {
    out.push(' ');
    out.push_str(text);
    out.push('\n');
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}
