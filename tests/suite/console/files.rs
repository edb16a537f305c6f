//! Lists as files, and files of many users or wins.

use tombola::proto::{DrawRequest, GetUserRequest};

use super::{Browser, HOSTILE, address, encoded, fill, served};
use crate::{faults::redis::House, process::Server};

/// A draw of a user.
async fn draw(server: &Server, user: &str) {
    let request = DrawRequest {
        campaign_id: "wheel".into(),
        user_id: user.into(),
        request_id: "one".into(),
        ..Default::default()
    };
    server.lottery().await.draw(request).await.unwrap();
}

fn rows(file: &str) -> Vec<csv::StringRecord> {
    let text = file.strip_prefix('\u{feff}').unwrap();
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).from_reader(text.as_bytes());
    reader.records().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_files_with_the_filters_of_their_pages() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    draw(&server, "=HYPERLINK(\"http://evil.example\")").await;
    draw(&server, "winner-1234").await;
    browser.sign_in("olga");

    let answer = browser.get("/campaigns/wheel/draws.csv");
    assert_eq!(
        answer.header("content-type"),
        Some("text/csv; charset=utf-8")
    );
    let name = answer.header("content-disposition").unwrap();
    assert!(name.contains("wheel-draws.csv"), "{name}");
    let draws = answer.good();
    let draws = rows(&draws);
    assert_eq!(&draws[0][0], "drawn");
    assert_eq!(draws.len(), 1 + 4, "{draws:?}");
    // No cell is a formula, and no text breaks out of its cell.
    assert!(
        draws
            .iter()
            .any(|row| &row[2] == "'=HYPERLINK(\"http://evil.example\")")
    );
    assert!(draws.iter().any(|row| &row[2] == HOSTILE));
    let one = browser
        .get("/campaigns/wheel/draws.csv?user=winner-1234")
        .good();
    assert_eq!(rows(&one).len(), 2, "{one}");

    let page = browser
        .get("/campaigns/wheel/wins?user=winner-1234&from=2026-11-01")
        .good();
    for link in [
        "/campaigns/wheel/wins.csv?user=winner-1234&amp;from=2026-11-01",
        "/campaigns/wheel/winners.csv?user=winner-1234&amp;from=2026-11-01",
    ] {
        assert!(page.contains(link), "{link}: {page}");
    }
    let wins = browser
        .get("/campaigns/wheel/wins.csv?user=winner-1234")
        .good();
    let wins = rows(&wins);
    assert_eq!((wins.len(), &wins[1][4]), (2, "winner-1234"), "{wins:?}");
    // What is published names nobody, and no win that was revoked.
    let published = browser.get("/campaigns/wheel/winners.csv").good();
    assert!(
        !published.contains("winner-1234") && !published.contains("evil.example"),
        "{published}"
    );
    assert!(published.contains("wi***34"), "{published}");
    let before = rows(&published).len();
    let form = format!("unit={}&reason=wrong", encoded(&wins[1][5]));
    assert_eq!(
        browser.post("/campaigns/wheel/wins/revoke", &form).status,
        303
    );
    let published = browser.get("/campaigns/wheel/winners.csv").good();
    assert_eq!(rows(&published).len(), before - 1, "{published}");

    let acts = browser
        .get("/campaigns/wheel/history.csv?operator=olga")
        .good();
    let acts = rows(&acts);
    assert!(
        acts.len() == 2 && acts[1][2].starts_with("revoke"),
        "{acts:?}"
    );

    for (query, count) in [
        ("from=2026-11-01&to=2030-12-31", 5),
        ("from=2030-12-31", 1),
        ("to=2026-11-02", 1),
    ] {
        let file = browser
            .get(&format!("/campaigns/wheel/draws.csv?{query}"))
            .good();
        assert_eq!(rows(&file).len(), count, "{query}: {file}");
    }
    for path in [
        "/campaigns/wheel/draws.csv?from=soon",
        "/campaigns/nothing/draws.csv",
    ] {
        let answer = browser.get(path);
        assert!(
            [400, 404].contains(&answer.status),
            "{path}: {}",
            answer.body
        );
        assert!(answer.body.contains("<html"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_acts_on_many_and_says_what_became_of_each_line() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    users(&server, &mut browser).await;

    draw(&server, "winner-1").await;
    let wins = browser
        .get("/campaigns/wheel/wins.csv?user=winner-1")
        .good();
    let unit = rows(&wins)[1][5].to_owned();
    let file = format!("unit,reference\n{unit},parcel-7\nhourly:1:1,parcel-8\n");
    for _ in 0..2 {
        let report = browser.upload(
            "/campaigns/wheel/many",
            &[("act", "deliver"), ("file", &file)],
        );
        let report = report.good();
        assert!(report.contains("Done: 1 of 2"), "{report}");
        assert!(report.contains("There is no such win"), "{report}");
    }
    let wins = browser
        .get("/campaigns/wheel/wins.csv?user=winner-1")
        .good();
    assert_eq!(&rows(&wins)[1][8], "parcel-7", "{wins}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_acts_on_many_users_on_redis_too() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    fill(&server).await;
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    users(&server, &mut browser).await;
}

/// The bonus draws of a user.
async fn bonus(server: &Server, user: &str) -> u64 {
    let request = GetUserRequest {
        campaign_id: "wheel".into(),
        user_id: user.into(),
    };
    let user = server.campaigns().await.get_user(request).await.unwrap();
    let bonus = user.into_inner().user.unwrap().bonus_draws;
    bonus.iter().map(|it| it.draws).sum()
}

/// A file of which one line is granted and one refused can be sent again: the report leads to a
/// form with the same request id.
async fn repeated_grant(server: &Server, browser: &mut Browser) {
    let path = "/campaigns/wheel/many";
    let file = "user,draws\nhalf,3\nother,99999\n";
    let form = [
        ("act", "grant"),
        ("request_id", "console-1"),
        ("file", file),
    ];
    let report = browser.upload(path, &form).good();
    assert!(report.contains("Done: 1 of 2"), "{report}");
    let back = format!("{path}?request=console-1");
    assert!(report.contains(&format!("href=\"{back}\"")), "{report}");
    let page = browser.get(&back).good();
    assert_eq!(page.matches("value=\"console-1\"").count(), 1, "{page}");
    assert!(page.contains("Send the same file here"), "{page}");
    browser.upload(path, &form).good();
    assert_eq!(bonus(server, "half").await, 3);
    let other = browser.get(&format!("{path}?request=r-1")).good();
    assert!(!other.contains("value=\"r-1\""), "{other}");
}

async fn users(server: &Server, browser: &mut Browser) {
    let path = "/campaigns/wheel/many";
    let file = "user,draws\nu1,3\nu2,3\nu3,5\nu1,9\nu4,many\n";
    let form = [("act", "grant"), ("request_id", "g-1"), ("file", file)];
    for _ in 0..2 {
        // A file that is sent twice grants once.
        let report = browser.upload(path, &form).good();
        for words in ["Done: 3 of 5", "an earlier line has it", "no whole number"] {
            assert!(report.contains(words), "{words}: {report}");
        }
    }
    for (user, draws) in [("u1", 3), ("u2", 3), ("u3", 5), ("u4", 0)] {
        assert_eq!(bonus(server, user).await, draws);
    }
    repeated_grant(server, browser).await;
    let blocked = browser.upload(path, &[("act", "block"), ("file", "u1\nu2\n")]);
    assert!(blocked.good().contains("Done: 2 of 2"));
    assert!(
        browser
            .get("/campaigns/wheel/users")
            .good()
            .contains("Blocked users (2)")
    );
    let unblocked = browser.upload(path, &[("act", "unblock"), ("file", "user\nu1\n")]);
    assert!(unblocked.good().contains("Done: 1 of 1"));
    assert!(
        browser
            .get("/campaigns/wheel/users")
            .good()
            .contains("Blocked users (1)")
    );

    let long: String = (0..1_001).map(|no| format!("u{no}\n")).collect();
    for (fields, says) in [
        (
            [("act", "block"), ("file", long.as_str())],
            "more than 1,000 lines",
        ),
        ([("act", "block"), ("file", "\n")], "no lines"),
        ([("act", "explode"), ("file", "u1")], "send it again"),
    ] {
        let answer = browser.upload(path, &fields);
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.body.contains(says), "{says}: {}", answer.body);
    }
    // A whole file that the service refuses is an error.
    let answer = browser.upload(path, &[("act", "grant"), ("file", "u1,99999\n")]);
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("Done: 0 of 1"), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_revokes_wins_and_erases_users() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let path = "/campaigns/wheel/many";
    draw(&server, "winner-1").await;
    draw(&server, "winner-2").await;
    let wins = "/campaigns/wheel/wins.csv?user=winner-1";
    let unit = rows(&browser.get(wins).good())[1][5].to_owned();
    let file = format!("unit,reason\n{unit},a robot\nhourly:1:1,nobody\n");
    let report = browser
        .upload(path, &[("act", "revoke"), ("file", &file)])
        .good();
    for words in ["Done: 1 of 2", "There is no such win", "a robot"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let history = browser.get("/campaigns/wheel/history").good();
    assert!(
        history.contains("revoked a win") && history.contains("a robot"),
        "{history}"
    );

    // What cannot be undone needs the campaign's id to be typed.
    let erase = |typed: &'static str| {
        [
            ("act", "forget"),
            ("file", "user\nwinner-1\nwinner-2\n"),
            ("reason", "asked for it"),
            ("typed", typed),
        ]
    };
    let answer = browser.upload(path, &erase("whee"));
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("nothing was done"), "{}", answer.body);
    assert_eq!(rows(&browser.get(wins).good()).len(), 2);
    let report = browser.upload(path, &erase("wheel")).good();
    assert!(report.contains("Done: 2 of 2"), "{report}");
    for user in ["winner-1", "winner-2"] {
        let left = format!("/campaigns/wheel/draws.csv?user={user}");
        assert_eq!(rows(&browser.get(&left).good()).len(), 1, "{user}");
    }
}
