//! Lists in the documents are complete: error reasons, keys of campaign files, and options.

use std::{collections::BTreeSet, fs};

use prost_reflect::DescriptorPool;
use tombola::proto::FILE_DESCRIPTOR_SET;

use crate::process::{Ended, project, tombola};

fn descriptors() -> DescriptorPool {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap()
}

fn document(path: &str) -> String {
    fs::read_to_string(project(path)).unwrap()
}

/// Asserts that the documents name each of these in code style.
#[track_caller]
fn assert_named(paths: &[&str], names: BTreeSet<String>) {
    let text: String = paths.iter().map(|path| document(path)).collect();
    let is_named = |name: &String| text.contains(&format!("`{name}`"));
    let missing: Vec<_> = names.iter().filter(|name| !is_named(name)).collect();
    assert!(names.len() > 3, "{names:?}");
    assert!(missing.is_empty(), "not in {paths:?}: {missing:?}");
}

#[test]
fn every_reason_is_explained() {
    let reasons = descriptors()
        .get_enum_by_name("tombola.v1.ErrorReason")
        .unwrap();
    let names = reasons.values().filter(|value| value.number() > 0);
    let names = names.map(|value| value.name().replacen("ERROR_REASON_", "", 1));
    assert_named(&["docs/errors.md"], names.collect());
}

#[test]
fn every_key_of_a_campaign_is_explained() {
    let mut keys = BTreeSet::new();
    for message in [
        "Campaign",
        "Budget",
        "DrawLimits",
        "SegmentLimits",
        "SegmentRule",
        "Consolation",
        "Prize",
        "PrizeCap",
        "Pool",
        "Schedule",
        "DailyHours",
        "SpecialHours",
        "Deck",
        "PersonalPool",
        "Guarantee",
        "Ramp",
        "Money",
    ] {
        let name = format!("tombola.v1.{message}");
        let message = descriptors().get_message_by_name(&name).unwrap();
        keys.extend(message.fields().map(|field| field.json_name().to_owned()));
    }
    assert_named(&["docs/campaign-file.md"], keys);
}

#[test]
fn every_option_of_the_server_is_explained() {
    let help = Ended::of(&mut tombola(["serve", "--help"])).well();
    let options = help.split_whitespace().filter_map(|word| {
        let name = word.strip_prefix("--")?;
        let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
        let name: String = name.chars().take_while(|c| is_name(*c)).collect();
        Some(format!("--{name}"))
    });
    let options = options.filter(|name| !["--help", "--json", "--server"].contains(&name.as_str()));
    assert_named(&["docs/operations.md", "docs/redis.md"], options.collect());
}

#[test]
fn the_page_on_faults_names_tests_that_exist() {
    let page = document("docs/faults.md");
    let (_, others) = page.split_once("\n## Other faults\n").unwrap();
    let names = others.split('`').filter(|word| word.contains("::"));
    let mut count = 0;
    for name in names {
        let (module, test) = name.rsplit_once("::").unwrap();
        let path = project("tests/suite").join(module.replace("::", "/"));
        let file = fs::read_to_string(path.with_extension("rs"));
        let file = file.or_else(|_| fs::read_to_string(path.join("mod.rs")));
        let is_there = file.is_ok_and(|text| text.contains(&format!("fn {test}(")));
        assert!(is_there, "no test {name}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}
