//! What differs between two versions of a campaign, as its operator writes it.

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

use crate::{
    model::{campaign::Campaign, convert::encode},
    proto,
};

/// One field that two versions of a campaign have different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where in the JSON mapping; prizes and pools by their id, special hours by their start:
    /// `pools[coupons].schedule.special[2026-11-29T00:00].multiply`.
    pub path: String,
    /// As JSON text; empty if it was absent or unset.
    pub before: String,
    /// As JSON text; empty if it is absent or unset.
    pub after: String,
}

/// What differs between two versions, field by field, sorted by path. Fields that are unset or zero
/// count as absent.
pub fn differences(before: &Campaign, after: &Campaign) -> Vec<Difference> {
    let (before, after) = (leaves(before), leaves(after));
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let text = |leaves: &BTreeMap<String, String>, path: &str| {
        leaves.get(path).cloned().unwrap_or_default()
    };
    paths
        .into_iter()
        .map(|path| Difference {
            path: path.clone(),
            before: text(&before, path),
            after: text(&after, path),
        })
        .filter(|difference| difference.before != difference.after)
        .collect()
}

fn leaves(campaign: &Campaign) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    collect("", &to_json(campaign), &mut leaves);
    // Prizes and pools are known by id below, so their order has a line of its own.
    let order = |ids: Vec<&str>| Value::from(ids).to_string();
    let prizes = campaign.prizes.iter().map(|prize| prize.id.as_str());
    leaves.insert("prizes".into(), order(prizes.collect()));
    let pools = campaign.pools.iter().map(|pool| pool.id.as_str());
    leaves.insert("pools".into(), order(pools.collect()));
    leaves
}

fn collect(path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                collect(&format!("{path}{dot}{name}"), value, leaves);
            }
        }
        Value::Array(elements) => {
            let key = match path.rsplit('.').next() {
                Some("prizes" | "pools") => "id",
                Some("special") => "from",
                _ => "",
            };
            for (i, element) in elements.iter().enumerate() {
                let name = element.get(key).and_then(Value::as_str);
                let name = name.map_or_else(|| i.to_string(), str::to_owned);
                collect(&format!("{path}[{name}]"), element, leaves);
            }
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.to_string());
        }
    }
}

/// The JSON mapping, with numbers as numbers: no count here is above 2^53 - 1.
fn to_json(campaign: &Campaign) -> Value {
    let options = SerializeOptions::new().stringify_64_bit_integers(false);
    let json = || {
        let pool = DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).ok()?;
        let descriptor = pool.get_message_by_name("tombola.v1.Campaign")?;
        let message = DynamicMessage::decode(descriptor, encode(campaign).as_slice()).ok()?;
        message
            .serialize_with_options(serde_json::value::Serializer, &options)
            .ok()
    };
    json().expect("the descriptors of this build describe the messages of this build")
}
