//! `tombola simulate`, which needs no server.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;

use super::WHEEL;
use crate::process::{Ended, project, tombola};

/// A directory with the file of a campaign.
struct Table(TempDir);

impl Table {
    fn new() -> Self {
        let table = Self(tempfile::tempdir().unwrap());
        let short = WHEEL.replace("2026-12-31T", "2026-12-03T");
        fs::write(table.path("wheel.yaml"), short).unwrap();
        table
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Simulates the campaign with these options.
    fn simulate(&self, options: &[&str]) -> Ended {
        let file = self.path("wheel.yaml");
        let words = ["simulate", &file, "--seeds", "2", "--users", "50"];
        Ended::of(&mut tombola(words.iter().chain(options)))
    }
}

fn parsed(said: &str) -> Value {
    serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}\n{said}"))
}

#[test]
fn each_sample_of_some_days_is_simulated_and_gives_out_no_more_than_it_has() {
    for name in [
        "spring-wheel",
        "grand-wheel",
        "mall-wheel",
        "red-packets",
        "budget",
        "gacha",
        "tenth-wheel",
        "coupon-codes",
    ] {
        let path = project(&format!("deploy/campaigns/{name}.yaml"));
        let words = [
            "simulate",
            path.to_str().unwrap(),
            "--users",
            "50",
            "--paid-per-day",
            "1",
            "--seeds",
            "1",
            "--json",
        ];
        let ended = Ended::of(&mut tombola(words));
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        let forecast = parsed(&ended.well());
        assert_eq!(forecast["campaignId"], name);
        assert!(forecast["draws"]["mean"].as_f64().unwrap() > 0.0, "{name}");
        for prize in forecast["prizes"].as_array().unwrap() {
            let number = |field: &str| prize[field]["mean"].as_f64().unwrap();
            let stock = prize["stock"].as_u64().unwrap() as f64;
            let is_whole = (number("won") + number("left") - stock).abs() < 1e-6;
            assert!(is_whole || prize["unlimited"] == true, "{name}: {prize:#}");
            assert_eq!(
                prize["hours"].as_array().unwrap().len(),
                forecast["hours"].as_array().unwrap().len()
            );
        }
    }
}

/// Its draws take so many cards that more are dealt ahead of them.
#[test]
fn a_large_deck_is_dealt_ahead_without_a_panic() {
    let table = Table::new();
    let deck = "
        id: cards
        timeZone: Asia/Shanghai
        startTime: 2026-12-01T00:00:00+08:00
        endTime: 2026-12-02T00:00:00+08:00
        prizes: [{id: coupon, stock: 1000}]
        pools: [{id: cards, deck: {size: 10000, cards: {coupon: 1000}}}]
    ";
    let path = table.path("cards.yaml");
    fs::write(&path, deck).unwrap();
    let words = [
        "simulate",
        &path,
        "--users",
        "100",
        "--free-per-day",
        "20",
        "--seeds",
        "1",
    ];
    let ended = Ended::of(&mut tombola(words));
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended.well();
}

#[test]
fn the_same_options_give_the_same_forecast() {
    let table = Table::new();
    let options = [
        "--free-per-day",
        "3",
        "--paid-per-day",
        "1.5",
        "--arrivals",
        "flat",
        "--json",
    ];
    let first = table.simulate(&options).well();
    assert_eq!(first, table.simulate(&options).well());
    let forecast = parsed(&first);
    assert_eq!(
        (&forecast["users"], &forecast["seeds"]),
        (&50.into(), &2.into())
    );
    assert!(
        forecast["refused"]["DRAWS_PER_DAY"]["mean"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn people_get_tables_a_chart_and_a_page() {
    let table = Table::new();
    let report = table.path("report.html");
    let shown = table.simulate(&["--report", &report]).well();
    for part in [
        "users who win",
        "coupon",
        "units won",
        "2026-12-01T00:00+08:00",
        "█",
    ] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    let page = fs::read_to_string(&report).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<svg") && page.contains("<td>coupon</td>"));
    assert!(
        !page.contains("<script") && !page.contains("http"),
        "it needs nothing from outside"
    );
    let hours = table.simulate(&["--by-hour"]).well();
    assert!(
        hours.lines().count() > shown.lines().count() + 48,
        "{hours}"
    );
}

#[test]
fn hours_of_a_file_get_their_share_of_the_draws() {
    let table = Table::new();
    let arrivals = table.path("arrivals.csv");
    fs::write(&arrivals, "hour,weight\n20,3\n21,1\n").unwrap();
    let shown = table.simulate(&["--arrivals", &arrivals, "--json"]).well();
    let hours = parsed(&shown)["hours"].as_array().unwrap().clone();
    let draws = |hour: usize| hours[hour]["draws"]["mean"].as_f64().unwrap();
    assert!(draws(20) > 0.0 && draws(44) > 0.0);
    assert_eq!((draws(12), draws(22)), (0.0, 0.0));
}

#[test]
fn values_of_one_number_are_compared() {
    let table = Table::new();
    let shown = table
        .simulate(&["--vary", "limits.drawsPerDay=1..3"])
        .well();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 8, "{shown}");
    assert!(
        lines[5].starts_with("won with") && lines[6].starts_with("car"),
        "{shown}"
    );
    let shown = table
        .simulate(&["--vary", "limits.drawsPerDay=1..3", "--json"])
        .well();
    let variants = parsed(&shown)["variants"].as_array().unwrap().clone();
    let values: Vec<u64> = variants
        .iter()
        .map(|it| it["value"].as_u64().unwrap())
        .collect();
    assert_eq!(values, [1, 2, 3]);
    let refused = |variant: &Value| {
        let refused = &variant["forecast"]["refused"]["DRAWS_PER_DAY"]["mean"];
        refused.as_f64().unwrap_or(0.0)
    };
    assert!(refused(&variants[0]) > refused(&variants[2]));
}

/// What changes with a guarantee is seen in the comparison, and odds can be varied as well.
#[test]
fn guarantees_and_odds_are_compared() {
    let path = project("deploy/campaigns/gacha.yaml");
    let compared = |vary: &str| {
        let file = path.to_str().unwrap();
        let crowd = ["--users", "20", "--paid-per-day", "5", "--seeds", "1"];
        let words = ["simulate", file, "--vary", vary];
        Ended::of(&mut tombola(words.iter().chain(&crowd))).well()
    };
    let shown = compared("pools[banner].personal.guarantees[ssr].within=30..90");
    assert!(shown.contains("users with a guarantee"), "{shown}");
    let won = shown.lines().find(|line| line.starts_with("ember-dragon"));
    let won: Vec<&str> = won.unwrap().split_whitespace().skip(1).collect();
    assert_eq!(won.len(), 5, "{shown}");
    assert_ne!(won[0], won[4], "{shown}");
    let shown = compared("pools[banner].personal.guarantees[ssr].ramp[0].add=2%..6%");
    assert!(shown.contains("\n3%") || shown.contains(" 3%"), "{shown}");
}

/// The caps of the file are in the tables, the page and the comparison.
#[test]
fn users_at_a_cap_are_shown_and_compared() {
    let path = project("deploy/campaigns/mall-wheel.yaml");
    let report = tempfile::tempdir().unwrap();
    let report = report.path().join("report.html");
    let run = |more: &[&str]| {
        let words = ["simulate", path.to_str().unwrap(), "--users", "30"];
        let crowd = ["--free-per-day", "2", "--seeds", "1"];
        Ended::of(&mut tombola(words.iter().chain(&crowd).chain(more))).well()
    };
    let shown = run(&["--report", report.to_str().unwrap()]);
    assert!(shown.contains("users at its cap"), "{shown}");
    let page = fs::read_to_string(&report).unwrap();
    assert!(page.contains("users at its cap") && page.contains("30 users, 1 run."));
    let compared = run(&["--vary", "prizes[voucher].perUser.total=1..30", "--json"]);
    let variants = parsed(&compared)["variants"].as_array().unwrap().clone();
    let at_cap = |variant: &Value| {
        let prize = &variant["forecast"]["prizes"][1];
        prize["atCap"]["mean"].as_f64().unwrap()
    };
    assert!(at_cap(&variants[0]) > at_cap(&variants[4]), "{compared}");
    let compared = run(&["--vary", "prizes[voucher].perUser.total=1..2"]);
    assert!(
        compared.contains("users at a cap") && compared.contains("voucher "),
        "{compared}"
    );
}

#[test]
fn codes_run_out_if_it_is_said_how_many_there_are() {
    let path = project("deploy/campaigns/coupon-codes.yaml");
    let run = |codes: &[&str]| {
        let words = ["simulate", path.to_str().unwrap(), "--users", "500"];
        let more = ["--paid-per-day", "3", "--seeds", "1", "--json"];
        Ended::of(&mut tombola(words.iter().chain(&more).chain(codes)))
    };
    let id = parsed(&run(&[]).well())["prizes"][0]["prizeId"].clone();
    let id = id.as_str().unwrap();
    let few = parsed(&run(&["--codes", &format!("{id}=4")]).well());
    let prize = &few["prizes"][0];
    assert_eq!(
        (&prize["stock"], &prize["unlimited"]),
        (&4.into(), &false.into())
    );
    assert_eq!(prize["won"]["mean"], 4.0, "{prize:#}");
    assert_eq!(prize["runsOut"], 1.0);
    run(&["--codes", "nothing=3"]).badly(64, &["no prize nothing with codes"]);
    run(&["--codes", id]).badly(64, &["coupon=5000"]);
}

#[test]
fn wrong_options_say_what_to_write() {
    let table = Table::new();
    table
        .simulate(&["--vary", "limits.drawsPerDay=1..3", "--by-hour"])
        .badly(64, &["--by-hour", "leave --vary out"]);
    // The fourth value needs more than the stock, which is found before the first one is played.
    let late = table.simulate(&["--vary", "pools[hours].schedule.perHour.coupon=100..10100"]);
    assert!(!late.stderr.contains("draws made"), "{}", late.stderr);
    late.badly(1, &["perHour.coupon=7600", "stock"]);
    let many = Ended::of(&mut tombola(["simulate", "wheel.yaml", "--users", "many"]));
    many.badly(64, &["--users", "200k"]);
    table
        .simulate(&["--free-per-day", "0"])
        .badly(64, &["nobody draws"]);
    table
        .simulate(&["--segment", "member"])
        .badly(64, &["member=30%"]);
    table
        .simulate(&["--segment", "member=30%"])
        .badly(64, &["does not ask for the segment member"]);
    table
        .simulate(&["--vary", "limits.drawsPerDay=3"])
        .badly(64, &["A..B"]);
    table
        .simulate(&["--vary", "limits.drawPerDay=1..3"])
        .badly(1, &["did you mean drawsPerDay"]);
    table
        .simulate(&["--arrivals", "noon"])
        .badly(1, &["cannot read noon"]);
    let arrivals = table.path("arrivals.csv");
    fs::write(&arrivals, "hour,weight\n25,3\n").unwrap();
    table
        .simulate(&["--arrivals", &arrivals])
        .badly(1, &["line 2", "0 to 23"]);
    let nowhere = Path::new("no-such-directory").join("report.html");
    let nowhere = nowhere.to_str().unwrap();
    table
        .simulate(&["--report", nowhere])
        .badly(1, &["cannot write"]);
    let none = Ended::of(&mut tombola(["simulate", "no-such-file.yaml"]));
    none.badly(1, &["cannot read no-such-file.yaml"]);
}
