//! The operators' commands.

use super::{Desk, WHEEL};

#[test]
fn a_change_of_a_campaign_names_the_version_that_it_changes() {
    let desk = Desk::with_wheel();
    let more = WHEEL.replace("stock: 300000", "stock: 400000");
    let file = desk.file("more.yaml", &more);
    let refused = desk.run("apply -f", &[&file]);
    refused.badly(1, &["nothing was applied", "--base-version 1"]);
    let applied = desk.run("apply --base-version 1 -f", &[&file]).well();
    assert!(applied.contains("400,000"), "{applied}");
    let stale = desk.run("apply --base-version 1 -f", &[&file]);
    stale.badly(1, &["version"]);
    assert_eq!(desk.json("campaign wheel")["status"]["version"], 2);
    let old = desk.run("campaign wheel --version 1 -o yaml", &[]).well();
    assert!(old.contains("300000"), "{old}");
}

#[test]
fn a_paused_campaign_draws_when_it_is_resumed() {
    let desk = Desk::with_wheel();
    desk.run("pause wheel --operator anna --reason", &["wrong codes"])
        .well();
    let draw = desk.run("draw wheel u-1", &[]);
    draw.badly(1, &["paused", "CAMPAIGN_PAUSED", "nothing happened"]);
    let list = desk.run("campaigns", &[]).well();
    assert!(list.contains("paused"), "{list}");
    desk.run("resume wheel", &[]).well();
    desk.run("draw wheel u-1", &[]).well();
}

#[test]
fn a_draw_is_retried_under_its_request_id_and_found_again() {
    let desk = Desk::with_wheel();
    let line = "draw wheel u-1 --count 5 --paid --payment-ref order-1 --request-id r-1";
    let (first, again) = (desk.json(line), desk.json(line));
    assert_eq!(first["results"].as_array().unwrap().len(), 5, "{first:#}");
    assert_eq!(first["results"], again["results"]);
    assert_eq!(again["replayed"], true);
    let found = desk.json("get-draw wheel u-1 r-1");
    assert_eq!(found["draw"]["results"], first["results"]);
    let missing = desk.run("get-draw wheel u-1 r-2", &[]);
    let output = missing.badly(1, &["no draw", "may yet draw"]);
    assert!(!output.contains("nothing happened"), "{output}");
    assert_eq!(desk.json("stats wheel")["draws"], "5");
}

#[test]
fn a_limit_is_checked_refuses_and_is_lifted_by_a_grant() {
    let desk = Desk::with_wheel();
    desk.run("draw wheel u-1 --count 3", &[]).well();
    let check = desk.run("check wheel u-1", &[]).well();
    assert!(check.contains("DRAWS_PER_DAY"), "{check}");
    let refused = desk.run("draw wheel u-1", &[]);
    refused.badly(1, &["DRAWS_PER_DAY", "worth another try", "tombola grant"]);
    let users = desk.file("users.txt", "u-2\n\nu-3\n");
    let grant = "grant wheel u-1 --draws 2 --expire 2026-12-06T12:00:00+08:00 --request-id \
        apology --users-file";
    let output = desk.run(grant, &[&users]).well();
    assert!(output.contains('3'), "{output}");
    desk.run(grant, &[&users]).well(); // a retry grants nothing more
    desk.run("draw wheel u-1 --count 2", &[]).well();
    desk.run("draw wheel u-1", &[]).badly(1, &["DRAWS_PER_DAY"]);
}

#[test]
fn a_grant_that_expires_after_a_span_says_how_to_retry_it() {
    let desk = Desk::with_wheel();
    let grant = "grant wheel u-1 --draws 2 --expire +24h --request-id apology";
    desk.run(grant, &[]).well();
    let again = desk.run(grant, &[]);
    again.badly(1, &["REQUEST_ID_REUSED", "--expire", "first call"]);
}

#[test]
fn a_blocked_user_gets_the_consolation_prize_until_unblocked() {
    let desk = Desk::with_wheel();
    desk.run("block wheel u-1 u-2 --reason scripts", &[]).well();
    let draw = desk.json("draw wheel u-1 --count 10 --paid");
    let results = draw["results"].as_array().unwrap();
    assert!(
        results
            .iter()
            .all(|r| r["outcome"] == "OUTCOME_CONSOLATION"),
        "{draw:#}"
    );
    let status = desk.json("campaign wheel");
    assert_eq!(status["status"]["blockedUsers"], "2", "{status:#}");
    assert_eq!(desk.json("unblock wheel u-1")["users"], 1);
    assert_eq!(desk.json("block wheel u-2 --undo")["users"], 1);
}

#[test]
fn a_held_prize_is_shown_and_released() {
    let desk = Desk::with_wheel();
    desk.run("prize pause wheel coupon", &[]).well();
    let status = desk.json("campaign wheel");
    assert_eq!(
        status["status"]["pausedPrizeIds"][0], "coupon",
        "{status:#}"
    );
    desk.run("prize resume wheel coupon", &[]).well();
    let missing = desk.run("prize pause wheel bicycle", &[]);
    missing.badly(1, &["bicycle", "tombola campaign wheel -o yaml"]);
}

#[test]
fn a_plan_is_shown_before_it_replaces_another() {
    let desk = Desk::with_wheel();
    let plan = desk.file("plan.yaml", "perHour: {coupon: 150}\n");
    let shown = desk.run("plan wheel hours --dry-run -f", &[&plan]).well();
    assert!(shown.contains("150"), "{shown}");
    desk.run("plan wheel hours -f", &[&plan])
        .badly(1, &["--base-version 1"]);
    assert_eq!(desk.json("campaign wheel")["status"]["version"], 1);
    desk.run("plan wheel hours --base-version 1 -f", &[&plan])
        .well();
    assert_eq!(desk.json("campaign wheel")["status"]["version"], 2);
    let deck = desk.run("plan wheel deck --base-version 2 -f", &[&plan]);
    let output = deck.badly(1, &["deck"]);
    assert_eq!(output.matches("is a deck").count(), 1, "{output}");
}

#[test]
fn unreleased_units_are_recalled_only_when_confirmed() {
    let desk = Desk::with_wheel();
    desk.run("recall wheel hours", &[]).badly(1, &["--yes"]);
    let recalled = desk.json("recall wheel hours --window now --prize coupon --yes");
    let units: u64 = recalled["recalled"][0]["units"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=100).contains(&units), "{recalled:#}");
    let stats = desk.json("stats wheel");
    assert_eq!(stats["balanced"], true, "{stats:#}");
    let schedule = desk.run("schedule wheel --from now", &[]).well();
    assert!(schedule.contains("recalled"), "{schedule}");
}

#[test]
fn a_recall_of_an_hour_from_now_says_how_to_retry_it_in_another_hour() {
    let desk = Desk::with_wheel();
    let recall = |window: &str| {
        let line = "recall wheel hours --yes --request-id mistake --window";
        desk.run(line, &[window])
    };
    recall("now").well();
    recall("+0h").well(); // the same hour
    recall("+1h").badly(1, &["REQUEST_ID_REUSED", "--window", "first call"]);
}

#[test]
fn a_schedule_is_shown_in_part_and_by_day_if_it_is_long() {
    let desk = Desk::with_wheel();
    let all = desk.run("schedule wheel", &[]).well();
    assert!(
        all.contains("2026-12-30") && all.contains("--by hour"),
        "{all}"
    );
    assert!(!all.contains("2026-12-30T"), "{all}");
    let part = "schedule wheel --from 2026-12-07T20:00:00+08:00 --to 2026-12-07T22:00:00+08:00";
    let some = desk.run(part, &[]).well();
    let listed = |text: &str| text.matches("2026-12-07T2").count();
    assert_eq!(listed(&some), 2, "{some}");
    assert_eq!(desk.json(part)["windows"].as_array().unwrap().len(), 2);
    let wrong = desk.run("schedule wheel --from +2h --to +1h", &[]);
    wrong.badly(64, &["--to", "--from"]);
}

#[test]
fn a_campaign_applied_late_shows_what_is_still_to_come() {
    let desk = Desk::new();
    // From 12:00 on 5 December 612 hours of 100 are left, and the deck's first round takes 9; all
    // 720 hours would need more than this.
    let file = desk.file("late.yaml", &WHEEL.replace("300000", "61209"));
    let applied = desk.run("apply", &[&file]).well();
    assert!(
        applied.contains("61,209") && !applied.contains("short"),
        "{applied}"
    );
    assert!(!applied.contains("12-01 "), "{applied}");
    let short = desk.file("short.yaml", "perHour: {coupon: 200}\n");
    let refused = desk.run("plan wheel hours --base-version 1", &[&short]);
    let words = [
        "short.yaml: perHour.coupon: stock ",
        "needed, 61,209 given",
        "or plan less",
    ];
    let output = refused.badly(1, &words);
    assert!(
        output.contains("in the hours of pool hours from 2026-12-"),
        "{output}"
    );
    let wrong = desk.file(
        "wrong.yaml",
        "special: [{from: 2026-12-07T00:30, to: 2026-12-08T00:00, multiply: 2}]",
    );
    let refused = desk.run("plan wheel hours --base-version 1", &[&wrong]);
    let output = refused.badly(1, &["wrong.yaml", "special[0].from: "]);
    assert!(!output.contains("pools[0]"), "{output}");
}

#[test]
fn special_hours_are_multiplied_by_a_decimal() {
    let desk = Desk::with_wheel();
    let plan = |factor: &str| {
        format!(
            "perHour: {{coupon: 3}}\nspecial: [{{from: 2026-12-07T10:00, to: 2026-12-07T12:00, \
             {factor}}}]\n"
        )
    };
    let file = desk.file("plan.yaml", &plan("factor: \"1.5\""));
    let shown = desk.run("plan wheel hours --dry-run", &[&file]).well();
    assert!(
        shown.contains("12-07 10:00 … 11:00") && shown.contains("5 each"),
        "{shown}"
    );
    desk.run("plan wheel hours --base-version 1", &[&file])
        .well();
    let hours = "schedule wheel --from 2026-12-07T10:00:00+08:00 --to 2026-12-07T13:00:00+08:00";
    let windows = &desk.json(hours)["windows"];
    let planned = [0, 1, 2].map(|hour| windows[hour]["prizes"][0]["planned"].clone());
    assert_eq!(planned, ["5", "5", "3"]);
    let yaml = desk.run("campaign wheel -o yaml", &[]).well();
    assert!(
        yaml.contains("factor: \"1.5\"") && !yaml.contains("multiply"),
        "{yaml}"
    );
    let again = desk.file("again.yaml", &yaml);
    let same = desk.run("apply", &[&again]).well();
    assert!(same.contains("unchanged"), "{same}");
    for (factor, words) in [
        ("factor: 1.5", ["special[0].factor", "write \"1.5\""]),
        (
            "factor: \"1.2345\"",
            ["special[0].factor", "at most 3 decimals"],
        ),
        (
            "factor: \"2\", multiply: 2",
            ["special[0].factor", "keep one of the two"],
        ),
    ] {
        let file = desk.file("plan.yaml", &plan(factor));
        desk.run("plan wheel hours --dry-run", &[&file])
            .badly(1, &words);
    }
}

#[test]
fn a_closed_campaign_reveals_its_seed() {
    let desk = Desk::with_wheel();
    assert_eq!(desk.json("odds wheel")["seed"], "");
    desk.run("close wheel", &[]).badly(1, &["--yes"]);
    desk.run("close wheel --yes", &[]).well();
    let odds = desk.json("odds wheel");
    assert_eq!(odds["seed"].as_str().unwrap().len(), 64, "{odds:#}");
    desk.run("draw wheel u-1", &[]).badly(1, &["closed"]);
}

#[test]
fn a_job_applies_a_file_until_it_is_in_force_also_after_the_campaign_was_closed() {
    let desk = Desk::with_wheel();
    let same = desk.file("same.yaml", WHEEL);
    let unchanged = desk.run("apply --if-changed", &[&same]).well();
    assert!(unchanged.contains("unchanged, version 1"), "{unchanged}");
    let file = desk.file("job.yaml", &format!("name: Changed by a job{WHEEL}"));
    let apply = |words: &str| desk.run("apply --if-changed", &[&file, words]);
    apply("--dry-run").well();
    let first = apply("--json").well();
    assert!(first.contains("Changed by a job"), "{first}");
    for close in [false, true] {
        if close {
            desk.run("close wheel --yes", &[]).well();
        }
        let again = desk.run("apply --if-changed", &[&file]).well();
        assert!(again.contains("unchanged, version 2"), "{again}");
    }
    let late = desk.run("apply --if-changed", &[&same]);
    late.badly(1, &["closed"]);
}

#[test]
fn times_are_those_of_the_campaign_s_zone() {
    let desk = Desk::with_wheel();
    let draw = desk.run("draw wheel u-1 --request-id r-1", &[]).well();
    let answers = [
        "get-draw wheel u-1 r-1",
        "check wheel u-1",
        "odds wheel",
        "stats wheel",
    ];
    let answers = answers.map(|line| desk.run(line, &[]).well());
    for output in answers.iter().chain([&draw]) {
        assert!(
            output.contains("+08:00") && !output.contains("00Z"),
            "{output}"
        );
    }
}
