//! Campaign files: YAML or JSON in the JSON mapping of `tombola.v1`, so that file and API share one
//! schema.
//!
//! Beyond the mapping a file may shorten enum values (`SPREAD` for `MISSED_SPREAD`), and must not
//! leave a value empty. The rules of a campaign are those of [`super::convert`]; [`check`] checks
//! a file against both.

use std::{collections::HashMap, sync::LazyLock};

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Map, Value};

use super::{
    convert::{campaign_from_proto, is_short_stock},
    problem::Problems,
};
use crate::proto;

mod doubt;
mod walk;
mod words;
mod write;
mod yaml;

pub use write::to_yaml;

static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).expect("the build wrote valid descriptors")
});

/// The campaigns of a file, one for each YAML document; at least one.
///
/// # Errors
/// Every syntax error with its line; else every unknown key and every value of a wrong type with
/// its path.
///
/// ```
/// use tombola::model::file;
/// let campaigns = file::parse("id: wheel\nprizes: [{id: car, stock: 1}]").unwrap();
/// assert_eq!(campaigns[0].prizes[0].stock, 1);
/// let problems = file::parse("id: wheel\nprizes: [{id: car, stokc: 1}]").unwrap_err();
/// assert_eq!(problems.to_string(), "prizes[0].stokc: is not a known key; did you mean stock?");
/// ```
pub fn parse(text: &str) -> Result<Vec<proto::Campaign>, Problems> {
    let (campaigns, problems) = read_all(text, |_, _| Problems::default())?;
    problems.or(campaigns)
}

/// The campaigns of a file, each right by the rules of a campaign too. Stock that is short is
/// reported beside other problems only: how much is needed depends on how far a campaign is.
///
/// # Errors
/// As [`parse`], and every rule that what could be read breaks, unless that may only follow from
/// what could not be read.
///
/// ```
/// use tombola::model::file;
/// let problems = file::check("id: a b\nprizes: [{id: car, stokc: 1}]").unwrap_err();
/// let paths: Vec<&str> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
/// assert_eq!(paths, ["prizes[0].stokc", "id", "timeZone", "startTime", "endTime", "pools"]);
/// ```
pub fn check(text: &str) -> Result<Vec<proto::Campaign>, Problems> {
    let (campaigns, problems) =
        read_all(text, |campaign, walk| match campaign_from_proto(campaign) {
            Err(broken) if walk.is_whole() => doubt::certain(broken, walk),
            _ => Problems::default(),
        })?;
    if problems.0.iter().all(is_short_stock) {
        return Ok(campaigns);
    }
    problems.or(campaigns)
}

/// The campaign of a file that must have a single one. Of others no rule is looked at: that of many
/// campaigns would take long.
///
/// # Errors
/// As [`check`], and several campaigns.
///
/// ```
/// use tombola::model::file;
/// let problems = file::check_one("id: wheel\n---\nid: wheel").unwrap_err();
/// assert_eq!(problems.to_string(), "file: has several campaigns: write one here");
/// ```
pub fn check_one(text: &str) -> Result<proto::Campaign, Problems> {
    if yaml::documents(text)?.len() > 1 {
        let message = "has several campaigns: write one here";
        return Err(yaml::one_problem("file", message));
    }
    let campaign = check(text)?.pop();
    campaign.ok_or_else(|| yaml::one_problem("file", "has no campaign"))
}

/// Reads all documents as far as they can be read; `rules` returns what else is wrong with one,
/// given its own problems.
fn read_all(
    text: &str,
    rules: impl Fn(&proto::Campaign, &walk::Walk) -> Problems,
) -> Result<(Vec<proto::Campaign>, Problems), Problems> {
    let documents = yaml::documents(text)?;
    let mut walk = walk::Walk::default();
    let mut campaigns: Vec<proto::Campaign> = Vec::with_capacity(documents.len());
    let mut document_by_id: HashMap<String, usize> = HashMap::new();
    for (i, document) in (1..).zip(&documents) {
        let at = if documents.len() > 1 {
            format!("document {i}: ")
        } else {
            String::new()
        };
        let mut inner = walk::Walk::default();
        let campaign: proto::Campaign = read(&mut inner, "tombola.v1.Campaign", document);
        let broken = rules(&campaign, &inner);
        for problem in inner.finish().0.into_iter().chain(broken.0) {
            walk.add(&format!("{at}{}", problem.path), problem.message);
        }
        if campaign.id.is_empty() {
            // Its absence is for the rules of a campaign to report.
        } else if let Some(first) = document_by_id.get(&campaign.id) {
            let message = format!("{:?} is the id of document {first} too", campaign.id);
            walk.add(&format!("{at}id"), message);
        } else {
            document_by_id.insert(campaign.id.clone(), i);
        }
        campaigns.push(campaign);
    }
    Ok((campaigns, walk.finish()))
}

/// The schedule of a file that holds nothing else.
///
/// # Errors
/// As [`parse`].
///
/// ```
/// let schedule = tombola::model::file::parse_schedule("perHour: {coupon: 200}").unwrap();
/// assert_eq!(schedule.per_hour["coupon"], 200);
/// ```
pub fn parse_schedule(text: &str) -> Result<proto::Schedule, Problems> {
    let documents = yaml::documents(text)?;
    let [document] = documents.as_slice() else {
        let message = format!("has {} documents: a schedule is one", documents.len());
        return Err(yaml::one_problem("file", message));
    };
    let mut walk = walk::Walk::default();
    let schedule = read(&mut walk, "tombola.v1.Schedule", document);
    walk.finish().or(schedule)
}

/// The JSON mapping of a message, for scripts: fields that have their default value are there too,
/// absent messages are not; 64-bit numbers are text, as the mapping has it.
///
/// # Panics
/// If `full_name` is not that of the message.
///
/// ```
/// use tombola::{model::file, proto};
/// let json = file::to_json("tombola.v1.LedgerId", &proto::LedgerId { partition: 0, sequence: 7 });
/// assert_eq!(json, serde_json::json!({"partition": 0, "sequence": "7"}));
/// ```
pub fn to_json(full_name: &str, message: &impl Message) -> Value {
    let options = SerializeOptions::new().skip_default_fields(false);
    dynamic(full_name, message)
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("every message of tombola.v1 has a JSON form")
}

/// Reads a document; what is wrong is in `walk` afterwards.
fn read<M: Message + Default>(walk: &mut walk::Walk, full_name: &str, document: &Value) -> M {
    let empty = Map::new();
    let entries = document.as_object().unwrap_or_else(|| {
        let given = match document {
            Value::Array(_) => "is a list",
            _ => "is a single value",
        };
        let advice =
            "a map of keys like `id: spring-wheel` is expected; several are separated by `---`";
        walk.add("file", format!("{given}: {advice}"));
        &empty
    });
    let message = walk.message(&descriptor(full_name), "", entries);
    message
        .transcode_to()
        .expect("the message was built by its own descriptor")
}

fn dynamic(full_name: &str, message: &impl Message) -> DynamicMessage {
    let bytes = message.encode_to_vec();
    DynamicMessage::decode(descriptor(full_name), bytes.as_slice())
        .expect("the name is that of the message")
}

fn descriptor(full_name: &str) -> MessageDescriptor {
    DESCRIPTORS
        .get_message_by_name(full_name)
        .expect("the name is that of a message of tombola.v1")
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
