//! What people mistype: every answer is a page in their language, with a way back, and what they
//! typed is not lost.

use std::collections::BTreeSet;

use super::{Answer, all_pages, fill, served};

/// Asserts that it is a page that refuses, in this language, with a way back.
#[track_caller]
fn refuses(answer: &Answer, language: &str, what: &str) {
    assert!(
        (400..500).contains(&answer.status),
        "{what}: {}\n{}",
        answer.status,
        answer.body
    );
    let (_, main) = answer.body.split_once("<main").unwrap_or_else(|| {
        panic!("{what} is no page: {}\n{}", answer.head, answer.body);
    });
    assert!(
        answer
            .body
            .contains(&format!(r#"<html lang="{language}">"#)),
        "{what}: {}",
        answer.body
    );
    assert!(
        main.contains(r#"<a href=""#),
        "{what} has no way back: {main}"
    );
    assert!(
        answer.header("content-security-policy").is_some(),
        "{what}: {}",
        answer.head
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_refused_is_a_page_in_the_visitor_s_language() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let stock = "/campaigns/wheel/prizes/mug/stock";
    let grant = "/campaigns/wheel/users/grant";
    let large = format!("reason={}", "x".repeat(20 * 1024));
    for language in ["en", "zh"] {
        browser.language = language;
        for path in [
            "/campaigns/wheel?curve=year",
            "/campaigns/wheel/history?version=last",
            "/campaigns/%FF",
            "/campaigns/nothing",
            "/campaigns/wheel/nothing",
            "/campaigns/wheel/pause",
            "/envelopes/nothing",
            "/assets/nothing.js",
            "/nowhere",
        ] {
            refuses(&browser.get(path), language, path);
        }
        for (path, form) in [
            (stock, "units=99999999999999999999&version=1"),
            (stock, "units=1.5&version=1"),
            (stock, "units=18446744073709551615&version=1"),
            (grant, "user=carl&draws=99999999999&reason=sorry"),
            (grant, "user=carl&draws=20000&reason=sorry"),
            (grant, "user=carl&draws=1&expire=tomorrow"),
            ("/campaigns/wheel/pause", &large),
            ("/campaigns/wheel/change", "version=1&draws_per_day=1.5"),
            (
                "/campaigns/wheel/recall",
                "pool=hourly&typed=wheel&hour=soon",
            ),
            ("/campaigns/wheel/close", "typed=whee"),
            ("/campaigns/wheel/many", "act=block"),
            ("/campaigns/wheel", "reason=x"),
            ("/language", ""),
        ] {
            let what = format!("{path} {}", &form[..form.len().min(40)]);
            refuses(&browser.post(path, form), language, &what);
        }
        let foreign = browser.send("POST", "/campaigns/wheel/pause", "", "");
        refuses(&foreign, language, "another site");
        let evil = browser.send("GET", "/", "Host: evil.example\r\n", "");
        refuses(&evil, language, "another name");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_stays_when_an_act_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    for (path, form, kept) in [
        (
            "/campaigns/wheel/users/grant",
            "user=carl&draws=20000&request_id=one&reason=long+story",
            vec![
                r#"name="draws" value="20000""#,
                r#"name="reason" value="long story""#,
                r#"<input type="hidden" name="user" value="carl">"#,
                r#"name="request_id" value="one""#,
            ],
        ),
        (
            "/campaigns/wheel/prizes/mug/stock",
            "units=1.5&version=1&reason=more+mugs",
            vec![
                r#"name="units" value="1.5""#,
                r#"name="reason" value="more mugs""#,
            ],
        ),
        (
            "/campaigns/wheel/close",
            "typed=whee&reason=long+story",
            vec![
                r#"name="reason" value="long story""#,
                r#"name="typed" required"#,
            ],
        ),
        (
            "/campaigns/wheel/change",
            "version=1&draws_per_day=4.5&wins_per_user=7",
            vec![
                r#"name="draws_per_day" value="4.5""#,
                r#"name="wins_per_user" value="7""#,
            ],
        ),
    ] {
        let own = format!(
            "Origin: http://{0}\r\nSec-Fetch-Site: same-origin\r\n\
             Referer: http://{0}/campaigns/wheel/users?user=carl\r\n",
            browser.address
        );
        let answer = browser.send("POST", path, &own, form);
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        let action = format!(r#"action="{path}""#);
        for part in kept.into_iter().chain([
            action.as_str(),
            r#"<a href="/campaigns/wheel/users?user=carl">"#,
        ]) {
            assert!(answer.body.contains(part), "{path} {part}: {}", answer.body);
        }
    }
    // The form that is shown again does it.
    let form = "user=carl&draws=20&request_id=one&reason=long+story";
    browser
        .post("/campaigns/wheel/users/grant", form)
        .leads_to("/campaigns/wheel/users?user=carl&done=granted");
}

#[test]
fn the_page_stays_if_a_script_sends_what_cannot_be_read() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.sign_in("olga");
    let own = format!(
        "Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\nHX-Request: true\r\n",
        browser.address
    );
    let text = format!("{own}Content-Type: text/plain\r\n");
    let large = format!("reason={}", "x".repeat(20 * 1024));
    let above = Some("#main");
    for (path, headers, form, status, target) in [
        ("/campaigns/wheel/pause", &own, &*large, 413, above),
        ("/campaigns/wheel/plan", &text, "do=cells", 415, above),
        ("/new", &text, "yaml=id", 415, above),
        // The answer of a check stands below the file.
        ("/new/check", &text, "yaml=id", 415, None),
    ] {
        let answer = browser.send("POST", path, headers, form);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert_eq!(answer.header("hx-retarget"), target, "{}", answer.head);
        let (body, is_page) = (&answer.body, answer.body.contains("<html"));
        assert!(body.contains("notice bad") && !is_page, "{path}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_for_a_unit_takes_the_longest_id() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    // A unit is named after its pool, so its id can be longer than other ids.
    let unit = format!("{}:1:1", "p".repeat(128));
    let form = format!(
        "unit={unit}&units=withdraw&reason=lost&typed={}",
        &unit[1..]
    );
    let mistyped = browser.post("/campaigns/wheel/wins/revoke", &form);
    assert_eq!(mistyped.status, 400, "{}", mistyped.body);
    let wins = browser.get("/campaigns/wheel/wins").good();
    for (page, field) in [
        (&mistyped.body, r#"name="typed" required maxlength="256""#),
        (&wins, r#"name="unit" value="" maxlength="256""#),
        (&wins, r#"name="q" type="search" maxlength="256""#),
    ] {
        assert!(page.contains(field), "{field}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_wrong_or_finds_nothing_stays() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let wrong = "/campaigns/wheel/draws?from=2026-12-05&to=2026-12-01";
    let page = browser.get(wrong).good();
    assert!(
        page.contains(r#"name="from" value="2026-12-05""#) && page.contains("notice bad"),
        "{page}"
    );
    for (path, is_filtered) in [
        ("/campaigns/wheel/wins?user=nobody", true),
        ("/campaigns/wheel/draws?user=nobody", true),
        ("/campaigns/wheel/draws", false),
    ] {
        let page = browser.get(path).good();
        assert_eq!(
            page.contains("Nothing matches the filter"),
            is_filtered,
            "{path}: {page}"
        );
        assert!(!page.contains("No draws here yet"), "{path}: {page}");
    }
    let page = browser.get("/campaigns/wheel/users?user=+carl+").good();
    assert!(page.contains("<h2>carl</h2>"), "{page}");
    let page = browser
        .get("/campaigns/wheel/draws?request=+order-1+")
        .good();
    assert!(page.contains("<code>order-1</code>"), "{page}");
    let page = browser.get("/envelopes?user=+nobody+").good();
    assert!(page.contains(r#"name="user" value="nobody""#), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_has_a_title_of_its_own() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let mut titles = BTreeSet::new();
    let mut paths = BTreeSet::new();
    for page in all_pages() {
        // The same page with another filter has the same title.
        let path = page.split('?').next().unwrap().to_owned();
        let is_person = page.contains("user=") || page.contains("q=");
        if !is_person && !paths.insert(path) {
            continue;
        }
        let body = browser.get(&page).good();
        let (_, title) = body.split_once("<title>").unwrap();
        let title = title.split("</title>").next().unwrap().to_owned();
        assert!(title.ends_with(" · Tombola"), "{page}: {title}");
        if page.starts_with("/campaigns/wheel/wins") {
            assert!(title.starts_with("Wins · &lt;script"), "{title}");
        }
        assert!(
            titles.insert(title.clone()),
            "{page}: {title} is there twice"
        );
    }
    assert!(titles.len() > 20, "{titles:?}");
}
