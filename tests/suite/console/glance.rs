//! What a campaign's pages say of its versions, its budget and a user's guarantees.

use tombola::proto::{ApplyCampaignRequest, CheckLimitRequest, DrawRequest};

use super::served;
use crate::process::Server;

async fn apply(server: &Server, yaml: &str) {
    apply_to(server, yaml, 0).await;
}

/// Applies a file on top of a version.
async fn apply_to(server: &Server, yaml: &str, base_version: u32) {
    let campaign = tombola::model::file::parse(yaml).unwrap().pop();
    let request = ApplyCampaignRequest {
        campaign,
        base_version,
        operator: "olga".into(),
        reason: "for the test".into(),
        ..Default::default()
    };
    let mut campaigns = server.campaigns().await;
    campaigns.apply_campaign(request).await.unwrap();
}

async fn draw(server: &Server, campaign: &str, count: u32) {
    let request = DrawRequest {
        campaign_id: campaign.into(),
        user_id: "u-1".into(),
        count,
        ..Default::default()
    };
    server.lottery().await.draw(request).await.unwrap();
}

const TIMES: &str = "timeZone: Asia/Shanghai
startTime: 2026-11-01T00:00:00+08:00
endTime: 2030-12-31T00:00:00+08:00
";

#[tokio::test(flavor = "multi_thread")]
async fn what_each_version_changed_is_shown_in_words_and_as_fields() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = format!(
        "id: wheel\nname: Wheel\n{TIMES}limits: {{drawsPerDay: 5}}
prizes: [{{id: mug, name: Mug, stock: 100000}}]
pools: [{{id: hourly, schedule: {{perHour: {{mug: 1}}}}}}]\n"
    );
    apply(&server, &yaml).await;
    browser.sign_in("olga");
    let first = browser.get("/campaigns/wheel/history").good();
    assert!(
        first.contains("first version") && !first.contains("What version"),
        "{first}"
    );
    let second = yaml
        .replace("stock: 100000", "stock: 200000")
        .replace("PerDay: 5", "PerDay: 6");
    apply_to(&server, &second, 1).await;
    let special = "special: [{from: \"2027-01-01T00:00\", to: \"2027-01-01T02:00\", multiply: 3}]";
    let third = second.replace("{mug: 1}}", &format!("{{mug: 1}}, {special}}}"));
    apply_to(&server, &third, 2).await;

    let page = browser.get("/campaigns/wheel/history").good();
    for word in [
        "What version 3 changed",
        "special hours of pool hourly",
        "pools[hourly]",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert!(!page.contains("stock of"), "{page}");
    let page = browser.get("/campaigns/wheel/history?version=2").good();
    for word in [
        "What version 2 changed",
        "stock of Mug (mug)",
        "<code>prizes[mug].stock</code>",
        "limits for each user",
        "limits.drawsPerDay",
        "<code>5</code>",
        "<code>6</code>",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert!(!page.contains("special hours"), "{page}");
    browser.language = "zh";
    let page = browser.get("/campaigns/wheel/history?version=2").good();
    assert!(page.contains("Mug (mug) 的库存"), "{page}");
    // A version that there is not shows the nearest that there is.
    assert_eq!(
        browser.get("/campaigns/wheel/history?version=99").status,
        200
    );
}

/// The stock suffices for the hours that are left, and not for the whole plan.
#[tokio::test(flavor = "multi_thread")]
async fn versions_of_a_campaign_that_was_applied_late_are_compared() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = "id: late
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
limits: {drawsPerDay: 5}
prizes: [{id: mug, name: Mug, stock: 700}]
pools: [{id: hourly, schedule: {perHour: {mug: 1}}}]\n";
    apply(&server, yaml).await;
    apply_to(&server, &yaml.replace("PerDay: 5", "PerDay: 6"), 1).await;
    browser.sign_in("olga");
    let page = browser.get("/campaigns/late/history").good();
    for word in ["What version 2 changed", "limits.drawsPerDay"] {
        assert!(page.contains(word), "{word}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_shown_with_what_it_holds() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = format!(
        "id: wheel\n{TIMES}budget: {{total: {{currencyCode: CNY, units: 20}}}}
prizes: [{{id: mug, name: Mug, stock: 1000, value: {{currencyCode: CNY, units: 10}}}}]
pools: [{{id: deck, deck: {{size: 2, cards: {{mug: 2}}, onExhausted: RESHUFFLE}}}}]\n"
    );
    apply(&server, &yaml).await;
    browser.sign_in("olga");
    let page = browser.get("/campaigns/wheel").good();
    assert!(
        page.contains("Budget") && page.contains(">CNY 0<"),
        "{page}"
    );
    assert!(!page.contains("would pass the budget"), "{page}");
    draw(&server, "wheel", 1).await;
    let page = browser.get("/campaigns/wheel").good();
    assert!(
        page.contains(">CNY 10<") && page.contains("50.0%"),
        "{page}"
    );
    draw(&server, "wheel", 1).await;
    let page = browser.get("/campaigns/wheel").good();
    for word in ["100.0%", "would pass the budget: Mug (mug)"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert!(browser.get("/").good().contains("The budget holds mug"));

    // It is raised, and then taken away.
    let form = "version=1&budget_currency=cny&budget_per_day=&budget_total=1%2C250.50";
    let check = browser.post("/campaigns/wheel/change", form).good();
    assert!(
        check.contains("budget.total") && check.contains("1250"),
        "{check}"
    );
    let apply = "/campaigns/wheel/change/apply";
    let done = "/campaigns/wheel/change?done=changed";
    browser.post(apply, form).leads_to(done);
    let page = browser.get("/campaigns/wheel").good();
    assert!(page.contains("CNY 1,250.50"), "{page}");
    assert!(!page.contains("would pass the budget"), "{page}");
    let page = browser.get("/campaigns/wheel/change").good();
    assert!(page.contains(r#"value="1250.5""#), "{page}");
    let bad = "version=2&budget_currency=CNY&budget_per_day=ten&budget_total=";
    let refused = browser.post("/campaigns/wheel/change", bad);
    assert!(
        refused.body.contains("ten: write an amount"),
        "{}",
        refused.body
    );
    let none = "version=2&budget_currency=CNY&budget_per_day=&budget_total=";
    browser.post(apply, none).leads_to(done);
    let page = browser.get("/campaigns/wheel").good();
    assert!(!page.contains("1,250.50"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_s_guarantees_are_shown() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = format!(
        "id: banner\n{TIMES}prizes:
  - {{id: dragon, unlimited: true}}
  - {{id: slime, unlimited: true}}
  - {{id: mug, stock: 5}}
guarantees: [{{id: thirtieth, prizes: [mug], within: 30}}]
pools:
  - id: banner
    personal:
      odds: {{dragon: 1%, slime: 99%}}
      guarantees: [{{id: ssr, prizes: [dragon], within: 90, ramp: [{{from: 74, add: 6%}}]}}]\n"
    );
    apply(&server, &yaml).await;
    draw(&server, "banner", 7).await;
    let request = CheckLimitRequest {
        campaign_id: "banner".into(),
        user_id: "u-1".into(),
        ..Default::default()
    };
    let limits = server.lottery().await.check_limit(request).await.unwrap();
    let limits = limits.into_inner().limits.unwrap();
    let progress = &limits.guarantees[1];
    let left = progress.draws_left.unwrap();
    browser.sign_in("olga");
    let page = browser.get("/campaigns/banner/users?user=u-1").good();
    let (_, table) = page.split_once("Guarantees").unwrap();
    for word in [
        format!(
            r#"thirtieth</th><td>all pools</td><td class="n">{}</td>"#,
            limits.guarantees[0].draws_since
        ),
        r#"<th scope="row">ssr</th>"#.to_owned(),
        format!(r#"<td class="n">{}</td>"#, progress.draws_since),
        format!(r#"<td class="n">{left}</td>"#),
        r#"<a href="/users/forget?user=u-1">"#.into(),
    ] {
        assert!(table.contains(&word), "{word}: {table}");
    }
    let odds = browser.get("/campaigns/banner/odds").good();
    for row in [
        r#"thirtieth</th><td>mug</td><td class="n">30</td>"#,
        r#"ssr</th><td>dragon</td><td class="n">90</td><td><div>from draw 74 +6%</div></td>"#,
    ] {
        assert!(odds.contains(row), "{row}: {odds}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_say_what_gave_each_win() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = format!(
        "id: wheel\n{TIMES}prizes: [{{id: mug, stock: 1000}}, {{id: car, stock: 5}}]
guarantees: [{{id: sure, prizes: [car], within: 3}}]
pools: [{{id: deck, deck: {{size: 2, cards: {{mug: 2}}, onExhausted: RESHUFFLE}}}}]\n"
    );
    apply(&server, &yaml).await;
    browser.sign_in("olga");
    draw(&server, "wheel", 3).await;
    for path in ["/campaigns/wheel/draws", "/campaigns/wheel/users?user=u-1"] {
        let page = browser.get(path).good();
        let pool = page.matches("from pool deck").count();
        let guarantee = page.matches("given by a guarantee").count();
        assert_eq!((pool, guarantee), (2, 1), "{path}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn units_have_sums_and_what_lasts_is_not_said_to_run_out() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = format!(
        "id: wheel\n{TIMES}prizes: [{{id: mug, stock: 1000}}, {{id: car, stock: 500}}]
pools: [{{id: deck, deck: {{size: 2, cards: {{mug: 1, car: 1}}, onExhausted: RESHUFFLE}}}}]\n"
    );
    apply(&server, &yaml).await;
    draw(&server, "wheel", 2).await;
    browser.sign_in("olga");
    let page = browser.get("/campaigns/wheel").good();
    for sum in [
        r#"data-live="total:stock">1,500<"#,
        r#"data-live="total:won">2<"#,
    ] {
        assert!(page.contains(sum), "{sum}: {page}");
    }
    let page = browser.get("/").good();
    assert!(
        page.contains("Least stock left") && page.contains("mug 99%"),
        "{page}"
    );
    assert!(!page.contains("uns out"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system_page_names_the_store_and_the_next_hours() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    for (id, zone) in [("wheel", "Asia/Shanghai"), ("spin", "Asia/Kolkata")] {
        let yaml = format!(
            "id: {id}\ntimeZone: {zone}
startTime: 2026-11-01T00:00:00+08:00
endTime: 2030-12-31T00:00:00+08:00
prizes: [{{id: mug, stock: 500000}}]
pools: [{{id: hourly, schedule: {{perHour: {{mug: 1}}}}}}]\n"
        );
        apply(&server, &yaml).await;
    }
    browser.sign_in("olga");
    let page = browser.get("/system").good();
    for words in [
        "embedded, in the directory",
        "every acknowledged draw is on disk",
        r#"Asia/Shanghai · <a href="/campaigns/wheel/schedule">"#,
        r#"Asia/Kolkata · <a href="/campaigns/spin/schedule">"#,
        r#"<span class="badge">this one</span>"#,
        r#"<th scope="row">All that writes</th><td class="n">1</td><td class="n">0</td>"#,
        "Partitions that work (1)",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("Redis server"), "{page}");
    browser.language = "zh";
    let page = browser.get("/system").good();
    assert!(
        page.contains("每次已确认的抽奖都已写入磁盘") && !page.contains("acknowledged"),
        "{page}"
    );
}
