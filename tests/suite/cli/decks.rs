//! Decks that stock cannot fill for ever, and odds that are no whole cards: what operators see.

use super::Desk;

/// Each round of the deck takes 25 of these mugs.
fn mugs(stock: u32) -> String {
    format!(
        "
id: mugs
timeZone: UTC
startTime: 2026-12-01T00:00:00Z
endTime: 2026-12-31T00:00:00Z
prizes: [{{id: mug, stock: {stock}}}]
pools: [{{id: everyday, deck: {{size: 100, cards: {{mug: 25}}, onExhausted: RESHUFFLE}}}}]
"
    )
}

/// The words of a text, with one blank between them.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_dry_run_says_how_many_rounds_stock_pays_for() {
    let desk = Desk::new();
    let file = desk.file("mugs.yaml", &mugs(30));
    let shown = words(&desk.run("apply --dry-run", &[&file]).well());
    assert!(shown.contains("mug 25 30 5 25"), "{shown}");
    let line = "pool everyday: stock pays for 1 round of 100 cards, then the deck stops: 20 mug \
                more would pay for another round; 5 mug left over";
    assert!(shown.contains(line), "{shown}");
    let file = desk.file("mugs.yaml", &mugs(0));
    let same = "stock 25 needed, 0 given";
    desk.run("apply --dry-run", &[&file]).badly(1, &[same]);
    desk.run("apply", &[&file]).badly(1, &[same]);
}

#[test]
fn a_dry_run_and_the_odds_say_what_the_limit_of_wins_means_for_a_card() {
    let desk = Desk::new();
    let limited = mugs(500)
        .replace("id: mugs", "id: mugs\nlimits: {winsPerUser: 2}")
        .replace(
            "stock: 500}",
            "stock: 500}, {id: pin, stock: 100, countsAsWin: false}",
        )
        .replace("mug: 25}", "mug: 25, pin: 5}");
    let line = "after 2 wins a user wins only: pin; pools without these prizes are not tried; a \
                card of another prize is forfeited: it gives what a blank gives, and the unit \
                goes back to stock";
    let file = desk.file("limited.yaml", &limited);
    let shown = words(&desk.run("apply --dry-run", &[&file]).well());
    assert!(shown.contains(line), "{shown}");
    let plan = &desk.json(&format!("apply --dry-run {file}"))["plan"];
    assert_eq!(plan["winsPerUser"], 2, "{plan:#}");
    assert_eq!(plan["prizesBeyondLimit"], serde_json::json!(["pin"]));
    desk.run("apply", &[&file]).well();
    let odds = words(&desk.run("odds mugs", &[]).well());
    assert!(odds.contains(line), "{odds}");

    // The limit holds as it says: of 100 cards, 25 are mugs and 5 are pins.
    let drawn = desk.json("draw mugs u-1 --count 100");
    let count = |prize: &str| {
        let results = drawn["results"].as_array().unwrap();
        results.iter().filter(|it| it["prizeId"] == prize).count()
    };
    assert_eq!((count("mug"), count("pin")), (2, 5), "{drawn:#}");
    let mug = &desk.json("stats mugs")["prizes"][0];
    assert_eq!(mug["forfeited"], "23", "{mug:#}");

    let unlimited = desk.file(
        "unlimited.yaml",
        &mugs(500).replace("id: mugs", "id: unlimited"),
    );
    let shown = desk.run("apply --dry-run", &[&unlimited]).well();
    assert!(!shown.contains("forfeited"), "{shown}");
}

#[test]
fn a_deck_that_stock_stops_is_logged_once_and_shown() {
    let mut desk = Desk::new();
    let file = desk.file("mugs.yaml", &mugs(30));
    desk.run("apply", &[&file]).well();
    for _ in 0..2 {
        desk.run("draw mugs u-1 --count 100", &[]).well();
    }
    desk.server.says("the deck of pool everyday stops");
    let deck = &desk.json("stats mugs")["decks"][0];
    assert_eq!(deck["lacking"][0]["prizeId"], "mug", "{deck:#}");
    assert_eq!(deck["lacking"][0]["units"], "20", "{deck:#}");
    let shown = words(&desk.run("stats mugs", &[]).well());
    let line = "STOPPED: stock cannot fill its next cards; it needs 20 mug more";
    assert!(shown.contains(line), "{shown}");
    for _ in 0..3 {
        desk.run("draw mugs u-1 --count 10", &[]).well();
    }
    desk.server.signal("TERM");
    let (_, said) = desk.server.ended();
    assert_eq!(said.matches("the deck of pool everyday stops").count(), 1);
    assert!(said.contains("stock lacks 20 mug"), "{said}");
}

#[test]
fn a_campaign_in_mid_run_is_not_short_of_the_hours_that_passed() {
    let days = |name: &str, missed: &str| {
        format!(
            "
id: days
name: {name}
timeZone: UTC
startTime: 2026-11-21T00:00:00Z
endTime: 2026-12-11T00:00:00Z
prizes: [{{id: coupon, stock: 240}}, {{id: mug, stock: 60}}]
pools:
  - {{id: hours, schedule: {{missed: {missed}, perHour: {{coupon: 1}}}}}}
  - {{id: deck, deck: {{cards: {{mug: 20}}, size: 100, onExhausted: RESHUFFLE}}}}
"
        )
    };
    for missed in ["SPREAD", "SKIP", "RELEASE"] {
        let directory = tempfile::tempdir().unwrap();
        let start = crate::process::Start::on(directory.path().join("data").as_path())
            .at("2026-12-01T00:30:00Z".into())
            .serve();
        let desk = Desk {
            server: start,
            directory,
        };
        let file = desk.file("days.yaml", &days("first", missed));
        let shown = desk.run("apply", &[&file]).well();
        assert!(!shown.contains("short"), "{shown}");
        desk.run("draw days u-1 --count 100", &[]).well();
        let file = desk.file("days.yaml", &days("second", missed));
        let shown = desk.run("apply --base-version 1", &[&file]).well();
        assert!(!shown.contains("short"), "{shown}");
    }
}

#[test]
fn odds_that_are_no_whole_cards_are_noted() {
    let desk = Desk::new();
    let third = |odds: &str| {
        mugs(1000)
            .replace("cards: {mug: 25}", &format!("odds: {{mug: {odds}}}"))
            .replace("id: mugs", "id: third")
    };
    let file = desk.file("third.yaml", &third("33.333%"));
    let note = "33.333% of 100 cards is no whole number of cards: mug gets 33 of 100, which is 33%";
    let shown = words(&desk.run("apply --dry-run", &[&file]).well());
    assert!(shown.contains(note), "{shown}");
    desk.run("apply", &[&file]).well();
    let odds = words(&desk.run("odds third", &[]).well());
    assert!(odds.contains("written as"), "{odds}");
    assert!(odds.contains("mug 33 100 33% 33.333%"), "{odds}");
    let card = &desk.json("odds third")["pools"][0]["deck"]["firstRound"][0];
    assert_eq!(card["writtenOdds"], "33.333%", "{card:#}");

    // What the server shows can be applied again, and is the same.
    let shown = desk.run("campaign third", &["--output", "yaml"]).well();
    assert!(shown.contains("roundedOdds"), "{shown}");
    let again = desk.file("again.yaml", &shown);
    let same = desk.run("apply", &[&again]).well();
    assert!(same.contains("unchanged"), "{same}");
    let wrong = desk.file("wrong.yaml", &shown.replace("33.333%", "50%"));
    desk.run("apply --base-version 1", &[&wrong])
        .badly(1, &["roundedOdds", "does not fit 33 of 100 cards"]);

    let exact = desk.file("exact.yaml", &third("25%").replace("third", "exact"));
    let shown = desk.run("apply", &[&exact]).well();
    assert!(!shown.contains("whole number"), "{shown}");
    let odds = desk.run("odds exact", &[]).well();
    assert!(!odds.contains("written as"), "{odds}");
}
