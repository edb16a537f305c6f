//! The calendar: sums of days, which are those of the hours, in one call a month.

use std::collections::BTreeMap;

use tombola::proto::{
    ApplyCampaignRequest, GetScheduleRequest, GetScheduleResponse, Window, WindowPrize, WindowState,
};
use tonic::Code;

use super::{Browser, address, served};
use crate::{faults::redis::House, process::Server};

/// 9,000 hours in a zone that changes its clocks, of two pools.
const LONG: &str = "
id: long
timeZone: America/New_York
startTime: 2026-11-30T22:30:00-05:00
endTime: 2027-12-10T23:00:00-05:00
prizes:
  - {id: mug, stock: 1000000}
  - {id: coupon, stock: 1000000}
pools:
  - id: hourly
    schedule: {perHour: {coupon: 3}, daily: [{from: '20:00', to: '22:00', perHour: {mug: 7}}]}
  - id: evening
    schedule: {daily: [{from: '23:00', to: '01:00', perHour: {mug: 2}}], missed: SKIP}
";

async fn apply(server: &Server) {
    let campaign = tombola::model::file::parse(LONG).unwrap().pop();
    let request = ApplyCampaignRequest {
        campaign,
        operator: "olga".into(),
        ..Default::default()
    };
    server
        .campaigns()
        .await
        .apply_campaign(request)
        .await
        .unwrap();
}

/// All pages.
async fn all(server: &Server, mut request: GetScheduleRequest) -> Vec<GetScheduleResponse> {
    let mut client = server.campaigns().await;
    let mut pages = Vec::new();
    loop {
        let page = client.get_schedule(request.clone()).await.unwrap();
        let page = page.into_inner();
        request.page_token = page.next_page_token.clone();
        pages.push(page);
        if request.page_token.is_empty() {
            return pages;
        }
    }
}

type Sums = BTreeMap<String, (u32, u32, BTreeMap<String, [u64; 4]>)>;

fn numbers(prize: &WindowPrize) -> [u64; 4] {
    [prize.planned, prize.carried, prize.injected, prize.released]
}

fn summed<'a>(windows: impl Iterator<Item = &'a Window>) -> Sums {
    let mut sums = Sums::new();
    for window in windows {
        let day = sums.entry(window.local_start[..10].to_owned()).or_default();
        day.0 += 1;
        day.1 += u32::from(window.state() == WindowState::Missed);
        for prize in &window.prizes {
            let known = day.2.entry(prize.prize_id.clone()).or_default();
            for (sum, units) in known.iter_mut().zip(numbers(prize)) {
                *sum += units;
            }
        }
    }
    sums
}

async fn days_are_sums_of_hours(server: &Server) {
    apply(server).await;
    server.run(&["pause", "long"]).well(); // nothing is won between two reads
    let by_hour = GetScheduleRequest {
        campaign_id: "long".into(),
        page_size: 1_000,
        ..Default::default()
    };
    let hours = all(server, by_hour.clone()).await;
    let sums = summed(hours.iter().flat_map(|page| &page.windows));
    assert!(sums.len() > 370, "{}", sums.len());
    let by_day = GetScheduleRequest {
        by_day: true,
        page_size: 90,
        ..by_hour.clone()
    };
    let pages = all(server, by_day.clone()).await;
    assert_eq!(pages.len(), 5);
    let listed: Sums = pages
        .iter()
        .flat_map(|page| &page.days)
        .map(|day| {
            let prizes = day.prizes.iter();
            let prizes = prizes.map(|prize| (prize.prize_id.clone(), numbers(prize)));
            let sums = (day.windows, day.missed_windows, prizes.collect());
            (day.local_date.clone(), sums)
        })
        .collect();
    assert_eq!(listed, sums);
    assert!(pages.iter().all(|page| page.windows.is_empty()));

    // One month is one page, and hours end where they are asked to.
    let at = |text: &str| {
        let at: jiff::Timestamp = text.parse().unwrap();
        Some(prost_types::Timestamp {
            seconds: at.as_second(),
            nanos: 0,
        })
    };
    let month = GetScheduleRequest {
        from_time: at("2027-03-01T00:00:00-05:00"),
        until_time: at("2027-04-01T00:00:00-04:00"),
        ..by_day.clone()
    };
    let month = all(server, month).await;
    assert_eq!((month.len(), month[0].days.len()), (1, 31));
    // The clocks skip an hour of this day, and one pool has its evening.
    assert_eq!(month[0].days[13].windows, 23 + 2);
    let day = GetScheduleRequest {
        from_time: at("2027-03-14T00:00:00-05:00"),
        until_time: at("2027-03-15T00:00:00-04:00"),
        ..by_hour.clone()
    };
    let day = all(server, day).await;
    assert_eq!(day[0].windows.len(), 23 + 2);

    // A page of one kind does not go on as the other.
    let mut client = server.campaigns().await;
    for (request, token) in [
        (by_day, &hours[0].next_page_token),
        (by_hour.clone(), &pages[0].next_page_token),
    ] {
        let request = GetScheduleRequest {
            page_token: token.clone(),
            ..request
        };
        let refused = client.get_schedule(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("page_token"), "{refused}");
    }
    let request = GetScheduleRequest {
        from_time: at("2027-03-14T00:00:00Z"),
        until_time: at("2027-03-14T00:00:00Z"),
        ..by_hour
    };
    let refused = client.get_schedule(request).await.unwrap_err();
    assert!(refused.message().contains("until_time"), "{refused}");
}

fn the_page_shows_them(browser: &mut Browser) {
    browser.sign_in("olga");
    let page = browser
        .get("/campaigns/long/schedule?day=2027-03-14")
        .good();
    for words in [
        // 24 hours of 3 and 2 of 7, less the hour that is skipped, and 2 of 2.
        r#"<th scope="row">2027-03-14</th><td class="n">87</td>"#,
        r#"aria-label="2027-03-14: To come 87""#,
        "Days of 2027-03 as a table",
        "20:00",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains(r#"<th scope="row">2027-04-01"#), "{page}");
    // The switch of languages leads back to this page.
    let back = r#"name="back" value="/campaigns/long/schedule?day=2027-03-14""#;
    assert!(page.contains(back), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn days_are_the_sums_of_their_hours() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    days_are_sums_of_hours(&server).await;
    the_page_shows_them(&mut browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn days_are_the_sums_of_their_hours_on_redis() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    days_are_sums_of_hours(&server).await;
    the_page_shows_them(&mut Browser::at(address(&server)));
}
