//! The sample campaigns of the project.

use super::Desk;
use crate::process::{Ended, project, tombola};

/// The paths and ids of the samples.
fn samples() -> Vec<(String, String)> {
    let directory = project("deploy/campaigns").read_dir().unwrap();
    let paths = directory.map(|entry| entry.unwrap().path());
    let samples: Vec<_> = paths
        .map(|path| {
            let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (path.to_str().unwrap().to_owned(), id)
        })
        .collect();
    assert!(samples.len() >= 7, "{samples:?}");
    samples
}

#[test]
fn a_dry_run_of_each_sample_shows_its_plan_and_changes_nothing() {
    let desk = Desk::new();
    for (path, id) in samples() {
        let shown = desk.run("apply --dry-run -f", &[&path]).well();
        assert!(shown.contains(&id) && shown.contains("dry run"), "{shown}");
    }
    let list = desk.run("campaigns", &[]).well();
    assert!(list.contains("no campaigns yet"), "{list}");
}

#[test]
fn each_sample_is_applied_and_comes_back_as_it_was() {
    let desk = Desk::new();
    for (path, id) in samples() {
        let applied = desk.run("apply -f", &[&path]).well();
        assert!(applied.contains(&id), "{applied}");
        let again = desk.run("apply -f", &[&path]).well();
        assert!(again.contains("unchanged"), "{again}");
        let yaml = desk.run("campaign -o yaml", &[&id]).well();
        let copy = desk.file("copy.yaml", &yaml);
        let again = desk.run("apply -f", &[&copy]).well();
        assert!(again.contains("unchanged"), "{again}\n{yaml}");
        let status = desk.json(&format!("campaign {id}"));
        assert_eq!(status["status"]["campaign"]["id"], *id, "{status:#}");
        let stats = desk.json(&format!("stats {id}"));
        assert_eq!(stats["balanced"], true, "{stats:#}");
    }
    let list = desk.json("campaigns");
    assert_eq!(list["campaigns"].as_array().unwrap().len(), samples().len());
}

#[test]
fn each_sample_gives_draws_and_odds() {
    let desk = Desk::new();
    for (path, id) in samples() {
        desk.run("apply -f", &[&path]).well();
        let draw = desk.json(&format!("draw {id} user-1 --paid --count 10"));
        assert_eq!(draw["results"].as_array().unwrap().len(), 10, "{draw:#}");
        let odds = desk.json(&format!("odds {id}"));
        assert_eq!(odds["campaignId"], *id, "{odds:#}");
        let schedule = desk.json(&format!("schedule {id} --from now"));
        let has_schedule = std::fs::read_to_string(&path)
            .unwrap()
            .contains("schedule:");
        let windows = schedule["windows"].as_array().map_or(0, Vec::len);
        assert_eq!(windows > 0, has_schedule, "{id}: {schedule:#}");
        desk.run("odds", &[&id]).well();
        desk.run("stats", &[&id]).well();
        desk.run("schedule", &[&id]).well();
    }
}

#[test]
fn the_odds_of_the_card_game_are_those_of_its_guarantee() {
    let desk = Desk::new();
    let path = project("deploy/campaigns/gacha.yaml");
    desk.run("apply -f", &[path.to_str().unwrap()]).well();
    let odds = desk.json("odds gacha");
    let percent = |odds: &serde_json::Value, prize: &str| -> String {
        let mut all = odds.as_array().unwrap().iter();
        let found = all.find(|it| it["prizeId"] == prize).unwrap();
        found["percent"].as_str().unwrap().into()
    };
    let banner = &odds["pools"][1]["personal"];
    assert_eq!(percent(&banner["base"], "ember-dragon"), "0.300000");
    assert_eq!(percent(&banner["effective"], "ember-dragon"), "1.070137");
    assert_eq!(percent(&banner["effective"], "tide-dragon"), "0.535068");
    let shown = desk.run("odds", &["gacha"]).well();
    assert!(shown.contains("1.070137"), "{shown}");
    // Ten cards, then the banner.
    let welcome = desk.json("draw gacha player --paid --count 10");
    let results = welcome["results"].as_array().unwrap();
    let knights = results.iter().filter(|it| it["prizeId"] == "knight");
    assert_eq!((results.len(), knights.count()), (10, 1));
    desk.json("draw gacha player --paid --count 89");
    let limits = &desk.json("draw gacha player --paid --count 1")["limits"];
    let guarantee = &limits["guarantees"][0];
    assert_eq!(guarantee["guaranteeId"], "ssr", "{limits:#}");
    let since = guarantee["drawsSince"].as_u64().unwrap_or(0);
    assert!(since < 90, "an SSR was among the 90: {limits:#}");
    let check = &desk.json("check gacha player")["limits"]["guarantees"][0];
    assert_eq!(check, guarantee);
    let shown = desk.run("check gacha player", &[]).well();
    assert!(shown.contains("kept within"), "{shown}");
}

#[test]
fn a_guarantee_of_a_campaign_is_seen_wherever_its_user_is() {
    let desk = Desk::new();
    let file = desk.file(
        "promise.yaml",
        "
id: promise
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
consolation: {id: thanks}
prizes:
  - {id: cap, stock: 2}
guarantees:
  - {id: fifth, prizes: [cap], within: 5}
pools:
  - {id: later, unlockAfterDraws: 1000, schedule: {total: {cap: 1}}}
",
    );
    desk.run("apply -f", &[&file]).well();
    let draw = desk.json("draw promise ann --paid --count 7");
    let won = &draw["results"][4];
    assert_eq!(won["guaranteeId"], "fifth", "{draw:#}");
    assert_eq!(
        (&won["prizeId"], &won["unitId"]),
        (&"cap".into(), &"/guarantees:0:0".into())
    );
    let progress = &draw["limits"]["guarantees"][0];
    assert_eq!(progress["poolId"], "", "{progress:#}");
    assert_eq!(
        (&progress["drawsSince"], &progress["drawsLeft"]),
        (&2.into(), &3.into())
    );
    assert_eq!(
        &desk.json("check promise ann")["limits"]["guarantees"][0],
        progress
    );
    let shown = desk.run("check promise ann", &[]).well();
    assert!(
        shown.contains("fifth") && shown.contains("3 draws"),
        "{shown}"
    );
    let odds = desk.json("odds promise");
    assert_eq!(odds["guarantees"][0]["within"], 5, "{odds:#}");
    let shown = desk.run("odds promise", &[]).well();
    assert!(
        shown.contains("guarantee fifth of cap: within 5 draws"),
        "{shown}"
    );
    let stats = desk.json("stats promise");
    assert_eq!(stats["balanced"], true, "{stats:#}");
    // The win is delivered by the id of its unit, and the audit accounts for it.
    let wins = desk.json("wins --campaign promise");
    assert_eq!(wins["wins"][0]["unitId"], "/guarantees:0:0", "{wins:#}");
    let win = "win deliver promise /guarantees:0:0 --reference parcel-1";
    desk.run(win, &[]).well();
    let data = desk.directory.path().join("data");
    let audit = desk.run("audit --data", &[data.to_str().unwrap()]).well();
    assert!(audit.contains("guarantees are kept"), "{audit}");
    assert!(audit.contains("\n/guarantees  cap"), "{audit}");
    let shown = desk.run("campaign promise", &[]).well();
    let line = "\nguarantee    fifth of cap: within 5 draws\n";
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn published_odds_name_every_rule_that_changes_what_is_won() {
    let desk = Desk::new();
    let file = desk.file(
        "rules.yaml",
        "
id: rules
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
segmentLimits:
  - {segment: gold, limits: {winsPerUser: 5}}
  - {segment: staff, limits: {drawsPerDay: 9}}
budget: {perDay: {currencyCode: CNY, units: 20}, total: {currencyCode: CNY, units: 500}}
prizes:
  - {id: phone, stock: 3, value: {currencyCode: CNY, units: 10}}
  - {id: coupon, codes: true, value: {currencyCode: CNY, units: 2}}
  - {id: sticker, unlimited: true, countsAsWin: false, value: {currencyCode: CNY}}
pools:
  - {id: own, personal: {odds: {phone: 1%}, fallback: sticker}}
  - {id: round, personal: {deck: {size: 10, cards: {phone: 2}}, fallback: sticker}}
  - {id: deck, deck: {size: 10, cards: {coupon: 1}, onExhausted: RESHUFFLE}}
",
    );
    desk.run("apply -f", &[&file]).well();
    let odds = desk.json("odds rules");
    let budget = &odds["budget"];
    assert_eq!(budget["perDay"]["units"], "20", "{odds:#}");
    assert_eq!(budget["total"]["units"], "500", "{odds:#}");
    let values = budget["values"].as_array().unwrap().iter();
    let values: Vec<_> = values.map(|it| it["prizeId"].as_str().unwrap()).collect();
    assert_eq!(values, ["phone", "coupon", "sticker"]);
    // Without a limit for everybody, one segment has a limit, and another one has none.
    assert!(odds["winsPerUser"].is_null(), "{odds:#}");
    let wins = &odds["segmentWins"];
    assert_eq!(
        (&wins[0]["segment"], &wins[0]["winsPerUser"]),
        (&"gold".into(), &5.into())
    );
    assert_eq!(wins[1]["segment"], "staff", "{odds:#}");
    assert!(wins[1]["winsPerUser"].is_null(), "{odds:#}");
    assert_eq!(odds["prizesBeyondLimit"][0], "sticker", "{odds:#}");
    assert_eq!(odds["unlimitedPrizes"][0], "sticker", "{odds:#}");
    assert_eq!(odds["prizesWithCodes"][0], "coupon", "{odds:#}");
    for pool in 0..2 {
        let personal = &odds["pools"][pool]["personal"];
        assert_eq!(personal["fallbackPrizeId"], "sticker", "{odds:#}");
    }
    let shown = desk.run("odds", &["rules"]).well();
    for part in [
        "sticker in place of a prize that cannot be given",
        "gold: after 5 wins a user wins only: sticker",
        "staff: no limit of wins",
        "budget: CNY 20 a day, CNY 500 in all",
        "values: phone CNY 10; coupon CNY 2; sticker CNY 0",
        "never run out: sticker",
        "each with a code of its own: coupon",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_plan_says_for_how_many_users_the_stock_of_personal_pools_lasts() {
    let desk = Desk::new();
    let file = desk.file(
        "alone.yaml",
        "
id: alone
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
prizes:
  - {id: phone, stock: 4}
  - {id: mug, stock: 100}
  - {id: pin, unlimited: true}
pools:
  - {id: round, personal: {deck: {size: 10, cards: {phone: 2, pin: 3}}}}
  - {id: chance, personal: {odds: {mug: 5%, pin: 10%}}}
  - {id: hours, schedule: {total: {phone: 1}}}
",
    );
    let shown = desk.run("apply --dry-run -f", &[&file]).well();
    for line in [
        "pool round: each user's round takes 2 phone: the stock lasts for 1 user",
        "pool chance: chance decides how many each user takes of 100 mug in stock",
    ] {
        assert!(shown.contains(&format!("\n{line}\n")), "{line}: {shown}");
    }
}

#[test]
fn the_demo_ends_balanced() {
    let demo = "demo --exit --users 50 --listen 127.0.0.1:0";
    let output = Ended::of(&mut tombola(demo.split_whitespace())).well();
    assert!(output.contains("nothing vanished"), "{output}");
    for section in ["What", "Who hit", "Prizes released", "Where every unit"] {
        assert!(
            output.contains(&format!("\n\n{section}")),
            "{section}: {output}"
        );
    }
}
