//! What other sites and hostile texts try.

use super::{Browser, HOSTILE, address, all_pages, fill, grounds::Ground, served, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn acts_come_from_pages_of_the_console_only() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let own = format!("Origin: http://{}\r\n", browser.address);
    for headers in [
        String::new(),
        "Origin: https://evil.example\r\n".into(),
        "Origin: null\r\n".into(),
        "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n".into(),
        format!("{own}Sec-Fetch-Site: cross-site\r\n"),
        format!("{own}Sec-Fetch-Site: same-site\r\n"),
    ] {
        let answer = browser.send("POST", "/campaigns/wheel/pause", &headers, "");
        assert_eq!(answer.status, 403, "{headers}");
    }
    assert!(
        browser
            .get("/campaigns/wheel")
            .good()
            .contains("Pause campaign")
    );
    // A link cannot act.
    assert_eq!(browser.get("/campaigns/wheel/pause").status, 405);
    // Browsers that do not say where a request comes from still name its origin.
    let answer = browser.send("POST", "/campaigns/wheel/pause", &own, "");
    answer.leads_to("/campaigns/wheel?done=paused");
}

#[test]
fn a_name_that_points_to_this_machine_is_not_taken_without_identities() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.sign_in("olga");
    let evil = "Host: evil.example\r\nOrigin: http://evil.example\r\n";
    assert_eq!(browser.send("GET", "/", evil, "").status, 403);
    assert_eq!(
        browser.send("POST", "/sign-in", evil, "name=olga").status,
        403
    );
    browser.get("/").good();
}

/// No page has inline scripts or styles, and all texts are escaped.
async fn texts_stay_texts(ground: &Ground) {
    let server = ground.start().serve();
    fill(&server).await;
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    // Lists have what was done once it is settled.
    for (path, word) in [
        ("/campaigns/wheel/draws", "<code>order-1</code>"),
        ("/envelopes", "/envelopes/gift"),
    ] {
        wait_for(&mut browser, path, word);
    }
    let mut escaped = 0;
    for language in ["en", "zh"] {
        browser.language = language;
        for path in all_pages() {
            let answer = browser.get(&path);
            let policy = answer.header("content-security-policy").unwrap();
            assert!(policy.starts_with("default-src 'none'"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
            assert_eq!(
                answer.header("x-content-type-options"),
                Some("nosniff"),
                "{path}"
            );
            let body = answer.good();
            assert!(
                !body.contains("<script>") && !body.contains("<img src=x"),
                "{path}: {body}"
            );
            assert!(
                !body.contains("<style") && !body.contains(" style="),
                "{path}: {body}"
            );
            for script in body.split("<script").skip(1) {
                assert!(script.starts_with(" src=\"/assets/"), "{path}: {script}");
            }
            let tags = body.split('<').filter_map(|part| part.split_once('>'));
            for (tag, _) in tags {
                // Values of attributes cannot end early: quotes in them are escaped.
                let names = tag.split('"').step_by(2);
                assert!(
                    names
                        .flat_map(str::split_whitespace)
                        .all(|name| !name.starts_with("on")),
                    "{path}: {tag}"
                );
            }
            escaped += body.matches("&lt;script&gt;").count();
        }
    }
    assert!(escaped > 40, "{HOSTILE} is on too few pages: {escaped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_has_inline_scripts_or_styles_and_all_texts_are_escaped() {
    texts_stay_texts(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_texts_are_escaped_on_a_cluster_with_postgresql() {
    texts_stay_texts(&Ground::cluster_with_postgresql().await).await;
}

#[test]
fn errors_and_assets_have_the_same_headers() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    for (path, status) in [
        ("/nowhere", 404),
        ("/assets/../Cargo.toml", 404),
        ("/assets/nothing.js", 404),
        ("/assets/htmx.min.js", 200),
        ("/assets/console.css", 200),
        ("/sign-in/some-key", 403),
        ("/live/overview", 200),
    ] {
        let answer = browser.get(path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.header("content-security-policy").is_some(), "{path}");
    }
    let css = browser.get("/assets/console.css");
    assert_eq!(css.header("content-type"), Some("text/css; charset=utf-8"));
}

#[test]
fn an_asset_is_kept_at_the_address_of_its_build_only() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    let page = browser.get("/sign-in").good();
    let (_, own) = page.split_once(r#"<script src=""#).unwrap();
    let own = own.split('"').next().unwrap();
    assert_eq!(
        browser.get(own).header("cache-control"),
        Some("public, max-age=31536000, immutable"),
        "{own}"
    );
    // While services are replaced, the page of another build may ask this one.
    for other in ["/assets/live.js", "/assets/live.js?0123456789abcdef"] {
        assert_eq!(
            browser.get(other).header("cache-control"),
            Some("no-store"),
            "{other}"
        );
    }
}
