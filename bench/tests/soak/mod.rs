//! A soak that is as short as slow machines allow: it runs on both stores, everything happens in
//! it, and it leaves nothing behind.

use serde_json::Value;

use crate::{Ended, is_empty, process};

#[test]
fn a_soak_finds_nothing_wrong_while_services_come_and_go_and_plans_change() {
    let directory = tempfile::tempdir().unwrap();
    let reports = tempfile::tempdir().unwrap();
    let report = reports.path().join("soak.md");
    let mut command = process::bench();
    command.args(["soak", "--json", "--directory"]);
    command.arg(directory.path()).arg("--report").arg(&report);
    // Ten seconds for each day: a slow machine needs some of them to begin a small campaign.
    let options = "--duration 30s --days 0.3 --rate 50 --users 400 --restart-every 2s";
    let said = Ended::of(command.args(options.split_whitespace())).well();
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["speed"], 864);
    let stores = found["stores"].as_array().unwrap();
    let page = std::fs::read_to_string(report).unwrap();
    for (store, name) in stores.iter().zip(["embedded", "redis-settled"]) {
        assert_eq!(store["environment"]["store"], name);
        assert!(page.contains(&format!("\n## {name}\n")), "{page}");
        assert_eq!(store["faults"], serde_json::json!([]));
        let number = |field: &str| store[field].as_u64().unwrap();
        assert_eq!(number("draws_answered"), number("draws_counted"));
        assert!(number("draws_answered") > 0 && number("replays") > 0);
        // A plan for each of the three short days. On a slow machine the last one comes too late.
        assert!((2..=3).contains(&number("versions")));
        let sums = store["sums"].as_array().unwrap();
        // The campaign, its small ones, and the envelopes.
        assert_eq!(sums.len(), 5, "{sums:#?}");
        assert!(sums.iter().all(|one| one["balanced"] == true), "{sums:#?}");
        assert!(store["samples"].as_array().unwrap().len() >= 4);
    }
    let services = |store: usize, field: &str| stores[store]["services"][field].as_u64().unwrap();
    assert!(services(0, "starts") > 1 && services(0, "killed") == 0);
    assert!(services(1, "starts") > 3 && services(1, "terminated") > 1);
    is_empty(directory.path());
}

#[test]
fn a_soak_whose_clock_would_be_too_fast_is_refused() {
    let mut command = process::bench();
    command.args(["soak", "--duration", "1m"]);
    Ended::of(&mut command).badly(64, &["--days", "--duration", "1000"]);
}

#[test]
fn a_soak_on_a_store_that_cannot_be_audited_is_refused() {
    let mut command = process::bench();
    command.args(["soak", "--store", "embedded,redis"]);
    Ended::of(&mut command).badly(64, &["--store redis", "redis-settled"]);
}
