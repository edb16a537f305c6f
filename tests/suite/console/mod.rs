//! The console, against the real program: over HTTP, and in a real browser.

mod acts;
mod alerts;
mod browser;
mod calendar;
mod changes;
mod curve;
mod demo;
mod files;
mod filters;
mod finds;
mod foreign;
mod forget;
mod glance;
mod grounds;
mod halts;
mod kept;
mod mistakes;
mod new;
mod oidc;
mod overview;
mod pages;
mod plan;
mod proposals;
mod rates;
mod roles;
mod scale;
mod sessions;
mod settled;
mod viewers;

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tombola::proto::{
    ApplyCampaignRequest, CreateEnvelopeRequest, DrawRequest, GrabEnvelopeRequest,
    envelope_service_client::EnvelopeServiceClient,
};

use crate::{
    access::Gate,
    process::{PATIENCE, Server, Start},
};

/// What would be a script, a style or an attribute of its own if a page did not escape it.
const HOSTILE: &str = r#"<script>alert('x')</script>"><img src=x onerror=alert(1)>"#;

/// Where the console of a server listens.
pub fn address(server: &Server) -> SocketAddr {
    if !server.log().contains("console on ") {
        server.says("console on ");
    }
    let log = server.log();
    let (_, after) = log.split_once("console on http").unwrap();
    let (_, after) = after.split_once("://").unwrap();
    after.split('/').next().unwrap().parse().unwrap()
}

/// A server with a console, and no access file.
fn served(data: &Path) -> (Server, Browser) {
    let server = Start::on(data).with("--console 127.0.0.1:0").serve();
    let browser = Browser::at(address(&server));
    (server, browser)
}

/// A campaign of both kinds of pools whose texts are hostile, a draw and an envelope.
async fn fill(server: &Server) {
    let yaml = r#"
id: wheel
timeZone: Asia/Shanghai
startTime: 2026-11-01T00:00:00+08:00
endTime: 2030-12-31T00:00:00+08:00
limits: {drawsPerDay: 50, winsPerUser: 20}
prizes:
  - {id: mug, name: MUG, stock: 1000, attributes: {note: NOTE}}
  - {id: coupon, stock: 500000}
  - {id: ticket, codes: true}
segmentLimits:
  - {segment: vip, limits: {drawsPerDay: 99}}
pools:
  - id: hourly
    schedule: {perHour: {coupon: 10}}
  - id: deck
    deck: {size: 2, cards: {mug: 2}, onExhausted: RESHUFFLE}
  - id: tickets
    unlockAfterDraws: 100
    deck: {size: 10, cards: {ticket: 1}, onExhausted: RESHUFFLE}
"#;
    let mut campaign = tombola::model::file::parse(yaml).unwrap().pop().unwrap();
    campaign.name = HOSTILE.into();
    campaign.prizes[0].name = HOSTILE.into();
    campaign.prizes[0]
        .attributes
        .insert("note".into(), HOSTILE.into());
    let request = ApplyCampaignRequest {
        campaign: Some(campaign),
        operator: HOSTILE.into(),
        reason: HOSTILE.into(),
        ..Default::default()
    };
    server
        .campaigns()
        .await
        .apply_campaign(request)
        .await
        .unwrap();
    for request_id in ["order-1", HOSTILE] {
        let request = DrawRequest {
            campaign_id: "wheel".into(),
            user_id: HOSTILE.into(),
            request_id: request_id.into(),
            count: 12,
            ..Default::default()
        };
        server.lottery().await.draw(request).await.unwrap();
    }
    let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
    let request = CreateEnvelopeRequest {
        envelope_id: "gift".into(),
        sender_id: HOSTILE.into(),
        total_minor: 8_888,
        currency: "CNY".into(),
        packets: 10,
        attributes: [("note".to_owned(), HOSTILE.to_owned())].into(),
        ..Default::default()
    };
    envelopes.create_envelope(request).await.unwrap();
    let request = GrabEnvelopeRequest {
        envelope_id: "gift".into(),
        user_id: HOSTILE.into(),
    };
    envelopes.grab_envelope(request).await.unwrap();
}

/// All pages of that campaign and around it.
fn all_pages() -> Vec<String> {
    let user = encoded(HOSTILE);
    let fixed = [
        "/",
        "/?state=RUNNING",
        "/?state=CLOSED",
        "/alerts",
        "/history",
        "/search",
        "/search?q=order-1",
        "/campaigns/wheel",
        "/campaigns/wheel?curve=day",
        "/campaigns/wheel?curve=month",
        "/campaigns/wheel/schedule",
        "/campaigns/wheel/schedule?day=2026-12-31",
        "/campaigns/wheel/plan",
        "/campaigns/wheel/plan?at=2026-12-31",
        "/campaigns/wheel/edit",
        "/new",
        "/new?template=spring-wheel",
        "/campaigns/wheel/odds",
        "/campaigns/wheel/draws",
        "/campaigns/wheel/wins",
        "/campaigns/wheel/users",
        "/campaigns/wheel/history",
        "/campaigns/wheel/history?version=2",
        "/campaigns/wheel/change",
        "/campaigns/wheel/codes",
        "/campaigns/wheel/many",
        "/campaigns/wheel/codes?prize=ticket",
        "/envelopes",
        "/envelopes/gift",
        "/system",
    ];
    let mut pages: Vec<String> = fixed.map(str::to_owned).into();
    pages.push(format!("/search?q={user}"));
    pages.push(format!("/campaigns/wheel/users?user={user}"));
    pages.push(format!("/users/forget?user={user}"));
    pages
}

/// Whether a page shows settled entries, so that on Redis it needs PostgreSQL.
fn needs_settled_ledger(path: &str) -> bool {
    let parts = [
        "/draws",
        "/wins",
        "/history",
        "curve=",
        "users?user=",
        "search?q=",
    ];
    path == "/envelopes" || parts.iter().any(|part| path.contains(part))
}

/// The pause before a page is read again.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads a page until it has these words: campaigns are read again every few seconds, and entries
/// are listed once they are settled.
#[track_caller]
fn wait_for(browser: &mut Browser, path: &str, words: &str) -> String {
    let begun = Instant::now();
    loop {
        let page = browser.get(path).good();
        if page.contains(words) {
            return page;
        }
        assert!(begun.elapsed() < PATIENCE, "{words}: {page}");
        thread::sleep(PAUSE);
    }
}

/// The contents of a body that came in chunks.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        whole += &rest[..size];
        body = &rest[size + 2..];
        if size == 0 {
            return whole;
        }
    }
}

/// A value as a part of an address or of a form.
fn encoded(value: &str) -> String {
    value.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// The head, in lower case but for cookies' values.
    head: String,
    body: String,
}

impl Answer {
    /// The value of a header.
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    #[track_caller]
    fn good(self) -> String {
        assert_eq!(self.status, 200, "{}\n{}", self.head, self.body);
        self.body
    }

    /// Asserts that it leads to this page.
    #[track_caller]
    fn leads_to(&self, target: &str) {
        assert_eq!(self.status, 303, "{}\n{}", self.head, self.body);
        assert_eq!(self.header("location"), Some(target));
    }
}

/// A browser without scripts: it keeps cookies, and says where its requests come from.
#[derive(Clone)]
struct Browser {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
    language: &'static str,
}

impl Browser {
    fn at(address: SocketAddr) -> Self {
        Self {
            address,
            cookies: BTreeMap::new(),
            language: "en",
        }
    }

    /// The browser of an identity, by its token.
    fn signed_in(gate: &Gate, token: &str) -> Self {
        let mut browser = Self::at(address(&gate.server));
        let form = format!("token={token}");
        browser.post("/sign-in", &form).leads_to("/");
        browser
    }

    fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    /// Sends a form, as a page of the console does.
    fn post(&mut self, path: &str, form: &str) -> Answer {
        let own = format!(
            "Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n",
            self.address
        );
        self.send("POST", path, &own, form)
    }

    /// Sends a form, as htmx does for a page of the console.
    fn post_by_htmx(&mut self, path: &str, form: &str) -> Answer {
        let own = format!(
            "Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\nHX-Request: true\r\n",
            self.address
        );
        self.send("POST", path, &own, form)
    }

    /// Sends a form with a file, as a page of the console does.
    fn upload(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut form = String::new();
        for (name, value) in fields {
            let file = if *name == "file" {
                "; filename=\"a.csv\"\r\nContent-Type: text/csv"
            } else {
                ""
            };
            form += &format!(
                "--part\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{value}\r\n"
            );
        }
        form += "--part--\r\n";
        let own = format!(
            "Origin: http://{}\r\nContent-Type: multipart/form-data; boundary=part\r\n",
            self.address
        );
        self.send("POST", path, &own, &form)
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, form: &str) -> Answer {
        let cookies = self.cookies.iter();
        let cookies: Vec<_> = cookies
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let cookies = cookies.join("; ");
        let head = if headers.contains("Host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        let kind = if headers.contains("Content-Type:") {
            ""
        } else {
            "Content-Type: application/x-www-form-urlencoded\r\n"
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{head}{headers}Cookie: {cookies}\r\n\
             Accept-Language: {}\r\n{kind}\
             Content-Length: {}\r\nConnection: close\r\n\r\n{form}",
            self.language,
            form.len()
        );
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body = match head.contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        for line in head.lines() {
            let Some((_, cookie)) = line.split_once("set-cookie: ") else {
                continue;
            };
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.insert(name.into(), value.into());
        }
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body,
        }
    }

    /// Signs in by a name.
    fn sign_in(&mut self, name: &str) {
        self.post("/sign-in", &format!("name={name}")).leads_to("/");
    }
}
